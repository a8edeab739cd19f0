//! Statistics: where the runtime's time went.
//!
//! They are always on. Every moment of a worker's life is charged to one state, so that
//! [`run`](WorkerStats::run), [`check`](WorkerStats::check), [`spin`](WorkerStats::spin),
//! [`park`](WorkerStats::park), [`steal`](WorkerStats::steal) and [`lend`](WorkerStats::lend) add
//! up to [`wall`](WorkerStats::wall). *Utilisation* is run time over wall time: spinning is neither
//! work nor sleep, and is counted separately.

mod display;
mod host;
#[cfg(feature = "serde")]
mod index;
mod lanes;
mod load;
#[cfg(feature = "serde")]
mod nanos;
pub mod show;
mod since;
mod site;
mod sizes;
mod snapshot;
mod waits;

pub use crate::blocking::misses::DiskBackend;
pub use host::HostStats;
pub(crate) use host::LastRead;
pub use lanes::{DiskStats, LaneStats};
pub use load::Load;
pub use site::Site;
pub use sizes::Sizes;
pub use snapshot::{
    BlockingStats, CheckCounts, Checks, ClassStats, DeliveryStats, HeavyPriority, HeavyStats,
    HogStats, OutputStats, ReadinessStats, Stats, WorkerStats,
};
pub use waits::Waits;
