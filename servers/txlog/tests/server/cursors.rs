//! Readers that resume, and what they hear of a log that is not the one in which they were.

use std::time::Duration;

use crate::support::held::Held;
use crate::support::served::{Raw, serving, serving_store};
use crate::support::{LIMIT, run, small};
use evenkeel::time::timeout;
use txlog::server::ServerConfig;
use txlog_client::frame::{Code, Request, Response, VERSION_MIN};
use txlog_client::{Client, ClientError, Cursor, ReadFrom};

/// Half of the time that a read may wait.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_reader_resumes_where_it_was_by_another_connection() {
    serving(ServerConfig::default(), |address, _| async move {
        let client = Client::connect(address).await.unwrap();
        for number in 1..=9 {
            client.append(format!("{number}")).await.unwrap();
        }
        let mut follower = client.follow(ReadFrom::Oldest);
        for _ in 0..4 {
            follower.next().await.unwrap();
        }
        let cursor = follower.cursor().unwrap();
        drop((follower, client));
        let text = cursor.to_string();
        let client = Client::connect(address).await.unwrap();
        let mut resumed = client.resume(text.parse().unwrap()).unwrap();
        assert_eq!(resumed.next().await.unwrap().sequence, 5);
        assert_eq!(resumed.position(), 6);
    });
}

#[test]
fn a_cursor_of_another_log_is_refused_with_that_which_is_there() {
    serving(ServerConfig::default(), |address, _| async move {
        let client = Client::connect(address).await.unwrap();
        client.append("not that of the cursor").await.unwrap();
        let here = client.info().identity.unwrap();
        for (cursor, expected) in [
            (
                Cursor {
                    log: here.log ^ 1,
                    epoch: here.epoch,
                    sequence: 1,
                },
                Code::OtherLog,
            ),
            (
                Cursor {
                    log: here.log,
                    epoch: here.epoch + 1,
                    sequence: 1,
                },
                Code::NewEpoch,
            ),
        ] {
            let error = client.resume(cursor).unwrap().next().await.unwrap_err();
            let ClientError::OtherLog { code, found, .. } = error else {
                panic!("{error}")
            };
            assert_eq!((code, found), (expected, here));
        }
    });
}

#[test]
fn a_read_from_beyond_the_end_is_refused_with_both_ends() {
    serving(ServerConfig::default(), |address, _| async move {
        let client = Client::connect(address).await.unwrap();
        for _ in 0..3 {
            client.append("one").await.unwrap();
        }
        let read = client.read(5, Duration::from_secs(60));
        let error = timeout(SOON, read).await.expect("at once").unwrap_err();
        let ClientError::OutOfRange { first, next, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((first, next), (1, 4));
        let (records, next) = client.read(4, Duration::ZERO).await.unwrap();
        assert_eq!((records.len(), next), (0, 4), "the next one is waited for");
    });
}

#[test]
fn a_waiting_reader_hears_at_once_that_records_were_lost() {
    run(async {
        let store = Held::new(small()).await;
        let epoch = store.epoch.clone();
        serving_store(store, ServerConfig::default(), async |address| {
            let client = Client::connect(address).await.unwrap();
            client.append("one").await.unwrap();
            let mut follower = client.follow(ReadFrom::Oldest);
            follower.next().await.unwrap();
            let mut next = std::pin::pin!(follower.next());
            let waits = timeout(Duration::from_millis(50), &mut next).await;
            assert!(waits.is_err(), "there is no second record");
            epoch.send_replace(2);
            let lost = timeout(SOON, &mut next).await.expect("at once");
            let error = lost.unwrap_err();
            assert_eq!(error.code(), Some(Code::NewEpoch), "{error}");
            assert!(error.to_string().contains("lost or replaced"), "{error}");
            // Who connects now is in the new epoch.
            let client = Client::connect(address).await.unwrap();
            let mut follower = client.follow(ReadFrom::Oldest);
            assert_eq!(follower.next().await.unwrap().sequence, 1);
            assert_eq!(follower.cursor().unwrap().epoch, 2);
        })
        .await;
    });
}

#[test]
fn a_client_of_version_1_is_answered_in_its_version() {
    serving(ServerConfig::default(), |address, _| async move {
        let mut old = Raw::connect(address).await;
        let (min, max) = (VERSION_MIN, VERSION_MIN);
        old.ask(&Request::Hello {
            min,
            max,
            access: None,
        })
        .await;
        let answer = old.answer().await;
        assert!(
            matches!(
                answer,
                Some(Response::Welcome {
                    version: VERSION_MIN,
                    of: None,
                    ..
                })
            ),
            "{answer:?}"
        );
        old.ask(&Request::Read {
            id: 7,
            from: 100,
            records_max: 1,
            bytes_max: 1,
            wait_ms: 60_000,
            of: None,
        })
        .await;
        let answer = timeout(LIMIT, old.answer()).await.unwrap();
        let Some(Response::Refused { id: 7, code, .. }) = answer else {
            panic!("{answer:?}")
        };
        assert_eq!(code, Code::OutOfRange);
    });
}
