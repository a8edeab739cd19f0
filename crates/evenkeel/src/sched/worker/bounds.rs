//! Durations that a worker goes by.

use std::time::Duration;

use crate::clock::Clock;
use crate::sched::config::Config;
use crate::sched::shared::HELD_UP_AFTER;

/// How long a task may go on before its leaf futures yield. With a shorter slice, tasks with much
/// to do would alternate more often, and find the cache cold. A longer slice makes others wait.
const SLICE: Duration = Duration::from_micros(100);
/// How long the next-task slot is served before the run queues are. Two tasks that wake each other
/// run fastest through the slot; all others wait for them that long.
const SLOT: Duration = Duration::from_micros(50);
/// How long polls are for which another worker is woken at once; see `backlog`.
const LONG: Duration = Duration::from_micros(50);
/// How much time a worker spends between two exchanges. An exchange takes some atomic operations on
/// memory that all workers share. In between, the division among classes may be off by this much
/// for each worker.
const EXCHANGE: Duration = Duration::from_micros(100);

/// See the module's documentation. In cycles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The most between two I/O checks, as long as polls are shorter.
    pub(super) check: u64,
    pub(super) slice: u64,
    pub(super) slot: u64,
    pub(super) long: u64,
    pub(super) stuck: u64,
    pub(super) exchange: u64,
}

impl Bounds {
    pub(super) fn new(config: &Config, clock: &Clock) -> Self {
        let cycles = |length| clock.cycles_of(length);
        Self {
            check: cycles(config.io_check_bound),
            slice: cycles(SLICE),
            slot: cycles(SLOT),
            long: cycles(LONG),
            stuck: cycles(HELD_UP_AFTER),
            exchange: cycles(EXCHANGE),
        }
    }
}
