//! How often something took how long, for metrics.

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

    /// Begins anew.
    pub fn clear(&self) {
        // Relaxed, both: statistics, which order nothing.
        let buckets = self.buckets.iter();
        buckets.for_each(|bucket| bucket.store(0, Ordering::Relaxed));
        self.nanos.store(0, Ordering::Relaxed);
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
