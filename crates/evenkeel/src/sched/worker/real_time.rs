//! A worker's real-time priority, if it is configured: the worker has it while it answers events,
//! and gives it up when it stays busy. A busy worker with this priority would hold up every
//! ordinary thread of the machine, the kernel's own network threads among them.

use std::cell::Cell;

use crate::clock::Clock;
use crate::defaults::REAL_TIME_BOUT;
use crate::sched::desk::Desk;
use crate::sys::thread;

/// See the module's documentation. The desk records whether the thread has the priority.
#[derive(Default)]
pub(super) struct RealTime {
    wanted: bool,
    /// When this worker last woke from a sleep, and when it last gave up the priority; in cycles.
    awake_since: Cell<u64>,
    given_up_at: Cell<Option<u64>>,
    /// How often its thread had slept when it last woke.
    sleeps: Cell<u64>,
    bout: u64,
}

impl RealTime {
    pub(super) fn new(wanted: bool, clock: &Clock) -> Self {
        Self {
            wanted,
            bout: clock.cycles_of(REAL_TIME_BOUT),
            ..Self::default()
        }
    }

    /// The worker goes to sleep, and is to wake with the priority. If events keep it from sleeping,
    /// it has to give the priority up at once, so this is not done too often.
    #[inline]
    pub(super) fn before_sleep(&self, desk: &Desk, now: u64) {
        let lately = |at: u64| now.saturating_sub(at) < self.bout;
        if self.wanted && !desk.is_real_time() && !self.given_up_at.get().is_some_and(lately) {
            // If the system no longer allows it, the worker stays an ordinary thread.
            desk.set_real_time(true);
        }
    }

    /// The worker returns from the kernel, where it may not have slept. Then it may not look around
    /// for long either: whoever finds an event each time has no look that is due.
    #[inline]
    pub(super) fn after_sleep(&self, desk: &Desk, now: u64) {
        if !self.wanted {
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
        if self.wanted && now.saturating_sub(self.awake_since.get()) >= self.bout {
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
