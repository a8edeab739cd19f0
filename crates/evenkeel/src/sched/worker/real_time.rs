//! A worker's real-time priority, if it is configured: the worker has it while it answers events,
//! or only while hogs compute beside it, and gives it up when it stays busy. A busy worker with
//! this priority would hold up every ordinary thread of the machine, the kernel's own network
//! threads among them.

use std::cell::Cell;
use std::time::Duration;

use crate::clock::Clock;
use crate::defaults::REAL_TIME_BOUT;
use crate::sched::config::RealTime as Wanted;
use crate::sched::desk::Desk;
use crate::sched::heavy_pool::HeavyPool;
use crate::sys::thread;

/// For how long workers keep it when no hog computes any more. Requests that compute come in
/// bursts, and to take it and give it up costs a system call each.
const LATELY: Duration = Duration::from_millis(100);

/// See the module's documentation. The desk records whether the thread has the priority.
pub(super) struct RealTime {
    wanted: Wanted,
    /// When this worker last woke from a sleep, and when it last gave up the priority; in cycles.
    awake_since: Cell<u64>,
    given_up_at: Cell<Option<u64>>,
    /// How often its thread had slept when it last woke.
    sleeps: Cell<u64>,
    bout: u64,
    lately: u64,
}

impl RealTime {
    pub(super) fn new(wanted: Wanted, clock: &Clock) -> Self {
        Self {
            wanted,
            awake_since: Cell::new(0),
            given_up_at: Cell::new(None),
            sleeps: Cell::new(0),
            bout: clock.cycles_of(REAL_TIME_BOUT),
            lately: clock.cycles_of(LATELY),
        }
    }

    /// The worker goes to sleep, and is to wake with the priority. If events keep it from sleeping,
    /// it has to give the priority up at once, so this is not done too often.
    #[inline]
    pub(super) fn before_sleep(&self, desk: &Desk, pool: &HeavyPool, now: u64) {
        if !self.wanted.is_ever() {
            return;
        }
        let computed_lately = || now.saturating_sub(pool.computed_at()) < self.lately;
        let wanted = self.wanted.always || computed_lately();
        let given_up_lately = |at: u64| now.saturating_sub(at) < self.bout;
        if wanted && !desk.is_real_time() && !self.given_up_at.get().is_some_and(given_up_lately) {
            // If the system no longer allows it, the worker stays an ordinary thread.
            desk.set_real_time(true);
            self.sleeps.set(thread::usage().blocked);
        } else if !wanted && (desk.is_real_time() || desk.is_demoted()) {
            desk.set_real_time(false);
        }
    }

    /// The worker returns from the kernel, where it may not have slept. Then it may not look around
    /// for long either: whoever finds an event each time has no look that is due.
    #[inline]
    pub(super) fn after_sleep(&self, desk: &Desk, now: u64) {
        if !desk.is_real_time() {
            return;
        }
        let sleeps = thread::usage().blocked;
        if self.sleeps.replace(sleeps) == sleeps {
            self.goes_on(desk, now);
        } else {
            self.awake_since.set(now);
        }
    }

    #[inline]
    pub(super) fn goes_on(&self, desk: &Desk, now: u64) {
        if self.wanted.is_ever() && now.saturating_sub(self.awake_since.get()) >= self.bout {
            self.give_up(desk, now);
        }
    }

    /// Gives up the priority: from here on the thread answers no event.
    pub(super) fn give_up(&self, desk: &Desk, now: u64) {
        if desk.is_real_time() {
            desk.set_real_time(false);
            self.given_up_at.set(Some(now));
        }
    }
}
