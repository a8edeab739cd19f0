//! Records that NATS stores only under a number, and those that come again when NATS has forgotten
//! them. Needs `nats-server`; without it, the tests say so and pass.

use std::time::Duration;

use crate::support::all_of;
use crate::support::nats::{Nats, run};
use evenkeel::time::sleep;
use txlog::log::{Batch, Stored};
use txlog::nats::NatsStore;
use txlog::store::{Store, StoreError};
use txlog_client::frame::{Code, Produced};

fn batch(record: &str) -> Batch {
    Batch::new([record].iter().collect())
}

fn produced(producer: u128, number: u64) -> Option<Produced> {
    Some(Produced { producer, number })
}

async fn append(store: &NatsStore, batch: Batch) -> Result<Stored, StoreError> {
    store.submit_batch(batch).await?.await
}

/// The log's next number, of who expected another one.
fn next_of(refused: Result<Stored, StoreError>) -> u64 {
    let error = refused.unwrap_err();
    assert_eq!(error.code, Code::NotExpected, "{error}");
    error.numbers.unwrap()[0]
}

#[test]
fn a_record_is_stored_only_under_the_number_that_it_expects() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let store = NatsStore::connect(nats.config()).await.unwrap();
        let first = append(&store, batch("one").expecting(Some(1))).await;
        assert_eq!(first.unwrap().first, 1);
        for not_next in [0, 1, 3, u64::MAX] {
            let refused = append(&store, batch("no").expecting(Some(not_next))).await;
            assert_eq!(next_of(refused), 2, "{not_next}");
        }
        // It comes behind what is under way.
        let pending = store.submit("two".into()).await.unwrap();
        let behind = append(&store, batch("three").expecting(Some(3))).await;
        assert_eq!(behind.unwrap().first, 3);
        assert_eq!(pending.await.unwrap(), 2);
        // One that is sent again is known before its number is looked at.
        for repeated in [false, true] {
            let one = batch("four").of(produced(7, 0)).expecting(Some(4));
            let stored = append(&store, one).await.unwrap();
            assert_eq!((stored.first, stored.repeated), (4, repeated));
        }
        assert_eq!(all_of(&store).await.len(), 4);
    });
}

#[test]
fn of_several_that_expect_the_same_number_one_is_stored() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let one = NatsStore::connect(nats.config()).await.unwrap();
        let other = NatsStore::connect(nats.config()).await.unwrap();
        for number in 1..=50 {
            let expecting = || batch("a record").expecting(Some(number));
            let both = tokio::join!(append(&one, expecting()), append(&other, expecting()));
            let (stored, refused) = match both {
                (Ok(stored), refused) | (refused, Ok(stored)) => (stored, refused),
                neither => panic!("{neither:?}"),
            };
            assert_eq!(stored.first, number);
            assert_eq!(next_of(refused), number + 1);
        }
        other.maintain().await.unwrap();
        assert_eq!(all_of(&other).await.len(), 50);
    });
}

/// From now on NATS knows message ids for so long.
fn set_window(nats: &Nats, window: Duration) {
    let settings = format!(
        "{{\"name\":\"txlog\",\"subjects\":[\"txlog.txlog\"],\"allow_direct\":true,\
        \"storage\":\"file\",\"duplicate_window\":{}}}",
        window.as_nanos()
    );
    nats.tool().ask("STREAM.UPDATE.txlog", &settings);
}

/// Lets NATS forget what it has: the window is shorter from now on.
async fn forget(nats: &Nats) {
    set_window(nats, Duration::from_millis(100));
    let id = "Nats-Msg-Id: probe";
    // It is stored twice as soon as NATS has forgotten the first one.
    let mut tool = nats.tool();
    tool.publish_with("txlog.txlog", id, "probe");
    while tool
        .publish_with("txlog.txlog", id, "probe")
        .contains("\"duplicate\"")
    {
        sleep(Duration::from_millis(20)).await;
    }
}

#[test]
fn what_a_producer_repeats_when_nats_has_forgotten_it_is_not_stored_twice() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let store = NatsStore::connect(nats.config()).await.unwrap();
        let again = |number, from| {
            batch("again")
                .of(produced(7, number))
                .not_before(Some(from))
        };
        for number in 0..3 {
            let stored = append(&store, batch("once").of(produced(7, number))).await;
            assert_eq!(stored.unwrap().first, number + 1);
        }
        // NATS knows it, and so it is sent.
        let stored = append(&store, again(1, 1)).await.unwrap();
        assert_eq!((stored.first, stored.repeated), (2, true));
        // As after a restart of the server, which has seen none of them.
        let late = NatsStore::connect(nats.config()).await.unwrap();
        forget(&nats).await;
        for number in 0..3 {
            let stored = append(&late, again(number, 1)).await.unwrap();
            assert_eq!((stored.first, stored.repeated), (number + 1, true));
        }
        // The first store knows that NATS knew it for longer, and sees that this is so no more.
        // (To be sent, it would have to wait for a longer window.)
        store.maintain().await.unwrap();
        let stored = append(&store, again(1, 1)).await.unwrap();
        assert_eq!((stored.first, stored.repeated), (2, true));
        // A record that is gone may have been the one.
        nats.delete("txlog", [2]);
        let error = append(&late, again(1, 1)).await.unwrap_err();
        assert_eq!(error.code, Code::ProducerUnknown, "{error}");
        late.maintain().await.unwrap();
        let records = all_of(&late).await;
        let of = |payload: &str| {
            let those = records.iter().filter(|record| record.payload == payload);
            those.count()
        };
        assert_eq!((of("once"), of("again")), (2, 0));
    });
}

/// Who mends a window that is too short makes it longer.
#[test]
fn nats_does_not_learn_again_what_it_has_forgotten_when_its_window_is_longer_again() {
    let directory = tempfile::tempdir().unwrap();
    let Some(nats) = Nats::start(directory.path()) else {
        return;
    };
    run(async {
        let store = NatsStore::connect(nats.config()).await.unwrap();
        let first = append(&store, batch("once").of(produced(7, 0))).await;
        assert_eq!(first.unwrap().first, 1);
        forget(&nats).await;
        store.maintain().await.unwrap();
        set_window(&nats, Duration::from_secs(120));
        store.maintain().await.unwrap();
        let again = batch("again").of(produced(7, 0)).not_before(Some(1));
        let stored = append(&store, again).await.unwrap();
        assert_eq!((stored.first, stored.repeated), (1, true));
        let records = all_of(&store).await;
        assert!(records.iter().all(|record| record.payload != "again"));
    });
}
