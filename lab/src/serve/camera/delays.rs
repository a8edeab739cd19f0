//! How long frames were under way, counted in buckets that every peer counts in.

use std::collections::BTreeMap;

use crate::serve::stats::Count;

/// Buckets for each doubling: neighbours are about one percent apart.
const PER_DOUBLING: f64 = 64.0;
/// Room for half an hour.
const BUCKETS: usize = 2_048;

/// Delays in microseconds; the bucket of `us` is the whole part of `64 log2(us + 1)`.
pub(super) struct Delays(Vec<Count>);

impl Default for Delays {
    fn default() -> Self {
        Delays((0..BUCKETS).map(|_| Count::default()).collect())
    }
}

impl Delays {
    pub(super) fn count(&self, us: u64) {
        let bucket = ((us as f64 + 1.0).log2() * PER_DOUBLING) as usize;
        self.0[bucket.min(BUCKETS - 1)].add(1);
    }

    /// The buckets that have any, with how many.
    pub(super) fn read(&self) -> Vec<(usize, u64)> {
        let buckets = self.0.iter().map(Count::read).enumerate();
        buckets.filter(|(_, count)| *count > 0).collect()
    }
}

/// What several counted.
pub(super) fn sum(of: &[Vec<(usize, u64)>]) -> Vec<(usize, u64)> {
    let mut counts = BTreeMap::new();
    for &(bucket, count) in of.iter().flatten() {
        *counts.entry(bucket).or_insert(0) += count;
    }
    counts.into_iter().collect()
}

/// The upper end of a bucket, in microseconds.
pub(crate) fn bucket_end_us(bucket: usize) -> f64 {
    ((bucket + 1) as f64 / PER_DOUBLING).exp2() - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_is_at_most_its_end() {
        for us in [0, 1, 10, 999, 1_000, 123_456] {
            let delays = Delays::default();
            delays.count(us);
            let [(bucket, 1)] = delays.read()[..] else {
                panic!("{:?}", delays.read());
            };
            let end = bucket_end_us(bucket);
            assert!(
                end >= us as f64 && end <= us as f64 * 1.012 + 0.1,
                "{us} in {end}"
            );
        }
        let delays = Delays::default();
        delays.count(u64::MAX);
        assert_eq!(delays.read(), [(BUCKETS - 1, 1)]);
    }
}
