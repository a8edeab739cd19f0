//! Figures for metrics: how long something took, and what a store says of itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounds of buckets go from 16 microseconds to 134 seconds, each twice the one before.
const BOUNDS: usize = 24;

/// The first bound, in microseconds.
const FIRST_US: u64 = 16;

/// How often something took how long.
#[derive(Debug, Default)]
pub struct Histogram {
    /// The last one has no bound.
    buckets: [AtomicU64; BOUNDS + 1],
    nanos: AtomicU64,
}

impl Histogram {
    /// Counts it.
    pub fn observe(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        // A bucket has what is at most its bound.
        let bucket = us.div_ceil(FIRST_US).max(1).next_power_of_two().ilog2() as usize;
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        // Relaxed: statistics, which order nothing.
        self.buckets[bucket.min(BOUNDS)].fetch_add(1, Ordering::Relaxed);
        // Relaxed: as above.
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// The sum in seconds, and for each bound in seconds how often it was within it and not within
    /// the one before.
    pub fn read(&self) -> (f64, Vec<(f64, u64)>) {
        let bound = |at: usize| match at {
            BOUNDS => f64::INFINITY,
            at => (FIRST_US << at) as f64 / 1e6,
        };
        let buckets = self.buckets.iter().enumerate();
        // Relaxed: statistics, which order nothing.
        let read = buckets.map(|(at, count)| (bound(at), count.load(Ordering::Relaxed)));
        let nanos = self.nanos.load(Ordering::Relaxed);
        (nanos as f64 / 1e9, read.collect())
    }
}

/// What a store says of itself; nothing of what it does not know.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StoreFigures {
    /// How long its syncs took: the sum in seconds, and the buckets of a [`Histogram`].
    pub syncs: Option<(f64, Vec<(f64, u64)>)>,
    /// Records that wait for a sync, those that are being written among them.
    pub queued: Option<u64>,
    /// Bytes of those that are not being written yet.
    pub queued_bytes: Option<u64>,
    /// Appends that wait for room in the queue.
    pub waiting: Option<u64>,
    /// Files of the log, without its mark.
    pub segments: Option<u64>,
    /// Bytes of durable records in them, and of their heads.
    pub bytes: Option<u64>,
    /// When the mark was last written, in seconds since 1970.
    pub marked_at: Option<f64>,
    /// How many durable records the mark does not cover.
    pub unmarked: Option<u64>,
    /// Whether it is connected to the server that keeps the records.
    pub is_connected: Option<bool>,
    /// Where consumers are.
    pub consumers: Option<ConsumerFigures>,
    /// Whether it is not known where they are, as the file that says so cannot be read.
    pub are_cursors_unreadable: Option<bool>,
}

/// Where the consumers of a log are, by their named cursors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerFigures {
    /// Some of those whose cursor is in the log's epoch, by their names in order.
    pub shown: Vec<Lag>,
    /// How many others there are.
    pub left_out: u64,
    /// The greatest lag, also of those that are left out.
    pub lag_max: u64,
    /// How many cursors mean nothing any more: the records there are no longer kept, or the log has
    /// another epoch. Their consumers are refused.
    pub lost: u64,
}

/// How far a consumer is behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lag {
    /// The cursor's name.
    pub name: String,
    /// The number of the record to be read next.
    pub sequence: u64,
    /// How many records it has yet to read.
    pub records: u64,
}

impl ConsumerFigures {
    /// Shows so many at most.
    pub fn limit(&mut self, shown_max: usize) {
        let over = self.shown.len().saturating_sub(shown_max);
        self.shown.truncate(shown_max);
        self.left_out += over as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_the_bucket_of_the_least_bound_that_holds_it() {
        for (us, bound) in [
            (0, 16e-6),
            (16, 16e-6),
            (17, 32e-6),
            (32, 32e-6),
            (33, 64e-6),
            (1_000_000, 1.048_576),
            (134_217_728, 134.217_728),
            (134_217_729, f64::INFINITY),
            (u64::MAX / 2_000, f64::INFINITY),
        ] {
            let histogram = Histogram::default();
            histogram.observe(Duration::from_micros(us));
            let (sum, buckets) = histogram.read();
            let full: Vec<_> = buckets.iter().filter(|(_, count)| *count > 0).collect();
            assert_eq!(full, [&(bound, 1)], "{us}");
            assert!((sum - us as f64 / 1e6).abs() <= sum * 1e-9);
            assert_eq!(buckets.len(), BOUNDS + 1);
        }
    }
}
