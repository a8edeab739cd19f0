//! Bytes that the kernel moved from socket to socket.

use crate::io::pipes::Pipes;
use crate::sched::shared::Shared;

/// What [`net::splice`](crate::net::splice) has moved without copying.
///
/// Its bytes are also among those of [`DeliveryStats`](super::DeliveryStats) and
/// [`OutputStats`](super::OutputStats).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct SpliceStats {
    /// Transfers from a pipe to a socket, each a system call.
    pub splices: u64,
    /// Bytes that were moved so.
    pub bytes: u64,
    /// How often bytes had to be copied because there was no pipe: the system allowed no more, or
    /// as many were in use as the runtime has at most.
    pub refused: u64,
    /// Pipes that are open, at the moment.
    pub pipes: usize,
    /// Pipes that are empty and kept for later, at the moment.
    pub idle_pipes: usize,
}

pub(super) fn read(shared: &Shared) -> SpliceStats {
    let census = shared.extensions.get::<Pipes>().census();
    let outside = shared.outside.lock();
    let desks = shared.desks.iter().map(|desk| &desk.deliveries.0);
    let counts = desks.chain(std::iter::once(&*outside));
    let (splices, bytes) = counts.fold((0, 0), |(splices, bytes), counts| {
        (
            splices + counts.splices.load(),
            bytes + counts.spliced.load(),
        )
    });
    SpliceStats {
        splices,
        bytes,
        refused: census.refused,
        pipes: census.open,
        idle_pipes: census.idle,
    }
}
