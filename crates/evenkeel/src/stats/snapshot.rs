//! What the runtime did so far: one moment's reading of all accounts.

use std::ops::Sub;
use std::time::Duration;

use crate::class::{CLASSES, Class};
use crate::sched::shared::{Seat, Shared};

use super::accounts::{Accounts, BUCKETS, CheckOrigin, ORIGINS};
use super::waits::Waits;

/// What a runtime did so far.
///
/// Every number only grows, but for those of what there is at the moment. [`since`](Stats::since)
/// gives the difference between two readings.
///
/// # Examples
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() {
/// let stats = evenkeel::runtime::Handle::current().stats();
/// for worker in &stats.workers {
///     let sum = worker.run() + worker.check + worker.spin + worker.park + worker.steal;
///     let rounding = std::time::Duration::from_micros(1);
///     assert!(sum.abs_diff(worker.wall) <= worker.wall / 100 + rounding);
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// One for each worker.
    pub workers: Vec<WorkerStats>,
    /// One for each class, in the order of [`Class::ALL`].
    pub classes: Vec<ClassStats>,
    /// I/O checks by all workers.
    pub checks: Checks,
    /// Events and what they brought.
    pub readiness: ReadinessStats,
    /// The threads for blocking work, at the moment.
    pub blocking: BlockingStats,
    /// Tasks that have been polled and wait, at the moment.
    pub tasks_waiting: usize,
    /// Timers that are set, at the moment.
    pub timers: usize,
}

/// Where one worker's time went.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Time spent polling tasks, by class in the order of [`Class::ALL`].
    pub run_by_class: [Duration; CLASSES],
    /// Time spent asking readiness queues, handing out events, and firing timers.
    pub check: Duration,
    /// Time spent busy-waiting: neither work nor sleep.
    pub spin: Duration,
    /// Time spent asleep in the kernel.
    pub park: Duration,
    /// Time spent looking for work at other workers'.
    pub steal: Duration,
    /// Time since the worker began.
    pub wall: Duration,
    /// How often the worker slept.
    pub parks: u64,
    /// How many tasks it took from others.
    pub steals: u64,
    /// How often it woke another because it had more than it could do soon.
    pub helps: u64,
    /// How often busy-waiting brought work.
    pub spin_hits: u64,
    /// How often busy-waiting was in vain.
    pub spin_misses: u64,
}

impl WorkerStats {
    /// Time spent polling tasks.
    pub fn run(&self) -> Duration {
        self.run_by_class.iter().sum()
    }

    /// Useful run time over wall time, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        if self.wall.is_zero() {
            0.0
        } else {
            self.run().as_secs_f64() / self.wall.as_secs_f64()
        }
    }
}

/// What one class got.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ClassStats {
    /// The class.
    pub class: Class,
    /// Time spent polling its tasks.
    pub run: Duration,
    /// How often its tasks were polled.
    pub polls: u64,
    /// How long its tasks were ready before they were polled.
    pub waits: Waits,
}

/// Visits to readiness queues, by why they were made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checks {
    /// The bound on the time between checks had passed.
    pub due: CheckCounts,
    /// There was nothing else to do: the visits in which workers sleep.
    pub idle: CheckCounts,
    /// While busy-waiting.
    pub spin: CheckCounts,
    /// By another thread than the queue's owner, which was busy.
    pub monitor: CheckCounts,
}

impl Checks {
    /// All visits.
    pub fn total(&self) -> u64 {
        [self.due, self.idle, self.spin, self.monitor]
            .iter()
            .map(CheckCounts::total)
            .sum()
    }
}

/// Visits to readiness queues, by whether they brought anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckCounts {
    /// Visits that brought events.
    pub found: u64,
    /// Visits that brought none.
    pub empty: u64,
}

impl CheckCounts {
    /// All visits.
    pub fn total(&self) -> u64 {
        self.found + self.empty
    }
}

/// Events and what they brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReadinessStats {
    /// Events that reached a descriptor.
    pub events: u64,
    /// Readers that were woken.
    pub deliveries: u64,
    /// Descriptors that are registered, at the moment.
    pub descriptors: usize,
}

/// The threads for blocking work, at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BlockingStats {
    /// Threads.
    pub threads: usize,
    /// Threads without work.
    pub idle: usize,
    /// Work that waits for a thread.
    pub queued: usize,
}

impl Stats {
    pub(crate) fn read(shared: &Shared) -> Self {
        let workers: Vec<_> = shared
            .seats
            .iter()
            .map(|seat| worker(shared, seat))
            .collect();
        let accounts = || shared.seats.iter().map(|seat| &seat.accounts);
        let sum = |of: fn(&Accounts) -> u64| accounts().map(of).sum::<u64>();
        let classes = Class::ALL.into_iter().map(|class| ClassStats {
            class,
            run: workers
                .iter()
                .map(|worker| worker.run_by_class[class.index()])
                .sum(),
            polls: accounts()
                .map(|accounts| accounts.polls[class.index()].load())
                .sum(),
            waits: waits(shared, class),
        });
        let pool = shared.pool.stats();
        Self {
            classes: classes.collect(),
            workers,
            checks: checks(shared),
            readiness: ReadinessStats {
                events: sum(|accounts| accounts.events.load()),
                deliveries: sum(|accounts| accounts.deliveries.load()),
                descriptors: shared
                    .seats
                    .iter()
                    .map(|seat| seat.driver.descriptors())
                    .sum(),
            },
            blocking: BlockingStats {
                threads: pool.threads,
                idle: pool.idle,
                queued: pool.queued,
            },
            tasks_waiting: shared.registry.len(),
            timers: shared.seats.iter().map(|seat| seat.timers.len()).sum(),
        }
    }

    /// What happened since an earlier reading of the same runtime. What is of the moment stays.
    pub fn since(&self, earlier: &Stats) -> Stats {
        let workers = self.workers.iter().zip(&earlier.workers);
        let classes = self.classes.iter().zip(&earlier.classes);
        Stats {
            workers: workers.map(|(now, before)| now.since(before)).collect(),
            classes: classes
                .map(|(now, before)| ClassStats {
                    class: now.class,
                    run: now.run.saturating_sub(before.run),
                    polls: now.polls.saturating_sub(before.polls),
                    waits: now.waits.since(&before.waits),
                })
                .collect(),
            checks: self.checks - earlier.checks,
            readiness: ReadinessStats {
                events: self
                    .readiness
                    .events
                    .saturating_sub(earlier.readiness.events),
                deliveries: self
                    .readiness
                    .deliveries
                    .saturating_sub(earlier.readiness.deliveries),
                descriptors: self.readiness.descriptors,
            },
            blocking: self.blocking,
            tasks_waiting: self.tasks_waiting,
            timers: self.timers,
        }
    }

    /// The mean of the workers' utilisation, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        let sum: f64 = self.workers.iter().map(WorkerStats::utilisation).sum();
        sum / self.workers.len().max(1) as f64
    }
}

impl WorkerStats {
    fn since(&self, earlier: &WorkerStats) -> WorkerStats {
        WorkerStats {
            run_by_class: std::array::from_fn(|class| {
                self.run_by_class[class].saturating_sub(earlier.run_by_class[class])
            }),
            check: self.check.saturating_sub(earlier.check),
            spin: self.spin.saturating_sub(earlier.spin),
            park: self.park.saturating_sub(earlier.park),
            steal: self.steal.saturating_sub(earlier.steal),
            wall: self.wall.saturating_sub(earlier.wall),
            parks: self.parks.saturating_sub(earlier.parks),
            steals: self.steals.saturating_sub(earlier.steals),
            helps: self.helps.saturating_sub(earlier.helps),
            spin_hits: self.spin_hits.saturating_sub(earlier.spin_hits),
            spin_misses: self.spin_misses.saturating_sub(earlier.spin_misses),
        }
    }
}

impl Sub for Checks {
    type Output = Checks;

    fn sub(self, earlier: Checks) -> Checks {
        Checks {
            due: self.due - earlier.due,
            idle: self.idle - earlier.idle,
            spin: self.spin - earlier.spin,
            monitor: self.monitor - earlier.monitor,
        }
    }
}

impl Sub for CheckCounts {
    type Output = CheckCounts;

    fn sub(self, earlier: CheckCounts) -> CheckCounts {
        CheckCounts {
            found: self.found.saturating_sub(earlier.found),
            empty: self.empty.saturating_sub(earlier.empty),
        }
    }
}

fn worker(shared: &Shared, seat: &Seat) -> WorkerStats {
    let (clock, accounts) = (&shared.clock, &seat.accounts);
    let times = accounts.times(|| clock.cycles());
    let duration = |cycles| clock.to_duration(cycles);
    WorkerStats {
        run_by_class: times.run.map(duration),
        check: duration(times.check),
        spin: duration(times.spin),
        park: duration(times.park),
        steal: duration(times.steal),
        wall: duration(times.wall),
        parks: accounts.parks.load(),
        steals: accounts.steals.load(),
        helps: accounts.helps.load(),
        spin_hits: accounts.hits.load(),
        spin_misses: accounts.misses.load(),
    }
}

fn waits(shared: &Shared, class: Class) -> Waits {
    let mut counts = [0; BUCKETS];
    for seat in &shared.seats {
        let waits = &seat.accounts.waits[class.index()];
        counts
            .iter_mut()
            .zip(waits.iter())
            .for_each(|(sum, count)| *sum += count.load());
    }
    Waits::new(&shared.clock, &counts)
}

fn checks(shared: &Shared) -> Checks {
    let mut counts = [CheckCounts::default(); ORIGINS];
    for seat in &shared.seats {
        for (sum, [found, empty]) in counts.iter_mut().zip(&seat.accounts.checks) {
            sum.found += found.load();
            sum.empty += empty.load();
        }
    }
    Checks {
        due: counts[CheckOrigin::Due as usize],
        idle: counts[CheckOrigin::Idle as usize],
        spin: counts[CheckOrigin::Spin as usize],
        monitor: counts[CheckOrigin::Monitor as usize],
    }
}
