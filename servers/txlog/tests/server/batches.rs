//! Batches over the network.

use crate::support::served::{Raw, append, serving, serving_log};
use crate::support::small;
use bytes::Bytes;
use txlog::log::LogConfig;
use txlog::server::ServerConfig;
use txlog_client::frame::{Batched, Code, Produced, Request, Response};
use txlog_client::{Batch, Client};

fn request(id: u64, expected: Option<u64>, records: &[&str]) -> Request {
    Request::Batch {
        id,
        expected,
        producer: None,
        not_before: None,
        records: records.iter().collect(),
    }
}

#[test]
fn a_batch_gets_one_answer_in_the_order_of_all_appends() {
    serving(ServerConfig::default(), |address, _| async move {
        let mut raw = Raw::welcomed(address).await;
        raw.ask(&append(1, "one")).await;
        raw.ask(&request(2, None, &["two", "three"])).await;
        raw.ask(&append(3, "four")).await;
        raw.ask(&request(4, Some(4), &["not five"])).await;
        raw.ask(&request(5, Some(5), &["five"])).await;
        let sequence = 1;
        let expected = Response::Appended { id: 1, sequence };
        assert_eq!(raw.answer().await, Some(expected));
        let stored = |id, first, count| Response::Stored {
            id,
            first,
            count,
            repeated: false,
        };
        assert_eq!(raw.answer().await, Some(stored(2, 2, 2)));
        let sequence = 4;
        let expected = Response::Appended { id: 3, sequence };
        assert_eq!(raw.answer().await, Some(expected));
        let Some(Response::RefusedAt {
            id: 4,
            code: Code::NotExpected,
            numbers: [5, 0],
            ..
        }) = raw.answer().await
        else {
            panic!("the next number is 5")
        };
        assert_eq!(raw.answer().await, Some(stored(5, 5, 1)));
        let client = Client::connect(address).await.unwrap();
        let (records, next) = client.read(1, std::time::Duration::ZERO).await.unwrap();
        let payloads: Vec<_> = records.into_iter().map(|record| record.payload).collect();
        assert_eq!(payloads, ["one", "two", "three", "four", "five"]);
        assert_eq!(next, 6);
    });
}

/// Also by another connection, as one repeats it whose first connection has ended.
#[test]
fn a_batch_that_is_repeated_gets_its_first_answer_and_is_not_stored_again() {
    serving(ServerConfig::default(), |address, _| async move {
        let produced = |id, number| Request::Batch {
            id,
            expected: None,
            producer: Some(Produced {
                producer: 7,
                number,
            }),
            not_before: None,
            records: ["one", "two"].into_iter().collect(),
        };
        for (repeated, number, first) in [
            (false, 0, 1),
            (true, 0, 1),
            (false, 2, 3),
            (true, 0, 1),
            (true, 2, 3),
        ] {
            let mut raw = Raw::welcomed(address).await;
            raw.ask(&produced(5, number)).await;
            let expected = Response::Stored {
                id: 5,
                first,
                count: 2,
                repeated,
            };
            assert_eq!(raw.answer().await, Some(expected));
        }
        let client = Client::connect(address).await.unwrap();
        assert_eq!(client.append("five").await.unwrap(), 5);
    });
}

#[test]
fn a_bad_batch_is_refused_and_the_connection_goes_on() {
    let config = LogConfig {
        record_bytes_max: 100,
        ..small()
    };
    serving_log(ServerConfig::default(), config, |address, _| async move {
        let mut raw = Raw::welcomed(address).await;
        let long = "x".repeat(101);
        for records in [&[][..], &["fits", &long]] {
            raw.ask(&request(1, None, records)).await;
            let answer = raw.answer().await;
            let Some(Response::Refused { code, .. }) = answer else {
                panic!("{answer:?}")
            };
            assert_eq!(code, Code::RecordTooLarge);
        }
        raw.ask(&request(2, None, &["fits"])).await;
        let Some(Response::Stored { first: 1, .. }) = raw.answer().await else {
            panic!("nothing of the others was stored")
        };
    });
}

/// The largest batch that the server names in its welcome is taken, also where the memory for
/// appends is little.
#[test]
fn the_largest_batch_is_taken_and_a_larger_one_is_not_sent() {
    for memory_bytes in [512 << 20, 3 << 20] {
        let config = ServerConfig {
            connections_max: 4,
            reserve_max: 2,
            memory_bytes,
            ..ServerConfig::default()
        };
        serving(config, |address, _| async move {
            let client = Client::connect(address).await.unwrap();
            let most = client.info().batch_bytes_max.unwrap();
            assert!(most <= (1 << 20).min(memory_bytes / 4), "{most}");
            let records = vec![Bytes::from(vec![7; most / 256 - 4]); 256];
            let batch = Batch::new(records);
            let stored = client.submit_batch(batch).await.unwrap().await.unwrap();
            assert_eq!((stored.first, stored.count), (1, 256));
            let more = Batch::new(vec![Bytes::from(vec![7; most / 256]); 256]);
            assert!(client.submit_batch(more).await.is_err());
            assert_eq!(client.append("one more").await.unwrap(), 257);
        });
    }
}

#[test]
fn records_of_no_bytes_take_no_more_memory_than_their_frame() {
    serving(ServerConfig::default(), |address, _| async move {
        let mut raw = Raw::welcomed(address).await;
        let records: Batched = std::iter::repeat_n("", 200_000).collect();
        let many = Request::Batch {
            id: 1,
            expected: None,
            producer: None,
            not_before: None,
            records,
        };
        raw.ask(&many).await;
        let Some(Response::Stored { count, .. }) = raw.answer().await else {
            panic!("they fit")
        };
        assert_eq!(count, 200_000);
    });
}
