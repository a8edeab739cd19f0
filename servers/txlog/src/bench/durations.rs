//! How long things took, counted where it costs them nothing.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// What takes longer is counted with what takes so many microseconds.
const LONGEST_US: usize = 500_000;
/// Threads that count apart, so that they do not wait for each other's memory.
const APART: usize = 4;

/// Durations, counted by the microsecond in memory that is there from the beginning. A list for
/// each appender, which grows, would be moved and faulted in for all of them in the same moment, as
/// they have appended equally often; and all would wait for that.
#[derive(Debug)]
pub struct Durations {
    /// By the thread that counted them, and by how many microseconds they took.
    counts: [Vec<AtomicU32>; APART],
}

impl Default for Durations {
    fn default() -> Self {
        let none = || (0..=LONGEST_US).map(|_| AtomicU32::new(0)).collect();
        Self {
            counts: std::array::from_fn(|_| none()),
        }
    }
}

/// Which of the counts is the calling thread's.
fn here() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static HERE: Cell<Option<usize>> = const { Cell::new(None) };
    }
    HERE.get().unwrap_or_else(|| {
        let here = THREADS.fetch_add(1, Relaxed) % APART;
        HERE.set(Some(here));
        here
    })
}

impl Durations {
    /// Counts one. Relaxed, here and below: figures, which order nothing else.
    pub fn record(&self, took: Duration) {
        let us = usize::try_from(took.as_micros()).unwrap_or(LONGEST_US);
        self.counts[here()][us.min(LONGEST_US)].fetch_add(1, Relaxed);
    }

    /// How many took so many microseconds, for each number of them.
    fn counted(&self) -> impl Iterator<Item = usize> {
        let at = |us: usize| move |counts: &Vec<AtomicU32>| counts[us].load(Relaxed) as usize;
        (0..=LONGEST_US).map(move |us| self.counts.iter().map(at(us)).sum())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.counted().sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long they took in the mean, to the microsecond; nothing of nothing.
    pub fn mean(&self) -> Duration {
        let sum: usize = (self.counted().enumerate())
            .map(|(us, count)| us * count)
            .sum();
        Duration::from_micros((sum / self.len().max(1)) as u64)
    }

    /// What so many percent of them do not exceed, to the microsecond; nothing of nothing.
    pub fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.len() * percent).div_ceil(100);
        let mut seen = 0;
        let reached = |count| {
            seen += count;
            seen >= rank
        };
        let us = self.counted().position(reached).unwrap_or(0);
        Duration::from_micros(us as u64)
    }

    pub(super) fn clear(&self) {
        let counts = self.counts.iter().flatten();
        counts.for_each(|count| count.store(0, Relaxed));
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
        assert_eq!(durations.mean(), Duration::from_micros(100));
        durations.record(Duration::from_secs(100));
        assert_eq!(durations.percentile(100).as_micros(), LONGEST_US as u128);
        durations.clear();
        assert!(durations.is_empty() && durations.mean().is_zero());
    }
}
