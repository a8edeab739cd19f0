//! A snapshot of all statistics.

use std::time::Duration;

use crate::blocking::lanes::Lanes;
use crate::counters::accounts::Accounts;
use crate::sched::shared::Shared;

use super::checks::{self, Checks};
use super::classes::{self, ClassStats};
use super::deliveries::{self, DeliveryStats, OutputStats, ReadinessStats};
use super::heavy::{self, HeavyStats};
use super::hogs::{self, HogFunction, HogStacks, HogStats};
use super::host::HostStats;
use super::lanes::{DiskStats, LaneStats};
use super::since::{Subtract, subtract_matching};
use super::splices::{self, SpliceStats};
use super::workers::{self, WorkerStats};

/// A snapshot of what a runtime has done so far.
///
/// Numbers never decrease, except those of the current state, which are marked "at the moment".
/// [`since`](Stats::since) returns the difference between two snapshots.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let stats = evenkeel::runtime::Handle::current().stats();
/// for worker in &stats.workers {
///     let sum = worker.run()
///         + worker.check
///         + worker.spin
///         + worker.park
///         + worker.steal
///         + worker.lend;
///     let rounding = std::time::Duration::from_micros(1);
///     assert!(sum.abs_diff(worker.wall) <= worker.wall / 100 + rounding);
/// }
/// # });
/// ```
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct Stats {
    /// One for each worker.
    pub workers: Vec<WorkerStats>,
    /// How many processors the process might use when the runtime was built: those of its affinity
    /// mask, or a quota of processor time, if that is less.
    pub processors: f64,
    /// One for each class, in the order of [`Class::index`](crate::Class::index).
    pub classes: Vec<ClassStats>,
    /// The heavy pool: the threads for tasks that hog.
    pub heavy: HeavyStats,
    /// The kinds of tasks that hogged, the one with the most time first.
    pub hogs: Vec<HogStats>,
    /// What hogs were doing, by function, the one with the most time first.
    pub hog_functions: Vec<HogFunction>,
    /// The stacks by which that was found out.
    pub hog_stacks: HogStacks,
    /// I/O checks by all workers.
    pub checks: Checks,
    /// Events, and the readers they woke.
    pub readiness: ReadinessStats,
    /// Deliveries to readers.
    pub delivery: DeliveryStats,
    /// Writes to sockets.
    pub output: OutputStats,
    /// What was moved from socket to socket without copying.
    pub splice: SpliceStats,
    /// The threads for blocking work, at the moment.
    pub blocking: BlockingStats,
    /// The lanes of blocking work: that of `spawn_blocking` first, then those of devices, that of
    /// dumps if one was made, then the user's.
    pub lanes: Vec<LaneStats>,
    /// How files are read.
    pub disk: DiskStats,
    /// What the machine under the process took away.
    pub host: HostStats,
    /// Tasks that have been polled and have not completed, at the moment: those that wait, are
    /// ready again, or run.
    pub tasks_waiting: usize,
    /// Timers that are set, at the moment.
    pub timers: usize,
}

impl Stats {
    pub(crate) fn read(shared: &Shared) -> Self {
        let workers: Vec<_> = shared
            .seats
            .iter()
            .map(|seat| workers::read(shared, seat))
            .collect();
        let accounts = || shared.seats.iter().map(|seat| &seat.accounts);
        let sum = |of: fn(&Accounts) -> u64| accounts().map(of).sum::<u64>();
        let pool = shared.heavy_pool.stats();
        let lanes = Lanes::of(shared).stats();
        let general = &lanes[0];
        debug_assert_eq!(&*general.name, "blocking");
        Self {
            classes: classes::read(shared, &workers, &pool),
            heavy: heavy::read(&pool, shared.monitor.used()),
            hogs: hogs::read(shared),
            hog_functions: hogs::read_functions(shared),
            hog_stacks: hogs::read_stacks(shared),
            workers,
            processors: shared.config.processors,
            checks: checks::read(shared),
            readiness: ReadinessStats {
                events: sum(|accounts| accounts.events.load()),
                deliveries: sum(|accounts| accounts.deliveries.load()),
                descriptors: shared
                    .seats
                    .iter()
                    .map(|seat| seat.driver.descriptors())
                    .sum(),
            },
            delivery: deliveries::read(shared, sum(|accounts| accounts.swept.load())),
            output: deliveries::read_output(shared),
            splice: splices::read(shared),
            blocking: BlockingStats {
                threads: general.threads,
                idle: general.idle,
                queued: general.queued,
            },
            lanes: (lanes.iter())
                .map(|lane| LaneStats::new(&shared.clock, lane))
                .collect(),
            disk: DiskStats::read(Lanes::of(shared)),
            host: HostStats::read(shared),
            tasks_waiting: shared.registry.len(),
            timers: shared.seats.iter().map(|seat| seat.timers.len()).sum(),
        }
    }

    /// Returns what has happened since an earlier snapshot of the same runtime. Numbers of the
    /// current state are those of `self`.
    pub fn since(&self, earlier: &Stats) -> Stats {
        let mut since = self.clone();
        since.workers.subtract(&earlier.workers);
        since.classes.subtract(&earlier.classes);
        since.heavy.subtract(&earlier.heavy);
        let is_same = |now: &HogStats, before: &HogStats| now.kind() == before.kind();
        subtract_matching(&mut since.hogs, &earlier.hogs, is_same);
        let is_same = |now: &HogFunction, before: &HogFunction| now.key() == before.key();
        subtract_matching(&mut since.hog_functions, &earlier.hog_functions, is_same);
        since.hog_stacks.subtract(&earlier.hog_stacks);
        since.checks.subtract(&earlier.checks);
        since.readiness.subtract(&earlier.readiness);
        since.delivery.subtract(&earlier.delivery);
        since.output.subtract(&earlier.output);
        since.splice.subtract(&earlier.splice);
        let is_same = |now: &LaneStats, before: &LaneStats| now.name == before.name;
        subtract_matching(&mut since.lanes, &earlier.lanes, is_same);
        since.disk.subtract(&earlier.disk);
        since.host.subtract(&earlier.host);
        since
    }

    /// The lane of this name, if it is there at the moment.
    pub fn lane(&self, name: &str) -> Option<&LaneStats> {
        self.lanes.iter().find(|lane| lane.name == name)
    }

    /// The mean of the workers' utilisation, from 0 to 1. Polls in the heavy pool are no part of
    /// it: see [`occupancy`](Stats::occupancy).
    pub fn utilisation(&self) -> f64 {
        // Not `sum()`, which is -0.0 of none.
        let workers = self.workers.iter().map(WorkerStats::utilisation);
        let sum = workers.fold(0.0, |sum, worker| sum + worker);
        sum / self.workers.len().max(1) as f64
    }

    /// How much of the [`processors`](Stats::processors) polls of tasks had: the time that workers
    /// spent in them and the processor time of those in the heavy pool, over the time of all
    /// processors. 1 means that all of them ran tasks all the time. It may be somewhat more, as a
    /// worker's time in a poll includes moments in which the kernel did not schedule it.
    ///
    /// This is what to scale a service by, together with [`utilisation`](Stats::utilisation), which
    /// is higher if there are fewer workers than processors. Spinning is not counted, nor time in
    /// which a poll was blocked in the heavy pool, nor work in lanes.
    pub fn occupancy(&self) -> f64 {
        let walls: Duration = self.workers.iter().map(|worker| worker.wall).sum();
        let wall = walls.as_secs_f64() / self.workers.len().max(1) as f64;
        // Not known from a snapshot that an earlier version wrote.
        let processors = if self.processors > 0.0 {
            self.processors
        } else {
            self.workers.len() as f64
        };
        let available = wall * processors;
        let ran: Duration = self.classes.iter().map(|class| class.run).sum();
        if available > 0.0 {
            ran.as_secs_f64() / available
        } else {
            0.0
        }
    }
}

/// The threads for blocking work, at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct BlockingStats {
    /// Threads.
    pub threads: usize,
    /// Threads without work.
    pub idle: usize,
    /// Work that waits for a thread.
    pub queued: usize,
}
