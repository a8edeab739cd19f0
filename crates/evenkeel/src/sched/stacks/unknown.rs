//! Polls of hogs of which no stack was taken, or none that says anything: only how many there were
//! and how long they took is known, by class.

use crate::class::{CLASSES_MAX, Class};
use crate::sync::atomic::{AtomicU64, Ordering};

/// Sums that any thread adds to without a lock.
#[derive(Debug)]
pub(super) struct Unknown([Row; CLASSES_MAX]);

#[derive(Debug)]
struct Row {
    polls: AtomicU64,
    blocked: AtomicU64,
    total: AtomicU64,
    longest: AtomicU64,
}

/// The polls of a class; times in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnknownPolls {
    pub(crate) class: Class,
    pub(crate) polls: u64,
    pub(crate) blocked: u64,
    pub(crate) total: u64,
    pub(crate) longest: u64,
}

impl Unknown {
    pub(super) fn new() -> Self {
        Self(std::array::from_fn(|_| Row {
            polls: AtomicU64::new(0),
            blocked: AtomicU64::new(0),
            total: AtomicU64::new(0),
            longest: AtomicU64::new(0),
        }))
    }

    /// A poll of a class that is over.
    pub(super) fn add(&self, class: Class, length: u64, blocked: bool) {
        let row = &self.0[class.index()];
        // Relaxed, here and below: statistics.
        row.polls.fetch_add(1, Ordering::Relaxed);
        row.blocked.fetch_add(blocked.into(), Ordering::Relaxed);
        row.total.fetch_add(length, Ordering::Relaxed);
        row.longest.fetch_max(length, Ordering::Relaxed);
    }

    /// Of the classes that have such polls.
    pub(super) fn read(&self) -> Vec<UnknownPolls> {
        // Relaxed, all: statistics.
        let rows = self.0.iter().enumerate().map(|(index, row)| UnknownPolls {
            class: Class::at(index),
            polls: row.polls.load(Ordering::Relaxed),
            blocked: row.blocked.load(Ordering::Relaxed),
            total: row.total.load(Ordering::Relaxed),
            longest: row.longest.load(Ordering::Relaxed),
        });
        rows.filter(|row| row.polls > 0).collect()
    }
}
