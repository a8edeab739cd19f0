//! What the runtime did so far: one moment's reading of all accounts.

use std::ops::Sub;
use std::panic::Location;
use std::time::Duration;

use crate::blocking::lanes::Lanes;
use crate::class::Class;
use crate::counters::accounts::{Accounts, CheckOrigin, Count, ORIGINS};
use crate::counters::deliveries::{BUCKETS as SIZES, DeliveryCounts};
use crate::sched::heavy_pool::{HeavyPoolStats, Priority};
use crate::sched::kinds::Known;
use crate::sched::shared::{Seat, Shared};

use super::lanes::{DiskStats, LaneStats};
use super::sizes::Sizes;
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
///     let sum = worker.run()
///         + worker.check
///         + worker.spin
///         + worker.park
///         + worker.steal
///         + worker.lend;
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
    /// One for each class, in the order of [`Class::index`].
    pub classes: Vec<ClassStats>,
    /// The heavy pool: the threads for tasks that hog.
    pub heavy: HeavyStats,
    /// The kinds of tasks that hogged, the one with the most time first.
    pub hogs: Vec<HogStats>,
    /// I/O checks by all workers.
    pub checks: Checks,
    /// Events and what they brought.
    pub readiness: ReadinessStats,
    /// What readers were brought.
    pub delivery: DeliveryStats,
    /// The threads for blocking work, at the moment.
    pub blocking: BlockingStats,
    /// The lanes of blocking work: that of `spawn_blocking` first, then those of devices, then the
    /// user's.
    pub lanes: Vec<LaneStats>,
    /// How files are read.
    pub disk: DiskStats,
    /// Tasks that have been polled and wait, at the moment.
    pub tasks_waiting: usize,
    /// Timers that are set, at the moment.
    pub timers: usize,
}

/// Where one worker's time went.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Time spent polling tasks, by class in the order of [`Class::index`].
    pub run_by_class: Vec<Duration>,
    /// Time spent asking readiness queues, handing out events, and firing timers.
    pub check: Duration,
    /// Time spent busy-waiting: neither work nor sleep.
    pub spin: Duration,
    /// Time spent asleep in the kernel.
    pub park: Duration,
    /// Time spent looking for work at other workers'.
    pub steal: Duration,
    /// Time for which the processor was left to the threads of the heavy pool, whose class was owed
    /// it.
    pub lend: Duration,
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
    /// Its name.
    pub name: String,
    /// Its share, at the moment.
    pub share: u32,
    /// Time spent polling its tasks: by workers, and processor time in the heavy pool.
    pub run: Duration,
    /// The part of it that was spent in the heavy pool.
    pub heavy: Duration,
    /// How often its tasks were polled, in either.
    pub polls: u64,
    /// How many of these polls were too long.
    pub hogs: u64,
    /// How long its tasks were ready before they were polled.
    pub waits: Waits,
}

/// The heavy pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeavyStats {
    /// Its threads, at the moment.
    pub threads: usize,
    /// The most of them that may be there and not be blocked.
    pub limit: usize,
    /// Those that were blocked in a task's poll when they were last looked at: in a sleep, a lock
    /// or a call of the system.
    pub blocked: usize,
    /// The most of those.
    pub blocked_limit: usize,
    /// Tasks that wait in it, at the moment.
    pub queued: usize,
    /// Polls that are under way in it, at the moment.
    pub running: usize,
    /// How often a worker's seat was taken from a thread that was stuck in a poll.
    pub hand_offs: u64,
    /// How many of these were made early, in a poll on guard: its task was not a hog yet, and need
    /// not have become one.
    pub early: u64,
    /// How often that was tried in vain because the pool had all the threads it may have: again and
    /// again for a poll that goes on.
    pub refused: u64,
    /// Processor time of the thread that looks for workers which are stuck.
    pub monitor: Duration,
    /// What the system made of the wish that the pool's threads have a lower kernel priority.
    pub priority: HeavyPriority,
}

/// Whether the kernel priority of the heavy pool's threads is lower than that of workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeavyPriority {
    /// There has been no thread to lower.
    #[default]
    Untried,
    /// It follows the class.
    Lowered,
    /// The system refused, as sandboxes may: all works, but hogs compete with workers as equals.
    Refused,
}

/// The hogs of one kind: of the same type, name and class, spawned by the same line of source.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HogStats {
    /// Where they were spawned.
    pub spawned_at: &'static Location<'static>,
    /// The type of their future, as the compiler writes it: for people, and not to be relied on.
    pub future: &'static str,
    /// The name they were given, if any.
    pub name: Option<&'static str>,
    /// Their class.
    pub class: Class,
    /// How many of their polls were too long.
    pub count: u64,
    /// How many of those that are over were blocked, and did not compute.
    pub blocked: u64,
    /// The longest of those that are over, since the runtime's start, also in a difference of two
    /// readings. Time by the clock, whatever it was used for; so is `total`.
    pub longest: Duration,
    /// All of those that are over.
    pub total: Duration,
    /// Whether fresh tasks of this kind start in the heavy pool, as nearly all of them hog.
    pub in_pool: bool,
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
    /// Readers that were woken, by events and by sweeps.
    pub deliveries: u64,
    /// Descriptors that are registered, at the moment.
    pub descriptors: usize,
}

/// What the readers of streams, and batches of datagrams, were brought.
///
/// Bytes are those that reads took from the kernel's sockets: with TLS on top they are encrypted,
/// and count its framing. Reads with an operation of the user's (`try_io`, `async_io`), single
/// datagrams, and what is only peeked at are not counted.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeliveryStats {
    /// Times that a reader was woken, or found bytes without waiting, and got some.
    pub deliveries: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Reads that brought bytes or found nothing, each a system call.
    pub reads: u64,
    /// Those of them that found nothing.
    pub empty_reads: u64,
    /// What a delivery brought before the socket was empty. One that is not over is not in it.
    pub bytes_per_delivery: Sizes,
    /// For how long deliveries to sockets whose mode is not [`Immediate`] were held back, at most:
    /// where the kernel does it, it does not tell when the first byte came, and the time counts
    /// from when the reader had emptied the socket. It ends when the delay is over, or the
    /// watermark is heard of. That a worker comes late to its sweep is not in it: it would have
    /// come late to an event, too.
    ///
    /// [`Immediate`]: crate::net::Delivery::Immediate
    pub added_delay: Waits,
    /// The longest of these since the runtime's start, also in a difference of two readings.
    pub longest_delay: Duration,
    /// Descriptors that sweeps looked at: one for each that is held back, once in its delay.
    pub swept: u64,
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
        let pool = shared.heavy_pool.stats();
        let lanes = Lanes::of(shared).stats();
        let general = &lanes[0];
        Self {
            classes: classes(shared, &workers, &pool),
            heavy: heavy(&pool, shared.monitor.used()),
            hogs: hogs(shared),
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
            delivery: delivery(shared, sum(|accounts| accounts.swept.load())),
            blocking: BlockingStats {
                threads: general.threads,
                idle: general.idle,
                queued: general.queued,
            },
            lanes: (lanes.iter())
                .map(|lane| LaneStats::new(&shared.clock, lane))
                .collect(),
            disk: DiskStats::read(Lanes::of(shared)),
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
                    name: now.name.clone(),
                    share: now.share,
                    run: now.run.saturating_sub(before.run),
                    heavy: now.heavy.saturating_sub(before.heavy),
                    polls: now.polls.saturating_sub(before.polls),
                    hogs: now.hogs.saturating_sub(before.hogs),
                    waits: now.waits.since(&before.waits),
                })
                .collect(),
            heavy: HeavyStats {
                hand_offs: self.heavy.hand_offs.saturating_sub(earlier.heavy.hand_offs),
                early: self.heavy.early.saturating_sub(earlier.heavy.early),
                refused: self.heavy.refused.saturating_sub(earlier.heavy.refused),
                monitor: self.heavy.monitor.saturating_sub(earlier.heavy.monitor),
                ..self.heavy.clone()
            },
            hogs: self.hogs_since(earlier),
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
            delivery: self.delivery.since(&earlier.delivery),
            blocking: self.blocking,
            lanes: LaneStats::all_since(&self.lanes, &earlier.lanes),
            disk: self.disk.since(&earlier.disk),
            tasks_waiting: self.tasks_waiting,
            timers: self.timers,
        }
    }

    /// The lane of this name, if it is there at the moment.
    pub fn lane(&self, name: &str) -> Option<&LaneStats> {
        self.lanes.iter().find(|lane| lane.name == name)
    }

    fn hogs_since(&self, earlier: &Stats) -> Vec<HogStats> {
        let since = |hog: &HogStats| {
            let before = earlier
                .hogs
                .iter()
                .find(|before| before.kind() == hog.kind());
            let mut hog = hog.clone();
            if let Some(before) = before {
                hog.count = hog.count.saturating_sub(before.count);
                hog.blocked = hog.blocked.saturating_sub(before.blocked);
                hog.total = hog.total.saturating_sub(before.total);
            }
            hog
        };
        self.hogs.iter().map(since).collect()
    }

    /// The mean of the workers' utilisation, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        let sum: f64 = self.workers.iter().map(WorkerStats::utilisation).sum();
        sum / self.workers.len().max(1) as f64
    }
}

impl HogStats {
    /// What tells it from other rows.
    fn kind(
        &self,
    ) -> (
        &'static Location<'static>,
        &'static str,
        Option<&str>,
        Class,
    ) {
        (self.spawned_at, self.future, self.name, self.class)
    }
}

impl DeliveryStats {
    fn since(&self, earlier: &DeliveryStats) -> DeliveryStats {
        DeliveryStats {
            deliveries: self.deliveries.saturating_sub(earlier.deliveries),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            reads: self.reads.saturating_sub(earlier.reads),
            empty_reads: self.empty_reads.saturating_sub(earlier.empty_reads),
            bytes_per_delivery: self.bytes_per_delivery.since(&earlier.bytes_per_delivery),
            added_delay: self.added_delay.since(&earlier.added_delay),
            longest_delay: self.longest_delay,
            swept: self.swept.saturating_sub(earlier.swept),
        }
    }
}

impl WorkerStats {
    fn since(&self, earlier: &WorkerStats) -> WorkerStats {
        WorkerStats {
            run_by_class: (self.run_by_class.iter().zip(&earlier.run_by_class))
                .map(|(now, before)| now.saturating_sub(*before))
                .collect(),
            check: self.check.saturating_sub(earlier.check),
            spin: self.spin.saturating_sub(earlier.spin),
            park: self.park.saturating_sub(earlier.park),
            steal: self.steal.saturating_sub(earlier.steal),
            lend: self.lend.saturating_sub(earlier.lend),
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
        run_by_class: times.run[..shared.config.classes.len()]
            .iter()
            .map(|&cycles| duration(cycles))
            .collect(),
        check: duration(times.check),
        spin: duration(times.spin),
        park: duration(times.park),
        steal: duration(times.steal),
        lend: duration(times.lend),
        wall: duration(times.wall),
        parks: accounts.parks.load(),
        steals: accounts.steals.load(),
        helps: accounts.helps.load(),
        spin_hits: accounts.hits.load(),
        spin_misses: accounts.misses.load(),
    }
}

fn classes(shared: &Shared, workers: &[WorkerStats], pool: &HeavyPoolStats) -> Vec<ClassStats> {
    let rows = shared.config.classes.iter();
    rows.map(|(class, row)| {
        let index = class.index();
        let heavy = shared.clock.to_duration(pool.spent[index]);
        let run: Duration = workers
            .iter()
            .map(|worker| worker.run_by_class[index])
            .sum();
        let polls = shared
            .seats
            .iter()
            .map(|seat| seat.accounts.polls[index].load());
        ClassStats {
            class,
            name: row.name.clone(),
            share: shared.ledger.term(class).share,
            run: run + heavy,
            heavy,
            polls: polls.sum::<u64>() + pool.polls[index],
            hogs: shared.kinds.hogs(class),
            waits: waits(shared, pool, class),
        }
    })
    .collect()
}

fn delivery(shared: &Shared, swept: u64) -> DeliveryStats {
    let outside = shared.outside.lock();
    let desks: Vec<_> = shared.desks.iter().map(|(_, desk)| desk).collect();
    let counts = || {
        let inside = desks.iter().map(|desk| &desk.deliveries.0);
        inside.chain(std::iter::once(&*outside))
    };
    let sum = |of: fn(&DeliveryCounts) -> &Count| counts().map(|at| of(at).load()).sum::<u64>();
    let sums = |of: fn(&DeliveryCounts) -> &[Count; SIZES]| -> Vec<u64> {
        let bucket = |bucket: usize| counts().map(|at| of(at)[bucket].load()).sum();
        (0..SIZES).map(bucket).collect()
    };
    let longest = counts().map(|at| at.longest.load());
    DeliveryStats {
        deliveries: sum(|at| &at.deliveries),
        bytes: sum(|at| &at.bytes),
        reads: sum(|at| &at.reads),
        empty_reads: sum(|at| &at.empty),
        bytes_per_delivery: Sizes::new(sums(|at| &at.sizes)),
        added_delay: Waits::of_nanos(&sums(|at| &at.delays)),
        longest_delay: Duration::from_nanos(longest.max().unwrap_or(0)),
        swept,
    }
}

fn heavy(pool: &HeavyPoolStats, monitor: Duration) -> HeavyStats {
    HeavyStats {
        threads: pool.threads,
        limit: pool.limit,
        blocked: pool.blocked,
        blocked_limit: pool.blocked_limit,
        queued: pool.queued,
        running: pool.running,
        hand_offs: pool.hand_offs,
        early: pool.early,
        refused: pool.refused,
        monitor,
        priority: match pool.priority {
            Priority::Untried => HeavyPriority::Untried,
            Priority::Lowered => HeavyPriority::Lowered,
            Priority::Refused => HeavyPriority::Refused,
        },
    }
}

fn hogs(shared: &Shared) -> Vec<HogStats> {
    let mut rows = shared.kinds.rows();
    rows.sort_by_key(|(row, _)| std::cmp::Reverse(row.total));
    rows.into_iter()
        .map(|(row, known)| HogStats {
            spawned_at: row.kind.spawned_at,
            future: row.kind.future.name(),
            name: row.kind.name,
            class: row.kind.class,
            count: row.count,
            blocked: row.blocked,
            longest: shared.clock.to_duration(row.longest),
            total: shared.clock.to_duration(row.total),
            in_pool: matches!(known, Known::NearlyAll { .. }) && row.kind.class != Class::URGENT,
        })
        .collect()
}

fn waits(shared: &Shared, pool: &HeavyPoolStats, class: Class) -> Waits {
    let mut counts = pool.waits[class.index()];
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
