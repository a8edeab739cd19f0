//! A histogram of waits.

use std::time::Duration;

use crate::clock::Clock;
use crate::counters::histogram::Tallied;

use super::since::Subtract;

/// A histogram of durations: how long tasks were ready before they were polled, how long polls
/// took, or how long deliveries were held back.
///
/// Each bucket is twice as wide as the one before. A quantile is the upper end of its bucket, so it
/// is exact to a factor of two and never too small.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Waits {
    /// The upper end of each bucket, and the number of waits in it.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos::buckets"))]
    buckets: Vec<(Duration, u64)>,
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    total: Duration,
}

impl Waits {
    /// From cycles.
    pub(crate) fn new(clock: &Clock, tallied: &Tallied) -> Self {
        Self::of(tallied, |cycles| clock.to_duration(cycles))
    }

    /// From nanoseconds.
    pub(crate) fn of_nanos(tallied: &Tallied) -> Self {
        Self::of(tallied, Duration::from_nanos)
    }

    fn of(tallied: &Tallied, duration: impl Fn(u64) -> Duration) -> Self {
        let buckets = tallied.counts.iter().enumerate();
        let buckets = buckets.map(|(bucket, &count)| (duration(1 << bucket), count));
        Self {
            buckets: buckets.collect(),
            total: duration(tallied.total),
        }
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        let counts = self.buckets.iter().map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    }

    /// The sum of all.
    pub fn total(&self) -> Duration {
        self.total
    }

    /// The mean; `None` if there were none.
    pub fn mean(&self) -> Option<Duration> {
        let nanos = self.total.as_nanos().checked_div(self.count().into())?;
        Some(Duration::from_nanos(
            u64::try_from(nanos).unwrap_or(u64::MAX),
        ))
    }

    /// The wait that a fraction `q` of all, from 0 to 1, did not exceed; `None` if there were none.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let total = self.count();
        let rank = (q.clamp(0.0, 1.0) * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        self.buckets.iter().find_map(|(upper, count)| {
            // Those of a snapshot that was read may be anything.
            seen = seen.saturating_add(*count);
            (seen >= rank).then_some(*upper)
        })
    }

    /// The upper end of each bucket, and the number of waits in it.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.buckets.iter().copied()
    }
}

impl Subtract for Waits {
    /// Two of one runtime have the same buckets. Of others, as snapshots that were read from a file
    /// may be, those that both have are subtracted.
    fn subtract(&mut self, earlier: &Self) {
        for ((_, count), (_, before)) in self.buckets.iter_mut().zip(&earlier.buckets) {
            count.subtract(before);
        }
        self.total.subtract(&earlier.total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_upper_ends_of_their_buckets() {
        let buckets = vec![
            (Duration::from_nanos(1), 0),
            (Duration::from_nanos(2), 90),
            (Duration::from_nanos(4), 9),
            (Duration::from_nanos(8), 1),
        ];
        let total = Duration::from_nanos(200);
        let waits = Waits { buckets, total };
        assert_eq!(waits.count(), 100);
        assert_eq!(waits.mean(), Some(Duration::from_nanos(2)));
        assert_eq!(waits.quantile(0.5), Some(Duration::from_nanos(2)));
        assert_eq!(waits.quantile(0.99), Some(Duration::from_nanos(4)));
        assert_eq!(waits.quantile(1.0), Some(Duration::from_nanos(8)));
        let mut none = waits.clone();
        none.subtract(&waits);
        assert_eq!(none.quantile(0.5), None);
        assert_eq!(none.mean(), None);
    }
}
