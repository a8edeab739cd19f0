//! A histogram of latencies, for one thread or for many, and its summary.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// A histogram of latencies from a nanosecond to an hour, with three significant digits. Its memory
/// does not grow.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use evenkeel_measure::latency::Latencies;
///
/// let mut latencies = Latencies::new();
/// for ms in 1..=200 {
///     latencies.record(Duration::from_millis(ms));
/// }
/// assert_eq!(latencies.percentile(99).as_millis(), 198);
/// ```
#[derive(Clone, Debug)]
pub struct Latencies {
    nanos: Histogram<u64>,
}

/// The summary of a histogram, in microseconds; all zero if the histogram is empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// The median.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The mean.
    pub mean_us: f64,
    /// Points of the distribution: share of requests, and the latency that they did not exceed.
    pub curve: Vec<(f64, f64)>,
}

/// The shares at which the distribution is sampled for plots.
const CURVE: [f64; 12] = [
    0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0,
];

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

impl Latencies {
    /// An empty histogram.
    pub fn new() -> Self {
        const LOWEST_NANOS: u64 = 1;
        const HIGHEST_NANOS: u64 = 3_600_000_000_000;
        const DIGITS: u8 = 3;
        let nanos = Histogram::new_with_bounds(LOWEST_NANOS, HIGHEST_NANOS, DIGITS);
        // The three constants satisfy what is asked of them: lowest above 0, highest twice that, at
        // most 5 digits.
        Latencies {
            nanos: nanos.unwrap_or_else(|error| unreachable!("constant bounds: {error}")),
        }
    }

    /// Adds a latency. One longer than an hour counts as an hour.
    pub fn record(&mut self, latency: Duration) {
        self.nanos
            .saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds all latencies of `other`.
    pub fn absorb(&mut self, other: &Latencies) {
        // Both have the same bounds, for which adding cannot fail.
        let added = self.nanos.add(&other.nanos);
        debug_assert!(added.is_ok());
    }

    /// The number of latencies.
    pub fn len(&self) -> u64 {
        self.nanos.len()
    }

    /// Whether there is no latency.
    pub fn is_empty(&self) -> bool {
        self.nanos.is_empty()
    }

    /// The latency that so many percent of all do not exceed; zero if the histogram is empty.
    pub fn percentile(&self, percent: u8) -> Duration {
        Duration::from_nanos(self.nanos.value_at_quantile(f64::from(percent) / 100.0))
    }

    /// The mean; zero if the histogram is empty.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.nanos.mean() as u64)
    }

    /// Percentiles, maximum, mean and distribution.
    pub fn summary(&self) -> LatencySummary {
        if self.nanos.is_empty() {
            return LatencySummary::default();
        }
        let at = |share: f64| self.nanos.value_at_quantile(share) as f64 / 1e3;
        LatencySummary {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: self.nanos.max() as f64 / 1e3,
            mean_us: self.nanos.mean() / 1e3,
            curve: CURVE.iter().map(|&share| (share, at(share))).collect(),
        }
    }
}

/// The number of histograms among which threads are distributed, so that they seldom contend.
const APART: usize = 4;

/// [`Latencies`] to which many threads add. Threads are distributed among four histograms with a
/// lock each, and one waits for another only while that one adds to the same histogram.
#[derive(Debug, Default)]
pub struct SharedLatencies {
    /// Each thread adds to the same one always.
    parts: [Mutex<Latencies>; APART],
}

/// The index of the calling thread's part.
fn here() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static HERE: Cell<Option<usize>> = const { Cell::new(None) };
    }
    HERE.get().unwrap_or_else(|| {
        // Relaxed: the counter gives out numbers, and orders no other memory.
        let here = THREADS.fetch_add(1, Ordering::Relaxed) % APART;
        HERE.set(Some(here));
        here
    })
}

/// Ignores poison: a thread that panics while it adds leaves a histogram that lacks one latency.
fn lock(part: &Mutex<Latencies>) -> MutexGuard<'_, Latencies> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedLatencies {
    /// Adds a latency. One longer than an hour counts as an hour.
    pub fn record(&self, latency: Duration) {
        lock(&self.parts[here()]).record(latency);
    }

    /// Takes all latencies out.
    pub fn take(&self) -> Latencies {
        let mut all = Latencies::new();
        for part in &self.parts {
            all.absorb(&std::mem::take(&mut *lock(part)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_thousandth() {
        let mut latencies = Latencies::new();
        for us in 1..=10_000 {
            latencies.record(Duration::from_micros(us));
        }
        let summary = latencies.summary();
        for (value, expected) in [
            (summary.p50_us, 5_000.0),
            (summary.p90_us, 9_000.0),
            (summary.p99_us, 9_900.0),
            (summary.p999_us, 9_990.0),
            (summary.max_us, 10_000.0),
            (summary.mean_us, 5_000.5),
        ] {
            assert!(
                (value - expected).abs() <= expected / 1_000.0 + 0.1,
                "{value} for {expected}"
            );
        }
    }

    #[test]
    fn short_ones_are_told_apart_too() {
        let mut latencies = Latencies::new();
        for nanos in 1..=100 {
            latencies.record(Duration::from_nanos(10 * nanos));
        }
        for percent in [1, 50, 99, 100] {
            let expected = Duration::from_nanos(10 * u64::from(percent));
            assert_eq!(latencies.percentile(percent), expected);
        }
        assert_eq!(latencies.mean(), Duration::from_nanos(505));
    }

    #[test]
    fn nothing_recorded_is_all_zero() {
        let none = Latencies::new();
        assert_eq!(none.summary(), LatencySummary::default());
        assert_eq!((none.percentile(99), none.mean()), Default::default());
        assert!(none.is_empty());
    }

    #[test]
    fn what_is_longer_than_an_hour_still_counts() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_secs(100_000));
        assert_eq!(latencies.len(), 1);
        assert!(latencies.summary().max_us >= 3.5e9);
    }

    #[test]
    fn what_threads_count_apart_adds_up_and_is_taken_once() {
        let shared = SharedLatencies::default();
        std::thread::scope(|scope| {
            for thread in 0..2 * APART as u64 {
                let shared = &shared;
                scope.spawn(move || {
                    for us in 1..=100 {
                        shared.record(Duration::from_micros(100 * thread + us));
                    }
                });
            }
        });
        let all = shared.take();
        assert_eq!(all.len(), 800);
        assert_eq!(all.percentile(50).as_micros(), 400);
        assert!(shared.take().is_empty());
    }
}
