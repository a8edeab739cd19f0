//! The handle of a runtime.

use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use crate::blocking;
use crate::class::{Class, ClassConfig, ClassError, ClassInfo, Terms};
use crate::sched::context::{self, NoRuntime};
use crate::sched::shared::Shared;
use crate::sched::shares::Term;
use crate::sched::spawn::Spawn;
use crate::sched::task::{JoinError, JoinHandle};
use crate::stats::{self, DumpOptions, HogProfile, Load, Stats, TaskDump, TaskInfo, TaskOrder};
use crate::sync::Arc;

use super::block_on;

/// A reference to a runtime, with which any thread can spawn tasks on it.
///
/// It does not keep the runtime running: after [`shutdown`](super::Runtime::shutdown), new tasks
/// are cancelled at once.
///
/// # Examples
///
/// ```
/// let runtime = evenkeel::runtime::Runtime::new()?;
/// let handle = runtime.handle().clone();
/// let thread = std::thread::spawn(move || handle.spawn(async { 42 }));
/// let task = thread.join().unwrap();
/// assert_eq!(runtime.block_on(task)?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Handle {
    shared: Arc<Shared>,
}

impl Handle {
    pub(crate) fn from_shared(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    #[inline]
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Returns the runtime that this thread belongs to.
    ///
    /// # Panics
    ///
    /// If there is none; see [`try_current`](Handle::try_current).
    #[track_caller]
    pub fn current() -> Handle {
        match Self::try_current() {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// Returns the runtime that this thread belongs to.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn try_current() -> Result<Handle, NoRuntime> {
        context::current().map(Self::from_shared)
    }

    /// Spawns a task, in the class of the calling task, or in [`Class::NORMAL`].
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Spawn::new(None, None).on(&self.shared, future)
    }

    /// Spawns a task in a class.
    ///
    /// # Panics
    ///
    /// If the class does not belong to this runtime.
    #[track_caller]
    pub fn spawn_in<F>(&self, class: Class, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Spawn::new(Some(class), None).on(&self.shared, future)
    }

    /// Runs a function that blocks or computes for long on a thread of its own; see
    /// [`spawn_blocking`](crate::spawn_blocking).
    #[track_caller]
    pub fn spawn_blocking<F, T>(&self, function: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        blocking::spawn(&self.shared, Location::caller(), function)
    }

    /// Runs a future to completion on the calling thread; see
    /// [`Runtime::block_on`](super::Runtime::block_on).
    ///
    /// # Panics
    ///
    /// On a worker, which must not block, and if the future panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on::block_on(self, future)
    }

    /// The class of this name, if the runtime has it.
    pub fn class(&self, name: &str) -> Option<Class> {
        self.shared.config.classes.find(name)
    }

    /// The name of this class, if the runtime has it.
    pub fn class_name(&self, class: Class) -> Option<&str> {
        let mut rows = self.shared.config.classes.iter();
        let (_, row) = rows.find(|&(of, _)| of == class)?;
        Some(&row.name)
    }

    /// All classes, with their current shares and latency targets.
    pub fn classes(&self) -> Vec<ClassInfo> {
        let rows = self.shared.config.classes.iter();
        rows.map(|(class, row)| {
            let terms = self.terms(class);
            ClassInfo {
                class,
                name: row.name.clone(),
                share: terms.share,
                latency_target: terms.target,
            }
        })
        .collect()
    }

    /// Changes the share and latency target of a class. The workers act on it within about a tenth
    /// of a millisecond. Time that the class is owed stays owed.
    ///
    /// # Errors
    ///
    /// The class does not belong to this runtime, or a setting is out of range. Then nothing
    /// changes.
    pub fn set_class(&self, class: Class, config: ClassConfig) -> Result<(), ClassError> {
        if !self.shared.config.classes.has(class) {
            return Err(ClassError::Unknown(class));
        }
        let terms = self.terms(class).with(config)?;
        let target = self.shared.clock.cycles_of(terms.target);
        let share = terms.share;
        self.shared.ledger.set(class, Term { share, target });
        Ok(())
    }

    fn terms(&self, class: Class) -> Terms {
        let Term { share, target } = self.shared.ledger.term(class);
        let nanos = self.shared.clock.to_nanos(target);
        // Rounded to microseconds, as it was set: the clock's unit does not divide it evenly.
        let target = Duration::from_micros((nanos + 500) / 1_000);
        Terms { share, target }
    }

    /// Estimates how long a new task of a class would wait before it is polled: for accept loops,
    /// which had better refuse early than serve late.
    ///
    /// # Panics
    ///
    /// If the class does not belong to this runtime.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use evenkeel::{Class, runtime::Handle};
    ///
    /// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
    /// let too_late = Duration::from_millis(50);
    /// if Handle::current().load(Class::NORMAL).wait > too_late {
    ///     // Answer "503 try again later", close, and do not spawn.
    /// }
    /// # });
    /// ```
    #[track_caller]
    pub fn load(&self, class: Class) -> Load {
        self.shared.check_class(class);
        Load::read(&self.shared, class)
    }

    /// The stacks of hogs since the runtime's start, for flame graphs.
    pub fn hog_profile(&self) -> HogProfile {
        stats::profile(&self.shared)
    }

    /// Returns what the runtime has done with its time so far.
    pub fn stats(&self) -> Stats {
        Stats::read(&self.shared)
    }

    /// The first `limit` tasks in this order: what they have cost, and what they do just now.
    ///
    /// Listed are tasks that have been polled once and have not completed. A task that completes in
    /// its first poll is never listed, nor one while that poll goes on; blocking work is in
    /// [`Stats::lanes`], and hogs of all sorts are in [`Stats::hogs`]. Tasks that come, go or
    /// change meanwhile may be missing or seem a moment older than others.
    ///
    /// # Behaviour today
    ///
    /// To look at a task takes some 100 nanoseconds, and workers are not stopped for it. With
    /// hundreds of thousands of tasks, call this outside the workers: in
    /// [`spawn_blocking`](Handle::spawn_blocking), for example.
    ///
    /// # Examples
    ///
    /// ```
    /// use evenkeel::runtime::Handle;
    /// use evenkeel::stats::TaskOrder;
    ///
    /// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
    /// for task in Handle::current().tasks(TaskOrder::Run, 10) {
    ///     println!("{task}");
    /// }
    /// # });
    /// ```
    pub fn tasks(&self, order: TaskOrder, limit: usize) -> Vec<TaskInfo> {
        stats::list(&self.shared, order, limit)
    }

    /// Finds out where tasks wait: for each task the async functions that it is in, and, if one of
    /// the runtime's own futures waits, for what.
    ///
    /// Those tasks are asked that have been in their states for longest, up to the options' limit;
    /// as in [`tasks`](Handle::tasks), only tasks that have been polled once and have not
    /// completed. A task that is polled all the time is shown as at work, and for how long. One
    /// that was not polled until the options' timeout is shown as not reached.
    ///
    /// **It costs a poll of each task.** A task says where it waits by a poll, with a waker that
    /// notes who clones it. A future has to expect such a poll at any time. The task's accounts
    /// count it. No task is stopped meanwhile, so a dump is no picture of one moment.
    ///
    /// Of futures that poll others with wakers of their own, such as a `FuturesUnordered`, the
    /// outer one is shown. Without the feature `hog-stacks` there are no functions, but still the
    /// states and what the runtime's own futures wait for.
    ///
    /// Dumps are made one at a time, on a thread of their own; others wait for it.
    ///
    /// # Errors
    ///
    /// The runtime shuts down, or too many dumps wait already.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the dump goes on within its timeout, and nobody gets it.
    ///
    /// # Behaviour today
    ///
    /// To take a task's stack occupies its worker for some ten to hundred microseconds. At most 64
    /// tasks are asked at once. Names of functions are looked up on the dump's thread afterwards,
    /// which takes about a second for a large program with debug information.
    ///
    /// # Examples
    ///
    /// ```
    /// use evenkeel::runtime::Handle;
    /// use evenkeel::stats::DumpOptions;
    /// use evenkeel::time::{Duration, sleep};
    ///
    /// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
    /// let sleeper = evenkeel::spawn(sleep(Duration::from_secs(60)));
    /// evenkeel::task::yield_now().await;
    /// let dump = Handle::current().dump(DumpOptions::new()).await?;
    /// println!("{dump}");
    /// sleeper.abort();
    /// # Ok::<(), evenkeel::task::JoinError>(())
    /// # }).unwrap();
    /// ```
    #[track_caller]
    pub fn dump(
        &self,
        options: DumpOptions,
    ) -> impl Future<Output = Result<TaskDump, JoinError>> + Send + use<> {
        let (shared, caller) = (Arc::clone(&self.shared), Location::caller());
        async move {
            let work = Arc::clone(&shared);
            blocking::spawn_dump(&shared, caller, move || stats::take_dump(&work, options)).await
        }
    }
}
