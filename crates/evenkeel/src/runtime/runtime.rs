//! The runtime itself: what owns the workers.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use crate::class::Class;
use crate::defaults::DROP_TIMEOUT;
use crate::sched::shared::Shared;
use crate::sched::task::JoinHandle;
use crate::stats::Stats;
use crate::sync::{Arc, Mutex};

use super::builder::{BuildError, Builder};
use super::handle::Handle;
use super::shutdown::{self, ShutdownError};
use super::threads::Threads;

/// A runtime: workers that run tasks, check I/O and keep timers, and threads for blocking work.
///
/// Dropping it shuts it down as [`shutdown`](Runtime::shutdown) with ten seconds ([`DROP_TIMEOUT`])
/// does, and prints to standard error what would be the error there. On one of its own threads it
/// does not wait, be it in a task, in a hook, or in the destructor of one of the thread's locals.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use evenkeel::runtime::Runtime;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = Runtime::new()?;
/// runtime.block_on(async {
///     evenkeel::time::sleep(Duration::from_millis(1)).await;
/// });
/// runtime.shutdown(Duration::from_secs(1))?;
/// # Ok(())
/// # }
/// ```
pub struct Runtime {
    handle: Handle,
    /// There until the runtime is shut down.
    threads: Mutex<Option<Threads>>,
}

impl Runtime {
    pub(crate) fn new_with(shared: Arc<Shared>, threads: Threads) -> Self {
        Self {
            handle: Handle::from_shared(shared),
            threads: Mutex::new(Some(threads)),
        }
    }

    /// A runtime with all defaults.
    ///
    /// # Errors
    ///
    /// If the system gives no thread or no readiness queue.
    pub fn new() -> Result<Runtime, BuildError> {
        Builder::new().build()
    }

    /// Runs a future on the calling thread to its end, inside this runtime: what it spawns runs
    /// on the workers.
    ///
    /// # Panics
    ///
    /// On a worker of a runtime, which must not block; and if the future panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.handle.block_on(future)
    }

    /// Spawns a task, in the class of the task that calls, or in [`Class::NORMAL`].
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.handle.spawn(future)
    }

    /// Spawns a task in a class.
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

    /// A handle, by which other threads can spawn here.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// What the runtime did with its time so far.
    pub fn stats(&self) -> Stats {
        self.handle.stats()
    }

    /// Drops every future, closes every readiness queue, and ends every thread.
    ///
    /// Blocking work that waits for a thread is cancelled; what has begun is waited for. The
    /// chapter [Shutdown](crate::guide::shutdown) says what becomes of what, kind by kind.
    ///
    /// On one of the runtime's own threads this returns at once, with `Ok`, and another thread does
    /// the rest: it would wait for itself.
    ///
    /// # Errors
    ///
    /// If a thread does not end within the timeout, because a poll or a piece of blocking work
    /// does not return. The error names the tasks. Such a thread goes on, and ends when what it
    /// runs does.
    ///
    /// Or if the futures cannot be dropped within the timeout: a thread of its own goes on with
    /// that. The drop that is under way when the time is up is waited for.
    pub fn shutdown(self, timeout: Duration) -> Result<(), ShutdownError> {
        self.shut_down(timeout)
    }

    fn shut_down(&self, timeout: Duration) -> Result<(), ShutdownError> {
        match self.threads.lock().take() {
            Some(threads) => shutdown::shut_down(self.handle.shared(), threads, timeout),
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
