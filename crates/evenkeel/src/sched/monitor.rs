//! The monitor: a thread that sees to it that a poll which does not return keeps nothing but its
//! worker.
//!
//! A worker that is kept can neither wake anybody for what waits at its seat, nor find what was
//! left to it while it seemed to be about to look. The others may all be asleep by then. So the
//! monitor looks at the workers from time to time, and if one is kept and something waits that
//! another could do, wakes one of those that sleep; it finds the rest by searching as always.
//!
//! It runs nothing of the user's. While no worker is awake it sleeps as well, until one wakes:
//! `Idle::monitor_may_sleep` and `Idle::rouses_monitor` say how none is overlooked.

use std::time::Duration;

use crate::sync::{Condvar, Mutex};

use super::shared::{Seat, Shared};

/// How long a poll has to go on before its worker counts as kept.
const KEPT: Duration = Duration::from_millis(1);
/// How often the monitor looks while workers are awake. One look reads a few words for each worker.
const LOOK: Duration = Duration::from_millis(5);
/// How often it looks while a worker is kept: so late may an event for that worker's seat be.
const LOOK_AT_KEPT: Duration = Duration::from_millis(1);

/// Where the monitor waits.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    roused: Mutex<bool>,
    changed: Condvar,
}

impl Monitor {
    /// Ends the monitor's sleep, or its next one.
    #[cold]
    pub(crate) fn rouse(&self) {
        *self.roused.lock() = true;
        self.changed.notify_one();
    }

    fn pause(&self, length: Duration) {
        let roused = self.roused.lock();
        if !*roused {
            drop(self.changed.wait_timeout(roused, length));
        }
    }

    fn sleep(&self) {
        let mut roused = self.roused.lock();
        while !*roused {
            roused = self.changed.wait(roused);
        }
    }

    fn begin_look(&self) {
        *self.roused.lock() = false;
    }

    /// Watches the workers until the runtime stops.
    pub(crate) fn run(&self, shared: &Shared) {
        let mut parks_before = 0;
        while !shared.is_stopping() {
            self.begin_look();
            let kept = shared.seats.iter().any(|seat| is_kept(shared, seat));
            if kept && shared.has_mail() | shared.seats.iter().any(|seat| wants_help(shared, seat))
            {
                shared.wake_one();
            }
            // Workers that were awake in between are likely to be so again soon, and would have to
            // rouse the monitor each time.
            let parks = shared
                .seats
                .iter()
                .map(|seat| seat.accounts.parks.load())
                .sum();
            let at_rest = parks == parks_before;
            parks_before = parks;
            if at_rest && shared.idle.monitor_may_sleep() && !shared.is_stopping() {
                self.sleep();
            } else {
                self.pause(if kept { LOOK_AT_KEPT } else { LOOK });
            }
        }
    }
}

/// Whether the worker in a seat has been at one poll for long.
fn is_kept(shared: &Shared, seat: &Seat) -> bool {
    let since = seat.polling_since.load();
    let limit = shared.clock.cycles_of(KEPT);
    since != 0 && shared.clock.cycles().saturating_sub(since) >= limit
}

/// Whether something may wait at the seat of a worker that is kept, which another could do.
fn wants_help(shared: &Shared, seat: &Seat) -> bool {
    is_kept(shared, seat)
        && (!seat.lines.is_empty()
            || seat.has_next()
            || seat.driver.has_descriptors()
            || seat.timers.next_due() <= shared.clock.tick())
}
