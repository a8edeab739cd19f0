//! Sessions with servers that are not as they were: they have forgotten, take less, or have failed.

use super::*;

/// Submits records as one batch to a server that does not answer, and stores them or not.
async fn sent(session: &Session, fake: &Fake, stores: bool, records: &[Vec<u8>]) -> Vec<Appending> {
    // There is no connection, so they gather.
    fake.state().refuse_hellos = Some((u32::MAX, Code::Busy));
    let mut pending = Vec::new();
    for record in records {
        pending.push(session.submit(record.clone()).await.unwrap());
    }
    fake.change(|state| {
        (state.is_hung, state.is_silent) = (!stores, stores);
        state.refuse_hellos = None;
    });
    arrived(fake, 1).await;
    pending
}

/// Waits until so many requests that append have come.
async fn arrived(fake: &Fake, count: usize) {
    while fake.state().arrived < count {
        evenkeel::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Ends the connection; on the next one the server answers.
async fn cut(session: &Session, fake: &Fake) {
    let client = session.link.client().await.unwrap();
    fake.change(|state| (state.is_hung, state.is_silent) = (false, false));
    client.abandon(ClientError::Closed);
}

#[test]
fn a_first_batch_is_not_stored_twice_though_its_producer_was_forgotten() {
    with(Supports::Batches, options(), |session, fake| async move {
        fake.state().forget_next = true;
        let outcome = session.append("first").await;
        assert!(
            matches!(
                &outcome,
                Err(AppendError::Unknown { why }) if why.code() == Some(Code::ProducerUnknown)
            ),
            "{outcome:?}"
        );
        assert_eq!(fake.state().records, ["first"], "once");
        assert_eq!(session.append("second").await.unwrap(), 2);
    });
}

#[test]
fn a_first_batch_that_cannot_be_there_is_stored_though_others_were_forgotten() {
    with(Supports::Batches, options(), |session, fake| async move {
        fake.change(|state| {
            state.records = vec![Bytes::from_static(b"of another"); 3];
            state.forget();
        });
        let pending = sent(&session, &fake, false, &[b"first".to_vec()]).await;
        cut(&session, &fake).await;
        for appending in pending {
            assert_eq!(appending.await.unwrap(), 4);
        }
        assert_eq!(fake.state().records.len(), 4);
    });
}

#[test]
fn what_was_sent_is_divided_if_the_server_takes_less_than_before() {
    let options = SessionOptions {
        give_up_after: LIMIT * 3,
        ..options()
    };
    for is_stored in [false, true] {
        with(Supports::Batches, options, |session, fake| async move {
            let records: Vec<_> = (0..21).map(|number| vec![number; 96]).collect();
            let pending = sent(&session, &fake, is_stored, &records).await;
            fake.state().batch_bytes_max = 500;
            cut(&session, &fake).await;
            for (number, appending) in (1..).zip(pending) {
                assert_eq!(appending.await.unwrap(), number);
            }
            assert_eq!(fake.state().records, records);
            let divided = fake.state().portions.split_off(usize::from(is_stored));
            assert_eq!(divided, [5, 5, 5, 5, 1]);
        });
    }
}

#[test]
fn a_record_that_the_server_will_never_take_again_is_given_up_at_once() {
    let options = SessionOptions {
        give_up_after: LIMIT * 3,
        ..options()
    };
    with(Supports::Batches, options, |session, fake| async move {
        // Otherwise nothing would be sent behind several records.
        learn_way(&session, &fake).await;
        cut(&session, &fake).await;
        fake.state().arrived = 0;
        let records = [b"small".to_vec(), vec![1; 900]];
        let mut pending = sent(&session, &fake, false, &records).await;
        pending.push(session.submit(&b"of the second batch"[..]).await.unwrap());
        arrived(&fake, 2).await;
        // Two batches are under way, so these are not sent.
        for record in [vec![2; 900], b"other".to_vec()] {
            pending.push(session.submit(record).await.unwrap());
        }
        fake.state().batch_bytes_max = 500;
        cut(&session, &fake).await;
        let mut outcomes = Vec::new();
        for appending in pending {
            outcomes.push(appending.await);
        }
        let [_, sent, _, unsent, other] = &outcomes[..] else {
            panic!("{outcomes:?}")
        };
        assert!(
            matches!(
                sent,
                Err(AppendError::Unknown {
                    why: ClientError::TooLong { bytes_max: 500, .. }
                })
            ),
            "{sent:?}"
        );
        assert!(
            matches!(
                unsent,
                Err(AppendError::NotStored {
                    why: ClientError::RecordTooLarge { bytes_max: 496, .. }
                })
            ),
            "{unsent:?}"
        );
        assert!(other.is_ok(), "{other:?}");
        assert!(session.append("later").await.is_ok());
    });
}

#[test]
fn a_log_that_has_failed_is_not_waited_for_if_it_shall_not() {
    let options = SessionOptions {
        give_up_after: LIMIT * 3,
        wait_for_failed_log: false,
        ..options()
    };
    with(Supports::Batches, options, |session, fake| async move {
        fake.state().refuse = Some((u32::MAX, Code::LogFailed));
        let outcome = session.append("lost").await;
        assert!(
            matches!(
                &outcome,
                Err(AppendError::Unknown { why }) if why.code() == Some(Code::LogFailed)
            ),
            "{outcome:?}"
        );
        fake.state().refuse = None;
        assert_eq!(session.append("later").await.unwrap(), 1);
        // Nor if it is known from the hello.
        fake.state().refuse_hellos = Some((u32::MAX, Code::LogFailed));
        let client = session.link.client().await.unwrap();
        client.abandon(ClientError::Closed);
        let outcome = session.append("lost as well").await;
        assert!(
            matches!(&outcome, Err(error) if error.why().code() == Some(Code::LogFailed)),
            "{outcome:?}"
        );
    });
}

/// Others fail for good; this one comes back by itself.
#[test]
fn a_log_that_is_away_is_waited_for_also_by_who_waits_for_no_failed_one() {
    let options = SessionOptions {
        give_up_after: LIMIT * 3,
        wait_for_failed_log: false,
        ..options()
    };
    for code in [Code::LogFailedBefore, Code::LogFailed] {
        with(Supports::Singles, options, |session, fake| async move {
            fake.change(|state| {
                state.refuse = Some((2, code));
                state.is_away = true;
            });
            let mut trouble = session.trouble();
            let pending = session.submit("waits").await.unwrap();
            let said = trouble.wait_for(Option::is_some).await.unwrap().clone();
            assert!(
                matches!(said, Some(ClientError::LogAway { code: said, .. }) if said == code),
                "{said:?}"
            );
            assert_eq!(pending.await.unwrap(), 1);
            assert!(session.trouble().borrow().is_none(), "it is over");
            assert_eq!(fake.state().records, ["waits"]);
        });
    }
}

/// Nobody appends any more, so no answer to that says that it is over.
#[test]
fn a_session_that_has_nothing_to_send_sees_that_a_log_is_back() {
    with(Supports::Singles, options(), |session, fake| async move {
        fake.change(|state| {
            state.refuse = Some((u32::MAX, Code::LogFailedBefore));
            state.is_away = true;
        });
        let mut trouble = session.trouble();
        let pending = session.submit("given up").await.unwrap();
        let is_away =
            |trouble: &Option<ClientError>| matches!(trouble, Some(ClientError::LogAway { .. }));
        trouble.wait_for(is_away).await.unwrap();
        session.give_up().await;
        pending.await.unwrap_err();
        // It is asked again at least once before the log is back.
        let asked = async {
            while fake.state().asked_whether_well == 0 {
                evenkeel::time::sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(LIMIT / 2, asked).await.expect("a question");
        assert!(is_away(&trouble.borrow()), "it is away");
        fake.change(|state| {
            state.refuse = None;
            state.is_away = false;
        });
        let over = trouble.wait_for(Option::is_none);
        timeout(LIMIT / 2, over).await.expect("an end").unwrap();
    });
}

/// It comes while the session has nothing to send, and there is nothing before it.
#[test]
fn a_session_that_never_sent_anything_sees_that_its_server_is_back() {
    with(Supports::Batches, options(), |session, fake| async move {
        let mut trouble = session.trouble();
        // By then the session waits for records.
        evenkeel::time::sleep(Duration::from_millis(50)).await;
        fake.change(|state| state.refuse_hellos = Some((1, Code::Busy)));
        session.connect().await.unwrap_err();
        assert!(trouble.borrow_and_update().is_some());
        let over = trouble.wait_for(Option::is_none);
        timeout(LIMIT / 2, over).await.expect("an end").unwrap();
    });
}

#[test]
fn what_a_failed_log_did_not_take_is_surely_not_stored_unless_it_was_sent_before() {
    with(Supports::Batches, options(), |session, fake| async move {
        // It is tried on, and there is no other connection until it is given up.
        session.connect().await.unwrap();
        let mut trouble = session.trouble();
        fake.change(|state| {
            state.refuse = Some((u32::MAX, Code::LogFailedBefore));
            state.refuse_hellos = Some((u32::MAX, Code::Busy));
        });
        let pending = session.submit("refused, and tried on").await.unwrap();
        trouble.wait_for(Option::is_some).await.unwrap();
        session.give_up().await;
        let outcome = pending.await;
        assert!(
            matches!(&outcome, Err(AppendError::NotStored { .. })),
            "{outcome:?}"
        );
        assert_eq!(fake.state().arrived, 1);
    });
    let options = SessionOptions {
        give_up_after: LIMIT * 3,
        wait_for_failed_log: false,
        ..options()
    };
    with(Supports::Batches, options, |session, fake| async move {
        fake.state().refuse = Some((1, Code::LogFailedBefore));
        let outcome = session.append("refused at once").await;
        assert!(
            matches!(&outcome, Err(AppendError::NotStored { .. })),
            "{outcome:?}"
        );
        assert!(fake.state().records.is_empty());
    });
    with(Supports::Batches, options, |session, fake| async move {
        let pending = sent(&session, &fake, true, &[b"sent before".to_vec()]).await;
        fake.state().refuse = Some((u32::MAX, Code::LogFailedBefore));
        cut(&session, &fake).await;
        for appending in pending {
            let outcome = appending.await;
            assert!(
                matches!(&outcome, Err(AppendError::Unknown { .. })),
                "{outcome:?}"
            );
        }
        assert_eq!(fake.state().records, ["sent before"]);
    });
}

#[test]
fn a_log_that_went_back_is_told_to_who_appended_once() {
    with(Supports::Batches, options(), |session, fake| async move {
        let mut told = session.log_change();
        for number in 1..=3 {
            assert_eq!(session.append(format!("{number}")).await.unwrap(), number);
        }
        // As another connection to the same log.
        let before = fake.state().identity;
        cut(&session, &fake).await;
        assert_eq!(session.append("4").await.unwrap(), 4);
        assert!(!told.has_changed().unwrap());
        let now = Identity { epoch: 2, ..before };
        fake.change(|state| {
            state.identity = now;
            state.records.truncate(1);
            state.forget();
        });
        cut(&session, &fake).await;
        assert_eq!(session.append("again").await.unwrap(), 2);
        let change = told.borrow_and_update().expect("it is told");
        assert_eq!((change.before, change.now, change.next), (before, now, 2));
        let said = change.to_string();
        assert!(
            said.contains("epoch 2 now; what was acknowledged from 2 on may be gone"),
            "{said}"
        );
        cut(&session, &fake).await;
        assert_eq!(session.append("later").await.unwrap(), 3);
        assert!(!told.has_changed().unwrap(), "once");
        // A connection without a log, as that of a client whose token was removed.
        fake.change(|state| state.identity = Identity { log: 0, epoch: 0 });
        cut(&session, &fake).await;
        session.append("last").await.unwrap();
        assert!(!told.has_changed().unwrap());
    });
}

#[test]
fn a_server_with_too_many_open_logs_is_asked_again() {
    with(Supports::Batches, options(), |session, fake| async move {
        fake.state().refuse_hellos = Some((3, Code::TooMany));
        assert_eq!(session.append("in the end").await.unwrap(), 1);
        assert!(fake.state().refuse_hellos.is_none());
    });
}

#[test]
fn a_follower_that_is_refused_goes_on_later_and_says_why_it_waits() {
    with(Supports::Batches, options(), |session, fake| async move {
        session.append("one").await.unwrap();
        fake.state().refuse_reads = Some(Code::LogFailed);
        let mut follower = session.follow(ReadFrom::Oldest);
        let mut trouble = follower.trouble();
        tokio::select! {
            read = follower.next() => panic!("it is refused: {read:?}"),
            changed = trouble.changed() => changed.unwrap(),
        }
        let why = trouble.borrow_and_update().clone().unwrap();
        assert_eq!(why.code(), Some(Code::LogFailed));
        fake.state().refuse_reads = None;
        assert_eq!(follower.next().await.unwrap().sequence, 1);
        assert!(trouble.borrow_and_update().is_none());
    });
}
