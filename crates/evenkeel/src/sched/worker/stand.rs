//! A worker without work whose clock stands: when all wait, the clock jumps to the next timer.

use crate::counters::accounts::{CheckOrigin, State};
use crate::io::readiness::wake_all;

use super::Worker;

impl Worker {
    /// Makes time pass if the clock stands and all wait. Returns whether there may be work now.
    ///
    /// Work that another thread has made is seen in this order: first that nobody else can run, and
    /// then that nothing is queued. Who has pushed counted as able to run until after the push. The
    /// clock moves only after the descriptors and timers that are due now have been looked at and
    /// have woken nobody.
    pub(super) fn passes_time(&self) -> bool {
        let Some(pausable) = self.clock().pausable() else {
            return false;
        };
        if !pausable.is_lull() || self.shared.has_injected() || self.shared.is_stopping() {
            return false;
        }
        let seat = self.seat();
        self.mark(State::Steal, State::Check);
        let found = self.check(seat, CheckOrigin::Idle) | self.fire_timers(seat) | self.sweep(seat);
        let moved = found || self.passes_lull();
        self.mark(State::Check, State::Steal);
        moved
    }

    /// All wait. Wakes those who waited for that; if there is nobody, the clock jumps.
    fn passes_lull(&self) -> bool {
        let seat = self.seat();
        let Some(pausable) = self.clock().pausable() else {
            return false;
        };
        let mut waiters = pausable.note_lull();
        if !waiters.is_empty() {
            wake_all(&mut waiters);
            return true;
        }
        let next = seat.timers.next_due().min(seat.driver.sweep_due());
        if next == u64::MAX {
            return false;
        }
        self.clock().jump_to_tick(next);
        self.fire_timers(seat);
        self.sweep(seat);
        true
    }
}
