//! The builder of a runtime, and its errors.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::blocking::buffers::Buffers;
use crate::blocking::directories::Directories;
use crate::blocking::lanes::Lanes;
use crate::class::{ClassConfig, ClassError, define};
use crate::clock::Clock;
use crate::io::pipes::Pipes;
use crate::sched::config::{Config, HogHook, Hook, NameFn, RealTime};
use crate::sched::extensions::Extensions;
use crate::sched::shared::Shared;
use crate::sched::{BusyWait, HogReport};
use crate::stats::{HogNames, LastRead, name_hogs};
use crate::sync::Arc;
use crate::sys::cpus;

use super::defaults;
use super::handle::Handle;
use super::hog_report;
use super::runtime::Runtime;
use super::setters::setters;
use super::settings::SettingsError;
use super::threads::{StartError, Threads};
#[cfg(feature = "tokio-context")]
use super::tokio_context::TokioContext;

/// More than any machine has processors; a greater number is a mistake.
const WORKERS_MAX: usize = 1024;
/// More threads than a system lets a process have by default.
const BLOCKING_THREADS_MAX: usize = 32_768;
/// Below, a worker would do little but check; above, the promise would mean nothing.
const CHECK_BOUNDS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(10)..=Duration::from_secs(1);
/// Below, starting a thread would cost more than the poll that it replaces.
pub(super) const HAND_OFFS: std::ops::RangeInclusive<Duration> =
    Duration::from_micros(200)..=Duration::from_secs(60);
/// Above, a stuck worker would keep its real-time priority for too long.
pub(super) const REAL_TIME_HAND_OFF_MAX: Duration = Duration::from_millis(10);
/// Above, a check could take longer than any bound on the time between checks.
const EVENTS: std::ops::RangeInclusive<usize> = 1..=65_536;
/// Devices do not serve more at a time.
const DISK_THREADS_MAX: usize = 1024;
/// A greater number is a mistake.
const HEAVY_THREADS_MAX: usize = 1024;

/// What a worker needs for itself, with room for a small task.
const STACK_MIN: usize = 64 * 1024;

/// Makes a [`Runtime`].
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use evenkeel::{BusyWait, runtime::Builder};
///
/// let runtime = Builder::new()
///     .workers(2)
///     .thread_name("service")
///     .busy_wait(BusyWait::None)
///     .io_check_bound(Duration::from_micros(200))
///     .build()?;
/// assert_eq!(runtime.block_on(async { 6 * 7 }), 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Builder {
    /// Invalid, perhaps, and without what is unknown before `build`.
    config: Config,
    workers: Option<usize>,
    worker_names: Option<NameFn>,
    heavy_threads: Option<usize>,
    disk_wait_limit: Option<Duration>,
    start_paused: bool,
    #[cfg(feature = "tokio-context")]
    tokio_context: bool,
    /// The first invalid setting of a class, which `build` refuses.
    class_error: Option<ClassError>,
    /// Why settings were refused, the first time.
    settings_error: Option<SettingsError>,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Returns a builder with the defaults, which each setter states and [`defaults`] explains, and
    /// with the classes that the program [has defined](crate::Class::define).
    pub fn new() -> Self {
        let config = Config {
            workers: 0,
            real_time: RealTime::default(),
            thread_name: "evenkeel".to_owned(),
            worker_names: Arc::new([]),
            thread_stack_size: None,
            busy_wait: BusyWait::default(),
            quota: false,
            processors: 1.0,
            io_check_bound: defaults::IO_CHECK_BOUND,
            io_check_events: defaults::IO_CHECK_EVENTS,
            classes: define::table(),
            hand_off_after: Some(defaults::HAND_OFF_AFTER),
            heavy_threads: 0,
            blocked_threads: defaults::BLOCKED_THREADS,
            on_hog: None,
            hog_stacks: true,
            max_blocking_threads: defaults::BLOCKING_THREADS,
            blocking_queue_limit: defaults::BLOCKING_QUEUE,
            blocking_keep_alive: defaults::BLOCKING_KEEP_ALIVE,
            disk_threads: defaults::DISK_THREADS,
            disk_queue_limit: defaults::DISK_QUEUE,
            disk_ring: true,
            disk_wait_limit: Duration::MAX,
            on_thread_start: None,
            on_thread_stop: None,
            surround: None,
            on_thread_park: None,
            on_thread_unpark: None,
        };
        Self {
            config,
            workers: None,
            worker_names: None,
            heavy_threads: None,
            disk_wait_limit: Some(defaults::DISK_WAIT),
            start_paused: false,
            #[cfg(feature = "tokio-context")]
            tokio_context: false,
            class_error: None,
            settings_error: None,
        }
    }
}

setters! {
    Builder;
    /// Sets the number of workers, the threads that run tasks and check I/O: 1 to 1024.
    ///
    /// Default: the number of CPUs that this process may use, by its affinity mask and by the CPU
    /// quotas of its control groups, rounded up: a quota of 1.9 CPUs gives 2.
    workers(workers: usize) => workers = Some(workers);
    /// Sets whether workers have real-time priority. A worker that wakes then goes before every
    /// ordinary thread of the machine, both hogs of this process and other programs. Default:
    /// false. The chapter [Hogs](crate::guide::hogs) says when to use it.
    ///
    /// Workers get the lowest level of `SCHED_RR`, and the monitor the next. A worker that has been
    /// awake for 2 ms gives its priority up between two polls, until it sleeps 2 ms or more later.
    /// One that is stuck in a poll loses it after [`hand_off_after`](Builder::hand_off_after),
    /// whether its seat can be handed over or not. Hooks, blocking work, and threads and processes
    /// that tasks start do not have it; the latter begin at nice level 0.
    ///
    /// This needs Linux, and `CAP_SYS_NICE` or a limit of real-time priorities of at least 2
    /// (`RLIMIT_RTPRIO`; `LimitRTPRIO=2` in a unit of systemd). Otherwise, and in a control group
    /// without real-time budget, [`build`](Builder::build) fails. `hand_off_after` may be at most
    /// 10 ms with it, and [`io_check_bound`](Builder::io_check_bound) 2 ms. If the process later
    /// forbids itself `sched_setscheduler`, each worker keeps the priority it has then.
    real_time_workers(real_time: bool) => config.real_time.always = real_time;
    /// The same as [`real_time_workers`](Builder::real_time_workers), but only beside hogs of this
    /// runtime: a worker that falls asleep while a task computes in the heavy pool, or up to 100 ms
    /// later, wakes with the priority. So light tasks do not wait for such tasks, and otherwise a
    /// worker is a thread like others, which finds more to do when it wakes. The monitor has its
    /// priority all the time. Default: false.
    ///
    /// Where both are on, workers have it as with `real_time_workers`.
    real_time_beside_hogs(real_time: bool) => config.real_time.beside_hogs = real_time;
    /// Sets the stack size of the threads that run tasks or blocking work, in bytes: at least 64
    /// KiB. Default: that of the standard library, 2 MiB.
    thread_stack_size(bytes: usize) => config.thread_stack_size = Some(bytes);
    /// Sets how long a worker without work stays awake. Default: [`BusyWait::Adaptive`].
    busy_wait(level: BusyWait) => config.busy_wait = level;
    /// Sets the longest time between two I/O checks of a busy worker; a poll that is under way then
    /// delays the check. From 10 microseconds to 1 second. Default: 100 microseconds,
    /// [`defaults::IO_CHECK_BOUND`].
    io_check_bound(bound: Duration) => config.io_check_bound = bound;
    /// Sets how many events one I/O check takes from the system at most: 1 to 65536. The rest wait
    /// for the next check. A small number keeps checks short; a great one makes better use of each
    /// system call. Default: 256, [`defaults::IO_CHECK_EVENTS`].
    io_check_events(events: usize) => config.io_check_events = events;
    /// Sets how long a poll may last before its worker's seat is given to another thread, so that
    /// it holds up nothing else. The stuck thread goes on in the heavy pool. From 200 microseconds
    /// to a minute; `None` switches hand-off and the heavy pool off. Default: 1 millisecond,
    /// [`defaults::HAND_OFF_AFTER`].
    ///
    /// The chapter [Hogs](crate::guide::hogs) says what hand-off means for a task.
    hand_off_after(after: Option<Duration>) => config.hand_off_after = after;
    /// Sets how many threads that are not blocked the heavy pool has at most: 1 to 1024. When they
    /// are all in use, no more seats are handed over for polls that compute: the worker stays
    /// stuck, which [`HeavyStats::refused`](crate::stats::HeavyStats::refused) counts. Default: 4
    /// for each worker, [`defaults::HEAVY_THREADS_EACH`], and at least 16,
    /// [`defaults::HEAVY_THREADS_MIN`].
    heavy_threads(threads: usize) => heavy_threads = Some(threads);
    /// Sets how many threads the heavy pool has at most, beside the others, that are blocked in a
    /// task's poll: in a sleep, a lock or a system call. From 0 to 32768. Default: 512,
    /// [`defaults::BLOCKED_THREADS`]. When they are all in use, a worker that blocks stays stuck.
    ///
    /// They are there for mistakes: work that is known to block belongs in
    /// [`spawn_blocking`](crate::spawn_blocking).
    blocked_threads(threads: usize) => config.blocked_threads = threads;
    /// Sets a function that is called when a task hogs, on a thread for blocking work: at most once
    /// a second for each kind of task. If it panics, nothing else happens.
    on_hog(hook: impl Fn(&HogReport) + Send + Sync + 'static)
        => config.on_hog = Some(HogHook::new(hook));
    /// Sets whether stacks of hogs are taken, so that they are named by the function that computed
    /// or blocked. Default: true, and at most 100 a second. Nothing is done while nobody hogs.
    ///
    /// A thread that computes is interrupted by the signal `SIGURG`, which costs its poll some
    /// microseconds; a thread that blocks is not. Needs the feature `hog-stacks`, and Linux.
    hog_stacks(wanted: bool) => config.hog_stacks = wanted;
    /// Sets how many threads do blocking work at most: 1 to 32768. Default: 512,
    /// [`defaults::BLOCKING_THREADS`]. They are started when there is work for them.
    max_blocking_threads(threads: usize) => config.max_blocking_threads = threads;
    /// Sets how many pieces of blocking work may wait for a thread, at least 1; more are refused,
    /// with an error for which [`JoinError::is_refused`](crate::task::JoinError::is_refused) is
    /// true. Default: 65536, [`defaults::BLOCKING_QUEUE`].
    blocking_queue_limit(limit: usize) => config.blocking_queue_limit = limit;
    /// Sets how long a thread for blocking work waits for more before it ends. Default: 10 seconds,
    /// [`defaults::BLOCKING_KEEP_ALIVE`].
    blocking_keep_alive(keep_alive: Duration) => config.blocking_keep_alive = keep_alive;
    /// Sets how many threads read and write the files of each device at most: 1 to 1024. Default:
    /// 32, [`defaults::DISK_THREADS`]. The chapter [Disk](crate::guide::disk) lists the other
    /// threads.
    disk_threads(threads: usize) => config.disk_threads = threads;
    /// Sets how much work may wait in each lane of a device, at least 1; more is refused with
    /// [`LaneError::QueueFull`](crate::blocking::LaneError::QueueFull). Default: 4096,
    /// [`defaults::DISK_QUEUE`].
    disk_queue_limit(limit: usize) => config.disk_queue_limit = limit;
    /// Sets whether the kernel's completion queue (io_uring) may do reads that wait for a device,
    /// if the kernel allows it. Otherwise, and on other systems than Linux, threads do them all.
    /// Default: true. [`DiskStats`](crate::stats::DiskStats) reports which is used.
    disk_ring(ring: bool) => config.disk_ring = ring;
    /// Sets how long file work may wait for a thread before it fails with
    /// [`LaneError::WaitedTooLong`](crate::blocking::LaneError::WaitedTooLong), as it does if a
    /// device hangs: at least a millisecond, or `None` for no limit. Default: 30 seconds,
    /// [`defaults::DISK_WAIT`]. Work that has begun has no time limit: nothing can end it.
    disk_wait_limit(limit: Option<Duration>) => disk_wait_limit = limit;
    /// Makes a runtime for tests, whose time can be [paused](crate::time::pause), and is. Default:
    /// false.
    ///
    /// It has one worker: another number is refused. Hand-off is switched off, so that a poll that
    /// blocks holds up the other tasks, and threads do all file work.
    ///
    /// ```
    /// use evenkeel::runtime::Builder;
    /// use evenkeel::time::{Duration, Instant, sleep};
    ///
    /// let runtime = Builder::new().start_paused(true).build()?;
    /// runtime.block_on(async {
    ///     let hour = Duration::from_secs(3600);
    ///     let start = Instant::now();
    ///     sleep(hour).await; // takes no time, as nothing else can run
    ///     assert_eq!(start.elapsed(), hour);
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    start_paused(paused: bool) => start_paused = paused;
    /// Sets whether a runtime of Tokio's runs beside this one, for crates that need it: those that
    /// call `tokio::spawn`, or make Tokio's sockets and timers, in tasks of this runtime. Default:
    /// false. Needs the feature `tokio-context`.
    ///
    /// It has one thread, which starts and ends with this runtime. Its context is entered on all
    /// threads of this runtime, and in [`block_on`](Runtime::block_on).
    ///
    /// # What it costs
    ///
    /// - A task that waits for a socket or a timer of Tokio's is woken by that thread: each wake-up
    ///   crosses threads.
    /// - What Tokio spawns runs on that one thread, by Tokio's rules: it has no class, a poll that
    ///   takes long holds up all of Tokio's sockets and timers, and the accounts do not show it.
    ///   Use [`spawn`](crate::spawn) for whatever is in your hands.
    /// - When this runtime ends, Tokio's ends after it, whatever its tasks do. This waits a second
    ///   at most for one that is in a poll.
    /// - Time that is [paused](crate::time::pause) takes no account of it.
    ///
    /// ```
    /// use evenkeel::runtime::Builder;
    /// use std::time::Duration;
    ///
    /// let runtime = Builder::new().tokio_context(true).build()?;
    /// let task = runtime.spawn(async {
    ///     tokio::time::sleep(Duration::from_millis(1)).await;
    ///     tokio::spawn(async { 42 }).await.unwrap()
    /// });
    /// assert_eq!(runtime.block_on(task)?, 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tokio-context")]
    tokio_context(context: bool) => tokio_context = context;
    /// Sets a function that runs first on each thread that runs tasks or blocking work. If it
    /// panics, the thread goes on.
    on_thread_start(hook: impl Fn() + Send + Sync + 'static)
        => config.on_thread_start = Some(Hook::new(hook));
    /// Sets a function that runs last on each thread that runs tasks or blocking work. If it
    /// panics, nothing else happens.
    on_thread_stop(hook: impl Fn() + Send + Sync + 'static)
        => config.on_thread_stop = Some(Hook::new(hook));
    /// Sets a function that runs on a worker each time it has nothing to do and is about to sleep.
    /// It may spawn tasks: the worker then does not sleep. It has to be short, as nothing takes the
    /// seat from a worker between two polls. If it panics, the worker goes on.
    on_thread_park(hook: impl Fn() + Send + Sync + 'static)
        => config.on_thread_park = Some(Hook::new(hook));
    /// Sets a function that runs on a worker after each such sleep, or when there is none after
    /// all; as [`on_thread_park`](Builder::on_thread_park).
    on_thread_unpark(hook: impl Fn() + Send + Sync + 'static)
        => config.on_thread_unpark = Some(Hook::new(hook));
}

impl Builder {
    /// Sets the prefix of thread names, to which the number of a worker, `-heavy`, `-blocking` or
    /// `-monitor` is appended. Default: `evenkeel`. Linux shows the first 15 bytes.
    pub fn thread_name(&mut self, name: impl Into<String>) -> &mut Self {
        self.config.thread_name = name.into();
        self.worker_names = None;
        self
    }

    /// Sets a function that names each worker, by its number from 0 on. [`build`](Builder::build)
    /// calls it. A thread that takes over a worker's seat has the name of that worker. Other
    /// threads are named as [`thread_name`](Builder::thread_name) says, which is to be called
    /// before: it takes this function back.
    pub fn worker_name_fn(
        &mut self,
        name: impl Fn(usize) -> String + Send + Sync + 'static,
    ) -> &mut Self {
        self.worker_names = Some(NameFn::new(name));
        self
    }

    /// Sets the share and the latency target of a class: `urgent`, `normal`, `bulk`, or a class of
    /// your own, which is added if it is new. At most 61 can be added. [`ClassConfig`] has the
    /// defaults.
    ///
    /// ```
    /// use evenkeel::{ClassConfig, runtime::Builder};
    ///
    /// let runtime = Builder::new()
    ///     .class("urgent", ClassConfig::new().share(16))
    ///     .class("normal", ClassConfig::new().share(33))
    ///     .class("bulk", ClassConfig::new().share(50))
    ///     .build()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn class(&mut self, name: &str, config: ClassConfig) -> &mut Self {
        if let Err(error) = self.config.classes.set(name, config) {
            self.class_error.get_or_insert(error);
        }
        self
    }

    /// Makes the runtime and starts its workers.
    ///
    /// # Errors
    ///
    /// A setting is invalid, or the system refuses a thread, a readiness queue, or the real-time
    /// priority.
    pub fn build(&self) -> Result<Runtime, BuildError> {
        self.build_with(|_| ())
    }

    /// As [`build`](Self::build). The function is called before any thread starts.
    pub(crate) fn build_with(&self, before: impl FnOnce(&Handle)) -> Result<Runtime, BuildError> {
        let mut config = self.config()?;
        config.worker_names = self.worker_names(config.workers)?.into();
        #[cfg(feature = "tokio-context")]
        let (config, tokio) = self.with_tokio(config)?;
        let clock = if self.start_paused {
            Clock::start_paused()
        } else {
            Clock::start()
        };
        let extensions = Extensions::default()
            .with(Lanes::new(&config, clock))
            .with(Directories::default())
            .with(Buffers::default())
            .with(Pipes::new(clock))
            .with(Threads::default())
            .with(LastRead::default())
            .with(HogNames::default());
        let shared = Shared::new(config, clock, hog_report::ON_HOG, name_hogs, extensions);
        let shared = Arc::new(shared.map_err(BuildError::ReadinessQueue)?);
        before(&Handle::from_shared(Arc::clone(&shared)));
        let threads = Threads::start(&shared).map_err(|error| match error {
            StartError::Thread(error) => BuildError::Thread(error),
            StartError::RealTime(error) => BuildError::RealTime(error),
        })?;
        let runtime = Runtime::new_with(shared, threads);
        #[cfg(feature = "tokio-context")]
        let runtime = match tokio {
            Some(tokio) => runtime.start_tokio(tokio).map_err(BuildError::Thread)?,
            None => runtime,
        };
        Ok(runtime)
    }

    #[cfg(feature = "tokio-context")]
    fn with_tokio(&self, config: Config) -> Result<(Config, Option<TokioContext>), BuildError> {
        if !self.tokio_context {
            return Ok((config, None));
        }
        let context = TokioContext::new().map_err(BuildError::ReadinessQueue)?;
        let surround = Some(context.surround());
        Ok((Config { surround, ..config }, Some(context)))
    }

    fn worker_names(&self, workers: usize) -> Result<Vec<String>, BuildError> {
        let names = self.worker_names.iter();
        let names: Vec<_> = names
            .flat_map(|names| (0..workers).map(|worker| names.name(worker)))
            .collect();
        for name in &names {
            check_name("worker_name_fn", name)?;
        }
        Ok(names)
    }

    pub(super) fn has_class(&self, name: &str) -> bool {
        self.config.classes.find(name).is_some()
    }

    pub(super) fn class_but_for_case(&self, name: &str) -> Option<&str> {
        let mut classes = self.config.classes.iter();
        let meant = classes.find(|(_, row)| row.name.eq_ignore_ascii_case(name));
        meant.map(|(_, row)| &*row.name)
    }

    /// Why a class was refused, the first time.
    pub(super) fn class_refusal(&self) -> Option<&ClassError> {
        self.class_error.as_ref()
    }

    pub(super) fn refuse_settings(&mut self, error: SettingsError) {
        self.settings_error.get_or_insert(error);
    }

    /// Checks all settings, but for what only the system can say.
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        self.config().map(drop)
    }

    pub(crate) fn config(&self) -> Result<Config, BuildError> {
        let workers = self.workers.unwrap_or_else(|| match self.start_paused {
            true => 1,
            false => cpus::usable().min(WORKERS_MAX),
        });
        let for_all = workers.saturating_mul(defaults::HEAVY_THREADS_EACH);
        let by_default = for_all.clamp(defaults::HEAVY_THREADS_MIN, HEAVY_THREADS_MAX);
        let quota = cpus::quota();
        let mut config = Config {
            workers,
            quota: quota.is_some(),
            processors: cpus::available(quota),
            heavy_threads: self.heavy_threads.unwrap_or(by_default),
            disk_wait_limit: self.disk_wait_limit.unwrap_or(Duration::MAX),
            ..self.config.clone()
        };
        if let Some(error) = &self.settings_error {
            return Err(BuildError::Settings(error.clone()));
        }
        if let Some(error) = &self.class_error {
            return Err(BuildError::Class(error.clone()));
        }
        if self.start_paused {
            suit_paused(&mut config)?;
        }
        check_scheduling(&config)?;
        check_threads(&config)?;
        check_disk(&config)?;
        Ok(config)
    }
}

/// The worker alone knows when all wait, so there is one, and none of its tasks is elsewhere.
fn suit_paused(config: &mut Config) -> Result<(), BuildError> {
    let workers = config.workers;
    check(
        workers == 1,
        "start_paused",
        format!("true with workers({workers})"),
        "leave `workers` out, or use one: with more, nobody knows when all tasks wait",
    )?;
    config.hand_off_after = None;
    config.disk_ring = false;
    Ok(())
}

fn check_scheduling(config: &Config) -> Result<(), BuildError> {
    let (bound, hand_off) = (config.io_check_bound, config.hand_off_after);
    let own_count = "use 1 to 1024, or leave it out to use the CPUs this process may use";
    within("workers", config.workers, 1..=WORKERS_MAX, own_count)?;
    let bounds = "use 10 microseconds to 1 second";
    within("io_check_bound", bound, CHECK_BOUNDS, bounds)?;
    let events = config.io_check_events;
    within("io_check_events", events, EVENTS, "use 1 to 65536")?;
    check(
        hand_off.is_none_or(|after| HAND_OFFS.contains(&after)),
        "hand_off_after",
        format!("{hand_off:?}"),
        "use 200 microseconds to 60 seconds, or None to switch hand-off off",
    )?;
    let soon = hand_off.is_some_and(|after| after <= REAL_TIME_HAND_OFF_MAX)
        && bound <= defaults::REAL_TIME_BOUT;
    check(
        soon || !config.real_time.is_ever(),
        config.real_time.setting(),
        format!("true with hand_off_after({hand_off:?}) and io_check_bound({bound:?})"),
        "hand off after 10 milliseconds at most and check I/O at least every 2, or a task that \
         computes keeps the processor from every other program",
    )
}

fn check_threads(config: &Config) -> Result<(), BuildError> {
    let heavy = config.heavy_threads;
    within(
        "heavy_threads",
        heavy,
        1..=HEAVY_THREADS_MAX,
        "use 1 to 1024",
    )?;
    let (blocked, most) = (config.blocked_threads, BLOCKING_THREADS_MAX);
    within("blocked_threads", blocked, 0..=most, "use at most 32768")?;
    check_name("thread_name", &config.thread_name)?;
    let stack = config.thread_stack_size.unwrap_or(STACK_MIN);
    let enough = "use at least 65536 bytes: a thread needs some for itself";
    within("thread_stack_size", stack, STACK_MIN..=usize::MAX, enough)?;
    let blocking = config.max_blocking_threads;
    within("max_blocking_threads", blocking, 1..=most, "use 1 to 32768")?;
    within(
        "blocking_queue_limit",
        config.blocking_queue_limit,
        1..=usize::MAX,
        "use at least 1: every piece of blocking work passes through the queue",
    )
}

fn check_name(setting: &'static str, name: &str) -> Result<(), BuildError> {
    check(
        !name.is_empty() && !name.contains('\0'),
        setting,
        format!("{name:?}"),
        "use a name of at least one character and without NUL",
    )
}

fn check_disk(config: &Config) -> Result<(), BuildError> {
    let threads = config.disk_threads;
    within(
        "disk_threads",
        threads,
        1..=DISK_THREADS_MAX,
        "use 1 to 1024",
    )?;
    let every = "use at least 1: all file work passes through a queue";
    within(
        "disk_queue_limit",
        config.disk_queue_limit,
        1..=usize::MAX,
        every,
    )?;
    check(
        config.disk_wait_limit >= Duration::from_millis(1),
        "disk_wait_limit",
        format!("{:?}", Some(config.disk_wait_limit)),
        "use at least a millisecond, or None for no limit",
    )
}

fn within<T: fmt::Debug + PartialOrd>(
    setting: &'static str,
    value: T,
    range: std::ops::RangeInclusive<T>,
    advice: &'static str,
) -> Result<(), BuildError> {
    check(
        range.contains(&value),
        setting,
        format!("{value:?}"),
        advice,
    )
}

fn check(
    valid: bool,
    setting: &'static str,
    value: String,
    advice: &'static str,
) -> Result<(), BuildError> {
    if valid {
        return Ok(());
    }
    Err(BuildError::Setting {
        setting,
        value,
        advice,
    })
}

/// Why a runtime could not be made.
#[non_exhaustive]
pub enum BuildError {
    /// A setting is invalid.
    Setting {
        /// The builder's method.
        setting: &'static str,
        /// Its argument.
        value: String,
        /// What to use instead.
        advice: &'static str,
    },
    /// A setting of a class is invalid.
    Class(ClassError),
    /// Settings that are written as text are invalid.
    Settings(SettingsError),
    /// A readiness queue for a worker could not be made; usually the process is out of descriptors.
    ReadinessQueue(io::Error),
    /// A thread for a worker could not be started.
    Thread(io::Error),
    /// The system does not allow real-time priority for workers.
    RealTime(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::Setting {
                setting,
                value,
                advice,
            } => {
                write!(f, "`Builder::{setting}` was given {value}: {advice}")
            }
            BuildError::Class(error) => write!(f, "`Builder::class` was refused: {error}"),
            BuildError::Settings(error) => error.fmt(f),
            BuildError::ReadinessQueue(error) => write!(
                f,
                "no readiness queue for a worker: {error}; each worker needs three descriptors"
            ),
            BuildError::Thread(error) => {
                write!(
                    f,
                    "no thread for a worker: {error}; use fewer workers or raise the limit"
                )
            }
            BuildError::RealTime(error) => write!(
                f,
                "no real-time priority for workers: {error}; give the process CAP_SYS_NICE or a \
                 limit of real-time priorities of 2 (`ulimit -r 2`), and its control group a \
                 real-time budget if it needs one, or leave `Builder::real_time_workers` and \
                 `Builder::real_time_beside_hogs` out"
            ),
        }
    }
}

/// Contains the message, as `main` prints its error by `Debug`.
impl fmt::Debug for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BuildError({self})")
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Setting { .. } => None,
            BuildError::Class(error) => Some(error),
            // Its message is all there is.
            BuildError::Settings(_) => None,
            BuildError::ReadinessQueue(error)
            | BuildError::Thread(error)
            | BuildError::RealTime(error) => Some(error),
        }
    }
}

impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> Self {
        let kind = match &error {
            BuildError::ReadinessQueue(source)
            | BuildError::Thread(source)
            | BuildError::RealTime(source) => source.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
