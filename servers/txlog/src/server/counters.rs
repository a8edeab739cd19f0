//! What a server counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Events since the server's start.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Hellos with a token that nobody has.
    pub(super) failed_logins: Count,
}

/// Counts events of one kind.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, count: u64) {
        // Relaxed: a statistic, which orders nothing.
        self.0.fetch_add(count, Ordering::Relaxed);
    }
}
