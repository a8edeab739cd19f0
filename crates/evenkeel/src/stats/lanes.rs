//! Statistics of lanes.

use crate::blocking::core::CoreStats;
use crate::blocking::lanes::Lanes;
use crate::blocking::misses::DiskBackend;
use crate::clock::Clock;

use super::waits::Waits;

/// The state and the counters of a lane of blocking work.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// evenkeel::spawn_blocking(|| ()).await?;
/// let stats = evenkeel::runtime::Handle::current().stats();
/// let lane = stats.lane("blocking").expect("it is always there");
/// assert_eq!(lane.runs.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct LaneStats {
    /// Its name: `blocking` for `spawn_blocking`; `disk 8:1 data`, `disk 8:1 names`, `disk 8:1
    /// sync` and `disk 8:1 special` for a device; others for the user's lanes.
    pub name: String,
    /// Its threads, at the moment.
    pub threads: usize,
    /// The most threads it may have.
    pub limit: usize,
    /// How many of its threads are at work, at the moment.
    pub busy: usize,
    /// How much work waits for a thread, at the moment.
    pub queued: usize,
    /// How much work was done, with success or not. Work is counted before its output is there.
    pub done: u64,
    /// How much work was refused, because the queue was full or there was no thread.
    pub refused: u64,
    /// How much work failed because it had waited too long.
    pub expired: u64,
    /// How long work waited for a thread that did it.
    pub waits: Waits,
    /// How long work took.
    pub runs: Waits,
}

impl LaneStats {
    pub(crate) fn new(clock: &Clock, core: &CoreStats) -> Self {
        Self {
            name: core.name.to_string(),
            threads: core.threads,
            limit: core.threads_max,
            busy: core.busy,
            queued: core.queued,
            done: core.tally.done,
            refused: core.tally.refused,
            expired: core.tally.expired,
            waits: Waits::new(clock, &core.tally.waits),
            runs: Waits::new(clock, &core.tally.runs),
        }
    }
}

/// How files are read.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct DiskStats {
    /// How reads that wait for a device are done.
    pub backend: DiskBackend,
    /// Why the completion queue is not used, or empty.
    pub reason: String,
    /// How many reads the completion queue has done. Threads do all others, and all writes and
    /// syncs.
    pub ring_reads: u64,
}

impl DiskStats {
    pub(super) fn read(lanes: &Lanes) -> Self {
        let (backend, reason) = lanes.backend.read();
        Self {
            backend,
            reason,
            ring_reads: lanes.reads_by_ring(),
        }
    }
}
