//! How long things took, counted where it costs them nothing.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// What takes longer is counted with what takes so many microseconds.
const LONGEST_US: usize = 500_000;

/// Durations, counted by the microsecond in memory that is there from the beginning. A list for
/// each appender, which grows, would be moved and faulted in for all of them in the same moment, as
/// they have appended equally often; and all would wait for that.
#[derive(Debug)]
pub struct Durations {
    /// By how many microseconds they took.
    counts: Vec<AtomicU32>,
    sum_ns: AtomicU64,
}

impl Default for Durations {
    fn default() -> Self {
        Self {
            counts: (0..=LONGEST_US).map(|_| AtomicU32::new(0)).collect(),
            sum_ns: AtomicU64::new(0),
        }
    }
}

impl Durations {
    /// Counts one. Relaxed, here and below: figures, which order nothing else.
    pub fn record(&self, took: Duration) {
        let us = usize::try_from(took.as_micros()).unwrap_or(LONGEST_US);
        self.counts[us.min(LONGEST_US)].fetch_add(1, Relaxed);
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(ns, Relaxed);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        let counts = self.counts.iter();
        counts.map(|count| count.load(Relaxed) as usize).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long they took in the mean; nothing of nothing.
    pub fn mean(&self) -> Duration {
        let len = self.len().max(1) as u64;
        Duration::from_nanos(self.sum_ns.load(Relaxed) / len)
    }

    /// What so many percent of them do not exceed, to the microsecond; nothing of nothing.
    pub fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.len() * percent).div_ceil(100);
        let mut seen = 0;
        let reached = |count: &AtomicU32| {
            seen += count.load(Relaxed) as usize;
            seen >= rank
        };
        let us = self.counts.iter().position(reached).unwrap_or(0);
        Duration::from_micros(us as u64)
    }

    pub(super) fn clear(&self) {
        self.sum_ns.store(0, Relaxed);
        self.counts.iter().for_each(|count| count.store(0, Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_what_so_many_do_not_exceed() {
        let durations = Durations::default();
        assert_eq!(durations.percentile(99), Duration::ZERO);
        for us in (1..=200).rev() {
            durations.record(Duration::from_micros(us));
        }
        assert_eq!(durations.len(), 200);
        assert_eq!(durations.percentile(50), Duration::from_micros(100));
        assert_eq!(durations.percentile(99), Duration::from_micros(198));
        assert_eq!(durations.percentile(100), Duration::from_micros(200));
        assert_eq!(durations.mean(), Duration::from_nanos(100_500));
        durations.record(Duration::from_secs(100));
        assert_eq!(durations.percentile(100).as_micros(), LONGEST_US as u128);
        durations.clear();
        assert!(durations.is_empty() && durations.mean().is_zero());
    }
}
