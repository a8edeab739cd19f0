//! Lending the processor to the heavy pool, when the class that is next has its work there.

use std::cell::Cell;
use std::time::Duration;

use crate::class::Class;
use crate::counters::accounts::State;
use crate::sched::shares::Choice;

use super::Worker;

/// How long a worker lends its processor before it looks again.
const LEND: Duration = Duration::from_millis(1);
/// How often it lends in a row. If another process keeps the pool's threads from running, nobody
/// uses the lent time; so the worker does some work of its own in between.
const LENDS_MAX: u32 = 10;

/// How often in a row the pool's lock has to be taken before a worker lends without having it:
/// others hold it for some microseconds at a time.
const LOCKED: u32 = 3;

#[derive(Default)]
pub(super) struct Lending {
    /// The class that is next, if it has its work in the heavy pool.
    due: Cell<Option<Class>>,
    in_a_row: Cell<u32>,
    /// How often in a row the pool's lock was taken.
    locked: Cell<u32>,
}

impl Lending {
    pub(super) fn ask(&self, class: Class) {
        self.due.set(Some(class));
    }

    pub(super) fn asked(&self) -> Option<Class> {
        self.due.take()
    }

    /// The worker has worked in between.
    pub(super) fn begin_anew(&self) {
        self.in_a_row.set(0);
    }

    /// Counts whether the pool's lock was taken. Returns whether it was so often that its holder
    /// may be a thread that the kernel has not scheduled for long.
    fn is_locked_out(&self, is_locked: bool) -> bool {
        let times = if is_locked { self.locked.get() + 1 } else { 0 };
        self.locked.set(times % LOCKED);
        times == LOCKED
    }

    /// Counts one more time. Returns whether it is the last in a row.
    fn count(&self) -> bool {
        let in_a_row = self.in_a_row.get() + 1;
        debug_assert!(in_a_row <= LENDS_MAX);
        let enough = in_a_row >= LENDS_MAX;
        self.in_a_row.set(if enough { 0 } else { in_a_row });
        enough
    }
}

impl Worker {
    /// Sleeps for a moment, so that the heavy pool gets the processor for a class. Events end the
    /// sleep early. Not if the class is not owed time any more when what it got meanwhile is
    /// charged, which mostly comes late: another processor may serve it.
    pub(super) fn lend(&self, class: Class) {
        let shared = &self.shared;
        let pool = &shared.heavy_pool;
        let is_settled = pool.bring_up_to_date(&shared.ledger, &shared.desks, class);
        self.exchange();
        let is_locked_out = self.lending.is_locked_out(is_settled.is_none());
        let is_next = self.shares.borrow().first() == Some(Choice::HeavyPool(class));
        if !is_next || !is_settled.unwrap_or(is_locked_out) {
            self.shares.borrow_mut().overlook_pool();
            // The next poll is not to be charged for this.
            self.mark(State::Steal, State::Steal);
            return;
        }
        self.sleep(State::Lend, Some(LEND));
        self.exchange();
        if self.lending.count() {
            self.shares.borrow_mut().overlook_pool();
        }
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_taken_three_times_in_a_row_does_not_keep_a_worker_from_lending() {
        let lending = Lending::default();
        let taken = [true, true, false, true, true, true, true];
        let lends = taken.map(|is_taken| lending.is_locked_out(is_taken));
        assert_eq!(lends, [false, false, false, false, false, true, false]);
    }
}
