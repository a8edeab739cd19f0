//! Models of the timers.

use std::task::{Wake, Waker};

use super::Timers;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Condvar, Mutex, thread};

/// Counts its wakes, and tells whether it has been leaked.
///
/// `Wake` is defined on the standard library's `Arc`. Loom does not see that counter, and need not:
/// the models compare it only when all threads but one have ended.
struct Count(AtomicUsize);

impl Count {
    fn new() -> (std::sync::Arc<Self>, Waker) {
        let count = std::sync::Arc::new(Self(AtomicUsize::new(0)));
        (std::sync::Arc::clone(&count), Waker::from(count))
    }

    fn wakes(&self) -> usize {
        // Relaxed: read after the threads that write have been joined.
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Count {
    fn wake(self: std::sync::Arc<Self>) {
        // Relaxed: see `wakes`.
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a worker sleeps on: a call that comes before the sleep ends it at once.
struct Parker {
    called: Mutex<bool>,
    changed: Condvar,
}

impl Parker {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            called: Mutex::new(false),
            changed: Condvar::new(),
        })
    }

    /// Sleeps until called. Time does not pass in a model, so a worker that is not called sleeps
    /// for ever, and loom reports a deadlock.
    fn park(&self) {
        let mut called = self.called.lock();
        while !*called {
            called = self.changed.wait(called);
        }
        *called = false;
    }

    fn unpark(&self) {
        *self.called.lock() = true;
        self.changed.notify_one();
    }
}

fn fire(timers: &Timers, now_tick: u64) -> usize {
    let mut wakers = Vec::new();
    timers.fire(now_tick, &mut wakers);
    let fired = wakers.len();
    wakers.into_iter().for_each(Waker::wake);
    fired
}

/// A worker that sleeps until a late timer, and two threads that add earlier ones.
#[test]
fn no_earlier_deadline_is_slept_past() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let parker = Parker::new();
        timers.insert(100, Waker::noop().clone());

        let insert = |deadline| {
            let (timers, parker) = (Arc::clone(&timers), Arc::clone(&parker));
            thread::spawn(move || {
                let (_, call) = timers.insert(deadline, Waker::noop().clone());
                if call {
                    parker.unpark();
                }
            })
        };
        let threads = [insert(50), insert(20)];

        // The worker may sleep only while tick 20 is unknown to it.
        let mut fired = 0;
        while timers.before_park() != Some(20) {
            parker.park();
            timers.after_park();
            // A stale `next_due` only costs a round of the loop: `before_park` does not read it.
            if timers.next_due() <= 10 {
                fired += fire(&timers, 10);
            }
        }
        timers.after_park();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(fired, 0, "nothing was due at tick 10");
        assert_eq!(fire(&timers, 100), 3);
    });
}

/// Two threads that add earlier timers to one sleep: exactly one of them calls.
#[test]
fn one_sleep_is_called_once() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        assert_eq!(timers.before_park(), None);
        let insert = |deadline| {
            let timers = Arc::clone(&timers);
            thread::spawn(move || timers.insert(deadline, Waker::noop().clone()).1)
        };
        let threads = [insert(50), insert(20)];
        let calls = threads.map(|thread| thread.join().unwrap());
        assert_eq!(calls.iter().filter(|call| **call).count(), 1);
        timers.after_park();
        assert_eq!(timers.before_park(), Some(20));
    });
}

/// A timer moved to an earlier tick while its worker goes to sleep.
#[test]
fn no_earlier_reset_is_slept_past() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let parker = Parker::new();
        let (key, _) = timers.insert(100, Waker::noop().clone());
        let other = {
            let (timers, parker) = (Arc::clone(&timers), Arc::clone(&parker));
            thread::spawn(move || {
                let (_, call) = timers
                    .reschedule(key, 20)
                    .expect("nothing fires before tick 100");
                if call {
                    parker.unpark();
                }
            })
        };
        while timers.before_park() != Some(20) {
            parker.park();
            timers.after_park();
        }
        other.join().unwrap();
        assert_eq!(fire(&timers, 20), 1);
    });
}

/// A timer is cancelled while its worker fires it: one of them has the waker, and only one.
#[test]
fn a_timer_fires_or_is_cancelled() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (count, waker) = Count::new();
        let (key, _) = timers.insert(10, waker);
        let canceller = {
            let timers = Arc::clone(&timers);
            thread::spawn(move || timers.cancel(key))
        };
        let fired = fire(&timers, 10);
        let cancelled = canceller.join().unwrap();
        assert_eq!(fired + usize::from(cancelled), 1);
        assert_eq!(count.wakes(), fired);
        assert_eq!(timers.next_due(), u64::MAX);
        assert_eq!(
            std::sync::Arc::strong_count(&count),
            1,
            "the waker is leaked"
        );
    });
}

/// A timer's waker is replaced while its worker fires it: either the replaced one is woken, and the
/// caller learns that it came too late, or the new one.
#[test]
fn a_replaced_waker_is_woken_or_the_caller_knows() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (old, old_waker) = Count::new();
        let (new, new_waker) = Count::new();
        let (key, _) = timers.insert(10, old_waker);
        let updater = {
            let timers = Arc::clone(&timers);
            thread::spawn(move || timers.update_waker(key, &new_waker))
        };
        assert_eq!(fire(&timers, 10), 1);
        let replaced = updater.join().unwrap();
        assert_eq!(
            (old.wakes(), new.wakes()),
            if replaced { (0, 1) } else { (1, 0) }
        );
        for count in [old, new] {
            assert_eq!(std::sync::Arc::strong_count(&count), 1, "a waker is leaked");
        }
    });
}

/// A timer is moved to a later tick while its worker fires it: it fires once in all.
#[test]
fn a_moved_timer_fires_once() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (count, waker) = Count::new();
        let (key, _) = timers.insert(10, waker);
        let mover = {
            let timers = Arc::clone(&timers);
            thread::spawn(move || timers.reschedule(key, 20).is_some())
        };
        let fired = fire(&timers, 10);
        let moved = mover.join().unwrap();
        assert_eq!(fired, usize::from(!moved));
        assert_eq!(fire(&timers, 20), usize::from(moved));
        assert_eq!(count.wakes(), 1);
        assert_eq!(
            std::sync::Arc::strong_count(&count),
            1,
            "the waker is leaked"
        );
    });
}

/// Timers are closed while one is added and another cancelled: no waker stays behind.
#[test]
fn closing_leaks_no_waker() {
    loom::model(|| {
        let timers = Arc::new(Timers::new());
        let (first, first_waker) = Count::new();
        let (second, second_waker) = Count::new();
        let (key, _) = timers.insert(10, first_waker);
        let other = {
            let timers = Arc::clone(&timers);
            thread::spawn(move || {
                timers.insert(20, second_waker);
                timers.cancel(key)
            })
        };
        let mut wakers = Vec::new();
        timers.close(&mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        let cancelled = other.join().unwrap();
        assert_eq!(first.wakes(), usize::from(!cancelled));
        assert!(second.wakes() <= 1);
        assert_eq!(timers.len(), 0);
        for count in [first, second] {
            assert_eq!(std::sync::Arc::strong_count(&count), 1, "a waker is leaked");
        }
    });
}
