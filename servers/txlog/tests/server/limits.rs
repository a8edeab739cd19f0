//! What the server accepts from one client, and in which class it serves each.

use std::future::{Pending, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use crate::support::served::{Raw, append, serving, serving_log};
use crate::support::{run, small};
use bytes::{Bytes, BytesMut};
use evenkeel::Class;
use evenkeel::runtime::Handle;
use evenkeel::time::{sleep, timeout};
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;
use txlog::log::{Batch, LogConfig, ReadLimits, Stored};
use txlog::server::{BATCH_BYTES_MAX, Server, ServerConfig};
use txlog::store::{Found, Identity, Store, StoreError};
use txlog_client::Client;
use txlog_client::frame::{BATCH_OVERHEAD, Code, HELLO_BYTES_MAX, Request, Response};

/// Half of the memory that these requests would take without limits.
const SOON: Duration = Duration::from_secs(30);

fn read(id: u64, wait_ms: u32) -> Request {
    Request::Read {
        id,
        from: 1,
        records_max: u32::MAX,
        bytes_max: u32::MAX,
        wait_ms,
        of: None,
    }
}

#[test]
fn a_frame_is_refused_by_its_length_before_its_bytes_come() {
    serving(ServerConfig::default(), |address, _| async move {
        let length = |bytes: usize| u32::try_from(bytes).unwrap().to_le_bytes();
        let mut early = Raw::connect(address).await;
        early.send(&length(HELLO_BYTES_MAX + 1)).await;
        assert_eq!(early.faulted().await, Code::FrameTooLong);
        let most = small().record_bytes_max;
        let mut raw = Raw::welcomed(address).await;
        raw.send(&length(BATCH_BYTES_MAX + BATCH_OVERHEAD + 1))
            .await;
        assert_eq!(raw.faulted().await, Code::FrameTooLong);
        let mut raw = Raw::welcomed(address).await;
        let (id, payload) = (1, Bytes::from(vec![7; most]));
        raw.ask(&Request::Append { id, payload }).await;
        let sequence = 1;
        let appended = Response::Appended { id, sequence };
        assert_eq!(raw.answer().await, Some(appended));
    });
}

#[test]
fn an_answer_to_a_read_is_bounded_in_bytes() {
    let config = ServerConfig {
        read_bytes_max: 1_000,
        ..ServerConfig::default()
    };
    serving(config, |address, _| async move {
        let client = Client::connect(address.to_string()).await.unwrap();
        for _ in 0..10 {
            client.append(vec![1; 300]).await.unwrap();
        }
        let mut raw = Raw::welcomed(address).await;
        raw.ask(&read(1, 0)).await;
        let Some(Response::Records { records, next, .. }) = raw.answer().await else {
            panic!("no records")
        };
        assert_eq!((records.len(), next), (3, 4));
    });
}

#[test]
fn a_read_waits_no_longer_than_the_server_lets_it() {
    let config = ServerConfig {
        read_wait_max: Duration::from_millis(50),
        ..ServerConfig::default()
    };
    serving(config, |address, _| async move {
        let mut raw = Raw::welcomed(address).await;
        raw.ask(&read(1, u32::MAX)).await;
        let answer = timeout(SOON, raw.answer()).await.expect("at once");
        let records = Vec::new();
        let none = Response::Records {
            id: 1,
            next: 1,
            records,
        };
        assert_eq!(answer, Some(none));
    });
}

#[test]
fn who_takes_no_answers_is_closed() {
    let config = ServerConfig {
        connections_max: 2,
        reserve_max: 0,
        stall_max: Duration::from_secs(2),
        ..ServerConfig::default()
    };
    serving(config, |address, _| async move {
        let client = Client::connect(address.to_string()).await.unwrap();
        for _ in 0..200 {
            client.append(vec![1; 4_096]).await.unwrap();
        }
        let mut deaf = Raw::welcomed(address).await;
        let asks = async {
            let mut request = BytesMut::new();
            read(1, 0).encode(&mut request);
            // Until it is closed. There are always pending reads, and more are refused.
            while deaf.write.write_all(&request).await.is_ok() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(SOON, asks).await.expect("it is closed soon");
        let again = async {
            while Client::connect(address.to_string()).await.is_err() {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(SOON, again).await.expect("its place is free soon");
    });
}

/// A store that never makes anything durable, and counts its records and its tidy-ups.
#[derive(Clone, Default)]
struct Never {
    submitted: Arc<AtomicUsize>,
    maintained: Arc<AtomicUsize>,
}

struct NeverDurable(Pending<Result<u64, StoreError>>);

impl Future for NeverDurable {
    type Output = Result<u64, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl Store for Never {
    type Pending = NeverDurable;
    type PendingBatch = std::future::Ready<Result<Stored, StoreError>>;

    async fn submit_batch(&self, _: Batch) -> Result<Self::PendingBatch, StoreError> {
        Err(StoreError::new(Code::Unsupported, "not in this test"))
    }

    fn batch_bytes_max(&self) -> usize {
        1_000
    }

    async fn submit(&self, _: Bytes) -> Result<NeverDurable, StoreError> {
        self.submitted.fetch_add(1, Ordering::Relaxed);
        Ok(NeverDurable(pending()))
    }

    async fn read(&self, from: u64, _: ReadLimits) -> Result<Found, StoreError> {
        let records = Vec::new();
        Ok(Found {
            records,
            next: from,
        })
    }

    async fn wait_for(&self, _: u64) {
        pending().await
    }

    fn bounds(&self) -> (u64, u64) {
        (1, 1)
    }

    fn identity(&self) -> Identity {
        Identity { log: 1, epoch: 0 }
    }

    fn record_bytes_max(&self) -> usize {
        4_096
    }

    async fn maintain(&self) -> Result<(), StoreError> {
        self.maintained.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Much longer than a shutdown without waiting takes.
const DRAIN_MAX: Duration = Duration::from_millis(200);

#[test]
fn so_many_appends_of_one_connection_are_under_way_and_the_store_is_tidied() {
    run(async {
        let store = Never::default();
        let config = ServerConfig {
            appends_max: 4,
            drain_max: DRAIN_MAX,
            maintain_every: Duration::from_millis(5),
            ..ServerConfig::default()
        };
        let server = Server::bind("127.0.0.1:0", store.clone(), config);
        let server = server.await.unwrap();
        let address = server.local_addr().unwrap();
        let (end, ends) = oneshot::channel::<()>();
        let server = evenkeel::spawn(server.run(async {
            let _ = ends.await;
        }));
        let mut raw = Raw::welcomed(address).await;
        let mut requests = BytesMut::new();
        for id in 1..=100 {
            append(id, "never").encode(&mut requests);
        }
        raw.send(&requests).await;
        while store.submitted.load(Ordering::Relaxed) < 4 {
            sleep(Duration::from_millis(1)).await;
        }
        let before = store.maintained.load(Ordering::Relaxed);
        while store.maintained.load(Ordering::Relaxed) < before + 10 {
            sleep(Duration::from_millis(1)).await;
        }
        let submitted = store.submitted.load(Ordering::Relaxed);
        assert_eq!(submitted, 4, "so many are under way");
        let ended = Instant::now();
        drop(end);
        server.await.unwrap().unwrap();
        assert!(ended.elapsed() >= DRAIN_MAX, "it waits for them");
        drop(raw);
    });
}

fn polls(class: Class) -> u64 {
    let stats = Handle::current().stats();
    let of_class = stats.classes.iter().find(|stats| stats.class == class);
    of_class.unwrap().polls
}

#[test]
fn who_only_pings_is_urgent_and_who_works_is_not() {
    serving(ServerConfig::default(), |address, _| async move {
        let mut raw = Raw::welcomed(address).await;
        // A worker counts when it next looks around.
        let mut pinged = 0;
        let began = polls(Class::URGENT);
        while polls(Class::URGENT) < began + 20 {
            pinged += 1;
            raw.ask(&Request::Ping { id: pinged }).await;
            assert_eq!(raw.answer().await, Some(Response::Pong { id: pinged }));
            sleep(Duration::from_millis(1)).await;
        }
        raw.ask(&append(1, "work")).await;
        assert!(matches!(
            raw.answer().await,
            Some(Response::Appended { .. })
        ));
        // Until the rest of its urgent time is counted.
        let mut before = 0;
        while polls(Class::URGENT) != before {
            before = polls(Class::URGENT);
            sleep(Duration::from_millis(100)).await;
        }
        for id in 1..=100 {
            raw.ask(&Request::Ping { id }).await;
            assert_eq!(raw.answer().await, Some(Response::Pong { id }));
            sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(polls(Class::URGENT), before, "it stays ordinary");
    });
}

#[test]
fn small_records_leave_room_for_all_other_requests() {
    let log = LogConfig {
        record_bytes_max: 3,
        ..small()
    };
    serving_log(ServerConfig::default(), log, |address, _| async move {
        let mut raw = Raw::welcomed(address).await;
        raw.ask(&append(1, "one")).await;
        raw.ask(&append(2, "much too long")).await;
        raw.ask(&append(3, "two")).await;
        let mut answers = Vec::new();
        for _ in 0..3 {
            answers.push(raw.answer().await);
        }
        assert_eq!(answers[0], Some(Response::Appended { id: 1, sequence: 1 }));
        let Some(Response::Refused { id: 2, code, .. }) = answers[1] else {
            panic!("{answers:?}")
        };
        assert_eq!(code, Code::RecordTooLarge);
        assert_eq!(answers[2], Some(Response::Appended { id: 3, sequence: 2 }));
        let client = Client::connect(address.to_string()).await.unwrap();
        let (records, _) = client.read(0, Duration::ZERO).await.unwrap();
        let payloads: Vec<_> = records.iter().map(|record| &record.payload[..]).collect();
        assert_eq!(payloads, [b"one", b"two"]);
    });
}
