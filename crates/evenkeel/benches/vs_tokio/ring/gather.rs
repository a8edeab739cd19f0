//! How many completions to wait for: as many as lately came together.
//!
//! Whoever returns for each completion makes one system call for each, and wakes the peer for
//! each of its answers. With many connections in use others are about to come, and to wait for
//! them costs less than to look again. One connection, or many that are seldom used, come alone,
//! and nobody waits for them.

use std::time::Duration;

/// The longest that something which has come is left lying.
pub(super) const PATIENCE: Duration = Duration::from_micros(50);

/// Beyond it, nothing is left to be gained.
const WANT_MAX: usize = 64;

pub(super) struct Gather {
    want: usize,
}

impl Gather {
    pub(super) fn new() -> Self {
        Self { want: 1 }
    }

    pub(super) fn want(&self) -> usize {
        self.want
    }

    /// Fewer than were waited for: patience was at an end. More: they would have come anyway.
    pub(super) fn learn(&mut self, came: usize) {
        self.want = if came < self.want {
            (self.want / 2).max(1)
        } else {
            came.clamp(1, WANT_MAX)
        };
    }
}
