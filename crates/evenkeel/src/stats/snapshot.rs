//! A snapshot of all statistics.

use std::borrow::Cow;
use std::ops::Sub;
use std::time::Duration;

use crate::blocking::lanes::Lanes;
use crate::class::Class;
use crate::counters::accounts::{Accounts, CheckOrigin, Count, ORIGINS};
use crate::counters::deliveries::{BUCKETS as SIZES, DeliveryCounts};
use crate::sched::heavy_pool::{HeavyPoolStats, Priority};
use crate::sched::kinds::Known;
use crate::sched::shared::{Seat, Shared};

use super::host::HostStats;
use super::lanes::{DiskStats, LaneStats};
use super::load;
use super::since::{Subtract, subtract_matching};
use super::site::Site;
use super::sizes::Sizes;
use super::waits::Waits;

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
    /// One for each class, in the order of [`Class::index`].
    pub classes: Vec<ClassStats>,
    /// The heavy pool: the threads for tasks that hog.
    pub heavy: HeavyStats,
    /// The kinds of tasks that hogged, the one with the most time first.
    pub hogs: Vec<HogStats>,
    /// I/O checks by all workers.
    pub checks: Checks,
    /// Events, and the readers they woke.
    pub readiness: ReadinessStats,
    /// Deliveries to readers.
    pub delivery: DeliveryStats,
    /// Writes to sockets.
    pub output: OutputStats,
    /// The threads for blocking work, at the moment.
    pub blocking: BlockingStats,
    /// The lanes of blocking work: that of `spawn_blocking` first, then those of devices, then the
    /// user's.
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

/// Where the time of a worker went.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Time spent polling tasks, by class in the order of [`Class::index`].
    #[cfg_attr(feature = "serde", serde(with = "super::nanos::list"))]
    pub run_by_class: Vec<Duration>,
    /// Time spent asking readiness queues, handing out events, and firing timers.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub check: Duration,
    /// Time spent spinning, which is neither work nor sleep.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub spin: Duration,
    /// Time spent asleep in the kernel.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub park: Duration,
    /// Time spent looking for tasks to steal from other workers.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub steal: Duration,
    /// Time in which the worker left its processor to threads of the heavy pool, whose class was
    /// owed it.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub lend: Duration,
    /// Time since the worker began.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub wall: Duration,
    /// How often the worker slept.
    pub parks: u64,
    /// How many tasks it stole from other workers.
    pub steals: u64,
    /// How often it woke another worker because its own backlog was too long.
    pub helps: u64,
    /// How often spinning found work.
    pub spin_hits: u64,
    /// How often spinning found none.
    pub spin_misses: u64,
}

impl WorkerStats {
    /// Time spent polling tasks.
    pub fn run(&self) -> Duration {
        self.run_by_class.iter().sum()
    }

    /// Run time over wall time, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        if self.wall.is_zero() {
            0.0
        } else {
            self.run().as_secs_f64() / self.wall.as_secs_f64()
        }
    }
}

/// The processor time and the waits of a class.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct ClassStats {
    /// The class.
    #[cfg_attr(feature = "serde", serde(with = "super::index"))]
    pub class: Class,
    /// Its name.
    pub name: String,
    /// Its share, at the moment.
    pub share: u32,
    /// Time spent polling its tasks: time on workers, and processor time in the heavy pool.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub run: Duration,
    /// The part of it that was spent in the heavy pool.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub heavy: Duration,
    /// How often its tasks were polled, in both.
    pub polls: u64,
    /// How many of these polls were too long.
    pub hogs: u64,
    /// How long its tasks were ready before they were polled.
    pub waits: Waits,
    /// How long its polls took that are over, by the clock.
    pub poll_lengths: Waits,
    /// How many of its tasks are ready and wait to be polled, at the moment: without those in the
    /// heavy pool, and without the one that each worker polls next. Of those that other threads
    /// have woken in the last moments, at most 4096 are counted.
    pub ready: usize,
    /// About how long the one of these has waited that came first: see
    /// [`Load::wait`](super::Load::wait), of which it is the longest.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub oldest_ready: Duration,
}

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

/// The hogs of one kind: tasks of the same type, name and class, spawned by the same line of
/// source.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct HogStats {
    /// Where they were spawned.
    pub spawned_at: Site,
    /// The type of their future, as the compiler prints it: for people, not for programs.
    pub future: Cow<'static, str>,
    /// The name they were given, if any.
    pub name: Option<Cow<'static, str>>,
    /// Their class.
    #[cfg_attr(feature = "serde", serde(with = "super::index"))]
    pub class: Class,
    /// How many of their polls were too long.
    pub count: u64,
    /// How many of these, as far as they have ended, were blocked and did not compute.
    pub blocked: u64,
    /// The longest of these that has ended, by the clock; since the runtime's start, also in a
    /// difference of two snapshots.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub longest: Duration,
    /// The sum of all that have ended, by the clock.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub total: Duration,
    /// Whether new tasks of this kind start in the heavy pool, because nearly all of them hog.
    pub in_pool: bool,
}

/// I/O checks, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct Checks {
    /// The bound on the time between checks had passed.
    pub due: CheckCounts,
    /// There was nothing else to do. Workers sleep in these checks.
    pub idle: CheckCounts,
    /// While spinning.
    pub spin: CheckCounts,
    /// Visits: by another worker than the queue's owner, which was stuck in a poll.
    pub monitor: CheckCounts,
}

impl Checks {
    /// All checks.
    pub fn total(&self) -> u64 {
        [self.due, self.idle, self.spin, self.monitor]
            .iter()
            .map(CheckCounts::total)
            .sum()
    }
}

/// I/O checks, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct CheckCounts {
    /// Checks that found events.
    pub found: u64,
    /// Checks that found none.
    pub empty: u64,
}

impl CheckCounts {
    /// All checks.
    pub fn total(&self) -> u64 {
        self.found + self.empty
    }
}

/// Events, and the readers they woke.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct ReadinessStats {
    /// Events that reached a descriptor.
    pub events: u64,
    /// Readers that were woken, by events and by sweeps.
    pub deliveries: u64,
    /// Descriptors that are registered, at the moment.
    pub descriptors: usize,
}

/// Deliveries to the readers of streams and of batches of datagrams.
///
/// Bytes are counted as reads take them from the kernel's sockets: below TLS, for example. Reads
/// with the user's own operation (`try_io`, `async_io`), single datagrams and peeked bytes are not
/// counted.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct DeliveryStats {
    /// How often a reader was woken, or did not have to wait, and got bytes.
    pub deliveries: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// Reads with or without bytes, each a system call.
    pub reads: u64,
    /// Reads that found nothing.
    pub empty_reads: u64,
    /// The bytes of each delivery, up to when the socket was empty. Deliveries under way are not
    /// included.
    pub bytes_per_delivery: Sizes,
    /// An upper bound on how long deliveries to sockets whose mode is not [`Immediate`] were held
    /// back: from the first byte, or, where the kernel holds bytes back, which does not report when
    /// the first one came, from when the reader had emptied the socket; until the delay was over,
    /// or the watermark was noticed. The lateness of a sweep is not included: an event would have
    /// been late as well.
    ///
    /// [`Immediate`]: crate::net::Delivery::Immediate
    pub added_delay: Waits,
    /// The longest of these since the runtime's start, also in a difference of two snapshots.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub longest_delay: Duration,
    /// Entries of sweeps that were due: one for each delay of a reader that is held back.
    pub swept: u64,
}

/// Writes to streams.
///
/// Bytes are counted as the kernel's sockets take them. What is sent as single datagrams or with
/// the user's own operation (`try_io`, `async_io`) is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct OutputStats {
    /// Writes that took bytes, each a system call.
    pub writes: u64,
    /// Bytes that were written.
    pub bytes: u64,
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
        debug_assert_eq!(&*general.name, "blocking");
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
            output: output(shared),
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
        since.checks.subtract(&earlier.checks);
        since.readiness.subtract(&earlier.readiness);
        since.delivery.subtract(&earlier.delivery);
        since.output.subtract(&earlier.output);
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

    /// The mean of the workers' utilisation, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        // Not `sum()`, which is -0.0 of none.
        let workers = self.workers.iter().map(WorkerStats::utilisation);
        let sum = workers.fold(0.0, |sum, worker| sum + worker);
        sum / self.workers.len().max(1) as f64
    }
}

impl HogStats {
    fn kind(&self) -> impl PartialEq + '_ {
        (&self.spawned_at, &self.future, &self.name, self.class)
    }
}

impl Sub for Checks {
    type Output = Checks;

    fn sub(mut self, earlier: Checks) -> Checks {
        self.subtract(&earlier);
        self
    }
}

impl Sub for CheckCounts {
    type Output = CheckCounts;

    fn sub(mut self, earlier: CheckCounts) -> CheckCounts {
        self.subtract(&earlier);
        self
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
            poll_lengths: poll_lengths(shared, pool, class),
            ready: load::ready(shared, class),
            oldest_ready: load::oldest_ready(shared, class),
        }
    })
    .collect()
}

fn delivery(shared: &Shared, swept: u64) -> DeliveryStats {
    let outside = shared.outside.lock();
    let desks: Vec<_> = shared.desks.iter().collect();
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
        added_delay: Waits::of_nanos(&counts().map(|at| at.delays.read()).sum()),
        longest_delay: Duration::from_nanos(longest.max().unwrap_or(0)),
        swept,
    }
}

fn output(shared: &Shared) -> OutputStats {
    let outside = shared.outside.lock();
    let desks = shared.desks.iter().map(|desk| &desk.deliveries.0);
    let counts = desks.chain(std::iter::once(&*outside));
    counts.fold(OutputStats::default(), |sum, counts| OutputStats {
        writes: sum.writes + counts.writes.load(),
        bytes: sum.bytes + counts.written.load(),
    })
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

fn hogs(shared: &Shared) -> Vec<HogStats> {
    let mut rows = shared.kinds.rows();
    rows.sort_by_key(|(row, _)| std::cmp::Reverse(row.total));
    rows.into_iter()
        .map(|(row, known)| HogStats {
            spawned_at: row.kind.spawned_at.into(),
            future: row.kind.future.name().into(),
            name: row.kind.name.map(Cow::Borrowed),
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
    let seats = shared.seats.iter();
    let by_seats = seats.map(|seat| seat.accounts.waits[class.index()].read());
    let in_pool = pool.waits[class.index()].clone();
    Waits::new(&shared.clock, &by_seats.chain([in_pool]).sum())
}

fn poll_lengths(shared: &Shared, pool: &HeavyPoolStats, class: Class) -> Waits {
    let seats = shared.seats.iter();
    let by_seats = seats.map(|seat| seat.accounts.poll_lengths[class.index()].read());
    let in_pool = pool.poll_lengths[class.index()].clone();
    Waits::new(&shared.clock, &by_seats.chain([in_pool]).sum())
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
        monitor: counts[CheckOrigin::Visit as usize],
    }
}
