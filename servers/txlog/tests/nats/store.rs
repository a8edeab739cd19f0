//! A JetStream as the store. Needs `nats-server`; without it, the tests say so and pass.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::support::nats::{Nats, free_port, run};
use crate::support::program::{Server, run_command};
use crate::support::{LIMIT, all_of};
use evenkeel::task::JoinSet;
use txlog::log::{Batch, ReadLimits, Retention};
use txlog::nats::{NatsConfig, NatsStore};
use txlog::store::{Found, Store};
use txlog_client::frame::{Code, Produced};
use txlog_client::{Client, ReadFrom};

#[test]
fn records_are_numbered_and_read_back() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let store = NatsStore::connect(nats.config()).await.unwrap();
        assert_eq!(store.bounds(), (1, 1));
        let mut pending = Vec::new();
        for number in 1..=300 {
            pending.push(
                store
                    .submit(format!("record {number}").into())
                    .await
                    .unwrap(),
            );
        }
        for (number, pending) in (1..).zip(pending) {
            assert_eq!(pending.await.unwrap(), number);
        }
        assert_eq!(store.bounds(), (1, 301));
        let records = all_of(&store).await;
        assert_eq!(records.len(), 300);
        for (number, record) in (1..).zip(&records) {
            assert_eq!(record.sequence, number);
            assert_eq!(record.payload, format!("record {number}"));
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let age = now.unwrap().as_millis() as i128 - i128::from(record.time_ms);
            assert!(age.abs() < 600_000, "{age} ms");
        }
        let error = store.submit(vec![0; 2 << 20].into()).await.unwrap_err();
        assert_eq!(error.code, Code::RecordTooLarge);
        // The records that other clients see, also after connecting again.
        let other = NatsStore::connect(nats.config()).await.unwrap();
        assert_eq!(other.bounds(), (1, 301));
        store
            .submit("one more".into())
            .await
            .unwrap()
            .await
            .unwrap();
        other.maintain().await.unwrap();
        assert_eq!(other.bounds(), (1, 302));
        store.close().await.unwrap();
        assert_eq!(
            store.submit("late".into()).await.unwrap_err().code,
            Code::Closing
        );
    });
}

#[test]
fn the_largest_record_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let store = NatsStore::connect(nats.config()).await.unwrap();
        let largest = vec![7; store.record_bytes_max()];
        let pending = store.submit(largest.clone().into()).await.unwrap();
        assert_eq!(pending.await.unwrap(), 1);
        let error = store.submit(vec![7; largest.len() + 1].into()).await;
        assert_eq!(error.unwrap_err().code, Code::RecordTooLarge);
        assert_eq!(all_of(&store).await[0].payload, largest);
    });
}

/// A client that reads no answers must not lock out the records of all others.
#[test]
fn a_record_that_is_stored_keeps_no_place_though_nobody_has_asked() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let config = NatsConfig {
            appends_max: 2,
            ..nats.config()
        };
        let store = NatsStore::connect(config).await.unwrap();
        let mut pending = Vec::new();
        for _ in 0..20 {
            let submit = evenkeel::time::timeout(LIMIT / 4, store.submit("one of many".into()));
            pending.push(submit.await.expect("those before it are stored").unwrap());
        }
        for (number, pending) in (1..).zip(pending) {
            assert_eq!(pending.await.unwrap(), number);
        }
        store.close().await.unwrap();
    });
}

#[test]
fn the_stream_keeps_what_it_is_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let config = NatsConfig {
            retention: Retention {
                records_max: 10,
                ..Retention::default()
            },
            ..nats.config()
        };
        let store = NatsStore::connect(config).await.unwrap();
        for number in 0..30 {
            store
                .submit(format!("{number}").into())
                .await
                .unwrap()
                .await
                .unwrap();
        }
        store.maintain().await.unwrap();
        assert_eq!(store.bounds(), (21, 31));
        let error = store.read(1, Default::default()).await.unwrap_err();
        assert_eq!(error.code, Code::Trimmed);
        assert_eq!(all_of(&store).await.len(), 10);
        let strange = NatsConfig {
            stream: "no.such*name".to_owned(),
            ..nats.config()
        };
        assert!(NatsStore::connect(strange).await.is_err());
    });
}

#[test]
fn what_was_acknowledged_is_there_when_nats_comes_back() {
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let Some(nats) = Nats::start_at(directory.path(), port) else {
        return;
    };
    run(async {
        // Not longer than this test can wait for records whose acknowledgement is lost.
        let config = NatsConfig {
            answer_max: Duration::from_secs(2),
            ..nats.config()
        };
        let store = NatsStore::connect(config).await.unwrap();
        let mut tasks = JoinSet::new();
        let first = Arc::new(tokio::sync::Notify::new());
        for task in 0..4 {
            let (store, first) = (store.clone(), Arc::clone(&first));
            tasks.spawn(async move {
                let mut durable = Vec::new();
                for number in 0.. {
                    let payload = format!("{task} {number}");
                    let Ok(pending) = store.submit(payload.clone().into()).await else {
                        break;
                    };
                    match pending.await {
                        Ok(sequence) => durable.push((sequence, payload)),
                        Err(_) => break,
                    }
                    first.notify_one();
                }
                durable
            });
        }
        first.notified().await;
        evenkeel::time::sleep(Duration::from_millis(200)).await;
        drop(nats);
        let mut durable = Vec::new();
        while let Some(task) = tasks.join_next().await {
            durable.extend(task.unwrap());
        }
        assert!(!durable.is_empty());
        let _nats = Nats::start_at(directory.path(), port).unwrap();
        // The store connects again by itself.
        store.maintain().await.unwrap();
        let records = all_of(&store).await;
        for (sequence, payload) in durable {
            assert_eq!(records[sequence as usize - 1].payload, payload);
        }
        store.submit("goes on".into()).await.unwrap().await.unwrap();
    });
}

#[test]
fn the_server_serves_from_it() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    let mut server = Server::start_with(&["--nats", &nats.address, "--stream", "a-log"]);
    let address = server.address.to_string();
    let (done, said, errors) = run_command(&["append", "--server", &address, "one", "two"]);
    assert!(done, "{errors}");
    assert_eq!(said, "1\n2\n");
    run(async {
        let client = Client::connect(address).await.unwrap();
        let mut follower = client.follow(ReadFrom::Oldest);
        assert_eq!(follower.next().await.unwrap().payload, "one");
        assert_eq!(follower.next().await.unwrap().payload, "two");
        let appended = client.append("three").await.unwrap();
        assert_eq!((appended, follower.next().await.unwrap().sequence), (3, 3));
    });
    let began = Instant::now();
    server.signal("TERM");
    let status = server.ended();
    assert!(status.success(), "{status}");
    assert!(began.elapsed() < LIMIT);
}

#[test]
fn records_that_are_gone_are_passed_over() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let store = NatsStore::connect(nats.config()).await.unwrap();
        for number in 1..=100 {
            let pending = store.submit(format!("{number}").into()).await.unwrap();
            assert_eq!(pending.await.unwrap(), number);
        }
        // A few in the middle, more than are requested at a time, and the last ones.
        nats.delete("txlog", (4..=6).chain(10..=80).chain(99..=100));
        let found = store.read(1, Default::default()).await.unwrap();
        let numbers: Vec<u64> = found.records.iter().map(|record| record.sequence).collect();
        let left: Vec<u64> = (1..=3).chain(7..=9).chain(81..=98).collect();
        assert_eq!((numbers, found.next), (left, 101));
        let within = store.read(20, Default::default()).await.unwrap();
        assert_eq!((within.records[0].sequence, within.next), (81, 101));
        let two = ReadLimits {
            records_max: 2,
            ..ReadLimits::default()
        };
        assert_eq!(store.read(3, two).await.unwrap().next, 8);
        for gone in 99..=100 {
            let records = Vec::new();
            let next = 101;
            let found = store.read(gone, Default::default()).await.unwrap();
            assert_eq!(found, Found { records, next });
        }
    });
}

#[test]
fn who_follows_waits_behind_records_that_are_gone() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    let server = Server::start_with(&["--nats", &nats.address, "--stream", "a-log"]);
    run(async {
        let client = Client::connect(server.address.to_string()).await.unwrap();
        for _ in 0..5 {
            client.append("gone").await.unwrap();
        }
        nats.delete("a-log", 4..=5);
        // An answer without waiting says where to read on.
        let (records, next) = client.read(4, Duration::ZERO).await.unwrap();
        assert_eq!((records.len(), next), (0, 6));
        let reader = client.clone();
        let waiting = evenkeel::spawn(async move { reader.read(4, LIMIT / 2).await });
        evenkeel::time::sleep(Duration::from_millis(100)).await;
        client.append("came").await.unwrap();
        let (records, next) = waiting.await.unwrap().unwrap();
        assert_eq!((records.len(), next), (1, 7));
        assert_eq!(
            (records[0].sequence, &records[0].payload[..]),
            (6, &b"came"[..])
        );
    });
}

/// Only who wants a JetStream pays for the client.
#[cfg(target_os = "linux")]
#[test]
fn a_server_with_a_directory_starts_no_tokio() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(&directory.path().join("log"), &[]);
    let threads = server.threads();
    assert!(
        threads.iter().any(|name| name.starts_with("evenkeel")),
        "{threads:?}"
    );
    assert!(
        !threads.iter().any(|name| name.contains("tokio")),
        "{threads:?}"
    );
    let Some(nats) = Nats::start(&directory.path().join("nats")) else {
        return;
    };
    let server = Server::start_with(&["--nats", &nats.address]);
    let threads = server.threads();
    assert!(
        threads.iter().any(|name| name.contains("tokio")),
        "{threads:?}"
    );
}

/// NATS knows a producer's record by its message id, also when another store sends it again.
#[test]
fn a_record_that_a_producer_repeats_is_stored_once_and_batches_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let batch = |records: &[&str], produced: Option<(u128, u64)>| {
            let produced = produced.map(|(producer, number)| Produced { producer, number });
            Batch::new(records.iter().collect()).of(produced)
        };
        let mut firsts = Vec::new();
        for _ in 0..2 {
            let store = NatsStore::connect(nats.config()).await.unwrap();
            for (record, produced) in [
                ("a", Some((7, 0))),
                ("b", Some((7, 1))),
                ("c", Some((8, 0))),
                ("d", None),
            ] {
                let pending = store
                    .submit_batch(batch(&[record], produced))
                    .await
                    .unwrap();
                let stored = pending.await.unwrap();
                firsts.push((stored.first, stored.repeated));
            }
        }
        let again = [(1, true), (2, true), (3, true), (5, false)];
        assert_eq!(
            firsts[..4],
            [(1, false), (2, false), (3, false), (4, false)]
        );
        assert_eq!(firsts[4..], again);
        let store = NatsStore::connect(nats.config()).await.unwrap();
        for refused in [batch(&["e", "f"], None), batch(&[], None)] {
            let error = store.submit_batch(refused).await.unwrap_err();
            assert_eq!(error.code, Code::Unsupported);
        }
        assert_eq!(all_of(&store).await.len(), 5);
    });
}
