//! Events, the readers that they woke, what the readers got, and what was written.

use std::time::Duration;

use crate::counters::accounts::Count;
use crate::counters::deliveries::{BUCKETS as SIZES, DeliveryCounts};
use crate::sched::shared::Shared;

use super::sizes::Sizes;
use super::waits::Waits;

/// Events, and the readers they woke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct ReadinessStats {
    /// Events that reached a descriptor.
    pub events: u64,
    /// Readers that were woken, by events and by sweeps.
    pub deliveries: u64,
    /// Descriptors that are registered, at the moment.
    pub descriptors: usize,
}

/// Deliveries to the readers of streams and of batches of datagrams.
///
/// Bytes are counted as reads take them from the kernel's sockets: below TLS, for example. Reads
/// with the user's own operation (`try_io`, `async_io`), single datagrams and peeked bytes are not
/// counted.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct DeliveryStats {
    /// How often a reader was woken, or did not have to wait, and got bytes.
    pub deliveries: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Reads with or without bytes, each a system call.
    pub reads: u64,
    /// Reads that found nothing.
    pub empty_reads: u64,
    /// The bytes of each delivery, up to when the socket was empty. Deliveries under way are not
    /// included.
    pub bytes_per_delivery: Sizes,
    /// An upper bound on how long deliveries to sockets whose mode is not [`Immediate`] were held
    /// back: from the first byte, or, where the kernel holds bytes back, which does not report when
    /// the first one came, from when the reader had emptied the socket; until the delay was over,
    /// or the watermark was noticed. The lateness of a sweep is not included: an event would have
    /// been late as well.
    ///
    /// [`Immediate`]: crate::net::Delivery::Immediate
    pub added_delay: Waits,
    /// The longest of these since the runtime's start, also in a difference of two snapshots.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub longest_delay: Duration,
    /// Entries of sweeps that were due: one for each delay of a reader that is held back.
    pub swept: u64,
}

/// Writes to streams.
///
/// Bytes are counted as the kernel's sockets take them. What is sent as single datagrams or with
/// the user's own operation (`try_io`, `async_io`) is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct OutputStats {
    /// Writes that took bytes, each a system call.
    pub writes: u64,
    /// Bytes that were written.
    pub bytes: u64,
}

pub(super) fn read(shared: &Shared, swept: u64) -> DeliveryStats {
    let outside = shared.outside.lock();
    let desks: Vec<_> = shared.desks.iter().collect();
    let counts = || {
        let inside = desks.iter().map(|desk| &desk.deliveries.0);
        inside.chain(std::iter::once(&*outside))
    };
    let sum = |of: fn(&DeliveryCounts) -> &Count| counts().map(|at| of(at).load()).sum::<u64>();
    let sums = |of: fn(&DeliveryCounts) -> &[Count; SIZES]| -> Vec<u64> {
        let bucket = |bucket: usize| counts().map(|at| of(at)[bucket].load()).sum();
        (0..SIZES).map(bucket).collect()
    };
    let longest = counts().map(|at| at.longest.load());
    DeliveryStats {
        deliveries: sum(|at| &at.deliveries),
        bytes: sum(|at| &at.bytes),
        reads: sum(|at| &at.reads),
        empty_reads: sum(|at| &at.empty),
        bytes_per_delivery: Sizes::new(sums(|at| &at.sizes)),
        added_delay: Waits::of_nanos(&counts().map(|at| at.delays.read()).sum()),
        longest_delay: Duration::from_nanos(longest.max().unwrap_or(0)),
        swept,
    }
}

pub(super) fn read_output(shared: &Shared) -> OutputStats {
    let outside = shared.outside.lock();
    let desks = shared.desks.iter().map(|desk| &desk.deliveries.0);
    let counts = desks.chain(std::iter::once(&*outside));
    counts.fold(OutputStats::default(), |sum, counts| OutputStats {
        writes: sum.writes + counts.writes.load(),
        bytes: sum.bytes + counts.written.load(),
    })
}
