//! Lending the processor to the heavy pool, when the class that is next has its work there.

use std::cell::Cell;
use std::time::Duration;

use crate::counters::accounts::State;

use super::Worker;

/// How long a worker lends its processor before it looks again.
const LEND: Duration = Duration::from_millis(1);
/// How often it lends in a row. If another process keeps the pool's threads from running, nobody
/// uses the lent time; so the worker does some work of its own in between.
const LENDS_MAX: u32 = 10;

#[derive(Default)]
pub(super) struct Lending {
    /// The class that is next has its work in the heavy pool.
    due: Cell<bool>,
    in_a_row: Cell<u32>,
}

impl Lending {
    pub(super) fn ask(&self) {
        self.due.set(true);
    }

    pub(super) fn is_asked(&self) -> bool {
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
    /// Sleeps for a moment, so that the heavy pool gets the processor. Events end the sleep early.
    pub(super) fn lend(&self) {
        self.sleep(State::Lend, Some(LEND));
        self.exchange();
        if self.lending.count() {
            self.shares.borrow_mut().overlook_pool();
        }
    }
}
