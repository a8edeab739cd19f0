//! Accounts: where the runtime's time went.
//!
//! They are always on. Every moment of a worker's life is charged to one state, so that
//! [`run`](WorkerStats::run), [`check`](WorkerStats::check), [`spin`](WorkerStats::spin),
//! [`park`](WorkerStats::park), [`steal`](WorkerStats::steal) and [`lend`](WorkerStats::lend) add
//! up to [`wall`](WorkerStats::wall). *Utilisation* is useful run time over wall time: spinning is
//! neither work nor sleep, and is counted apart.

pub(crate) mod accounts;
pub(crate) mod deliveries;
#[cfg(not(evenkeel_loom))]
mod lanes;
#[cfg(not(evenkeel_loom))]
mod load;
#[cfg(not(evenkeel_loom))]
mod sizes;
#[cfg(not(evenkeel_loom))]
mod snapshot;
#[cfg(not(evenkeel_loom))]
mod waits;

#[cfg(not(evenkeel_loom))]
pub use lanes::{DiskBackend, DiskStats, LaneStats};
#[cfg(not(evenkeel_loom))]
pub use load::Load;
#[cfg(not(evenkeel_loom))]
pub use sizes::Sizes;
#[cfg(not(evenkeel_loom))]
pub use snapshot::{
    BlockingStats, CheckCounts, Checks, ClassStats, DeliveryStats, HeavyPriority, HeavyStats,
    HogStats, ReadinessStats, Stats, WorkerStats,
};
#[cfg(not(evenkeel_loom))]
pub use waits::Waits;
