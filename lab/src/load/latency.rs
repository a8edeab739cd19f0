//! The histogram of latencies, and what is said of it.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Latencies from a microsecond to an hour, to three digits.
pub(crate) struct Latencies {
    nanos: Histogram<u64>,
}

/// What is said of a set of latencies, in microseconds; all zero when the set is empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LatencySummary {
    pub(crate) p50_us: f64,
    pub(crate) p90_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
    pub(crate) mean_us: f64,
    /// Points of the distribution: share of requests, and the latency that they did not exceed.
    pub(crate) curve: Vec<(f64, f64)>,
}

/// The shares at which the distribution is sampled for plots.
const CURVE: [f64; 12] = [
    0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 1.0,
];

impl Latencies {
    pub(crate) fn new() -> Self {
        const LOWEST_NANOS: u64 = 100;
        const HIGHEST_NANOS: u64 = 3_600_000_000_000;
        const DIGITS: u8 = 3;
        let nanos = Histogram::new_with_bounds(LOWEST_NANOS, HIGHEST_NANOS, DIGITS);
        // The three constants satisfy what is asked of them: lowest above 0, highest twice that, at
        // most 5 digits.
        Latencies {
            nanos: nanos.unwrap_or_else(|error| unreachable!("constant bounds: {error}")),
        }
    }

    /// Counts one; what is longer than an hour counts as an hour.
    pub(crate) fn record(&mut self, latency: Duration) {
        self.nanos
            .saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Counts all that `other` has counted.
    pub(crate) fn absorb(&mut self, other: &Latencies) {
        // Both have the same bounds, for which adding cannot fail.
        let added = self.nanos.add(&other.nanos);
        debug_assert!(added.is_ok());
    }

    pub(crate) fn len(&self) -> u64 {
        self.nanos.len()
    }

    pub(crate) fn summary(&self) -> LatencySummary {
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
    fn nothing_recorded_is_all_zero() {
        assert_eq!(Latencies::new().summary(), LatencySummary::default());
    }

    #[test]
    fn what_is_longer_than_an_hour_still_counts() {
        let mut latencies = Latencies::new();
        latencies.record(Duration::from_secs(100_000));
        assert_eq!(latencies.len(), 1);
        assert!(latencies.summary().max_us >= 3.5e9);
    }
}
