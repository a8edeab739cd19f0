//! `task_local!`: values that belong to a task.

mod support;

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use evenkeel::runtime::{Builder, Handle};
use evenkeel::task::{JoinSet, yield_now};
use evenkeel::time::sleep;
use support::within;

evenkeel::task_local! {
    /// Documented, and private.
    static NUMBER: u64;
    pub(crate) static LIST: RefCell<Vec<u32>>;
    static TEXT: String
}

// None at all.
evenkeel::task_local! {}

/// The text of a panic.
fn panic_of(body: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(body)).unwrap_err();
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => (*payload.downcast::<&str>().unwrap()).to_owned(),
    }
}

/// Tasks that move: they yield, sleep, and hold their thread until its seat passes to another,
/// which then runs others of them.
#[test]
fn values_stay_with_their_tasks() {
    let runtime = Builder::new().workers(2).build().unwrap();
    runtime.block_on(within(async {
        let mut tasks = JoinSet::new();
        for number in 0..100 {
            let visit = async move {
                for round in 0..4 {
                    assert_eq!(NUMBER.get(), number);
                    match (number + round) % 4 {
                        0 => hold(Duration::from_millis(8)),
                        1 => yield_now().await,
                        2 => sleep(Duration::from_millis(1)).await,
                        _ => NUMBER.scope(number + 1_000, check(number + 1_000)).await,
                    }
                    assert_eq!(NUMBER.get(), number);
                }
            };
            drop(tasks.spawn(NUMBER.scope(number, visit)));
            drop(tasks.spawn(async {
                for _ in 0..10 {
                    assert!(NUMBER.try_get().is_err(), "seen from outside");
                    yield_now().await;
                }
            }));
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
        // One that has lost its worker for certain, or another has before.
        let handed_off = async {
            while Handle::current().stats().heavy.hand_offs == 0 {
                hold(Duration::from_millis(1));
            }
            assert_eq!(NUMBER.get(), 7);
            yield_now().await;
            assert_eq!(NUMBER.get(), 7);
        };
        evenkeel::spawn(NUMBER.scope(7, handed_off)).await.unwrap();
    }));
}

async fn check(number: u64) {
    yield_now().await;
    assert_eq!(NUMBER.get(), number);
}

/// Computes, in one poll.
fn hold(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {}
}

#[evenkeel::test(workers = 1)]
async fn a_spawned_task_does_not_inherit() {
    let spawned = NUMBER.scope(1, async {
        evenkeel::spawn(async { NUMBER.try_get().is_err() })
            .await
            .unwrap()
    });
    assert!(spawned.await);
}

#[evenkeel::test(workers = 1)]
async fn keys_are_apart_and_scopes_nest() {
    let nested = NUMBER.scope(1, async {
        TEXT.scope("a".to_owned(), async {
            assert_eq!((NUMBER.get(), TEXT.get()), (1, "a".to_owned()));
            let inner = NUMBER.sync_scope(2, || (NUMBER.get(), TEXT.get()));
            assert_eq!(inner, (2, "a".to_owned()));
            assert_eq!(NUMBER.get(), 1);
        })
        .await;
        TEXT.try_with(|_| ()).is_err()
    });
    assert!(nested.await);
    assert!(NUMBER.try_get().is_err());
}

#[evenkeel::test(workers = 1)]
async fn the_value_can_be_changed_and_taken() {
    let mut scope = pin!(LIST.scope(RefCell::default(), async {
        LIST.with(|list| list.borrow_mut().push(1));
        yield_now().await;
        LIST.with(|list| list.borrow_mut().push(2));
    }));
    scope.as_mut().await;
    let list = scope.as_mut().take_value().unwrap();
    assert_eq!(list.into_inner(), [1, 2]);
    assert!(scope.take_value().is_none());
}

/// Looks for its value when it is dropped.
struct Sees<'a>(&'a Cell<Option<u64>>);

impl Drop for Sees<'_> {
    fn drop(&mut self) {
        self.0.set(NUMBER.try_get().ok());
    }
}

#[test]
fn a_future_has_its_value_until_it_is_dropped() {
    let mut nobody = Context::from_waker(Waker::noop());
    let seen = Cell::new(None);

    // Dropped before its first poll, and in the middle.
    for polls in 0..2 {
        seen.set(None);
        let sees = Sees(&seen);
        let mut scope = Box::pin(NUMBER.scope(3, async {
            let _sees = sees;
            pending::<()>().await;
        }));
        for _ in 0..polls {
            assert!(scope.as_mut().poll(&mut nobody).is_pending());
        }
        drop(scope);
        assert_eq!(seen.get(), Some(3), "after {polls} polls");
    }

    // A future whose end does not drop all that it holds.
    seen.set(None);
    let sees = Sees(&seen);
    let mut scope = pin!(NUMBER.scope(
        4,
        poll_fn(move |_| {
            let _sees = &sees;
            Poll::Ready(())
        })
    ));
    assert!(scope.as_mut().poll(&mut nobody).is_ready());
    assert_eq!(seen.get(), Some(4));
    assert!(NUMBER.try_get().is_err());
}

#[test]
fn a_panic_leaves_no_value_behind() {
    let text = panic_of(|| NUMBER.sync_scope(1, || panic!("of the user's")));
    assert_eq!(text, "of the user's");
    assert!(NUMBER.try_get().is_err());

    let mut nobody = Context::from_waker(Waker::noop());
    let mut scope = pin!(NUMBER.scope(2, async { panic!("of the user's") }));
    panic_of(|| {
        let _: Poll<()> = scope.as_mut().poll(&mut nobody);
    });
    assert!(NUMBER.try_get().is_err());
    assert_eq!(scope.take_value(), Some(2));
}

#[test]
fn mistakes_are_told_what_is_wrong() {
    let text = panic_of(|| _ = NUMBER.get());
    assert!(text.contains("`NUMBER` has no value here"), "{text}");
    let error = TEXT.try_get().unwrap_err();
    assert!(
        format!("{error:?}").contains("`TEXT.scope(value, future)`"),
        "{error}"
    );

    let text = panic_of(|| {
        NUMBER.sync_scope(1, || NUMBER.with(|_| NUMBER.sync_scope(2, || ())));
    });
    assert!(text.contains("inside `NUMBER.with`"), "{text}");
    assert!(NUMBER.try_get().is_err());

    let mut nobody = Context::from_waker(Waker::noop());
    let mut scope = pin!(NUMBER.scope(1, async {}));
    assert!(scope.as_mut().poll(&mut nobody).is_ready());
    let text = panic_of(|| _ = scope.as_mut().poll(&mut nobody));
    assert!(text.contains("after its end"), "{text}");

    // What was taken is gone, also for the future.
    let mut scope = pin!(NUMBER.scope(1, async { NUMBER.try_get().is_err() }));
    assert_eq!(scope.as_mut().take_value(), Some(1));
    assert_eq!(scope.as_mut().poll(&mut nobody), Poll::Ready(true));
}

#[test]
fn an_aborted_task_drops_its_value_once() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, SeqCst);
        }
    }
    evenkeel::task_local! {
        static COUNTED: Counted;
    }
    let runtime = Builder::new().workers(1).build().unwrap();
    runtime.block_on(within(async {
        for polled in [false, true] {
            ALIVE.fetch_add(1, SeqCst);
            let task = evenkeel::spawn(COUNTED.scope(Counted, pending::<()>()));
            if polled {
                sleep(Duration::from_millis(2)).await;
            }
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
            assert_eq!(ALIVE.load(SeqCst), 0);
        }
    }));
}
