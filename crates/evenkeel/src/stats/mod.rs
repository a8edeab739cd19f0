//! Statistics: where the runtime's time went.
//!
//! They are always on. Every moment of a worker's life is charged to one state, so that
//! [`run`](WorkerStats::run), [`check`](WorkerStats::check), [`spin`](WorkerStats::spin),
//! [`park`](WorkerStats::park), [`steal`](WorkerStats::steal) and [`lend`](WorkerStats::lend) add
//! up to [`wall`](WorkerStats::wall). *Utilisation* is run time over wall time: spinning is neither
//! work nor sleep, and is counted separately. *Occupancy* is the part of the processors that polls
//! had, on workers and in the heavy pool.

mod checks;
mod classes;
mod deliveries;
mod display;
mod dump;
mod heavy;
mod hogs;
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
mod splices;
mod symbols;
mod tasks;
mod waits;
mod workers;

pub use crate::blocking::misses::DiskBackend;
pub use checks::{CheckCounts, Checks};
pub use classes::ClassStats;
pub use deliveries::{DeliveryStats, OutputStats, ReadinessStats};
pub(crate) use dump::take as take_dump;
pub use dump::{DumpFrame, DumpGroup, DumpOptions, DumpOutcome, DumpedTask, TaskDump, Wait};
pub use heavy::{HeavyPriority, HeavyStats};
#[cfg(feature = "drop-in")]
pub(crate) use hogs::finish_names;
pub use hogs::{HogFunction, HogProfile, HogSpans, HogStacks, HogStats};
pub(crate) use hogs::{HogNames, name_hogs, profile};
pub use host::HostStats;
pub(crate) use host::LastRead;
pub use lanes::{DiskStats, LaneStats};
pub use load::Load;
pub use site::Site;
pub use sizes::Sizes;
pub use snapshot::{BlockingStats, Stats};
pub use splices::SpliceStats;
pub(crate) use tasks::list;
pub use tasks::{TaskInfo, TaskOrder, TaskState};
pub use waits::Waits;
pub use workers::WorkerStats;
#[cfg(feature = "drop-in")]
pub(crate) use workers::read as read_worker;
