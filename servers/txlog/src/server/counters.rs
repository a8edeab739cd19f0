//! What a server counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// Events since the server's start.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Hellos with a token that nobody has.
    pub(super) failed_logins: Count,
    pub(super) handshakes: Handshakes,
}

/// Handshakes of TLS, by how they ended.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    pub(super) done: Count,
    /// The client did not agree, its certificate was none, or it went away.
    pub(super) failed: Count,
    /// The client spoke something else.
    pub(super) plain: Count,
    pub(super) too_slow: Count,
    /// Others needed its place.
    pub(super) cut: Count,
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
