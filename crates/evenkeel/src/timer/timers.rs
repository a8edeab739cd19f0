//! The timers of one worker: a wheel of wakers, and the protocol by which the worker may sleep. Its
//! sweep, whose entries are descriptors, is another wheel under the same protocol.
//!
//! Tasks on any thread add, change and cancel timers; the thread in the worker's seat fires them.
//! Each operation holds the lock for a bounded number of steps, except [`close`](Timers::close),
//! the last one, which takes time in proportion to the timers.
//!
//! # Many timers at once
//!
//! [`fire`](Timers::fire) fires a limited number of timers, and leaves the rest for the next call.
//! While some are left, [`next_due`](Timers::next_due) and [`before_park`](Timers::before_park)
//! return a tick that has passed: the worker may check I/O and run tasks in between, but does not
//! sleep. [`is_behind`](Timers::is_behind) reports this without reading the clock.
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
//! The worker announces under the lock until when it sleeps, and a thread that inserts an earlier
//! deadline sees this under the same lock. So there are only two cases: either the insertion comes
//! first, and the worker includes it in its sleep; or the announcement comes first, and the
//! insertion returns `true`: the caller unparks the worker. This happens once, however many earlier
//! deadlines follow, as the worker computes its sleep anew.
//!
//! `next_due` is written under the lock, and `Relaxed`: it only tells whether a look at the wheel,
//! under the lock, is worth it.
//!
//! # Wakers run no code under the lock
//!
//! The clone, wake and drop of a waker may run any code, such as dropping a future that holds a
//! `Sleep`, which cancels its timer here. So wakers are moved in and out under the lock, but
//! cloned, woken and dropped outside it.

use std::task::Waker;

pub(crate) use super::wheel::Key;
use super::wheel::Wheel;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The most steps of one `fire`: 512 timers fired, or four times as many placed anew for later
/// ticks. That takes about 25 us, a quarter of the default bound between two I/O checks, so that a
/// worker with any number of due timers goes on with its tasks.
const STEPS_MAX: usize = 2048;

pub(crate) struct Timers<T = Waker> {
    /// `Wheel::next_deadline`, or `u64::MAX` for an empty wheel, or 0 if entries are due. Written
    /// under the lock.
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
    /// The tick until which the worker sleeps. `None` while it is awake or has been called.
    asleep_until: Option<u64>,
    /// Set by `close`: no timer is taken any more, as none would fire.
    closed: bool,
}

impl<T> Timers<T> {
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

    /// Adds a timer, whose `value`, a waker, is handed out by the first [`fire`](Self::fire) at
    /// `deadline_tick` or later. If the returned flag is set, the worker sleeps past the deadline
    /// and the caller has to unpark it.
    ///
    /// Once closed, drops the waker and returns a stale key.
    pub(crate) fn insert(&self, deadline_tick: u64, value: T) -> (Key, bool) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            return (Key::STALE, false);
        }
        self.insert_locked(&mut state, deadline_tick, value)
    }

    /// Moves a timer to another deadline, earlier or later, and keeps its waker. `None` if it has
    /// fired or was cancelled; otherwise as [`insert`](Self::insert), and the old key is stale.
    pub(crate) fn reschedule(&self, key: Key, deadline_tick: u64) -> Option<(Key, bool)> {
        let mut state = self.state.lock();
        let waker = state.wheel.cancel(key)?;
        Some(self.insert_locked(&mut state, deadline_tick, waker))
    }

    /// Removes a timer. Returns true if it has not fired, and never will.
    pub(crate) fn cancel(&self, key: Key) -> bool {
        let mut state = self.state.lock();
        let waker = state.wheel.cancel(key);
        self.publish(&state.wheel);
        drop(state);
        waker.is_some()
    }

    /// Moves the wakers of timers due at `now_tick` to `wakers`, in the order of their ticks, for
    /// the caller to wake. Returns whether these were all; if not, the next call goes on.
    pub(crate) fn fire(&self, now_tick: u64, wakers: &mut Vec<T>) -> bool {
        let mut state = self.state.lock();
        let all = state
            .wheel
            .advance(now_tick, STEPS_MAX, &mut |waker| wakers.push(waker));
        self.publish(&state.wheel);
        all
    }

    /// Announces that the worker goes to sleep. Returns until which tick it may: `None` means until
    /// it is called, and a tick that has passed means not at all.
    ///
    /// The tick may be that of a cancelled timer. Then `fire` at that tick moves no waker, and the
    /// next call returns a later one.
    pub(crate) fn before_park(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let next = state.wheel.next_deadline();
        state.asleep_until = Some(next.unwrap_or(u64::MAX));
        next
    }

    /// Withdraws the announcement: the worker is awake.
    pub(crate) fn after_park(&self) {
        self.state.lock().asleep_until = None;
    }

    /// The tick at which [`fire`](Self::fire) is worth a call, read without the lock: `u64::MAX`
    /// without timers, and 0 while some are due.
    ///
    /// It may lag behind another thread's insertion, which delays a busy worker by one round of its
    /// loop. A worker that goes to sleep calls [`before_park`](Self::before_park).
    pub(crate) fn next_due(&self) -> u64 {
        // Relaxed: see the module.
        self.next_due.load(Ordering::Relaxed)
    }

    /// Whether timers are known to be due: a hint that needs neither the lock nor the clock.
    pub(crate) fn is_behind(&self) -> bool {
        self.next_due() == 0
    }

    /// Moves all wakers to `wakers`, for the caller to wake, and takes no timer from now on. The
    /// woken futures find that their timers are gone.
    pub(crate) fn close(&self, wakers: &mut Vec<T>) {
        let mut state = self.state.lock();
        state.closed = true;
        wakers.extend(state.wheel.drain());
        debug_assert_eq!(state.wheel.len(), 0);
        self.publish(&state.wheel);
    }

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
            // The worker is called by this caller, so nobody else has to.
            state.asleep_until = None;
        }
        // Entries that are due may be at an earlier tick, but then the worker has passed it.
        let next = state
            .wheel
            .next_deadline()
            .filter(|_| !state.wheel.has_due());
        debug_assert!(
            next.is_none_or(|next| state.asleep_until.is_none_or(|until| until <= next)),
            "the worker sleeps past its next timer"
        );
        (key, call)
    }

    /// Stores the next deadline. The caller holds the lock.
    fn publish(&self, wheel: &Wheel<T>) {
        let next = if wheel.has_due() {
            0
        } else {
            wheel.next_deadline().unwrap_or(u64::MAX)
        };
        // Relaxed: see the module. The comparison keeps the cache line shared if nothing changes.
        if self.next_due.load(Ordering::Relaxed) != next {
            self.next_due.store(next, Ordering::Relaxed);
        }
    }
}

impl Timers {
    /// Replaces a timer's waker, unless it wakes the same task already. Returns false if the timer
    /// has fired or was cancelled.
    pub(crate) fn update_waker(&self, key: Key, waker: &Waker) -> bool {
        match self.state.lock().wheel.get_mut(key) {
            None => return false,
            Some(current) if current.will_wake(waker) => return true,
            Some(_) => {}
        }
        // The clone may run any code, so it is made outside the lock.
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
mod models;

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
