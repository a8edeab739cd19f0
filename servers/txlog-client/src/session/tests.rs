//! Sessions with servers that fail.

mod changes;
mod consumers;
mod server;

use std::collections::HashMap;

use evenkeel::task::JoinSet;
use evenkeel::time::timeout;

use self::server::{Fake, Supports};
use super::*;
use crate::cursor::Identity;
use crate::frame::Code;

/// Longer than any test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Long enough for a forbidden event to happen.
const WHILE: Duration = Duration::from_millis(50);

fn options() -> SessionOptions {
    SessionOptions {
        give_up_after: LIMIT,
        ..SessionOptions::default()
    }
}

/// A server and a session with it, in a runtime of their own.
fn with<F: Future<Output = ()>>(
    supports: Supports,
    options: SessionOptions,
    test: impl FnOnce(Session, Fake) -> F,
) {
    let runtime = evenkeel::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let all = async {
            let fake = Fake::new(supports);
            let address = fake.serve().await;
            let session = Session::open(Connect::new(), [address], options).unwrap();
            test(session, fake).await;
        };
        timeout(LIMIT, all).await.expect("an end in time");
    });
}

/// Tasks that append records of their own, each one after the other or several at a time; all
/// outcomes, by record.
async fn append_all(session: &Session, tasks: u64, each: u64) -> HashMap<Bytes, Outcome> {
    let mut appenders = JoinSet::new();
    for task in 0..tasks {
        let session = session.clone();
        appenders.spawn(async move {
            let mut pending = Vec::new();
            for number in 0..each {
                let record = Bytes::from(format!("{task}/{number}"));
                let submitted = session.submit(record.clone()).await.unwrap();
                match task % 2 {
                    0 => pending.push((record, evenkeel::spawn(submitted))),
                    _ => {
                        let outcome = submitted.await;
                        pending.push((record, evenkeel::spawn(async move { outcome })));
                    }
                }
            }
            let mut outcomes = Vec::new();
            for (record, outcome) in pending {
                outcomes.push((record, outcome.await.unwrap()));
            }
            outcomes
        });
    }
    let mut all = HashMap::new();
    while let Some(outcomes) = appenders.join_next().await {
        all.extend(outcomes.unwrap());
    }
    all
}

/// Lets the session learn what the server's store supports. A batch that is refused for what it is
/// only when it is repeated has an unknown outcome: another server may have taken it.
async fn learn_way(session: &Session, fake: &Fake) {
    fake.state().is_held = true;
    let mut pending = Vec::new();
    for number in 0..5 {
        let record = format!("learn/{number}");
        pending.push(session.submit(record).await.unwrap());
    }
    evenkeel::time::sleep(WHILE).await;
    fake.state().is_held = false;
    for appending in pending {
        appending.await.unwrap();
    }
}

/// Each outcome is true, no record is stored twice, and those of a task are in their order.
fn check(outcomes: &HashMap<Bytes, Outcome>, records: &[Bytes]) {
    let mut numbers = HashMap::new();
    let mut last = HashMap::new();
    for (number, record) in (1_u64..).zip(records) {
        let twice = numbers.insert(record.clone(), number);
        assert_eq!(twice, None, "{record:?} is stored twice");
        let text = std::str::from_utf8(record).unwrap();
        let (task, count) = text.split_once('/').unwrap();
        let count = count.parse::<u64>().unwrap();
        let before = last.insert(task.to_owned(), count);
        assert!(before < Some(count), "{record:?} comes after {before:?}");
    }
    for (record, outcome) in outcomes {
        let there = numbers.get(record);
        match outcome {
            Ok(number) => assert_eq!(there, Some(number), "{record:?}"),
            Err(AppendError::NotStored { why }) => {
                assert_eq!(there, None, "{record:?} is not stored: {why}");
            }
            Err(AppendError::Unknown { .. }) => {}
        }
    }
}

#[test]
fn every_outcome_is_true_however_often_the_connection_ends() {
    for supports in [
        Supports::Batches,
        Supports::Singles,
        Supports::Unnamed,
        Supports::Appends,
        Supports::Old,
    ] {
        for cut_one_in in [0, 3, 20] {
            with(supports, options(), |session, fake| async move {
                learn_way(&session, &fake).await;
                fake.state().cut_one_in = cut_one_in;
                let outcomes = append_all(&session, 8, 20).await;
                check(&outcomes, &fake.state().records);
                let stored = outcomes.values().filter(|outcome| outcome.is_ok()).count();
                let knows = matches!(supports, Supports::Batches | Supports::Singles);
                if knows || cut_one_in == 0 {
                    let failed = outcomes.iter().filter(|(_, outcome)| outcome.is_err());
                    let failed: Vec<_> = failed.collect();
                    assert_eq!(stored, 160, "{supports:?}, {cut_one_in}: {failed:?}");
                }
                assert!(stored > 0 && stored <= 160);
            });
        }
    }
}

#[test]
fn records_gather_while_batches_are_under_way_and_wait_for_nothing_else() {
    with(Supports::Batches, options(), |session, fake| async move {
        session.connect().await.unwrap();
        fake.state().is_hung = true;
        let mut pending = vec![session.submit("first").await.unwrap()];
        evenkeel::time::sleep(WHILE).await;
        pending.push(session.submit("second").await.unwrap());
        evenkeel::time::sleep(WHILE).await;
        for _ in 0..100 {
            pending.push(session.submit("later").await.unwrap());
        }
        // The connection ends, and is made again: two batches, as they were, and the rest in one.
        fake.state().is_hung = false;
        let client = session.link.client().await.unwrap();
        client.abandon(ClientError::Closed);
        for appending in pending {
            appending.await.unwrap();
        }
        assert_eq!(fake.state().portions, [1, 1, 100]);
    });
}

#[test]
fn pending_records_and_their_bytes_have_limits() {
    let options = SessionOptions {
        pending_max: 10,
        pending_bytes_max: 2_500,
        ..options()
    };
    for (record, fit) in [(vec![1; 1], 10), (vec![2; 250], 10), (vec![3; 996], 2)] {
        with(Supports::Batches, options, |session, fake| async move {
            session.connect().await.unwrap();
            fake.state().is_hung = true;
            let mut pending = Vec::new();
            for _ in 0..fit {
                let record = record.clone();
                pending.push(
                    timeout(LIMIT, session.submit(record))
                        .await
                        .unwrap()
                        .unwrap(),
                );
            }
            let more = timeout(WHILE, session.submit(record.clone())).await;
            assert!(more.is_err(), "{} bytes are one too many", record.len());
            assert!(timeout(WHILE, session.flush()).await.is_err());
            fake.state().is_hung = false;
            session
                .link
                .client()
                .await
                .unwrap()
                .abandon(ClientError::Closed);
            session.flush().await;
            for appending in pending {
                let outcome = timeout(Duration::ZERO, appending).await;
                let outcome = outcome.expect("settled before the flush");
                assert!(outcome.is_ok(), "{outcome:?}");
            }
        });
    }
}

#[test]
fn what_was_sent_to_one_log_is_not_repeated_to_another() {
    let others = [Identity { log: 8, epoch: 1 }, Identity { log: 7, epoch: 2 }];
    for identity in others {
        with(Supports::Batches, options(), |session, fake| async move {
            session.connect().await.unwrap();
            fake.state().is_hung = true;
            let appending = session.submit("sent").await.unwrap();
            evenkeel::time::sleep(WHILE).await;
            fake.change(|state| (state.is_hung, state.identity) = (false, identity));
            session
                .link
                .client()
                .await
                .unwrap()
                .abandon(ClientError::Closed);
            let outcome = appending.await;
            assert!(
                matches!(outcome, Err(AppendError::Unknown { .. })),
                "{outcome:?}"
            );
            assert_eq!(session.append("later").await.unwrap(), 1);
            assert_eq!(fake.state().records, ["later"]);
        });
    }
}

#[test]
fn a_producer_that_was_forgotten_begins_anew_if_nothing_is_in_doubt() {
    with(Supports::Batches, options(), |session, fake| async move {
        assert_eq!(session.append("before").await.unwrap(), 1);
        fake.state().producers.clear();
        assert_eq!(session.append("after").await.unwrap(), 2);
        // And not if something is.
        fake.state().is_hung = true;
        let appending = session.submit("in doubt").await.unwrap();
        evenkeel::time::sleep(WHILE).await;
        fake.change(|state| {
            state.is_hung = false;
            state.producers.clear();
        });
        session
            .link
            .client()
            .await
            .unwrap()
            .abandon(ClientError::Closed);
        let outcome = appending.await;
        assert!(
            matches!(outcome, Err(AppendError::Unknown { .. })),
            "{outcome:?}"
        );
        assert_eq!(session.append("at last").await.unwrap(), 3);
    });
}

/// NATS takes one record at a time, and what it takes behind one that it refuses is stored.
#[test]
fn what_was_stored_behind_a_refused_record_is_stored_once_if_the_connection_ends() {
    for refused in [Code::NotAllowed, Code::ProducerGap] {
        with(Supports::Singles, options(), |session, fake| async move {
            learn_way(&session, &fake).await;
            let (arrived, before) = fake.change(|state| {
                state.is_held = true;
                state.refuse = Some((1, refused));
                (state.arrived, state.records.len())
            });
            let mut pending = Vec::new();
            for record in ["refused", "cut", "later"] {
                pending.push(session.submit(record).await.unwrap());
            }
            evenkeel::time::sleep(WHILE).await;
            fake.change(|state| {
                state.cut_at = Some(arrived + 2);
                state.is_held = false;
            });
            let mut outcomes = Vec::new();
            for appending in pending {
                outcomes.push(appending.await);
            }
            let expected = match refused {
                Code::NotAllowed => vec!["cut", "later"],
                _ => vec!["cut", "later", "refused"],
            };
            assert_eq!(fake.state().records[before..], expected);
            let outcomes = outcomes.iter().rev().take(expected.len());
            assert!(outcomes.clone().all(Result::is_ok), "{outcomes:?}");
        });
    }
}

/// A batch that the same log refuses as such was not taken before, however often it was sent.
#[test]
fn a_batch_that_its_log_cannot_take_is_not_in_doubt_when_the_connection_has_ended() {
    with(Supports::Singles, options(), |session, fake| async move {
        session.connect().await.unwrap();
        fake.state().is_held = true;
        // Two portions of one record each, then three records that make one.
        let mut pending = Vec::new();
        for count in [1, 1, 3] {
            for _ in 0..count {
                let record = format!("{}", pending.len());
                pending.push(session.submit(record).await.unwrap());
            }
            evenkeel::time::sleep(WHILE).await;
        }
        fake.state().held_from = 2;
        evenkeel::time::sleep(WHILE).await;
        // The answer to that one does not come.
        fake.change(|state| {
            state.cut_at = Some(3);
            state.is_held = false;
        });
        for (number, appending) in (1..).zip(pending) {
            assert_eq!(appending.await.unwrap(), number);
        }
        assert_eq!(fake.state().records, ["0", "1", "2", "3", "4"]);
    });
}

#[test]
fn nothing_is_sent_behind_a_batch_that_the_server_may_not_take() {
    for supports in [Supports::Batches, Supports::Singles] {
        with(supports, options(), |session, fake| async move {
            session.connect().await.unwrap();
            fake.state().is_held = true;
            let mut pending = Vec::new();
            // Two portions of one record each, then two records that make one, then one again.
            for count in [1, 1, 2, 1] {
                for _ in 0..count {
                    let record = format!("{}", pending.len());
                    pending.push(session.submit(record).await.unwrap());
                }
                evenkeel::time::sleep(WHILE).await;
                if count == 2 {
                    fake.state().held_from = 2;
                    evenkeel::time::sleep(WHILE).await;
                }
            }
            fake.state().is_held = false;
            for (number, appending) in (1..).zip(pending) {
                assert_eq!(appending.await.unwrap(), number);
            }
            assert_eq!(fake.state().records, ["0", "1", "2", "3", "4"]);
        });
    }
}

#[test]
fn a_refusal_that_may_pass_is_repeated_and_another_concerns_its_records_alone() {
    with(Supports::Batches, options(), |session, fake| async move {
        fake.state().refuse = Some((3, Code::LogFailed));
        assert_eq!(session.append("in the end").await.unwrap(), 1);
        fake.state().refuse = Some((1, Code::NotAllowed));
        let outcome = session.append("never").await;
        assert!(
            matches!(&outcome, Err(error) if error.is_surely_not_stored()),
            "{outcome:?}"
        );
        fake.state().refuse = Some((1, Code::NotAllowed));
        let outcomes = append_all(&session, 20, 10).await;
        fake.state().records[0] = Bytes::from_static(b"first/0");
        check(&outcomes, &fake.state().records);
        let lost = outcomes.values().filter(|outcome| outcome.is_err()).count();
        assert!((1..200).contains(&lost), "{lost}");
        let too_large = session.append(vec![0; 1_001]).await;
        assert!(
            matches!(&too_large, Err(error) if error.is_surely_not_stored()),
            "{too_large:?}"
        );
    });
}

#[test]
fn a_session_gives_up_in_time_and_says_what_it_knows() {
    let options = SessionOptions {
        give_up_after: WHILE * 20,
        ..options()
    };
    with(Supports::Batches, options, |session, fake| async move {
        session.connect().await.unwrap();
        fake.state().is_hung = true;
        let outcome = session.append("sent").await;
        assert!(
            matches!(outcome, Err(AppendError::Unknown { .. })),
            "{outcome:?}"
        );
        fake.state().is_hung = false;
        assert_eq!(session.append("afterwards").await.unwrap(), 1);
    });
    let runtime = evenkeel::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        // Nobody listens there any more.
        let listener = evenkeel::net::TcpListener::bind("127.0.0.1:0")
            .await
            .unwrap();
        let nobody = listener.local_addr().unwrap().to_string();
        drop(listener);
        let session = Session::open(Connect::new(), [nobody.clone()], options).unwrap();
        let outcome = timeout(LIMIT, session.append("never sent")).await.unwrap();
        assert!(
            matches!(
                &outcome,
                Err(AppendError::NotStored {
                    why: ClientError::Connect { .. }
                })
            ),
            "{outcome:?}"
        );
        assert!(session.trouble().borrow().is_some());
        // With a second server, the first one's absence does not matter.
        let fake = Fake::new(Supports::Batches);
        let servers = [nobody, fake.serve().await];
        let session = Session::open(Connect::new(), servers, options).unwrap();
        assert_eq!(
            timeout(LIMIT, session.append("there"))
                .await
                .unwrap()
                .unwrap(),
            1
        );
        assert!(session.trouble().borrow().is_none());
    });
    let none: [String; 0] = [];
    let without = Session::open(Connect::new(), none, options);
    assert!(
        matches!(without, Err(ClientError::Unusable { .. })),
        "{without:?}"
    );
}

#[test]
fn what_is_given_up_is_settled_at_once_and_what_comes_later_is_not() {
    with(Supports::Batches, options(), |session, fake| async move {
        session.give_up().await;
        assert_eq!(session.append("before").await.unwrap(), 1);
        session.give_up().await;
        fake.state().is_hung = true;
        let sent = session.submit("sent").await.unwrap();
        evenkeel::time::sleep(WHILE).await;
        // The third is not sent, as two batches are under way.
        let second = session.submit("sent as well").await.unwrap();
        evenkeel::time::sleep(WHILE).await;
        let third = session.submit("not sent").await.unwrap();
        session.give_up().await;
        for (appending, is_unknown) in [(sent, true), (second, true), (third, false)] {
            let error = appending.await.unwrap_err();
            assert_eq!(error.is_surely_not_stored(), !is_unknown, "{error}");
        }
        fake.state().is_hung = false;
        assert_eq!(session.append("after").await.unwrap(), 2);
    });
}

#[test]
fn a_closed_session_takes_nothing_and_a_dropped_one_sends_what_it_has() {
    with(Supports::Batches, options(), |session, fake| async move {
        let other = session.clone();
        let appending = session.submit("before").await.unwrap();
        session.close().await;
        assert_eq!(appending.await.unwrap(), 1);
        let outcome = other.append("after").await;
        assert!(
            matches!(
                outcome,
                Err(AppendError::NotStored {
                    why: ClientError::Closed
                })
            ),
            "{outcome:?}"
        );
        let address = fake.serve().await;
        let session = Session::open(Connect::new(), [address], options()).unwrap();
        // Its future is dropped as well: nobody waits for the outcome.
        drop(session.submit("left behind").await.unwrap());
        drop(session);
        while fake.state().records.len() < 2 {
            evenkeel::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(fake.state().records, ["before", "left behind"]);
    });
}

#[test]
fn a_follower_reads_on_where_it_was_and_does_not_take_another_log_for_it() {
    with(Supports::Batches, options(), |session, fake| async move {
        let mut follower = session.follow(ReadFrom::Oldest);
        for round in 1..=20_u64 {
            for _ in 0..2 {
                session.append(format!("{round}")).await.unwrap();
            }
            assert_eq!(follower.next().await.unwrap().sequence, round);
            let client = follower.cut().await;
            assert!(client.end().is_some());
        }
        let cursor = follower.cursor().unwrap();
        assert_eq!((cursor.log, cursor.epoch, cursor.sequence), (7, 1, 21));
        let mut resumed = session.resume(cursor);
        assert_eq!(resumed.next().await.unwrap().sequence, 21);
        // So does one that began on a connection of somebody else's.
        let client = Connect::new().connect(fake.serve().await).await.unwrap();
        let mut plain = client.follow(ReadFrom::Sequence(5));
        assert_eq!(plain.next().await.unwrap().sequence, 5);
        let mut adopted = session.adopt(plain);
        assert_eq!(adopted.next().await.unwrap().sequence, 6);
        client.abandon(ClientError::Closed);
        for sequence in 7..=12 {
            assert_eq!(adopted.next().await.unwrap().sequence, sequence);
        }
        fake.state().identity.log = 8;
        follower.cut().await;
        let error = loop {
            match follower.next().await {
                Ok(record) => assert!(record.sequence <= 40, "only what it had read"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, ClientError::OtherLog { .. }), "{error}");
    });
}
