//! Tests with one thread; `models` has those with several.

use std::task::{Wake, Waker};

use super::{STEPS_MAX, Timers};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};

#[derive(Default)]
struct Count(AtomicUsize);

impl Count {
    fn new() -> (Arc<Self>, Waker) {
        let count = Arc::new(Self::default());
        (Arc::clone(&count), Waker::from(count))
    }

    fn wakes(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn fire(timers: &Timers, now_tick: u64) -> usize {
    let mut wakers = Vec::new();
    timers.fire(now_tick, &mut wakers);
    let fired = wakers.len();
    wakers.into_iter().for_each(Waker::wake);
    fired
}

#[test]
fn fires_at_its_tick_and_not_before() {
    let timers = Timers::new();
    let (count, waker) = Count::new();
    timers.insert(100, waker);
    assert_eq!(timers.next_due(), 100);
    assert_eq!(fire(&timers, 99), 0);
    assert_eq!(fire(&timers, 100), 1);
    assert_eq!(fire(&timers, 200), 0);
    assert_eq!(count.wakes(), 1);
    assert_eq!((timers.next_due(), timers.len()), (u64::MAX, 0));
    assert_eq!(Arc::strong_count(&count), 1, "the waker is gone");
}

#[test]
fn a_worker_with_more_timers_due_than_it_may_fire_at_once_goes_on_and_does_not_sleep() {
    const TIMERS: usize = 2_000;
    let timers = Timers::new();
    let (count, waker) = Count::new();
    (0..TIMERS).for_each(|_| _ = timers.insert(100, waker.clone()));
    timers.insert(200, waker.clone());
    let mut fired = 0;
    while fired < TIMERS {
        assert!(timers.next_due() <= 100, "a busy worker looks again");
        assert!(timers.before_park() <= Some(100), "an idle one stays awake");
        timers.after_park();
        assert!(
            fired == 0 || timers.is_behind(),
            "and need not ask the clock"
        );
        let now = fire(&timers, 100);
        assert!(now <= STEPS_MAX / 4, "{now} timers at once");
        fired += now;
    }
    assert_eq!((fired, count.wakes()), (TIMERS, TIMERS));
    assert!(!timers.is_behind());
    assert_eq!((timers.next_due(), timers.before_park()), (200, Some(200)));
}

#[test]
fn a_sleeping_worker_is_called_once_for_all_earlier_deadlines() {
    let timers = Timers::new();
    let insert = |deadline| timers.insert(deadline, Waker::noop().clone()).1;
    assert!(!insert(100), "the worker is awake");
    assert_eq!(timers.before_park(), Some(100));
    assert!(!insert(101), "later than the worker sleeps");
    assert!(!insert(100), "as late as the worker sleeps");
    assert!(insert(99));
    assert!(!insert(50), "called already");
    timers.after_park();
    assert!(!insert(40), "awake");
    assert_eq!(timers.before_park(), Some(40));
    assert!(insert(39), "asleep again");
}

#[test]
fn a_worker_without_timers_sleeps_until_called() {
    let timers = Timers::new();
    assert_eq!(timers.before_park(), None);
    assert!(timers.insert(u64::MAX - 1, Waker::noop().clone()).1);
    timers.after_park();
    assert_eq!(timers.before_park(), Some(u64::MAX - 1));
}

#[test]
fn rescheduling_keeps_the_waker_and_calls_a_sleeping_worker() {
    let timers = Timers::new();
    let (count, waker) = Count::new();
    let (key, _) = timers.insert(100, waker);
    let (later, call) = timers.reschedule(key, 200).expect("the timer waits");
    assert!(!call);
    assert_eq!(timers.next_due(), 200);
    assert_eq!(timers.before_park(), Some(200));
    let (earlier, call) = timers.reschedule(later, 50).expect("the timer waits");
    assert!(call, "the worker sleeps past the new deadline");
    assert_eq!(timers.reschedule(key, 1), None, "the first key is stale");
    assert_eq!(fire(&timers, 50), 1);
    assert_eq!(count.wakes(), 1);
    assert_eq!(timers.reschedule(earlier, 1), None, "the timer has fired");
}

#[test]
fn the_latest_waker_is_the_one_that_is_woken() {
    let timers = Timers::new();
    let (first, first_waker) = Count::new();
    let (second, second_waker) = Count::new();
    let (key, _) = timers.insert(10, first_waker.clone());
    assert!(timers.update_waker(key, &first_waker));
    assert!(timers.update_waker(key, &second_waker));
    fire(&timers, 10);
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
    assert!(
        !timers.update_waker(key, &first_waker),
        "the timer has fired"
    );
}

#[test]
fn a_cancelled_timer_gives_its_waker_back_at_once() {
    let timers = Timers::new();
    let (count, waker) = Count::new();
    let (key, _) = timers.insert(10, waker);
    assert!(timers.cancel(key));
    assert_eq!(Arc::strong_count(&count), 1);
    assert_eq!(timers.next_due(), u64::MAX);
    assert!(!timers.cancel(key));
    assert_eq!(fire(&timers, 10), 0);
}

#[test]
fn closing_hands_out_every_waker_and_takes_in_no_more() {
    let timers = Timers::new();
    let (count, waker) = Count::new();
    let (key, _) = timers.insert(10, waker.clone());
    timers.insert(u64::MAX, waker.clone());
    let mut wakers = Vec::new();
    timers.close(&mut wakers);
    assert_eq!(wakers.len(), 2);
    assert!(!timers.cancel(key));
    let (stale, call) = timers.insert(5, waker.clone());
    assert!(!call);
    assert!(!timers.update_waker(stale, &waker));
    assert_eq!((timers.len(), timers.next_due()), (0, u64::MAX));
    drop((wakers, waker));
    assert_eq!(Arc::strong_count(&count), 1);
}

/// A waker whose wake and drop call the timers that held it.
struct Reentrant {
    timers: Arc<Timers>,
    visits: Arc<AtomicUsize>,
}

impl Reentrant {
    fn visit(&self) {
        let free = self.timers.state.try_lock().is_some();
        assert!(free, "a waker's code runs under the lock of the timers");
        self.visits.fetch_add(1, Ordering::SeqCst);
    }
}

impl Wake for Reentrant {
    fn wake(self: Arc<Self>) {
        self.visit();
    }
}

impl Drop for Reentrant {
    fn drop(&mut self) {
        self.visit();
    }
}

#[test]
fn no_code_of_a_waker_runs_under_the_lock() {
    let timers = Arc::new(Timers::new());
    let visits = Arc::new(AtomicUsize::new(0));
    let waker = || {
        let (timers, visits) = (Arc::clone(&timers), Arc::clone(&visits));
        Waker::from(Arc::new(Reentrant { timers, visits }))
    };
    let visited = |expected: usize| assert_eq!(visits.swap(0, Ordering::SeqCst), expected);

    let (key, _) = timers.insert(10, waker());
    assert!(timers.update_waker(key, &waker()));
    visited(1);
    let (key, _) = timers.reschedule(key, 20).expect("the timer waits");
    visited(0);
    assert!(timers.cancel(key));
    visited(1);
    assert!(!timers.update_waker(key, &waker()));
    visited(1);
    timers.insert(30, waker());
    assert_eq!(fire(&timers, 30), 1);
    visited(2);
    timers.insert(40, waker());
    let mut wakers = Vec::new();
    timers.close(&mut wakers);
    visited(0);
    drop(wakers);
    visited(1);
    timers.insert(50, waker());
    visited(1);
}
