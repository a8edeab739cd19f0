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

#[derive(Default)]
pub(super) struct Lending {
    /// The class that is next, if it has its work in the heavy pool.
    due: Cell<Option<Class>>,
    in_a_row: Cell<u32>,
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
    /// sleep early. Not if another processor serves the class: what it gets there is charged late,
    /// so it may only have seemed to be next.
    pub(super) fn lend(&self, class: Class) {
        let shared = &self.shared;
        let pool = &shared.heavy_pool;
        let is_kept_waiting = pool.is_kept_waiting(&shared.ledger, &shared.desks, class);
        self.exchange();
        if !is_kept_waiting {
            return self.shares.borrow_mut().overlook_pool();
        }
        if self.shares.borrow().first() != Some(Choice::HeavyPool(class)) {
            return;
        }
        self.sleep(State::Lend, Some(LEND));
        self.exchange();
        if self.lending.count() {
            self.shares.borrow_mut().overlook_pool();
        }
    }
}
