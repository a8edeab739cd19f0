//! A JetStream that is away, breaks connections, or does not answer. Needs `nats-server`; without
//! it, the tests say so and pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::support::nats::{Nats, free_port, run};
use crate::support::piped::Piped;
use crate::support::program::{Server, run_command};
use crate::support::{LIMIT, Random, all_of};
use evenkeel::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::task::JoinSet;
use evenkeel::time::{sleep, timeout};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use txlog::log::Batch;
use txlog::nats::{NatsConfig, NatsStore};
use txlog::store::Store;
use txlog_client::frame::{Code, MAY_PASS};

async fn append(store: &NatsStore, payload: &str) -> Result<u64, String> {
    let payload = payload.to_owned().into();
    let pending = store.submit(payload).await.map_err(|e| e.to_string())?;
    pending.await.map_err(|e| e.to_string())
}

/// Waits until the store says that appends fail.
async fn failed(store: &NatsStore) -> String {
    loop {
        if let Some(failure) = store.failure() {
            assert_eq!(failure.code, Code::LogFailed);
            return failure.to_string();
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Passes bytes on between a store and NATS, and breaks connections.
struct Proxy {
    address: String,
    breaks: Arc<AtomicU64>,
    mends: Arc<AtomicBool>,
}

impl Proxy {
    /// Each connection breaks when some thousand bytes of answers have passed: what NATS answers
    /// then is lost, though it has stored the records.
    async fn start(nats: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (breaks, mends) = (Arc::new(AtomicU64::new(0)), Arc::default());
        let proxy = Self {
            address,
            breaks: Arc::clone(&breaks),
            mends: Arc::clone(&mends),
        };
        drop(evenkeel::spawn(async move {
            let mut random = Random::new(7);
            while let Ok((client, _)) = listener.accept().await {
                let (read, write) = client.into_split();
                let server = TcpStream::connect(nats.as_str()).await.unwrap();
                let (answers, requests) = server.into_split();
                let left = 3_000 + random.below(3_000);
                let (end, ended) = watch::channel(());
                drop(evenkeel::spawn(pass(read, requests, ended)));
                let (breaks, mends) = (Arc::clone(&breaks), Arc::clone(&mends));
                drop(evenkeel::spawn(async move {
                    if answer(answers, write, left, &mends).await {
                        breaks.fetch_add(1, Ordering::SeqCst);
                    }
                    drop(end);
                }));
            }
        }));
        proxy
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut end: watch::Receiver<()>) {
    let mut buffer = [0; 4_096];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read,
            _ = end.changed() => return,
        };
        match read {
            Ok(bytes @ 1..) if to.write_all(&buffer[..bytes]).await.is_ok() => {}
            _ => return,
        }
    }
}

/// Returns true if it broke the connection.
async fn answer(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut left: u64,
    mends: &AtomicBool,
) -> bool {
    let mut buffer = [0; 512];
    loop {
        let Ok(bytes @ 1..) = from.read(&mut buffer).await else {
            return false;
        };
        left = left.saturating_sub(bytes as u64);
        if left == 0 && !mends.load(Ordering::SeqCst) {
            // NATS goes on with what is under way.
            sleep(Duration::from_millis(5)).await;
            return true;
        }
        if to.write_all(&buffer[..bytes]).await.is_err() {
            return false;
        }
    }
}

/// A store whose connection can be broken.
async fn through_proxy(nats: &Nats) -> (Proxy, NatsStore) {
    let proxy = Proxy::start(nats.address.clone()).await;
    let config = NatsConfig {
        address: proxy.address.clone(),
        answer_max: LIMIT,
        ..NatsConfig::default()
    };
    let store = NatsStore::connect(config).await.unwrap();
    (proxy, store)
}

#[test]
fn records_are_stored_once_and_in_order_however_often_the_connection_breaks() {
    const TASKS: u64 = 4;
    const RECORDS: u64 = 150;
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let (proxy, store) = through_proxy(&nats).await;
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let store = store.clone();
            tasks.spawn(async move {
                let mut pending = Vec::new();
                for number in 0..RECORDS {
                    // Refused at once if the connection has broken just now.
                    let record = loop {
                        let payload = format!("{task} {number}").into();
                        match store.submit(payload).await {
                            Ok(record) => break record,
                            Err(error) => assert!(error.text.contains("not stored"), "{error}"),
                        }
                    };
                    pending.push(record);
                }
                let mut numbers = Vec::new();
                for record in pending {
                    numbers.push(record.await.unwrap());
                }
                (task, numbers)
            });
        }
        let mut stored = Vec::new();
        while let Some(task) = tasks.join_next().await {
            let (task, numbers) = task.unwrap();
            assert!(numbers.is_sorted(), "{numbers:?}");
            for (number, sequence) in numbers.into_iter().enumerate() {
                stored.push((sequence, format!("{task} {number}")));
            }
        }
        proxy.mends.store(true, Ordering::SeqCst);
        assert!(proxy.breaks.load(Ordering::SeqCst) > 3, "it was not tried");
        let direct = NatsStore::connect(nats.config()).await.unwrap();
        let records = all_of(&direct).await;
        assert_eq!(records.len() as u64, TASKS * RECORDS, "each once");
        for (sequence, payload) in stored {
            assert_eq!(records[sequence as usize - 1].payload, payload);
        }
        let identity = direct.identity();
        assert_eq!(store.identity(), identity, "nothing was lost");
    });
}

#[test]
fn while_nats_is_away_appends_are_refused_and_go_on_when_it_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let Some(nats) = Nats::start_at(directory.path(), port) else {
        return;
    };
    run(async {
        let store = NatsStore::connect(nats.config()).await.unwrap();
        assert_eq!(append(&store, "one").await, Ok(1));
        assert!(store.failure().is_none());
        drop(nats);
        failed(&store).await;
        let error = store.submit("refused".into()).await.unwrap_err();
        assert!(error.text.contains("does nats-server run there"), "{error}");
        assert!(error.text.contains("the record is not stored"), "{error}");
        let not_stored = (Code::LogFailedBefore, Some(MAY_PASS));
        assert_eq!((error.code, error.numbers), not_stored);
        store.read(1, Default::default()).await.unwrap_err();
        store.maintain().await.unwrap_err();
        let failure = failed(&store).await;
        assert!(
            failure.contains("records cannot be appended now"),
            "{failure}"
        );
        let _nats = Nats::start_at(directory.path(), port).unwrap();
        store.maintain().await.unwrap();
        assert!(store.failure().is_none());
        assert_eq!(append(&store, "two").await, Ok(2));
    });
}

/// A record that was sent and not acknowledged waits for NATS.
#[test]
fn a_record_that_was_under_way_is_stored_when_nats_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let Some(nats) = Nats::start_at(directory.path(), port) else {
        return;
    };
    run(async {
        let config = NatsConfig {
            answer_max: LIMIT,
            ..nats.config()
        };
        let store = NatsStore::connect(config).await.unwrap();
        let payload = vec![1; store.record_bytes_max()];
        let mut pending = Vec::new();
        for _ in 0..20 {
            pending.push(store.submit(payload.clone().into()).await.unwrap());
        }
        drop(nats);
        failed(&store).await;
        let _nats = Nats::start_at(directory.path(), port).unwrap();
        // Nobody asks anything else of the store.
        for (number, pending) in (1..).zip(pending) {
            assert_eq!(pending.await.unwrap(), number);
        }
        assert_eq!(all_of(&store).await.len(), 20);
    });
}

/// The command waits for NATS as long as it may, and knows what was not stored.
#[test]
fn a_command_that_appends_goes_on_when_nats_is_back() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let Some(nats) = Nats::start_at(directory.path(), port) else {
        return;
    };
    let server = Server::start_with(&["--nats", &nats.address]);
    let address = server.address.to_string();
    let mut patient = Piped::start(&["append", "--server", &address]);
    let short = ["append", "--server", &address, "--give-up-after", "1"];
    let mut impatient = Piped::start(&short);
    patient.say("one\n");
    assert_eq!(patient.line(), "1");
    impatient.say("two\n");
    assert_eq!(impatient.line(), "2");
    drop(nats);
    let ping = ["ping", "--count", "1", "--server", &address, "--writable"];
    while run_command(&ping).0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    impatient.say("refused\n");
    let (done, said, errors) = impatient.end();
    assert!(!done && said.is_empty(), "{said}{errors}");
    // If its time ends while it is being sent, it may be there.
    let outcomes = [
        "stored: 1; surely not stored: 2; stored or not, which is unknown: none",
        "stored: 1; surely not stored: none; stored or not, which is unknown: 2",
    ];
    assert!(outcomes.iter().any(|it| errors.contains(it)), "{errors}");
    patient.say("three\nfour\n");
    let said = patient.complaint();
    assert!(
        said.contains("does nats-server run there") && said.contains("trying again for 60 s"),
        "{said}"
    );
    let _nats = Nats::start_at(directory.path(), port).unwrap();
    assert_eq!((patient.line(), patient.line()), ("3".into(), "4".into()));
    let (done, said, errors) = patient.end();
    assert!(done && said.is_empty(), "{said}{errors}");
    let (_, said, _) = run_command(&["read", "--server", &address]);
    assert_eq!(said, "1\tone\n2\ttwo\n3\tthree\n4\tfour\n");
}

/// What is stored is stored under the expected number, though answers are lost.
#[test]
fn a_condition_holds_however_often_the_connection_breaks() {
    const RECORDS: u64 = 600;
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let (proxy, store) = through_proxy(&nats).await;
        for number in 1..=RECORDS {
            let pending = loop {
                let batch = Batch::new([number.to_string()].iter().collect());
                match store.submit_batch(batch.expecting(Some(number))).await {
                    Ok(pending) => break pending,
                    Err(error) => assert!(error.text.contains("not stored"), "{error}"),
                }
            };
            assert_eq!(pending.await.unwrap().first, number);
        }
        proxy.mends.store(true, Ordering::SeqCst);
        assert!(proxy.breaks.load(Ordering::SeqCst) > 3, "it was not tried");
        let direct = NatsStore::connect(nats.config()).await.unwrap();
        let records = all_of(&direct).await;
        assert_eq!(records.len() as u64, RECORDS, "each once");
        for (number, record) in (1..).zip(records) {
            assert_eq!(record.payload, format!("{number}"));
        }
    });
}

#[test]
fn a_stream_that_was_deleted_is_said_to_be_until_it_is_there_again() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let store = NatsStore::connect(nats.config()).await.unwrap();
        assert_eq!(append(&store, "one").await, Ok(1));
        nats.tool().ask("STREAM.DELETE.txlog", "");
        let error = append(&store, "two").await.unwrap_err();
        assert!(error.contains("did not store the record"), "{error}");
        assert!(error.contains("no stream txlog: it was deleted"), "{error}");
        let error = store.read(1, Default::default()).await.unwrap_err();
        assert!(error.text.contains("it was deleted"), "{error}");
        store.maintain().await.unwrap_err();
        assert!(failed(&store).await.contains("it was deleted"));
        NatsStore::connect(nats.config()).await.unwrap();
        store.maintain().await.unwrap();
        assert!(store.failure().is_none());
        assert_eq!(append(&store, "three").await, Ok(1));
    });
}

#[test]
fn a_server_that_cannot_have_a_store_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let address = format!("127.0.0.1:{port}");
    let (done, _, said) = run_command(&["serve", "--nats", &address]);
    assert!(
        !done && said.contains("does nats-server run there"),
        "{said}"
    );
    // Nothing that happens to a stream is for good.
    let (done, _, said) = run_command(&["serve", "--nats", &address, "--exit-on-failure"]);
    assert!(!done && said.contains("cannot be used with"), "{said}");
    let (done, _, said) = run_command(&["serve", "--nats", "user:secret@127.0.0.1"]);
    assert!(!done && said.contains("--nats-user"), "{said}");
    let Some(_nats) = Nats::start_with(directory.path(), port, "") else {
        return;
    };
    let (done, _, said) = run_command(&["serve", "--nats", &address]);
    assert!(
        !done && said.contains("start nats-server with -js"),
        "{said}"
    );
}

/// A stream that acknowledges nothing any more, and a store that waits for a second.
async fn silent(nats: &Nats, config: NatsConfig) -> NatsStore {
    let name = config.stream.clone();
    let store = NatsStore::connect(config).await.unwrap();
    let silent = format!(
        "{{\"name\":\"{name}\",\"subjects\":[\"txlog.{name}\"],\"no_ack\":true,\
         \"allow_direct\":true,\"storage\":\"file\"}}"
    );
    nats.tool().ask(&format!("STREAM.UPDATE.{name}"), &silent);
    store
}

#[test]
fn a_record_without_an_answer_is_given_up_and_leaves_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let config = NatsConfig {
            answer_max: Duration::from_secs(1),
            appends_max: 1,
            ..nats.config()
        };
        let store = silent(&nats, config).await;
        let one = store.submit("one".into()).await.unwrap();
        // It finds room when the one before is given up, though nobody waits for that.
        let two = store.submit("two".into()).await.unwrap();
        for pending in [one, two] {
            let error = pending.await.unwrap_err();
            assert!(error.text.contains("may be stored or not"), "{error}");
        }
        store.close().await.unwrap();
    });
}

/// Its connection is there for a long time yet, and nobody has appended anything.
#[test]
fn a_nats_that_hangs_is_said_to_before_its_connection_ends() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let store = NatsStore::connect(nats.config()).await.unwrap();
        store.maintain().await.unwrap();
        assert!(store.failure().is_none());
        nats.signal("STOP");
        let looking = store.clone();
        let looking = evenkeel::spawn(async move { looking.maintain().await });
        let failure = failed(&store).await;
        nats.signal("CONT");
        assert!(failure.contains("did not answer within"), "{failure}");
        looking.await.unwrap().unwrap();
        assert!(store.failure().is_none(), "it answers again");
    });
}

/// Streams of a server have one bound, and none of them may have all of it.
#[test]
fn pending_records_of_all_streams_are_bounded_together() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let shared = NatsConfig {
            answer_max: 2 * LIMIT,
            pending_bytes_max: 16 << 20,
            ..nats.config()
        };
        let config = |stream: usize| NatsConfig {
            stream: format!("stream-{stream}"),
            ..shared.clone()
        };
        let (mut stores, mut pending) = (Vec::new(), Vec::new());
        let other = NatsStore::connect(config(9)).await.unwrap();
        for stream in 0..4 {
            assert_eq!(append(&other, "another").await, Ok(stream as u64 + 1));
            let store = silent(&nats, config(stream)).await;
            let largest = vec![1; store.record_bytes_max()];
            for _ in 0..16 {
                pending.push(store.submit(largest.clone().into()).await.unwrap());
            }
            let more = timeout(Duration::from_millis(200), store.submit(largest.into()));
            assert!(more.await.is_err(), "more than its part");
            stores.push(store);
        }
        let more = timeout(Duration::from_secs(1), other.submit("no room".into()));
        assert!(more.await.is_err(), "more than all may have");
        // Those of another server.
        let alone = NatsStore::connect(nats.config()).await.unwrap();
        assert_eq!(append(&alone, "has room of its own").await, Ok(1));
    });
}

#[test]
fn pending_records_are_bounded_in_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let config = NatsConfig {
            answer_max: 2 * LIMIT,
            ..nats.config()
        };
        let store = silent(&nats, config).await;
        let largest = vec![1; store.record_bytes_max()];
        let mut pending = Vec::new();
        // None is acknowledged, so all of them stay.
        for _ in 0..64 {
            pending.push(store.submit(largest.clone().into()).await.unwrap());
        }
        let more = timeout(Duration::from_secs(1), store.submit(largest.into()));
        assert!(more.await.is_err(), "more than 64 MiB");
    });
}
