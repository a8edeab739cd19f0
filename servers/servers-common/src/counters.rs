//! Numbers that are counted by many tasks and read for reports.
//!
//! All accesses are `Relaxed`: nothing is decided by them, and no other memory is read by their
//! value.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn one(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, number: u64) {
        // Relaxed: a statistic.
        self.0.fetch_add(number, Ordering::Relaxed);
    }

    /// So many more, if nobody else adds any at the same time: it costs less.
    pub fn add_alone(&self, number: u64) {
        // Relaxed: a statistic.
        let sum = self.0.load(Ordering::Relaxed).wrapping_add(number);
        self.0.store(sum, Ordering::Relaxed);
    }

    /// None, from now on.
    pub fn clear(&self) {
        // Relaxed: a statistic.
        self.0.store(0, Ordering::Relaxed);
    }

    /// How many there have been.
    pub fn total(&self) -> u64 {
        // Relaxed: a statistic.
        self.0.load(Ordering::Relaxed)
    }
}
