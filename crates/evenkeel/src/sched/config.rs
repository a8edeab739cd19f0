//! A runtime's configuration.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use crate::class::ClassTable;
use crate::sched::{BusyWait, HogReport};
use crate::sync::{Arc, thread};

/// A function to run on each of a runtime's threads.
#[derive(Clone)]
pub(crate) struct Hook(Arc<dyn Fn() + Send + Sync>);

impl Hook {
    pub(crate) fn new(hook: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    /// Runs the hook. If it panics, which the panic hook reports, the thread goes on: otherwise a
    /// seat could be left without a worker.
    pub(crate) fn run(&self) {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| (self.0)())) {
            // The payload may itself panic when it is dropped, so it is leaked.
            std::mem::forget(payload);
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// A function that names workers.
#[derive(Clone)]
pub(crate) struct NameFn(Arc<dyn Fn(usize) -> String + Send + Sync>);

impl NameFn {
    pub(crate) fn new(name: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(name))
    }

    pub(crate) fn name(&self, worker: usize) -> String {
        (self.0)(worker)
    }
}

impl fmt::Debug for NameFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameFn")
    }
}

/// A function to call with each report of a hog.
#[derive(Clone)]
pub(crate) struct HogHook(Arc<dyn Fn(&HogReport) + Send + Sync>);

impl HogHook {
    pub(crate) fn new(hook: impl Fn(&HogReport) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hook))
    }

    /// To be called on a thread for blocking work, in whose task a panic stays.
    pub(crate) fn run(&self, report: &HogReport) {
        (self.0)(report);
    }
}

impl fmt::Debug for HogHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HogHook")
    }
}

/// What to do around all that runs on a thread of the runtime, or in its `block_on`.
#[derive(Clone)]
pub(crate) struct Surround(Arc<Around>);

/// Calls the function that it is given, once.
type Around = dyn Fn(&mut dyn FnMut()) + Send + Sync;

impl Surround {
    #[cfg(feature = "tokio-context")]
    pub(crate) fn new(surround: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static) -> Self {
        Self(Arc::new(surround))
    }
}

impl fmt::Debug for Surround {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Surround")
    }
}

/// When workers have real-time priority, as long as they are not busy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RealTime {
    /// Whenever they wake.
    pub(crate) always: bool,
    /// While tasks compute in the heavy pool.
    pub(crate) beside_hogs: bool,
}

impl RealTime {
    pub(crate) fn is_ever(self) -> bool {
        self.always || self.beside_hogs
    }

    /// The setting that has brought it.
    pub(crate) fn setting(self) -> &'static str {
        match self.always {
            true => "real_time_workers",
            false => "real_time_beside_hogs",
        }
    }
}

/// A valid configuration, made by the builder.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) workers: usize,
    /// When workers have real-time priority. If they ever do, so does the monitor.
    pub(crate) real_time: RealTime,
    pub(crate) thread_name: String,
    /// One for each worker, if they have names of their own.
    pub(crate) worker_names: Arc<[String]>,
    pub(crate) thread_stack_size: Option<usize>,
    pub(crate) busy_wait: BusyWait,
    /// Whether the process is under a CPU quota.
    pub(crate) quota: bool,
    /// How many processors' time the process may use.
    pub(crate) processors: f64,
    pub(crate) io_check_bound: Duration,
    pub(crate) io_check_events: usize,
    pub(crate) classes: ClassTable,
    /// How long a poll may last before its worker's seat is handed over; `None` for ever.
    pub(crate) hand_off_after: Option<Duration>,
    /// The most threads of the heavy pool that are not blocked, and the most that are.
    pub(crate) heavy_threads: usize,
    pub(crate) blocked_threads: usize,
    pub(crate) on_hog: Option<HogHook>,
    /// Whether stacks of hogs are taken.
    pub(crate) hog_stacks: bool,
    pub(crate) max_blocking_threads: usize,
    pub(crate) blocking_queue_limit: usize,
    pub(crate) blocking_keep_alive: Duration,
    /// The most threads that read and write on one device.
    pub(crate) disk_threads: usize,
    pub(crate) disk_queue_limit: usize,
    /// Whether reads may be done by the kernel's completion queue.
    pub(crate) disk_ring: bool,
    /// `Duration::MAX` for no limit.
    pub(crate) disk_wait_limit: Duration,
    pub(crate) on_thread_start: Option<Hook>,
    pub(crate) on_thread_stop: Option<Hook>,
    pub(crate) surround: Option<Surround>,
    pub(crate) on_thread_park: Option<Hook>,
    pub(crate) on_thread_unpark: Option<Hook>,
}

impl Config {
    /// Runs a function with what surrounds all that runs.
    pub(crate) fn surrounded<R>(&self, run: impl FnOnce() -> R) -> R {
        let Some(Surround(surround)) = &self.surround else {
            return run();
        };
        let mut run = Some(run);
        let mut result = None;
        surround(&mut || result = run.take().map(|run| run()));
        result.expect("what surrounds a function calls it once")
    }

    /// Whether a monitor watches the workers. Without hand-off, a single one has nobody to help it.
    pub(crate) fn is_watched(&self) -> bool {
        self.workers > 1 || self.hand_off_after.is_some()
    }

    /// A thread that runs tasks or blocking work.
    pub(crate) fn thread(&self, name: String) -> thread::Builder {
        let thread = thread::Builder::new().name(name);
        match self.thread_stack_size {
            Some(bytes) => thread.stack_size(bytes),
            None => thread,
        }
    }

    /// The name of a worker's thread.
    pub(crate) fn worker_name(&self, index: usize) -> String {
        let own = self.worker_names.get(index).cloned();
        own.unwrap_or_else(|| format!("{}-{index}", self.thread_name))
    }
}
