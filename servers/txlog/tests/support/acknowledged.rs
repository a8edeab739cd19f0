//! Records that can be checked, and a book of those that were acknowledged, for tests that kill the
//! server.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use txlog_client::Client;

use super::Random;

/// Records that were acknowledged, by their numbers.
pub(crate) type Known = Arc<Mutex<HashMap<u64, Vec<u8>>>>;

/// A record that can be checked: its connection, its number, and bytes that follow from these.
pub(crate) fn payload(client: u64, number: u64) -> Vec<u8> {
    let mut random = Random::new(client << 32 | number);
    let mut payload = format!("{client} {number} ").into_bytes();
    payload.extend(random.bytes(2_000));
    payload
}

pub(crate) fn is_whole(record: &[u8]) -> bool {
    let mut words = record.splitn(3, |&byte| byte == b' ');
    let mut number = || std::str::from_utf8(words.next()?).ok()?.parse::<u64>().ok();
    let (Some(client), Some(number)) = (number(), number()) else {
        return false;
    };
    payload(client, number) == record
}

/// Appends records until the connection ends, with so many pending.
pub(crate) async fn append(address: String, client: u64, pending: usize, durable: Known) {
    let Ok(connection) = Client::connect(address).await else {
        return;
    };
    let mut under_way = VecDeque::new();
    for number in 0.. {
        let record = payload(client, number);
        let Ok(submitted) = connection.submit(record.clone()).await else {
            break;
        };
        under_way.push_back((record, submitted));
        if under_way.len() >= pending
            && let Some((record, submitted)) = under_way.pop_front()
        {
            let Ok(sequence) = submitted.await else {
                break;
            };
            durable.lock().unwrap().insert(sequence, record);
        }
    }
}

/// Reads all records from `from` on; returns the number of the next one.
pub(crate) async fn check(address: String, from: u64, durable: &Known) -> u64 {
    let client = Client::connect(address).await.unwrap();
    let (mut next, mut there) = (from, HashMap::new());
    loop {
        let (records, after) = client.read(next, Duration::ZERO).await.unwrap();
        if records.is_empty() {
            break;
        }
        for record in records {
            assert_eq!(record.sequence, next, "numbers have no gaps");
            assert!(is_whole(&record.payload), "record {next} is whole");
            there.insert(next, record.payload.to_vec());
            next += 1;
        }
        assert_eq!(after, next);
    }
    for (sequence, payload) in durable.lock().unwrap().drain() {
        assert!(sequence >= from);
        let record = there.get(&sequence);
        assert_eq!(record, Some(&payload), "record {sequence} was acknowledged");
    }
    next
}
