//! A histogram of waits.

use std::time::Duration;

use crate::clock::Clock;
use crate::counters::accounts::BUCKETS;

use super::since::Subtract;

/// A histogram of how long tasks were ready before they were polled, or deliveries were held back.
///
/// Each bucket is twice as wide as the one before. A quantile is the upper end of its bucket, so it
/// is exact to a factor of two and never too small.
#[derive(Clone, Debug)]
pub struct Waits {
    /// The upper end of each bucket, and the number of waits in it.
    buckets: Vec<(Duration, u64)>,
}

impl Waits {
    pub(crate) fn new(clock: &Clock, counts: &[u64; BUCKETS]) -> Self {
        Self::of_buckets(counts, |upper| clock.to_duration(upper))
    }

    /// From buckets of nanoseconds.
    pub(crate) fn of_nanos(counts: &[u64]) -> Self {
        Self::of_buckets(counts, Duration::from_nanos)
    }

    fn of_buckets(counts: &[u64], duration: impl Fn(u64) -> Duration) -> Self {
        let buckets = counts.iter().enumerate();
        let buckets = buckets.map(|(bucket, &count)| (duration(1 << bucket), count));
        Self {
            buckets: buckets.collect(),
        }
    }

    /// The number of waits.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// The wait that a fraction `q` of all, from 0 to 1, did not exceed; `None` if there were none.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let total = self.count();
        let rank = (q.clamp(0.0, 1.0) * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.buckets.iter().find_map(|(upper, count)| {
            seen += count;
            (seen >= rank).then_some(*upper)
        })
    }

    /// The upper end of each bucket, and the number of waits in it.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.buckets.iter().copied()
    }
}

impl Subtract for Waits {
    fn subtract(&mut self, earlier: &Self) {
        debug_assert_eq!(self.buckets.len(), earlier.buckets.len());
        for ((_, count), (_, before)) in self.buckets.iter_mut().zip(&earlier.buckets) {
            count.subtract(before);
        }
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
        let waits = Waits { buckets };
        assert_eq!(waits.count(), 100);
        assert_eq!(waits.quantile(0.5), Some(Duration::from_nanos(2)));
        assert_eq!(waits.quantile(0.99), Some(Duration::from_nanos(4)));
        assert_eq!(waits.quantile(1.0), Some(Duration::from_nanos(8)));
        let mut none = waits.clone();
        none.subtract(&waits);
        assert_eq!(none.quantile(0.5), None);
    }
}
