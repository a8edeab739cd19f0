//! The server over its sockets: what clients may do, and how it treats those that break the rules.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::memory::{MemoryDisk, append_that_fails};
use crate::support::served::{Raw, append, hello, serving, serving_log};
use crate::support::{LIMIT, Random, rounds, run, small};
use bytes::{Bytes, BytesMut};
use evenkeel::net::TcpStream;
use evenkeel::time::timeout;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{oneshot, watch};
use txlog::log::{Batch, Log, LogConfig, ReadLimits, Stored};
use txlog::server::{Server, ServerConfig};
use txlog::store::{Found, Identity, Store, StoreError};
use txlog_client::frame::{Code, Request, Response, VERSION};
use txlog_client::{Client, ClientError, ReadFrom};

#[test]
fn appended_records_are_numbered_and_read_back() {
    serving(ServerConfig::default(), |address, _| async move {
        let client = Client::connect(address.to_string()).await.unwrap();
        assert_eq!((client.info().first, client.info().next), (1, 1));
        for number in 1..=50 {
            let sequence = client.append(format!("record {number}")).await.unwrap();
            assert_eq!(sequence, number);
        }
        let other = Client::connect(address.to_string()).await.unwrap();
        let mut follower = other.follow(ReadFrom::Oldest);
        for number in 1..=50 {
            let record = follower.next().await.unwrap();
            assert_eq!(record.sequence, number);
            assert_eq!(record.payload, format!("record {number}"));
            assert!(record.time_ms > 1_600_000_000_000);
        }
        assert_eq!(follower.try_next().await.unwrap(), None);
        let (records, next) = other.read(40, Duration::ZERO).await.unwrap();
        assert_eq!((records.len(), next), (11, 51));
        assert!(client.ping().await.unwrap() < LIMIT);
    });
}

#[test]
fn a_follower_gets_records_as_they_come() {
    serving(ServerConfig::default(), |address, _| async move {
        let client = Client::connect(address.to_string()).await.unwrap();
        client.append("before").await.unwrap();
        let reader = Client::connect(address.to_string()).await.unwrap();
        let mut follower = reader.follow(ReadFrom::End);
        let following = evenkeel::spawn(async move {
            let mut seen = Vec::new();
            for _ in 0..20 {
                seen.push(follower.next().await.unwrap().sequence);
            }
            seen
        });
        for _ in 0..20 {
            evenkeel::time::sleep(Duration::from_millis(1)).await;
            client.append("after").await.unwrap();
        }
        assert_eq!(following.await.unwrap(), (2..=21).collect::<Vec<u64>>());
    });
}

#[test]
fn appends_of_one_connection_are_under_way_together_and_answered_in_order() {
    serving_log(
        ServerConfig::default(),
        LogConfig::default(),
        |address, disk| async move {
            let mut raw = Raw::welcomed(address).await;
            let mut buffer = BytesMut::new();
            for id in 1..=500 {
                append(id, "pipelined").encode(&mut buffer);
            }
            raw.send(&buffer).await;
            for id in 1..=500 {
                let sequence = id;
                assert_eq!(
                    raw.answer().await,
                    Some(Response::Appended { id, sequence })
                );
            }
            let syncs = disk.syncs_done();
            assert!(syncs < 250, "{syncs} syncs for 500 records");
        },
    );
}

#[test]
fn those_who_speak_another_protocol_hear_what_this_is() {
    serving(ServerConfig::default(), |address, _| async move {
        let mut http = Raw::connect(address).await;
        http.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
        assert_eq!(http.faulted().await, Code::FrameTooLong);
        let mut other = Raw::connect(address).await;
        other
            .send(&[9, 0, 0, 0, 1, b'X', b'X', b'X', b'X', 1, 0, 1, 0])
            .await;
        assert_eq!(other.faulted().await, Code::NotTxlog);
        let mut early = Raw::connect(address).await;
        early.ask(&Request::Ping { id: 1 }).await;
        assert_eq!(early.faulted().await, Code::NotTxlog);
        let mut newer = Raw::connect(address).await;
        let (min, max) = (VERSION + 1, VERSION + 7);
        newer
            .ask(&Request::Hello {
                min,
                max,
                access: None,
            })
            .await;
        assert_eq!(newer.faulted().await, Code::Version);
    });
}

#[test]
fn a_bad_frame_gets_an_error_and_a_close_after_the_answers_before_it() {
    serving(ServerConfig::default(), |address, _| async move {
        let cases: [(&[u8], Code); 5] = [
            (&[0, 0, 0, 0], Code::BadFrame),
            (&[1, 0, 0, 0, 0x55], Code::BadFrame),
            (&[3, 0, 0, 0, 3, 1, 2], Code::BadFrame),
            (&[10, 0, 0, 0, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9], Code::BadFrame),
            (&[0xff, 0xff, 0xff, 0xff], Code::FrameTooLong),
        ];
        for (bytes, code) in cases {
            // Once when it only pings, and once when it appends.
            let mut raw = Raw::welcomed(address).await;
            raw.send(bytes).await;
            assert_eq!(raw.faulted().await, code);
            let mut raw = Raw::welcomed(address).await;
            raw.ask(&append(7, "before")).await;
            raw.send(bytes).await;
            assert!(matches!(
                raw.answer().await,
                Some(Response::Appended { id: 7, .. })
            ));
            assert_eq!(raw.faulted().await, code);
        }
        let mut raw = Raw::welcomed(address).await;
        raw.ask(&append(7, "before")).await;
        raw.ask(&hello()).await;
        assert!(matches!(
            raw.answer().await,
            Some(Response::Appended { id: 7, .. })
        ));
        assert_eq!(raw.faulted().await, Code::BadFrame);
    });
}

#[test]
fn random_bytes_harm_nobody_else() {
    let config = ServerConfig {
        stall_max: Duration::from_millis(200),
        ..ServerConfig::default()
    };
    serving(config, |address, _| async move {
        let client = Client::connect(address.to_string()).await.unwrap();
        let mut random = Random::new(rounds("TXLOG_FUZZ_SEED", 1));
        for _ in 0..rounds("TXLOG_FUZZ_CONNECTIONS", 300) {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let mut bytes = BytesMut::new();
            if random.below(4) > 0 {
                hello().encode(&mut bytes);
            }
            for _ in 0..random.below(6) {
                let begin = bytes.len();
                match random.below(4) {
                    0 => bytes.extend(random.bytes(60)),
                    1 => append(random.below(9), "fuzz").encode(&mut bytes),
                    2 => Request::Ping { id: 1 }.encode(&mut bytes),
                    _ => Request::Read {
                        id: random.below(9),
                        from: random.below(9),
                        records_max: random.below(1 << 33) as u32,
                        bytes_max: random.below(1 << 33) as u32,
                        wait_ms: random.below(50) as u32,
                        of: None,
                    }
                    .encode(&mut bytes),
                }
                if random.below(3) == 0 && bytes.len() > begin {
                    let at = begin + random.below((bytes.len() - begin) as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                }
            }
            // The server may have closed by then.
            let _ = stream.write_all(&bytes).await;
            if random.below(2) == 0 {
                let _ = stream.shutdown().await;
                let mut answers = Vec::new();
                let read = timeout(LIMIT, stream.read_to_end(&mut answers)).await;
                let _ = read.expect("the server comes to an end of it");
            }
        }
        client.append("still there").await.unwrap();
        client.ping().await.unwrap();
    });
}

#[test]
fn what_is_too_much_is_refused() {
    let config = ServerConfig {
        connections_max: 2,
        reserve_max: 0,
        reads_max: 2,
        ..ServerConfig::default()
    };
    serving(config, |address, _| async move {
        let client = Client::connect(address.to_string()).await.unwrap();
        let error = client.append(vec![0; 5_000]).await.unwrap_err();
        assert!(
            matches!(error, ClientError::RecordTooLarge { bytes: 5_000, .. }),
            "{error}"
        );
        let mut raw = Raw::welcomed(address).await;
        let third = Client::connect(address.to_string()).await.unwrap_err();
        assert_eq!(third.code(), Some(Code::TooManyConnections), "{third}");
        let read = |id| Request::Read {
            id,
            from: 1,
            records_max: 1,
            bytes_max: 100,
            wait_ms: 60_000,
            of: None,
        };
        for id in 1..=3 {
            raw.ask(&read(id)).await;
        }
        let answer = raw.answer().await;
        let Some(Response::Refused { id: 3, code, .. }) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(code, Code::TooManyReads);
        client.append("now").await.unwrap();
        for _ in 0..2 {
            let answer = raw.answer().await;
            assert!(
                matches!(answer, Some(Response::Records { next: 2, .. })),
                "{answer:?}"
            );
        }
        drop(raw);
        // There is room again as soon as the server has noticed the end.
        while Client::connect(address.to_string()).await.is_err() {
            evenkeel::time::sleep(Duration::from_millis(1)).await;
        }
    });
}

#[test]
fn who_stalls_within_a_frame_is_closed_and_who_rests_between_frames_is_not() {
    let config = ServerConfig {
        stall_max: Duration::from_secs(1),
        ..ServerConfig::default()
    };
    serving(config, |address, _| async move {
        let mut silent = Raw::connect(address).await;
        assert_eq!(silent.faulted().await, Code::TooSlow);
        let mut resting = Raw::welcomed(address).await;
        let mut stalled = Raw::welcomed(address).await;
        stalled.send(&[20, 0, 0, 0, 2, 1]).await;
        assert_eq!(stalled.faulted().await, Code::TooSlow);
        resting.ask(&Request::Ping { id: 5 }).await;
        assert_eq!(resting.answer().await, Some(Response::Pong { id: 5 }));
    });
}

#[test]
fn a_failing_disk_is_said_to_who_appends_and_what_is_durable_can_be_read() {
    serving(ServerConfig::default(), |address, disk| async move {
        let client = Client::connect(address.to_string()).await.unwrap();
        client.append("durable").await.unwrap();
        let (first, stored) = append_that_fails(&client, &disk, 5).await;
        // The second one is surely not in it.
        let second = client.append("lost").await.unwrap_err();
        for (error, code) in [(first, Code::LogFailed), (second, Code::LogFailedBefore)] {
            assert_eq!(error.code(), Some(code), "{error}");
            // A client cannot open the file again.
            let words = error.to_string();
            assert!(words.contains("can only be read now"), "{words}");
            assert!(words.contains("start `txlog serve` again"), "{words}");
        }
        let batch = client
            .submit_batch(txlog_client::Batch::new(["lost"]))
            .await
            .unwrap();
        assert_eq!(batch.await.unwrap_err().code(), Some(Code::LogFailedBefore));
        // Earlier clients do not know this.
        let mut old = Raw::connect(address).await;
        let (min, max, access) = (1, 2, None);
        old.ask(&Request::Hello { min, max, access }).await;
        assert!(matches!(old.answer().await, Some(Response::Welcome { .. })));
        old.ask(&append(7, "lost")).await;
        let answer = old.answer().await;
        assert!(
            matches!(
                answer,
                Some(Response::Refused {
                    id: 7,
                    code: Code::LogFailed,
                    ..
                })
            ),
            "{answer:?}"
        );
        let (records, _) = client.read(0, Duration::ZERO).await.unwrap();
        assert_eq!(records.len(), 1 + stored);
        client.ping().await.unwrap();
    });
}

/// A log that counts what is asked of it, and can hold back its acknowledgements and its end.
#[derive(Clone)]
struct Watched {
    log: Log<MemoryDisk>,
    reads: Arc<AtomicUsize>,
    appends: Arc<AtomicUsize>,
    /// Whether acknowledgements are held back.
    held: Arc<watch::Sender<bool>>,
    /// Whether it never ends.
    endless: bool,
}

impl Watched {
    fn new(log: Log<MemoryDisk>) -> Self {
        Self {
            log,
            reads: Arc::default(),
            appends: Arc::default(),
            held: Arc::new(watch::Sender::new(false)),
            endless: false,
        }
    }
}

impl Store for Watched {
    type Pending = Pin<Box<dyn Future<Output = Result<u64, StoreError>> + Send>>;
    type PendingBatch = std::future::Ready<Result<Stored, StoreError>>;

    async fn submit_batch(&self, _: Batch) -> Result<Self::PendingBatch, StoreError> {
        Err(StoreError::new(Code::Unsupported, "not in this test"))
    }

    fn batch_bytes_max(&self) -> usize {
        1_000
    }

    async fn submit(&self, payload: Bytes) -> Result<Self::Pending, StoreError> {
        let pending = Store::submit(&self.log, payload).await?;
        self.appends.fetch_add(1, Ordering::Relaxed);
        let mut held = self.held.subscribe();
        Ok(Box::pin(async move {
            let _ = held.wait_for(|held| !held).await;
            pending.await
        }))
    }

    async fn read(&self, from: u64, limits: ReadLimits) -> Result<Found, StoreError> {
        let records = Store::read(&self.log, from, limits).await;
        self.reads.fetch_add(1, Ordering::Relaxed);
        records
    }

    async fn wait_for(&self, sequence: u64) {
        Store::wait_for(&self.log, sequence).await;
    }

    fn bounds(&self) -> (u64, u64) {
        Store::bounds(&self.log)
    }

    fn identity(&self) -> Identity {
        Store::identity(&self.log)
    }

    fn record_bytes_max(&self) -> usize {
        Store::record_bytes_max(&self.log)
    }

    async fn maintain(&self) -> Result<(), StoreError> {
        Store::maintain(&self.log).await
    }

    async fn close(&self) -> Result<(), StoreError> {
        if self.endless {
            std::future::pending().await
        }
        Store::close(&self.log).await
    }
}

/// Much longer than a server takes that does not wait for what it has taken.
const HELD: Duration = Duration::from_millis(200);

#[test]
fn a_server_that_closes_answers_what_it_took() {
    run(async {
        let disk = MemoryDisk::new(1);
        let (log, _) = Log::open(disk.clone(), small()).await.unwrap();
        let store = Watched::new(log);
        let (appends, held) = (Arc::clone(&store.appends), Arc::clone(&store.held));
        held.send_replace(true);
        let server = Server::bind("127.0.0.1:0", store, ServerConfig::default())
            .await
            .unwrap();
        let address = server.local_addr().unwrap();
        let (end, ends) = oneshot::channel::<()>();
        let mut server = evenkeel::spawn(server.run(async {
            let _ = ends.await;
        }));
        let client = Client::connect(address.to_string()).await.unwrap();
        let mut idle = Raw::welcomed(address).await;
        let mut submitted = Vec::new();
        for number in 0..100 {
            submitted.push(client.submit(format!("{number}")).await.unwrap());
        }
        while appends.load(Ordering::Relaxed) == 0 {
            evenkeel::time::sleep(Duration::from_millis(1)).await;
        }
        end.send(()).unwrap();
        assert_eq!(idle.faulted().await, Code::Closing);
        let early = timeout(HELD, &mut server).await;
        assert!(early.is_err(), "it has answers to send");
        held.send_replace(false);
        let mut durable = 0;
        for submitted in submitted {
            match submitted.await {
                Ok(sequence) => {
                    durable += 1;
                    assert_eq!(sequence, durable);
                }
                // The server had not read it when it closed.
                Err(error) => assert_eq!(error.code(), Some(Code::Closing), "{error}"),
            }
        }
        assert_eq!(durable, appends.load(Ordering::Relaxed) as u64);
        server.await.unwrap().unwrap();
        let refused = Client::connect(address.to_string()).await.unwrap_err();
        assert!(matches!(refused, ClientError::Connect { .. }), "{refused}");
        let (log, recovery) = Log::open(disk, small()).await.unwrap();
        assert_eq!(recovery.torn, None);
        assert_eq!(log.next(), durable + 1);
    });
}

fn waiting_read(id: u64) -> Request {
    Request::Read {
        id,
        from: 1,
        records_max: 1,
        bytes_max: 100,
        wait_ms: 60_000,
        of: None,
    }
}

/// Half of the time that a read may wait.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_fault_is_the_last_answer_and_does_not_wait_for_reads() {
    serving(ServerConfig::default(), |address, _| async move {
        let mut raw = Raw::welcomed(address).await;
        raw.ask(&waiting_read(1)).await;
        raw.send(&[0, 0, 0, 0]).await;
        let answer = timeout(SOON, raw.answer()).await.expect("at once");
        assert!(
            matches!(answer, Some(Response::Records { id: 1, next: 1, .. })),
            "{answer:?}"
        );
        let code = timeout(SOON, raw.faulted()).await.expect("at once");
        assert_eq!(code, Code::BadFrame);
    });
}

#[test]
fn a_client_that_went_away_leaves_its_place_though_its_read_waited() {
    let config = ServerConfig {
        connections_max: 1,
        reserve_max: 0,
        ..ServerConfig::default()
    };
    serving(config, |address, _| async move {
        let mut gone = Raw::welcomed(address).await;
        gone.ask(&waiting_read(1)).await;
        drop(gone);
        let connected = timeout(SOON, async {
            while Client::connect(address.to_string()).await.is_err() {
                evenkeel::time::sleep(Duration::from_millis(1)).await;
            }
        });
        connected.await.expect("there is room soon");
    });
}

#[test]
fn a_read_that_need_not_wait_is_answered_after_the_client_has_ended() {
    serving(ServerConfig::default(), |address, _| async move {
        let client = Client::connect(address.to_string()).await.unwrap();
        client.append("there").await.unwrap();
        for _ in 0..50 {
            let mut raw = Raw::welcomed(address).await;
            raw.ask(&waiting_read(1)).await;
            raw.write.shutdown().await.unwrap();
            let answer = raw.answer().await;
            assert!(
                matches!(answer, Some(Response::Records { next: 2, .. })),
                "{answer:?}"
            );
            assert_eq!(raw.answer().await, None);
        }
    });
}

#[test]
fn records_without_bytes_count_too() {
    let config = ServerConfig {
        read_bytes_max: 2_000,
        ..ServerConfig::default()
    };
    serving(config, |address, _| async move {
        let client = Client::connect(address.to_string()).await.unwrap();
        for _ in 0..300 {
            client.append("").await.unwrap();
        }
        let mut raw = Raw::welcomed(address).await;
        raw.ask(&Request::Read {
            id: 1,
            from: 1,
            records_max: u32::MAX,
            bytes_max: u32::MAX,
            wait_ms: 0,
            of: None,
        })
        .await;
        let Some(Response::Records { records, .. }) = raw.answer().await else {
            panic!("no records")
        };
        assert_eq!(records.len(), 100, "20 bytes each without their payload");
    });
}

#[test]
fn who_asks_and_takes_no_answers_makes_the_server_read_little() {
    const ASKED: u64 = 300;
    run(async {
        let (log, _) = Log::open(MemoryDisk::new(1), LogConfig::default())
            .await
            .unwrap();
        log.append(vec![1; 500_000]).await.unwrap();
        let store = Watched::new(log);
        let counted = Arc::clone(&store.reads);
        let config = ServerConfig::default();
        let server = Server::bind("127.0.0.1:0", store, config).await.unwrap();
        let address = server.local_addr().unwrap();
        let (end, ends) = oneshot::channel::<()>();
        let server = evenkeel::spawn(server.run(async {
            let _ = ends.await;
        }));
        let mut raw = Raw::welcomed(address).await;
        for id in 0..ASKED {
            raw.ask(&Request::Read {
                id,
                from: 1,
                records_max: 1,
                bytes_max: 1,
                wait_ms: 0,
                of: None,
            })
            .await;
            // So that usually the read before has been done, and none is refused.
            let before = counted.load(Ordering::Relaxed);
            let done = async {
                while counted.load(Ordering::Relaxed) == before {
                    evenkeel::time::sleep(Duration::from_millis(1)).await;
                }
            };
            let _ = timeout(Duration::from_millis(10), done).await;
        }
        // Until the server reads no more.
        let mut before = usize::MAX;
        while counted.load(Ordering::Relaxed) != before {
            before = counted.load(Ordering::Relaxed);
            evenkeel::time::sleep(Duration::from_millis(500)).await;
        }
        // The system's buffers hold some 10 MB, and pending requests twice their limit.
        assert!(before < 100, "{before} reads of half a megabyte each");
        drop(raw);
        drop(end);
        let _ = server.await.unwrap();
    });
}

#[test]
fn a_store_that_does_not_close_ends_the_server_all_the_same() {
    run(async {
        let (log, _) = Log::open(MemoryDisk::new(1), small()).await.unwrap();
        let config = ServerConfig {
            close_max: Duration::from_millis(20),
            ..ServerConfig::default()
        };
        let store = Watched {
            endless: true,
            ..Watched::new(log)
        };
        let server = Server::bind("127.0.0.1:0", store, config);
        let ended = server.await.unwrap().run(std::future::ready(()));
        let error = timeout(LIMIT, ended).await.unwrap().unwrap_err();
        assert!(error.to_string().contains("did not close"), "{error}");
    });
}

/// The kernel's table of connections shows a socket's timer: 2 probes an idle peer.
#[test]
#[cfg(target_os = "linux")]
fn an_idle_client_is_asked_whether_it_is_there() {
    serving(ServerConfig::default(), |address, _| async move {
        let _client = Client::connect(address).await.unwrap();
        let port = format!(":{:04X}", address.port());
        let asks = |line: &str| {
            let mut fields = line.split_whitespace().skip(1);
            let (local, state) = (fields.next(), fields.nth(1));
            let timer = fields.nth(1).unwrap_or_default();
            local.is_some_and(|local| local.ends_with(&port))
                && state == Some("01")
                && timer.starts_with("02:")
        };
        // While data are unacknowledged, their timer goes first.
        while !std::fs::read_to_string("/proc/net/tcp")
            .unwrap()
            .lines()
            .any(asks)
        {
            evenkeel::time::sleep(Duration::from_millis(5)).await;
        }
    });
}
