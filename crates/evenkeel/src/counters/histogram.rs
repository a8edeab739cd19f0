//! Histograms of durations, with a bucket for each power of two.

use super::KEPT;
use super::accounts::{BUCKETS, Count, bucket_of};

/// A histogram with one writer, read by any thread.
#[derive(Debug)]
pub(crate) struct Histogram {
    counts: [Count; BUCKETS],
    total: Count,
}

/// What a histogram says at one moment, or one that grows under a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tallied {
    /// Bucket `b` counts what was from `2^(b-1)` to below `2^b`.
    pub(crate) counts: [u64; BUCKETS],
    /// The sum of all.
    pub(crate) total: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self {
            counts: std::array::from_fn(|_| Count::new()),
            total: Count::new(),
        }
    }

    #[inline]
    pub(crate) fn add(&self, length: u64) {
        if KEPT {
            self.counts[bucket_of(length)].add(1);
            self.total.add(length);
        }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().map(Count::load).sum()
    }

    pub(crate) fn read(&self) -> Tallied {
        Tallied {
            counts: std::array::from_fn(|bucket| self.counts[bucket].load()),
            total: self.total.load(),
        }
    }
}

impl Tallied {
    pub(crate) fn new() -> Self {
        Self {
            counts: [0; BUCKETS],
            total: 0,
        }
    }

    pub(crate) fn add(&mut self, length: u64) {
        if KEPT {
            self.counts[bucket_of(length)] += 1;
            self.total = self.total.wrapping_add(length);
        }
    }
}

/// Of several, all together.
impl std::iter::Sum for Tallied {
    fn sum<I: Iterator<Item = Tallied>>(histograms: I) -> Self {
        histograms.fold(Self::new(), |mut sum, more| {
            for (count, more) in sum.counts.iter_mut().zip(more.counts) {
                *count += more;
            }
            sum.total = sum.total.wrapping_add(more.total);
            sum
        })
    }
}
