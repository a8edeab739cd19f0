//! The runtime itself, which owns the workers.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::class::Class;
use crate::defaults::DROP_TIMEOUT;
use crate::sched::shared::Shared;
use crate::sched::task::JoinHandle;
use crate::stats::Stats;
use crate::sync::thread;
use crate::sync::{Arc, Mutex};

use super::builder::{BuildError, Builder};
use super::handle::Handle;
use super::shutdown::{self, ShutdownError};
use super::threads::Threads;

/// How long the end waits for the thread that makes names of hogs' stacks.
const NAMES_MAX: Duration = Duration::from_secs(1);

/// A runtime: workers that run tasks, check I/O and keep timers, and threads for blocking work.
///
/// Dropping it does the same as [`shutdown`](Runtime::shutdown) with a timeout of ten seconds
/// ([`DROP_TIMEOUT`]), and prints the error to standard error. On one of its own threads (in a
/// task, a hook, or the destructor of a thread-local) a drop does not wait.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use evenkeel::runtime::Runtime;
///
/// let runtime = Runtime::new()?;
/// runtime.block_on(async {
///     evenkeel::time::sleep(Duration::from_millis(1)).await;
/// });
/// runtime.shutdown(Duration::from_secs(1))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Runtime {
    handle: Handle,
    /// `Some` until the runtime is shut down.
    threads: Mutex<Option<Threads>>,
    /// Dropped last, as the drop of a task may need it.
    #[cfg(feature = "tokio-context")]
    tokio: Option<super::tokio_context::TokioThread>,
}

impl Runtime {
    pub(crate) fn new_with(shared: Arc<Shared>, threads: Threads) -> Self {
        Self {
            handle: Handle::from_shared(shared),
            threads: Mutex::new(Some(threads)),
            #[cfg(feature = "tokio-context")]
            tokio: None,
        }
    }

    #[cfg(feature = "tokio-context")]
    pub(super) fn start_tokio(
        mut self,
        tokio: super::tokio_context::TokioContext,
    ) -> std::io::Result<Self> {
        self.tokio = Some(tokio.start(self.handle.shared())?);
        Ok(self)
    }

    /// Makes a runtime with all defaults.
    ///
    /// # Errors
    ///
    /// The system refuses a thread or a readiness queue.
    pub fn new() -> Result<Runtime, BuildError> {
        Builder::new().build()
    }

    /// Runs a future to completion on the calling thread, inside this runtime. Tasks that it spawns
    /// run on the workers.
    ///
    /// # Panics
    ///
    /// On a worker, which must not block, and if the future panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// Spawns a task, in the class of the calling task, or in [`Class::NORMAL`].
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
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
        self.handle.spawn_in(class, future)
    }

    /// Runs a function that blocks or computes for long on a thread of its own; see
    /// [`spawn_blocking`](crate::spawn_blocking).
    #[track_caller]
    pub fn spawn_blocking<F, T>(&self, function: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.handle.spawn_blocking(function)
    }

    /// A handle, with which other threads can spawn tasks here.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Returns what the runtime has done with its time so far.
    pub fn stats(&self) -> Stats {
        self.handle.stats()
    }

    /// Drops every future, closes every readiness queue, and ends every thread.
    ///
    /// Blocking work that has not begun is cancelled; this waits for work that has. The chapter
    /// [Shutdown](crate::guide::shutdown) covers all tasks and work.
    ///
    /// On one of the runtime's own threads this returns `Ok` at once, as it would otherwise wait
    /// for itself, and another thread does the rest.
    ///
    /// # Errors
    ///
    /// A thread does not end within the timeout, because a poll or a piece of blocking work does
    /// not return. The error names the tasks. Such a thread goes on, and ends when its poll or work
    /// does.
    ///
    /// Or the futures cannot be dropped within the timeout: another thread goes on with that. This
    /// waits for the drop that is under way when the time is up.
    pub fn shutdown(self, timeout: Duration) -> Result<(), ShutdownError> {
        self.shut_down(timeout)
    }

    fn shut_down(&self, timeout: Duration) -> Result<(), ShutdownError> {
        match self.threads.lock().take() {
            Some(threads) => {
                let shared = self.handle.shared();
                let end = || shutdown::shut_down(shared, threads, timeout);
                let ended = shared.config.surrounded(end);
                // It may have a program's file open, to read its symbols.
                let names_until = crate::clock::now() + NAMES_MAX.min(timeout);
                while shared.stacks.is_served() && crate::clock::now() < names_until {
                    thread::sleep(Duration::from_millis(1));
                }
                // It has the lowest priority, and may not get on. Its reports go without names.
                let reports = shared.stacks.rest_of_reports().into_iter();
                reports.for_each(|report| (shared.on_hog.deliver)(shared, report));
                ended
            }
            None => Ok(()),
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Err(error) = self.shut_down(DROP_TIMEOUT) {
            eprintln!("evenkeel: a dropped runtime did not end: {error}");
        }
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = self.handle.shared();
        f.debug_struct("Runtime")
            .field("workers", &shared.seats.len())
            .field("thread_name", &shared.config.thread_name)
            .finish_non_exhaustive()
    }
}
