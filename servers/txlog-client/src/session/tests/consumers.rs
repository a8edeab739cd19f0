//! Consumers: when their places are written.

use super::*;

const NAME: &str = "billing";

/// Where the server has the consumer.
fn at(fake: &Fake) -> Option<u64> {
    fake.state().cursors.get(NAME).map(|cursor| cursor.sequence)
}

fn with_records<F: Future<Output = ()>>(test: impl FnOnce(Session, Fake) -> F) {
    with(Supports::Batches, options(), |session, fake| async move {
        fake.state().records = (0..9).map(|number| Bytes::from(vec![number])).collect();
        test(session, fake).await;
    });
}

/// The server sends three records at a time, so two are there when the first is delivered.
#[test]
fn a_place_is_written_in_time_also_while_records_are_there() {
    with_records(|session, fake| async move {
        let hurried = ConsumerOptions {
            flush_after: Duration::ZERO,
            ..ConsumerOptions::default()
        };
        let mut consumer = session.consume(NAME, hurried).await.unwrap();
        let first = consumer.next().await.unwrap().sequence;
        assert_eq!((first, at(&fake)), (1, None));
        consumer.ack(first).await.unwrap();
        assert_eq!(at(&fake), Some(2));
        drop(consumer);
        let patient = ConsumerOptions {
            flush_after: WHILE,
            ..ConsumerOptions::default()
        };
        let mut consumer = session.consume(NAME, patient).await.unwrap();
        let second = consumer.next().await.unwrap().sequence;
        consumer.ack(second).await.unwrap();
        evenkeel::time::sleep(WHILE).await;
        let third = consumer.next().await.unwrap().sequence;
        assert_eq!((third, at(&fake)), (3, Some(3)));
        consumer.ack(third).await.unwrap();
        evenkeel::time::sleep(WHILE).await;
        let fourth = consumer.try_next().await.unwrap().unwrap().sequence;
        assert_eq!((fourth, at(&fake)), (4, Some(4)));
    });
}

#[test]
fn a_consumer_that_began_at_the_end_goes_on_from_there_though_it_acknowledged_nothing() {
    with_records(|session, fake| async move {
        let options = ConsumerOptions {
            from: ReadFrom::End,
            ..ConsumerOptions::default()
        };
        let consumer = session.consume(NAME, options).await.unwrap();
        assert_eq!(at(&fake), Some(10));
        drop(consumer);
        assert_eq!(session.append("while it is away").await.unwrap(), 10);
        let mut consumer = session.consume(NAME, options).await.unwrap();
        assert_eq!(consumer.next().await.unwrap().sequence, 10);
        drop(consumer);
        let mut consumer = session.consume(NAME, options).await.unwrap();
        assert_eq!(consumer.next().await.unwrap().sequence, 10);
    });
}

#[test]
fn a_consumer_for_which_there_is_no_place_hears_so_at_once() {
    with_records(|session, fake| async move {
        let options = ConsumerOptions::default();
        let mut consumer = session.consume(NAME, options).await.unwrap();
        let first = consumer.next().await.unwrap().sequence;
        consumer.ack(first).await.unwrap();
        // As many cursors as may be: they stay, so it does not pass by itself.
        fake.state().refuse_cursors = Some(Code::TooMany);
        let error = timeout(LIMIT / 2, consumer.flush())
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(error.code(), Some(Code::TooMany));
    });
}
