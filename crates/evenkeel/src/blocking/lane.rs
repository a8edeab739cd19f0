//! The user's own lanes.

use std::fmt;
use std::future::Future;
use std::mem;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::defaults;
use crate::sched::context;
use crate::sched::context::NoRuntime;
use crate::sched::shared::Shared;
use crate::sched::task::JoinHandle;
use crate::sched::task::cell::Runnable;
use crate::sched::worker::Worker;
use crate::sync::{Arc, hint};

use super::core::{Core, Settings};
use super::error::LaneError;
use super::lanes::{Lanes, NAMED_MAX, Unnamed};

/// More threads than a system lets a process have by default.
const THREADS: std::ops::RangeInclusive<usize> = 1..=32_768;
/// How long a worker without other work lingers for a piece of work. It is less than falling asleep
/// and being woken take.
pub(super) const LINGER: Duration = Duration::from_micros(16);
const NAME_LEN_MAX: usize = 32;

/// A bounded queue of blocking work with threads of its own: for a database, a library that is not
/// thread-safe, or any work that must not hold up other work.
///
/// Files need none: [`fs`](crate::fs) has lanes for each device.
///
/// Within a class, work is done first come, first served. Among classes, the one with the shortest
/// latency target goes first, unless it is ahead of its share of the threads' time by more than 20
/// milliseconds. So even much urgent work starves nobody.
///
/// Clones are the same lane. When the last one is dropped, queued work is still done, and then the
/// threads end.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use evenkeel::blocking::Lane;
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let database = Lane::builder("database")
///     .threads(4)
///     .queue(1_000)
///     .wait_limit(Duration::from_secs(2))
///     .build()?;
/// let rows = database.run(|| vec!["a row", "another"]).await?;
/// assert_eq!(rows.len(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Lane {
    core: Arc<Core>,
    shared: Arc<Shared>,
}

impl Lane {
    /// Describes a lane; [`LaneBuilder::build`] makes it. The name, of 1 to 32 visible ASCII
    /// characters, appears in errors and in [`LaneStats`](crate::stats::LaneStats).
    pub fn builder(name: impl Into<String>) -> LaneBuilder {
        LaneBuilder {
            name: name.into(),
            threads: defaults::LANE_THREADS,
            queue: defaults::LANE_QUEUE,
            wait_limit: Some(defaults::LANE_WAIT),
        }
    }

    /// The lane's name.
    pub fn name(&self) -> &str {
        self.core.name()
    }

    #[cfg(test)]
    pub(super) fn parts(&self) -> (&Arc<Core>, &Arc<Shared>) {
        (&self.core, &self.shared)
    }

    /// Runs a function on a thread of the lane. It may block.
    ///
    /// It is queued when this is called, not when the future is first polled, in the class of the
    /// calling task.
    ///
    /// # Errors
    ///
    /// The queue is full, the work waited longer than the lane's limit, the runtime shut down
    /// before it was begun, or it panicked.
    ///
    /// # Cancel safety
    ///
    /// Work that has not begun when the future is dropped is not done: the function is dropped with
    /// the future, and its place in the queue is free. (A thread that has just taken it drops it a
    /// moment later.) Work that has begun is done to its end, and its output is dropped.
    #[track_caller]
    pub fn run<F, T>(&self, function: F) -> impl Future<Output = Result<T, LaneError>> + use<F, T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let work = super::new_work(&self.core, Location::caller(), None, function);
        InLane::new(&self.core, &self.shared, work, Keep::Awaited)
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// Work in a lane, as a future. Dropping it cancels the work unless it has begun.
#[must_use = "work that is not awaited is cancelled"]
#[derive(Debug)]
pub(crate) struct InLane<T> {
    join: JoinHandle<T>,
    core: Arc<Core>,
    /// Whether it is done even if nobody waits for it.
    kept: bool,
    /// Whether it is likely to be done within a moment.
    brief: bool,
    shared: Arc<Shared>,
}

/// In which cases work in a lane is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// While somebody waits for it.
    Awaited,
    /// Also if nobody waits for it, or the runtime shuts down before it has begun.
    Begun,
    /// Also if the lane is full, or has closed: then on this thread. For work that completes
    /// earlier work.
    Always,
}

impl<T: Send + 'static> InLane<T> {
    /// Puts work that was made for this lane into it.
    pub(crate) fn new(
        core: &Arc<Core>,
        shared: &Arc<Shared>,
        (task, join): (Runnable, JoinHandle<T>),
        keep: Keep,
    ) -> Self {
        let mut brief = false;
        match keep {
            Keep::Awaited => brief = core.submit(shared, task, false),
            Keep::Begun => brief = core.submit(shared, task, true),
            Keep::Always => core.submit_anyway(shared, task),
        }
        Self {
            join,
            core: Arc::clone(core),
            kept: keep != Keep::Awaited,
            brief,
            shared: Arc::clone(shared),
        }
    }

    /// Cancels the work if it has not begun, even if it is to be kept.
    pub(crate) fn cancel(&mut self) {
        self.join.call_off();
    }

    /// Whether the work is likely to be done within a moment.
    pub(crate) fn is_brief(&self) -> bool {
        self.brief
    }
}

impl<T> Future for InLane<T> {
    type Output = Result<T, LaneError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if mem::take(&mut this.brief) {
            linger(&this.core, &this.shared, || this.join.is_finished());
        }
        let output = Pin::new(&mut this.join).poll(cx);
        output.map_err(|error| LaneError::from_join(error, this.core.name()))
    }
}

impl<T> Drop for InLane<T> {
    fn drop(&mut self) {
        if !self.kept {
            self.join.call_off();
        }
    }
}

/// Lingers: waits awake for work that is likely to be done within a moment, if the worker has
/// nothing else to do. It would otherwise fall asleep, and take longer to wake than the work takes.
pub(crate) fn linger(core: &Core, shared: &Arc<Shared>, mut is_done: impl FnMut() -> bool) {
    let idle = context::with_worker(|worker| worker.is_some_and(Worker::has_no_other_task));
    if !idle {
        return;
    }
    let clock = &shared.clock;
    let (began, limit) = (clock.cycles(), clock.cycles_of(LINGER));
    let mut done = is_done();
    while !done && clock.cycles().saturating_sub(began) < limit {
        for _ in 0..8 {
            hint::spin_loop();
        }
        done = is_done();
    }
    core.learn_of_lingering(done);
}

/// Describes a [`Lane`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct LaneBuilder {
    name: String,
    threads: usize,
    queue: usize,
    wait_limit: Option<Duration>,
}

impl LaneBuilder {
    /// How many threads the lane has at most, from 1 to 32768. Default: 1,
    /// [`defaults::LANE_THREADS`]. They are started when there is work for them, and end when there
    /// was none for the time of
    /// [`blocking_keep_alive`](crate::runtime::Builder::blocking_keep_alive).
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// How many pieces of work may wait for a thread, at least 1; more are refused with
    /// [`LaneError::QueueFull`]. Default: 1024, [`defaults::LANE_QUEUE`].
    pub fn queue(mut self, queue: usize) -> Self {
        self.queue = queue;
        self
    }

    /// How long work may wait for a thread before it fails with [`LaneError::WaitedTooLong`]: at
    /// least a millisecond, or `None` for no limit. It fails within some milliseconds of the limit.
    /// Default: 30 seconds, [`defaults::LANE_WAIT`]. Work that has begun has no time limit: nothing
    /// can end it.
    pub fn wait_limit(mut self, limit: impl Into<Option<Duration>>) -> Self {
        self.wait_limit = limit.into();
        self
    }

    /// Makes the lane in the runtime of the calling thread.
    ///
    /// # Errors
    ///
    /// There is no current runtime, a setting is invalid, there is a lane of that name, or there
    /// are 256 lanes already.
    pub fn build(self) -> Result<Lane, LaneBuildError> {
        let shared = context::current().map_err(LaneBuildError::NoRuntime)?;
        self.check()?;
        let config = &shared.config;
        let settings = Settings {
            name: self.name.as_str().into(),
            thread_suffix: self.name.as_str().into(),
            threads: self.threads,
            queue: self.queue,
            wait: self.wait_limit,
            keep_alive: config.blocking_keep_alive,
        };
        let core = Lanes::of(&shared)
            .add(&shared, settings)
            .map_err(|why| match why {
                Unnamed::Taken => LaneBuildError::NameTaken(self.name),
                Unnamed::TooMany => LaneBuildError::TooMany,
                Unnamed::Closed => LaneBuildError::ShutDown,
            })?;
        Ok(Lane { core, shared })
    }

    fn check(&self) -> Result<(), LaneBuildError> {
        let visible = self.name.bytes().all(|byte| byte.is_ascii_graphic());
        let wait_limit = self.wait_limit;
        let settings = [
            (
                visible && (1..=NAME_LEN_MAX).contains(&self.name.len()),
                "builder",
                format!("{:?}", self.name),
                "use a name of 1 to 32 visible ASCII characters",
            ),
            (
                THREADS.contains(&self.threads),
                "threads",
                self.threads.to_string(),
                "use 1 to 32768",
            ),
            (
                self.queue > 0,
                "queue",
                self.queue.to_string(),
                "use at least 1: every piece of work passes through the queue",
            ),
            (
                wait_limit.is_none_or(|limit| limit >= Duration::from_millis(1)),
                "wait_limit",
                format!("{wait_limit:?}"),
                "use at least a millisecond, or None for no limit",
            ),
        ];
        match settings.into_iter().find(|(valid, ..)| !valid) {
            None => Ok(()),
            Some((_, setting, value, advice)) => Err(LaneBuildError::Setting {
                setting,
                value,
                advice,
            }),
        }
    }
}

/// Why a lane could not be made.
#[derive(Clone)]
#[non_exhaustive]
pub enum LaneBuildError {
    /// The calling thread belongs to no runtime.
    NoRuntime(NoRuntime),
    /// A setting is invalid.
    Setting {
        /// The builder's method.
        setting: &'static str,
        /// Its argument.
        value: String,
        /// What to use instead.
        advice: &'static str,
    },
    /// There is a lane of this name.
    NameTaken(String),
    /// The limit of 256 lanes is reached.
    TooMany,
    /// The runtime has shut down.
    ShutDown,
}

impl fmt::Display for LaneBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaneBuildError::NoRuntime(error) => write!(f, "no lane: {error}"),
            LaneBuildError::Setting {
                setting,
                value,
                advice,
            } => {
                let of = match *setting {
                    "builder" => "Lane",
                    _ => "LaneBuilder",
                };
                write!(f, "`{of}::{setting}` was given {value}: {advice}")
            }
            LaneBuildError::NameTaken(name) => write!(
                f,
                "there is a lane `{name}` already; clone it, or choose another name"
            ),
            LaneBuildError::TooMany => write!(
                f,
                "there are {NAMED_MAX} lanes already; make one for each resource, not for each call"
            ),
            LaneBuildError::ShutDown => f.write_str("no lane: the runtime has shut down"),
        }
    }
}

/// Contains the message, as `main` prints its error by `Debug`.
impl fmt::Debug for LaneBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LaneBuildError({self})")
    }
}

impl std::error::Error for LaneBuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LaneBuildError::NoRuntime(error) => Some(error),
            _ => None,
        }
    }
}
