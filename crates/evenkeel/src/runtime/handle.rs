//! The handle: a runtime's services, for whoever holds one.

use std::future::Future;
use std::panic::Location;

use crate::blocking;
use crate::class::Class;
use crate::sched::shared::{Home, Shared};
use crate::stats::Stats;
use crate::sync::Arc;
use crate::task::JoinHandle;
use crate::task::cell::{Origin, new_task};

use super::block_on;
use super::context::{self, NoRuntime};

/// A reference to a runtime, by which any thread can spawn on it.
///
/// It does not keep the runtime running: after [`shutdown`](super::Runtime::shutdown), what is
/// spawned is cancelled at once.
///
/// # Examples
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let runtime = evenkeel::runtime::Runtime::new()?;
/// let handle = runtime.handle().clone();
/// let thread = std::thread::spawn(move || handle.spawn(async { 42 }));
/// let task = thread.join().unwrap();
/// assert_eq!(runtime.block_on(task)?, 42);
/// # Ok(())
/// # }
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

    /// The runtime this thread belongs to.
    ///
    /// # Panics
    ///
    /// Outside a runtime; [`try_current`](Handle::try_current) does not.
    #[track_caller]
    pub fn current() -> Handle {
        match Self::try_current() {
            Ok(handle) => handle,
            Err(error) => panic!("{error}"),
        }
    }

    /// The runtime this thread belongs to.
    ///
    /// # Errors
    ///
    /// Outside a runtime.
    pub fn try_current() -> Result<Handle, NoRuntime> {
        context::current()
    }

    /// Spawns a task, in the class of the task that calls, or in [`Class::NORMAL`].
    #[track_caller]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_at(None, Location::caller(), future)
    }

    /// Spawns a task in a class.
    #[track_caller]
    pub fn spawn_in<F>(&self, class: Class, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_at(Some(class), Location::caller(), future)
    }

    pub(crate) fn spawn_at<F>(
        &self,
        class: Option<Class>,
        spawned_at: &'static Location<'static>,
        future: F,
    ) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        context::with_worker(|worker| match worker {
            Some(worker) if Arc::ptr_eq(worker.shared(), &self.shared) => {
                worker.spawn(class, spawned_at, future)
            }
            worker => {
                let inherited = || worker.map(|worker| worker.current_class());
                let class = class.or_else(inherited).unwrap_or_default();
                let origin = Origin { class, spawned_at };
                let (task, join) = new_task(future, Home::new(&self.shared), origin);
                self.shared.push_outside(task);
                JoinHandle::new(join)
            }
        })
    }

    /// Runs a function that blocks or computes for long on a thread of its own; see
    /// [`spawn_blocking`](crate::spawn_blocking).
    #[track_caller]
    pub fn spawn_blocking<F, T>(&self, function: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        blocking::spawn(self, Location::caller(), function)
    }

    /// Runs a future on the calling thread to its end; see
    /// [`Runtime::block_on`](super::Runtime::block_on).
    ///
    /// # Panics
    ///
    /// On a worker of a runtime, which must not block; and if the future panics.
    #[track_caller]
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on::block_on(self, future)
    }

    /// What the runtime did with its time so far.
    pub fn stats(&self) -> Stats {
        Stats::read(&self.shared)
    }
}
