//! The timers of one worker: a wheel of wakers, and the protocol by which a worker may sleep.
//! A worker's sweep, whose entries are descriptors, is another wheel under the same protocol.
//!
//! Tasks on any thread add, change and cancel timers here; the thread in the worker's seat fires
//! them. Each operation holds the lock for a bounded number of steps, [`close`](Timers::close)
//! excepted, which takes time in proportion to what it moves and is the last.
//!
//! # Many timers at once
//!
//! [`fire`](Timers::fire) moves a limited number of timers, however many are due, and leaves the
//! rest for the next call. While some are left, [`next_due`](Timers::next_due) and
//! [`before_park`](Timers::before_park) name a tick that has passed: the worker may check I/O and
//! run tasks in between, but does not sleep. [`is_behind`](Timers::is_behind) says so without a
//! look at the clock.
//!
//! # Sleeping
//!
//! ```text
//!             before_park                 after_park
//!   awake ─────────────────▶ asleep until t ─────────────▶ awake
//!                              │       ▲
//!        insert at d < t (true)│       │ insert at d >= t (false)
//!                              ▼       │
//!                            called, insert at any d (false) ──── after_park ──▶ awake
//! ```
//!
//! The worker announces under the lock until when it sleeps, and whoever inserts an earlier
//! deadline learns of it under the same lock. So there are two cases and no third: the insertion
//! comes first, and the worker computes its sleep with it; or the announcement comes first, and the
//! insertion returns `true`: the caller calls the worker. It does so once, however many earlier
//! deadlines follow, as the worker computes its sleep anew after each call.
//!
//! # Wakers run no code under the lock
//!
//! A waker is the user's: its clone, wake and drop may do anything, such as dropping a task whose
//! future holds a `Sleep`, which comes back here to cancel. Hence wakers are moved in and out under
//! the lock, but cloned, woken and dropped outside it.

use std::task::Waker;

pub(crate) use super::wheel::Key;
use super::wheel::Wheel;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The steps of one `fire` at most: 512 timers, or four times as many that are sorted for later
/// ticks. That takes about 25 us, a quarter of the default bound between two I/O checks, so that a
/// worker with any number of timers due goes on with its tasks.
const STEPS_MAX: usize = 2048;

/// See the [module](self).
pub(crate) struct Timers<T = Waker> {
    /// What `Wheel::next_deadline` says, `u64::MAX` for an empty wheel, 0 for one with entries that
    /// are due. Written under the lock.
    next_due: AtomicU64,
    state: Mutex<State<T>>,
}

impl<T> std::fmt::Debug for Timers<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Timers")
            .field("next_due", &self.next_due())
            .finish_non_exhaustive()
    }
}

struct State<T> {
    wheel: Wheel<T>,
    /// The tick until which the worker sleeps. `None` while it is awake or called already.
    asleep_until: Option<u64>,
    /// Nobody fires timers any more, so none is taken in.
    closed: bool,
}

impl<T> Timers<T> {
    /// Makes an empty set, whose time begins at tick 0.
    pub(crate) fn new() -> Self {
        Self {
            next_due: AtomicU64::new(u64::MAX),
            state: Mutex::new(State {
                wheel: Wheel::new(),
                asleep_until: None,
                closed: false,
            }),
        }
    }

    /// Has `value`, a waker, handed out by the first [`fire`](Self::fire) at `deadline_tick` or
    /// later. The flag says that the worker sleeps past the deadline, and that the caller has to
    /// unpark it.
    ///
    /// Once closed, nothing is taken in: the key is stale from the start and the waker dropped.
    pub(crate) fn insert(&self, deadline_tick: u64, value: T) -> (Key, bool) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            return (Key::STALE, false);
        }
        self.insert_locked(&mut state, deadline_tick, value)
    }

    /// Moves a timer to another deadline, earlier or later, and keeps its waker. `None` if it
    /// has fired or was cancelled; otherwise as [`insert`](Self::insert), and the old key is stale.
    pub(crate) fn reschedule(&self, key: Key, deadline_tick: u64) -> Option<(Key, bool)> {
        let mut state = self.state.lock();
        let waker = state.wheel.cancel(key)?;
        Some(self.insert_locked(&mut state, deadline_tick, waker))
    }

    /// Removes a timer. `true` if its waker has not been and will not be woken by it.
    pub(crate) fn cancel(&self, key: Key) -> bool {
        let mut state = self.state.lock();
        let waker = state.wheel.cancel(key);
        self.publish(&state.wheel);
        drop(state);
        waker.is_some()
    }

    /// Moves the wakers of timers due at `now_tick` to `wakers`, in the order of their ticks. The
    /// caller wakes them. Returns whether those were all; if not, the next call goes on.
    pub(crate) fn fire(&self, now_tick: u64, wakers: &mut Vec<T>) -> bool {
        let mut state = self.state.lock();
        let all = state
            .wheel
            .advance(now_tick, STEPS_MAX, &mut |waker| wakers.push(waker));
        self.publish(&state.wheel);
        all
    }

    /// Announces that the worker goes to sleep, and says until which tick it may: `None` means
    /// until it is called. A tick that has passed means that it may not sleep at all.
    ///
    /// The tick may be earlier than the next timer's, when that was cancelled; then `fire` at the
    /// tick moves no waker and the next answer is later.
    pub(crate) fn before_park(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let next = state.wheel.next_deadline();
        state.asleep_until = Some(next.unwrap_or(u64::MAX));
        next
    }

    /// Takes the announcement back: the worker is awake, and will look before it sleeps again.
    pub(crate) fn after_park(&self) {
        self.state.lock().asleep_until = None;
    }

    /// The tick at which [`fire`](Self::fire) is worth a call, read without the lock; `u64::MAX`
    /// without timers, and 0 while some are due.
    ///
    /// It may lag behind another thread's insertion, by which a busy worker's next look is late by
    /// one round of its loop. A worker that goes to sleep asks [`before_park`](Self::before_park).
    pub(crate) fn next_due(&self) -> u64 {
        // Relaxed: nothing is read on the strength of this number but the wheel, under its lock.
        self.next_due.load(Ordering::Relaxed)
    }

    /// Whether timers are known to be due now; a hint that needs neither the lock nor the clock.
    pub(crate) fn is_behind(&self) -> bool {
        self.next_due() == 0
    }

    /// Moves all wakers to `wakers` and takes in no timer from now on. The caller wakes them: a
    /// future that waits for its time then finds that nobody keeps it any more.
    pub(crate) fn close(&self, wakers: &mut Vec<T>) {
        let mut state = self.state.lock();
        state.closed = true;
        wakers.extend(state.wheel.drain());
        self.publish(&state.wheel);
    }

    /// How many timers are waiting.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().wheel.len()
    }

    fn insert_locked(&self, state: &mut State<T>, deadline_tick: u64, value: T) -> (Key, bool) {
        let key = state.wheel.insert(deadline_tick, value);
        self.publish(&state.wheel);
        let call = state
            .asleep_until
            .is_some_and(|until| deadline_tick < until);
        if call {
            // The worker will be called, so nobody after this has to call it again.
            state.asleep_until = None;
        }
        (key, call)
    }

    /// Stores the next deadline. The caller holds the lock, which orders the stores.
    fn publish(&self, wheel: &Wheel<T>) {
        let next = if wheel.has_due() {
            0
        } else {
            wheel.next_deadline().unwrap_or(u64::MAX)
        };
        // Relaxed: see `next_due`. The comparison keeps the cache line shared when nothing changes.
        if self.next_due.load(Ordering::Relaxed) != next {
            self.next_due.store(next, Ordering::Relaxed);
        }
    }
}

impl Timers {
    /// Replaces a timer's waker, unless it wakes the same task already. `false` if the timer has
    /// fired or was cancelled.
    pub(crate) fn update_waker(&self, key: Key, waker: &Waker) -> bool {
        match self.state.lock().wheel.get_mut(key) {
            None => return false,
            Some(current) if current.will_wake(waker) => return true,
            Some(_) => {}
        }
        // The clone is the user's code, so it is made between two visits to the lock.
        let mut waker = waker.clone();
        let mut state = self.state.lock();
        let found = state
            .wheel
            .get_mut(key)
            .map(|current| std::mem::swap(current, &mut waker));
        drop(state);
        found.is_some()
    }
}

#[cfg(all(test, evenkeel_loom))]
mod loom_tests;

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
