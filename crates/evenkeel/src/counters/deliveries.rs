//! Deliveries to readers, and writes: each thread that reads or writes counts for itself.

use super::KEPT;
use super::accounts::Count;
use super::histogram::Histogram;

/// Buckets of the histograms: bucket `b` counts values from `2^(b-1)` to below `2^b`.
pub(crate) const BUCKETS: usize = 40;

/// The counters of one thread, which is their only writer.
#[derive(Debug)]
pub(crate) struct DeliveryCounts {
    /// Reads, and how many of them found nothing.
    pub(crate) reads: Count,
    pub(crate) empty: Count,
    pub(crate) bytes: Count,
    pub(crate) deliveries: Count,
    /// Writes that took bytes, and the bytes.
    pub(crate) writes: Count,
    pub(crate) written: Count,
    /// Writes that the kernel made from a pipe, and the bytes; among the above.
    pub(crate) splices: Count,
    pub(crate) spliced: Count,
    /// Bytes of ended deliveries.
    pub(crate) sizes: [Count; BUCKETS],
    /// Nanoseconds for which ended deliveries were held back.
    pub(crate) delays: Histogram,
    /// The longest of them.
    pub(crate) longest: Count,
}

impl DeliveryCounts {
    pub(crate) fn new() -> Self {
        Self {
            reads: Count::new(),
            empty: Count::new(),
            bytes: Count::new(),
            deliveries: Count::new(),
            writes: Count::new(),
            written: Count::new(),
            splices: Count::new(),
            spliced: Count::new(),
            sizes: std::array::from_fn(|_| Count::new()),
            delays: Histogram::new(),
            longest: Count::new(),
        }
    }

    /// Counts a read that got bytes, the first of a delivery or more of it.
    #[inline]
    pub(crate) fn count_read(&self, bytes: u64, is_first: bool) {
        self.reads.add(1);
        self.bytes.add(bytes);
        self.deliveries.add(u64::from(is_first));
    }

    #[inline]
    pub(crate) fn count_empty(&self) {
        self.reads.add(1);
        self.empty.add(1);
    }

    #[inline]
    pub(crate) fn count_write(&self, bytes: u64) {
        self.writes.add(1);
        self.written.add(bytes);
    }

    #[inline]
    pub(crate) fn count_spliced(&self, bytes: u64) {
        self.splices.add(1);
        self.spliced.add(bytes);
    }

    #[inline]
    pub(crate) fn count_size(&self, bytes: u64) {
        self.sizes[bucket(bytes)].add(1);
    }

    pub(crate) fn count_delay(&self, nanos: u64) {
        if !KEPT {
            return;
        }
        self.delays.add(nanos);
        self.longest.put(self.longest.load().max(nanos));
    }
}

#[inline]
fn bucket(value: u64) -> usize {
    let bucket = (u64::BITS - value.leading_zeros()) as usize;
    bucket.min(BUCKETS - 1)
}
