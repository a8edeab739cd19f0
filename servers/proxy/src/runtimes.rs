//! Where the proxy's tasks run.
//!
//! ```text
//!  serving   connections of clients, reloads, logs   as many workers as there are processors
//!  control   operators, checks, names of servers     one worker, which mostly sleeps
//! ```
//!
//! The kernel hands a processor to a thread that sleeps a lot sooner than to one that is busy, so
//! the worker of the control runtime does not wait where a busy worker has to. It also keeps
//! real-time priority, which a worker loses that is busy for milliseconds. There operators come
//! first, in the class `URGENT`, and checks and names are in `NORMAL`.
//!
//! A socket and a timer belong to the runtime in which they were made, and tasks to the one that
//! spawns them. So control asks [`in_serving`](Runtimes::in_serving) for what outlives a command,
//! such as the listeners of a reload.

use std::future::{Future, pending};
use std::panic::resume_unwind;
use std::time::{Duration, Instant};

use evenkeel::runtime::{BuildError, Builder, Handle, Runtime};
use evenkeel::task::JoinHandle;
use evenkeel::{BusyWait, Class};
use tracing::{info, warn};

use crate::config::{Config, Process, RealTime};

/// How long the runtimes may take to end, when connections have had their time.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);
/// The second one has this at least.
const SHUTDOWN_MIN: Duration = Duration::from_secs(1);

/// Handles of a proxy's runtimes.
#[derive(Clone, Debug)]
pub struct Runtimes {
    /// Where connections are served.
    pub serving: Handle,
    /// Where operators are answered, servers are checked and names are asked for, if that is
    /// another one.
    pub control: Option<Handle>,
    /// Who has real-time priority, for operators.
    pub real_time: &'static str,
}

/// Why the runtimes cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotBuilt {
    /// Real-time priority was asked for.
    #[error(
        "process.real_time: the system does not allow it: {0}; give the process CAP_SYS_NICE or a \
         limit of real-time priorities of 2 (`ulimit -r 2`, in a unit of systemd LimitRTPRIO=2 \
         without RestrictRealtime), or leave the key out"
    )]
    RealTime(std::io::Error),
    /// Anything else.
    #[error(transparent)]
    Other(BuildError),
}

impl From<BuildError> for NotBuilt {
    /// The operator knows keys, and not the runtime's settings.
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::RealTime(error) => Self::RealTime(error),
            error => Self::Other(error),
        }
    }
}

/// The runtimes themselves.
#[derive(Debug)]
pub(crate) struct Built {
    serving: Runtime,
    control: Runtime,
    real_time: &'static str,
}

impl Built {
    /// Starts both, with the classes of the configuration.
    pub(crate) fn new(config: &Config) -> Result<Self, NotBuilt> {
        let process = config.process.get_ref();
        let mut real_time = process.real_time;
        let mut control = Builder::new();
        control
            .workers(1)
            .thread_name("control")
            .busy_wait(BusyWait::None)
            .real_time_workers(real_time != RealTime::No);
        let control = started(&mut control, &mut real_time)?;
        let has_control = real_time != RealTime::No;
        if process.looks_late() {
            real_time = RealTime::No;
        }
        let mut serving = Builder::new();
        set(&mut serving, process);
        for (name, class) in &config.classes {
            serving.class(name, class.get_ref().into());
        }
        match real_time {
            // Busy workers with the priority wake too often, for a request or a piece at a time.
            RealTime::Auto => serving.real_time_beside_hogs(true),
            RealTime::Yes => serving.real_time_workers(true),
            RealTime::No => &mut serving,
        };
        let serving = started(&mut serving, &mut real_time)?;
        let real_time = match (has_control, real_time) {
            (false, _) => "none",
            (true, RealTime::No) => "control",
            (true, RealTime::Auto) => "control, and workers beside computations",
            (true, RealTime::Yes) => "all",
        };
        Ok(Self {
            serving,
            control,
            real_time,
        })
    }

    pub(crate) fn handles(&self) -> Runtimes {
        Runtimes {
            serving: self.serving.handle().clone(),
            control: Some(self.control.handle().clone()),
            real_time: self.real_time,
        }
    }

    pub(crate) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.serving.block_on(future)
    }

    /// Drops what is left of both. Control first, which wakes tasks of the other one; those that
    /// wait for control are dropped then.
    pub(crate) fn shutdown(self) {
        let until = Instant::now() + SHUTDOWN_MAX;
        for runtime in [self.control, self.serving] {
            let left = until.saturating_duration_since(Instant::now());
            if let Err(error) = runtime.shutdown(left.max(SHUTDOWN_MIN)) {
                warn!(%error, "{error}");
            }
        }
    }
}

fn set(builder: &mut Builder, process: &Process) {
    if let Some(workers) = process.workers {
        builder.workers(workers);
    }
    if let Some(bound) = process.io_check_bound {
        builder.io_check_bound(bound);
    }
    if let Some(events) = process.io_check_events {
        builder.io_check_events(events);
    }
}

/// Where the system allows no real-time priority and it need not be, without; that is noted for the
/// next runtime.
fn started(builder: &mut Builder, real_time: &mut RealTime) -> Result<Runtime, BuildError> {
    match builder.build() {
        Err(BuildError::RealTime(error)) if *real_time == RealTime::Auto => {
            info!(
                %error,
                "the system does not allow real-time priority: {error}; checks and operators may \
                 wait for other threads of the machine, and requests for what others compute; \
                 allow it by CAP_SYS_NICE or `ulimit -r 2`, in a unit of systemd LimitRTPRIO=2, \
                 or set process.real_time = false"
            );
            *real_time = RealTime::No;
            builder
                .real_time_workers(false)
                .real_time_beside_hogs(false)
                .build()
        }
        started => started,
    }
}

impl Runtimes {
    /// The current one for everything.
    ///
    /// # Panics
    ///
    /// If the calling thread is in no runtime.
    pub fn current() -> Self {
        Self {
            serving: Handle::current(),
            control: None,
            real_time: "none",
        }
    }

    /// Where operators are answered.
    pub fn control(&self) -> &Handle {
        self.control.as_ref().unwrap_or(&self.serving)
    }

    /// Runs this in the control runtime, among checks and names, and waits for it. It goes on if
    /// nobody waits.
    pub async fn in_control<F>(&self, work: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        ended(self.control().spawn_in(Class::NORMAL, work)).await
    }

    /// Runs this where connections are served, and waits for it. It goes on if nobody waits.
    pub async fn in_serving<F>(&self, work: F) -> F::Output
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        ended(self.serving.spawn_in(Class::URGENT, work)).await
    }
}

async fn ended<T>(task: JoinHandle<T>) -> T {
    match task.await {
        Ok(value) => value,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // Its runtime ends, and with it the process.
        Err(_) => pending().await,
    }
}
