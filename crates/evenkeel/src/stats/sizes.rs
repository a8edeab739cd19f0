//! A histogram of sizes.

use super::since::Subtract;

/// A histogram of the sizes of deliveries, in bytes.
///
/// Each bucket is twice as wide as the one before. A quantile is the upper end of its bucket, so it
/// is exact to a factor of two and never too small.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
pub struct Sizes {
    counts: Vec<u64>,
}

impl Sizes {
    pub(crate) fn new(counts: Vec<u64>) -> Self {
        Self { counts }
    }

    /// The number of deliveries.
    pub fn count(&self) -> u64 {
        self.counts.iter().copied().fold(0, u64::saturating_add)
    }

    /// The size that a fraction `q` of all deliveries, from 0 to 1, stayed below; `None` if there
    /// were none.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = (q.clamp(0.0, 1.0) * self.count() as f64).ceil().max(1.0) as u64;
        let mut seen = 0_u64;
        self.buckets().find_map(|(upper, count)| {
            seen = seen.saturating_add(count);
            (seen >= rank).then_some(upper)
        })
    }

    /// The upper end of each bucket, in bytes, and the number of deliveries in it.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.counts.iter().enumerate();
        counts.map(|(bucket, &count)| {
            let upper = 1_u64.checked_shl(u32::try_from(bucket).unwrap_or(u32::MAX));
            (upper.unwrap_or(u64::MAX), count)
        })
    }
}

impl Subtract for Sizes {
    fn subtract(&mut self, earlier: &Self) {
        self.counts.subtract(&earlier.counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_upper_ends_of_their_buckets() {
        let sizes = Sizes::new(vec![0, 90, 9, 1]);
        assert_eq!(sizes.count(), 100);
        assert_eq!(sizes.quantile(0.5), Some(2));
        assert_eq!(sizes.quantile(0.99), Some(4));
        assert_eq!(sizes.quantile(1.0), Some(8));
        let mut none = sizes.clone();
        none.subtract(&sizes);
        assert_eq!(none.quantile(0.5), None);
    }
}
