//! Leaving the processor to the heavy pool, when it is the turn of a class whose work is there.

use std::cell::Cell;
use std::time::Duration;

use crate::counters::accounts::State;

use super::Worker;

/// How long a worker leaves its processor to the heavy pool before it looks again.
const LEND: Duration = Duration::from_millis(1);
/// How often it does so in a row. Another process may keep the pool's threads from running as well.
/// Then nobody uses what is lent, so some work is done here in between.
const LENDS_MAX: u32 = 10;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Lending {
    /// The class whose turn it is has its work in the heavy pool.
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

    /// Work was done here in between.
    pub(super) fn begin_anew(&self) {
        self.in_a_row.set(0);
    }

    /// Counts one more time. Returns whether that is enough for now.
    fn count(&self) -> bool {
        let in_a_row = self.in_a_row.get() + 1;
        let enough = in_a_row >= LENDS_MAX;
        self.in_a_row.set(if enough { 0 } else { in_a_row });
        enough
    }
}

impl Worker {
    /// Leaves the processor to the heavy pool for a while, whose turn it is. Events end this early.
    pub(super) fn lend(&self) {
        self.sleep(State::Lend, Some(LEND));
        self.exchange();
        if self.lending.count() {
            self.shares.borrow_mut().overlook_pool();
        }
    }
}
