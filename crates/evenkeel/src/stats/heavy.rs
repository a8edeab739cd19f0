//! The heavy pool.

use std::time::Duration;

use crate::sched::heavy_pool::{HeavyPoolStats, Priority};

/// The heavy pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct HeavyStats {
    /// Its threads, at the moment.
    pub threads: usize,
    /// The most threads that may be there and not be blocked.
    pub limit: usize,
    /// Threads that were blocked in a task's poll when they were last checked: in a sleep, a lock
    /// or a system call.
    pub blocked: usize,
    /// The most blocked threads that may be there.
    pub blocked_limit: usize,
    /// Tasks that wait in it, at the moment.
    pub queued: usize,
    /// Polls that are under way in it, at the moment.
    pub running: usize,
    /// How often a worker's seat was taken from a thread that was stuck in a poll.
    pub hand_offs: u64,
    /// How many of these were made early, in a poll on guard, before its task was a hog.
    pub early: u64,
    /// How many of these a task asked for, by [`block_in_place`](crate::block_in_place).
    pub given_up: u64,
    /// How often a hand-off was refused because the pool had no thread left. One poll may be
    /// counted many times.
    pub refused: u64,
    /// Processor time of the monitor, which looks for stuck workers.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub monitor: Duration,
    /// Whether the pool's threads have a lower kernel priority.
    pub priority: HeavyPriority,
}

/// Whether the threads of the heavy pool have a lower kernel priority than workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum HeavyPriority {
    /// The pool has had no thread yet.
    #[default]
    Untried,
    /// They have: a priority that depends on the class.
    Lowered,
    /// The system refused it, as sandboxes may. Hogs then compete with workers as equals.
    Refused,
}

pub(super) fn read(pool: &HeavyPoolStats, monitor: Duration) -> HeavyStats {
    HeavyStats {
        threads: pool.threads,
        limit: pool.limit,
        blocked: pool.blocked,
        blocked_limit: pool.blocked_limit,
        queued: pool.queued,
        running: pool.running,
        hand_offs: pool.hand_offs,
        early: pool.early,
        given_up: pool.given_up,
        refused: pool.refused,
        monitor,
        priority: match pool.priority {
            Priority::Untried => HeavyPriority::Untried,
            Priority::Lowered => HeavyPriority::Lowered,
            Priority::Refused => HeavyPriority::Refused,
        },
    }
}
