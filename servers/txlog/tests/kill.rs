//! The server is killed with SIGKILL at random moments: all acknowledged records are there, and
//! every record is intact.
//!
//! 25 kills, or as many as `TXLOG_KILLS` says. (The kernel outlives the process, so unsynced data
//! are there, too; `log/faults.rs` takes these away.)

mod support;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use evenkeel::task::JoinSet;
use support::acknowledged::{Known, append, check, is_whole, payload};
use support::program::{Server, run_command};
use support::{Random, rounds, run};
use txlog_client::frame::{Code, Produced};
use txlog_client::{Batch, Client, ClientError};

/// How many connections append, and how many pending records each has.
const CLIENTS: u64 = 4;
const UNDER_WAY: usize = 16;

#[test]
fn what_was_acknowledged_outlives_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let options = ["--segment-bytes", "200000", "--keep-bytes", "4000000"];
    let durable = Known::default();
    let mut random = Random::new(rounds("TXLOG_KILL_SEED", 1));
    let (mut next, mut acknowledged) = (1, 0);
    let kills = rounds("TXLOG_KILLS", 25);
    for kill in 0..kills {
        let mut server = Server::start(&path, &options);
        let address = server.address.to_string();
        let pause = Duration::from_millis(random.below(60));
        run(async {
            next = check(address.clone(), next, &durable).await;
            let mut clients = JoinSet::new();
            for client in 0..CLIENTS {
                let client = kill * CLIENTS + client;
                let durable = Arc::clone(&durable);
                clients.spawn(append(address.clone(), client, UNDER_WAY, durable));
            }
            evenkeel::time::sleep(pause).await;
            server.kill();
            while let Some(client) = clients.join_next().await {
                client.unwrap();
            }
        });
        acknowledged += durable.lock().unwrap().len();
    }
    let (whole, said, errors) = run_command(&["verify", path.to_str().unwrap()]);
    assert!(whole, "{said}{errors}");
    let server = Server::start(&path, &options);
    let address = server.address.to_string();
    next = run(async { check(address, next, &durable).await });
    eprintln!(
        "{kills} kills, {acknowledged} records acknowledged of {}",
        next - 1
    );
    assert!(acknowledged > 0);
}

/// The records that each producer knows to be stored.
type Stored = Arc<Mutex<HashMap<u128, u64>>>;

/// Appends the producer's batches in their order, several at a time, from the first on that it does
/// not know to be stored: it repeats those that were under way when the server was killed.
async fn produce(address: String, producer: u128, stored: Stored, end: u64) {
    let Ok(connection) = Client::connect(address).await else {
        return;
    };
    let mut next = stored.lock().unwrap().get(&producer).copied().unwrap_or(0);
    let mut under_way = std::collections::VecDeque::new();
    while next < end || !under_way.is_empty() {
        if next < end && under_way.len() < UNDER_WAY {
            let records =
                (next..next + 3).map(|number| bytes::Bytes::from(payload(producer as u64, number)));
            let number = next;
            let batch = Batch {
                records: records.collect(),
                producer: Some(Produced { producer, number }),
                ..Batch::default()
            };
            let Ok(submitted) = connection.submit_batch(batch).await else {
                return;
            };
            next += 3;
            under_way.push_back((submitted, next));
        } else if let Some((submitted, after)) = under_way.pop_front() {
            match submitted.await {
                Ok(_) => drop(stored.lock().unwrap().insert(producer, after)),
                Err(ClientError::Refused { code, text }) if code != Code::Closing => {
                    panic!("{code:?}: {text}")
                }
                Err(ClientError::Refused { .. } | ClientError::Disconnected { .. }) => return,
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[test]
fn producers_that_repeat_after_kills_lose_nothing_and_store_nothing_twice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    // Many segments, so that what is known of producers is written and read.
    let options = ["--segment-bytes", "20000"];
    let stored = Stored::default();
    let mut random = Random::new(rounds("TXLOG_KILL_SEED", 1));
    let kills = rounds("TXLOG_KILLS", 25);
    for life in 0..=kills {
        let mut server = Server::start(&path, &options);
        let pause = Duration::from_millis(random.below(60));
        run(async {
            let mut producers = JoinSet::new();
            for producer in 0..u128::from(CLIENTS) {
                let known = stored.lock().unwrap().get(&producer).copied();
                // The last life stores some more, and ends by itself.
                let end = if life < kills {
                    u64::MAX
                } else {
                    known.unwrap_or(0) + 60
                };
                let address = server.address.to_string();
                producers.spawn(produce(address, producer, Arc::clone(&stored), end));
            }
            if life < kills {
                evenkeel::time::sleep(pause).await;
                server.kill();
            }
            while let Some(producer) = producers.join_next().await {
                producer.unwrap();
            }
        });
        if life == kills {
            let address = server.address.to_string();
            let count = run(check_produced(address, &stored));
            eprintln!("{kills} kills, {count} records of {CLIENTS} producers");
        }
    }
}

/// Reads all records: each of a producer is there once, in its order. Returns how many there are.
async fn check_produced(address: String, stored: &Stored) -> u64 {
    let client = Client::connect(address).await.unwrap();
    let (mut at, mut next) = (1, HashMap::<u64, u64>::new());
    loop {
        let (records, after) = client.read(at, Duration::ZERO).await.unwrap();
        if records.is_empty() {
            break;
        }
        for record in records {
            let text = String::from_utf8_lossy(&record.payload);
            let mut words = text.split(' ').map(|word| word.parse::<u64>());
            let mut word = || words.next().unwrap().unwrap();
            let (producer, number) = (word(), word());
            assert!(is_whole(&record.payload), "record {}", record.sequence);
            let expected = next.entry(producer).or_default();
            assert_eq!(
                number, *expected,
                "of producer {producer}: once, and in order"
            );
            *expected += 1;
        }
        at = after;
    }
    for (producer, stored) in stored.lock().unwrap().iter() {
        assert!(next[&(*producer as u64)] >= *stored, "{producer} lost none");
    }
    at - 1
}
