//! Lengths of time that steer a worker.

use std::time::Duration;

use crate::clock::Clock;
use crate::sched::config::Config;
use crate::sched::monitor::lookout::guard_after;

/// How long a task may go on before its leaf futures give way. With a shorter slice tasks with much
/// to do would change more often, and find the cache cold; a longer one is what others wait for.
const SLICE: Duration = Duration::from_micros(100);
/// How long the next-task slot is served before the run queues get a turn. Two tasks that wake each
/// other go fastest through the slot; everybody else waits for them that long.
const SLOT: Duration = Duration::from_micros(50);
/// How much work has to wait before another worker is woken for it. Waking costs about 5 us of
/// processor time, and the woken worker begins about 50 us later; what waits for less than this
/// is done here sooner.
const HELP: Duration = Duration::from_micros(20);
/// How long a poll goes on before others may take its worker's next task, timers and events. Sooner
/// than that they would take the task from a cache that is warm.
const STUCK: Duration = Duration::from_micros(50);
/// How much time is spent on classes before the other workers are told, and asked. That takes some
/// atomic operations on memory that all share; between two of them the division among classes may
/// be wrong by this much for each worker.
const EXCHANGE: Duration = Duration::from_micros(100);

/// See the module's documentation. In cycles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The most between two I/O checks, as long as polls are shorter.
    pub(super) check: u64,
    pub(super) slice: u64,
    pub(super) slot: u64,
    pub(super) help: u64,
    pub(super) stuck: u64,
    pub(super) exchange: u64,
    /// How long a poll may last before its task hogs; `u64::MAX` if nothing does.
    pub(super) hog: u64,
    /// How long one on guard may last before another thread sees to what waits behind it.
    pub(super) guard: u64,
}

impl Bounds {
    pub(super) fn new(config: &Config, clock: &Clock) -> Self {
        let cycles = |length| clock.cycles_of(length);
        let hog = config.hand_off_after;
        Self {
            check: cycles(config.io_check_bound),
            slice: cycles(SLICE),
            slot: cycles(SLOT),
            help: cycles(HELP),
            stuck: cycles(STUCK),
            exchange: cycles(EXCHANGE),
            hog: hog.map_or(u64::MAX, cycles),
            guard: hog.map_or(u64::MAX, |after| cycles(guard_after(after))),
        }
    }
}
