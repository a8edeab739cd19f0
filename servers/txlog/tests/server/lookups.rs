//! Named cursors, records by time and trims, over the protocol.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::support::held::Held;
use crate::support::logs::{Disks, connect, creating, serving_logs};
use crate::support::served::{Raw, append, serving, serving_log, serving_store};
use crate::support::{numbered, run, small};
use evenkeel::time::sleep;
use txlog::log::{LogConfig, Retention};
use txlog::server::ServerConfig;
use txlog_client::frame::{Code, CursorChange, Request, Response};
use txlog_client::{
    Client, ClientError, Connect, Consumer, ConsumerOptions, Cursor, Identity, ReadFrom, Session,
    SessionOptions, Trim,
};

fn at(of: Identity, sequence: u64) -> Cursor {
    let Identity { log, epoch } = of;
    Cursor {
        log,
        epoch,
        sequence,
    }
}

#[test]
fn a_named_cursor_is_kept_for_its_log_and_no_other() {
    run(async {
        let ended = serving_logs(Disks::default(), creating(), async |address| {
            let (one, two) = (connect(address, "one").await, connect(address, "two").await);
            let (one, two) = (one.unwrap(), two.unwrap());
            for number in 1..=5 {
                one.append(format!("{number}")).await.unwrap();
            }
            let of = one.info().identity.unwrap();
            one.set_cursor("billing", at(of, 4)).await.unwrap();
            one.set_cursor("audit", at(of, 6)).await.unwrap();
            let again = connect(address, "one").await.unwrap();
            assert_eq!(again.cursor("billing").await.unwrap(), Some(at(of, 4)));
            assert_eq!(two.cursor("billing").await.unwrap(), None);
            let names: Vec<String> = again
                .cursors()
                .await
                .unwrap()
                .into_iter()
                .map(|c| c.0)
                .collect();
            assert_eq!(names, ["audit", "billing"]);
            assert_eq!(two.cursors().await.unwrap(), []);
            let error = two.set_cursor("billing", at(of, 1)).await.unwrap_err();
            assert_eq!(error.code(), Some(Code::OtherLog), "{error}");
            let earlier = Identity {
                epoch: of.epoch - 1,
                ..of
            };
            let error = one.set_cursor("billing", at(earlier, 1)).await.unwrap_err();
            assert_eq!(error.code(), Some(Code::NewEpoch), "{error}");
            let error = one.set_cursor("billing", at(of, 7)).await.unwrap_err();
            assert!(
                matches!(error, ClientError::OutOfRange { next: 6, .. }),
                "{error}"
            );
            for name in ["", "..", "a/b", "-x", &"x".repeat(65)] {
                let error = one.set_cursor(name, at(of, 1)).await.unwrap_err();
                assert!(
                    error.to_string().contains("no name for a cursor"),
                    "{error}"
                );
            }
            assert_eq!(
                one.cursor("billing").await.unwrap(),
                Some(at(of, 4)),
                "as it was"
            );
            one.remove_cursor("billing").await.unwrap();
            one.remove_cursor("billing").await.unwrap();
            assert_eq!(one.cursor("billing").await.unwrap(), None);
        });
        ended.await.unwrap();
    });
}

#[test]
fn cursors_are_listed_page_by_page() {
    const COUNT: u64 = 600;
    serving(ServerConfig::default(), |address, _| async move {
        let client = Client::connect(address).await.unwrap();
        let of = client.info().identity.unwrap();
        for number in 0..COUNT {
            let name = format!("consumer-{number:03}");
            client.set_cursor(&name, at(of, 1)).await.unwrap();
        }
        let cursors = client.cursors().await.unwrap();
        assert_eq!(cursors.len() as u64, COUNT);
        assert!(cursors.is_sorted_by_key(|(name, _)| name));
        let mut raw = Raw::welcomed(address).await;
        raw.ask(&Request::Cursors {
            id: 7,
            after: "consumer-598".to_owned(),
        })
        .await;
        let Some(Response::Cursors { more, cursors, .. }) = raw.answer().await else {
            panic!("another answer")
        };
        assert!(!more && cursors.len() == 1);
    });
}

#[test]
fn a_name_that_would_take_memory_ends_the_connection() {
    serving(ServerConfig::default(), |address, _| async move {
        let name = "\u{1}".repeat(1 << 16);
        for request in [
            Request::Cursor {
                id: 7,
                name: name.clone(),
                change: CursorChange::Keep,
            },
            Request::Cursors {
                id: 7,
                after: name.clone(),
            },
            Request::Logs {
                id: 7,
                after: name.clone(),
            },
        ] {
            let mut raw = Raw::welcomed(address).await;
            raw.ask(&request).await;
            assert_eq!(raw.faulted().await, Code::BadFrame);
        }
    });
}

#[test]
fn a_store_without_cursors_says_so() {
    run(async {
        let store = Held::new(small()).await;
        serving_store(store, ServerConfig::default(), async |address| {
            let mut raw = Raw::welcomed(address).await;
            for request in [
                Request::Cursor {
                    id: 7,
                    name: "a".to_owned(),
                    change: CursorChange::Keep,
                },
                Request::Cursors {
                    id: 7,
                    after: String::new(),
                },
            ] {
                raw.ask(&request).await;
                let answer = raw.answer().await;
                let Some(Response::Refused { id: 7, code, .. }) = answer else {
                    panic!("{answer:?}")
                };
                assert_eq!(code, Code::Unsupported);
            }
        })
        .await;
    });
}

#[test]
fn the_first_record_of_a_time_is_found() {
    serving(ServerConfig::default(), |address, _| async move {
        let client = Client::connect(address).await.unwrap();
        let before = SystemTime::now();
        assert_eq!(client.seek(before).await.unwrap(), 1, "it is the next one");
        for number in 0..9 {
            client.append(format!("{number}")).await.unwrap();
            sleep(Duration::from_millis(2)).await;
        }
        let (records, next) = client.read(0, Duration::ZERO).await.unwrap();
        for record in &records {
            let at = UNIX_EPOCH + Duration::from_millis(record.time_ms);
            assert_eq!(client.seek(at).await.unwrap(), record.sequence);
        }
        assert_eq!(client.seek(SystemTime::now()).await.unwrap(), next);
        assert_eq!(client.seek(UNIX_EPOCH).await.unwrap(), 1);
        let mut raw = Raw::welcomed(address).await;
        // More than are looked for at a time.
        for id in 1..=8 {
            raw.ask(&Request::Seek { id, time_ms: 0 }).await;
        }
        for _ in 1..=8 {
            let answer = raw.answer().await;
            assert!(
                matches!(answer, Some(Response::Sought { sequence: 1, .. })),
                "{answer:?}"
            );
        }
    });
}

async fn consumer(session: &Session, options: ConsumerOptions) -> Consumer {
    session.consume("billing", options).await.unwrap()
}

/// How a consumer's place is written only when it says so.
fn by_hand() -> ConsumerOptions {
    ConsumerOptions {
        flush_every: u64::MAX,
        flush_after: Duration::from_secs(3_600),
        ..ConsumerOptions::default()
    }
}

#[test]
fn what_a_consumer_has_not_acknowledged_and_flushed_comes_again() {
    serving(ServerConfig::default(), |address, _| async move {
        let servers = [address.to_string()];
        let session = Session::open(Connect::new(), servers, SessionOptions::default()).unwrap();
        for number in 1..=9 {
            session.append(format!("{number}")).await.unwrap();
        }
        let mut first = consumer(&session, by_hand()).await;
        for _ in 1..=5 {
            first.next().await.unwrap();
        }
        let error = first.ack(6).await.unwrap_err();
        assert!(error.to_string().contains("was not delivered"), "{error}");
        first.ack(3).await.unwrap();
        drop(first);
        let mut second = consumer(&session, by_hand()).await;
        assert_eq!(
            second.next().await.unwrap().sequence,
            1,
            "it was not flushed"
        );
        for _ in 2..=5 {
            second.next().await.unwrap();
        }
        second.ack(4).await.unwrap();
        second.ack(2).await.unwrap();
        second.flush().await.unwrap();
        drop(second);
        let options = ConsumerOptions {
            flush_every: 2,
            ..by_hand()
        };
        let mut third = consumer(&session, options).await;
        for sequence in 5..=8 {
            assert_eq!(third.next().await.unwrap().sequence, sequence);
        }
        third.ack(5).await.unwrap();
        third.ack(6).await.unwrap();
        third.ack(7).await.unwrap();
        drop(third);
        let mut fourth = consumer(&session, by_hand()).await;
        assert_eq!(
            fourth.next().await.unwrap().sequence,
            7,
            "two share a flush"
        );
        // With a new name it begins where that is asked for.
        let options = ConsumerOptions {
            from: ReadFrom::Sequence(9),
            ..by_hand()
        };
        let mut other = session.consume("other", options).await.unwrap();
        assert_eq!(other.next().await.unwrap().sequence, 9);
        assert_eq!(other.try_next().await.unwrap(), None);
    });
}

#[test]
fn a_consumer_whose_records_are_no_longer_kept_is_told_so() {
    let log = LogConfig {
        retention: Retention {
            records_max: 5,
            ..Retention::default()
        },
        ..small()
    };
    serving_log(ServerConfig::default(), log, |address, _| async move {
        let servers = [address.to_string()];
        let session = Session::open(Connect::new(), servers, SessionOptions::default()).unwrap();
        let client = Client::connect(address).await.unwrap();
        let of = client.info().identity.unwrap();
        client.set_cursor("billing", at(of, 1)).await.unwrap();
        let mut number = 0;
        while client
            .read(0, Duration::ZERO)
            .await
            .unwrap()
            .0
            .first()
            .is_none_or(|r| r.sequence < 3)
        {
            number += 1;
            client.append(format!("{number:.<90}")).await.unwrap();
        }
        let error = consumer(&session, by_hand())
            .await
            .next()
            .await
            .unwrap_err();
        assert_eq!(error.code(), Some(Code::Trimmed), "{error}");
        client.remove_cursor("billing").await.unwrap();
        let first = consumer(&session, by_hand()).await.next().await.unwrap();
        assert!(first.sequence >= 3);
    });
}

#[test]
fn a_consumer_that_waits_for_records_writes_its_place_meanwhile() {
    serving(ServerConfig::default(), |address, _| async move {
        let servers = [address.to_string()];
        let session = Session::open(Connect::new(), servers, SessionOptions::default()).unwrap();
        session.append("one").await.unwrap();
        let options = ConsumerOptions {
            flush_after: Duration::from_millis(10),
            ..by_hand()
        };
        let mut waiting = consumer(&session, options).await;
        let record = waiting.next().await.unwrap();
        waiting.ack(record.sequence).await.unwrap();
        let waiting = evenkeel::spawn(async move { waiting.next().await });
        let client = Client::connect(address).await.unwrap();
        let written = async {
            while client
                .cursor("billing")
                .await
                .unwrap()
                .is_none_or(|c| c.sequence != 2)
            {
                sleep(Duration::from_millis(2)).await;
            }
        };
        evenkeel::time::timeout(crate::support::LIMIT, written)
            .await
            .expect("it is written");
        session.append("two").await.unwrap();
        assert_eq!(waiting.await.unwrap().unwrap().sequence, 2);
    });
}

/// A client of a log with 40 records, of which a segment has four to seven.
async fn of_forty(address: SocketAddr) -> Client {
    let client = Client::connect(address).await.unwrap();
    for number in 1..=40 {
        client.append(numbered(number)).await.unwrap();
    }
    client
}

/// The oldest record, as a client hears that connects now.
async fn oldest(address: SocketAddr) -> u64 {
    Client::connect(address).await.unwrap().info().first
}

#[test]
fn a_served_log_is_trimmed_and_readers_that_are_behind_hear_so() {
    serving(ServerConfig::default(), |address, _| async move {
        let client = of_forty(address).await;
        let mut follower = client.follow(ReadFrom::Sequence(3));
        let would = client.trim(Trim::before(20).dry_run(true)).await.unwrap();
        assert!((13..=20).contains(&would), "{would}");
        assert_eq!(oldest(address).await, 1, "nothing went");
        assert_eq!(client.trim(Trim::before(20)).await.unwrap(), would);
        assert_eq!(oldest(address).await, would);
        let error = follower.next().await.unwrap_err();
        assert_eq!(error.code(), Some(Code::Trimmed), "{error}");
        let (records, _) = client.read(would, Duration::ZERO).await.unwrap();
        assert_eq!(records[0].payload, numbered(would));
        let trim = client.trim(Trim::before(42)).await;
        let error = trim.unwrap_err();
        let ClientError::OutOfRange { first, next, .. } = error else {
            panic!("{error}")
        };
        assert_eq!((first, next), (would, 41));
        assert_eq!(client.trim(Trim::before(41)).await.unwrap(), 41);
        assert_eq!(client.append("one more").await.unwrap(), 41);
        assert_eq!(client.trim(Trim::before(1)).await.unwrap(), 41);
    });
}

#[test]
fn a_trim_takes_nothing_from_a_consumer_unless_it_is_forced() {
    serving(ServerConfig::default(), |address, _| async move {
        let client = of_forty(address).await;
        let of = client.info().identity.unwrap();
        client.set_cursor("billing", at(of, 5)).await.unwrap();
        client.set_cursor("audit", at(of, 41)).await.unwrap();
        for trim in [Trim::before(20), Trim::before(20).dry_run(true)] {
            let error = client.trim(trim).await.unwrap_err();
            assert_eq!(error.code(), Some(Code::CursorsBehind), "{error}");
            let said = error.to_string();
            assert!(said.contains("billing (at 5)"), "{said}");
            assert!(
                said.contains("--force") && !said.contains("audit"),
                "{said}"
            );
        }
        assert_eq!(oldest(address).await, 1, "nothing went");
        // A file that it has read goes.
        client.set_cursor("billing", at(of, 30)).await.unwrap();
        let left = client.trim(Trim::before(30)).await.unwrap();
        assert!((23..=30).contains(&left), "{left}");
        client.trim(Trim::before(41)).await.unwrap_err();
        let forced = client.trim(Trim::before(41).force(true)).await;
        assert_eq!(forced.unwrap(), 41);
        let error = client.read(30, Duration::ZERO).await.unwrap_err();
        assert_eq!(error.code(), Some(Code::Trimmed), "{error}");
        // It has to be put elsewhere now, and holds up nothing.
        client.append("one more").await.unwrap();
        assert_eq!(
            client.trim(Trim::before(42)).await.unwrap_err().code(),
            Some(Code::CursorsBehind)
        );
        client.remove_cursor("audit").await.unwrap();
        assert_eq!(client.trim(Trim::before(42)).await.unwrap(), 42);
    });
}

/// One that knows no trims.
#[test]
fn a_client_of_version_3_works_as_before() {
    serving(ServerConfig::default(), |address, _| async move {
        of_forty(address).await;
        let mut old = Raw::connect(address).await;
        let access = None;
        old.ask(&Request::Hello {
            min: 1,
            max: 3,
            access,
        })
        .await;
        let Some(Response::Welcome { version, next, .. }) = old.answer().await else {
            panic!("no welcome")
        };
        assert_eq!((version, next), (3, 41));
        old.ask(&append(7, "by it")).await;
        let answer = old.answer().await;
        assert_eq!(
            answer,
            Some(Response::Appended {
                id: 7,
                sequence: 41
            })
        );
        let after = String::new();
        old.ask(&Request::Cursors { id: 8, after }).await;
        let answer = old.answer().await;
        assert!(
            matches!(answer, Some(Response::Cursors { id: 8, .. })),
            "{answer:?}"
        );
    });
}
