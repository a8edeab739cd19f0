//! Spawning a task with a name.

use std::future::Future;

use crate::class::Class;
use crate::runtime::Handle;
use crate::sched::spawn::Spawn;
use crate::sched::task::JoinHandle;

/// Spawns a task with a name or in a class.
///
/// Reports of hogs contain the name, in addition to the spawn site.
///
/// # Examples
///
/// ```
/// use evenkeel::{Class, task};
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let index = task::Builder::new()
///     .name("index")
///     .class(Class::BULK)
///     .spawn(async { "built" });
/// assert_eq!(index.await.unwrap(), "built");
/// # });
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Builder {
    name: Option<&'static str>,
    class: Option<Class>,
    computes: bool,
}

impl Builder {
    /// Without a name, and with the class of the spawning task.
    pub fn new() -> Self {
        Self::default()
    }

    /// Names the task.
    pub fn name(mut self, name: &'static str) -> Self {
        self.name = Some(name);
        self
    }

    /// Puts the task into a class.
    pub fn class(mut self, class: Class) -> Self {
        self.class = Some(class);
        self
    }

    /// Says that the task computes for long in its polls: a tenth of a millisecond or more. It
    /// begins in the heavy pool, at a lower priority than workers and charged to its class, and
    /// not only after it has hogged: so it holds up no worker at all. It leaves the pool, as any
    /// hog, when some of its polls in a row were short.
    ///
    /// To get there and back takes some ten microseconds, and a task may wait there for others that
    /// compute. A task of class [`URGENT`](Class::URGENT) is polled by workers all the same.
    ///
    /// # Examples
    ///
    /// ```
    /// use evenkeel::{Class, task};
    ///
    /// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
    /// let numbers = task::Builder::new().class(Class::BULK).computes(true);
    /// let sum = numbers.spawn(async { (1..=1_000_000_u64).sum::<u64>() });
    /// assert_eq!(sum.await.unwrap(), 500_000_500_000);
    /// # });
    /// ```
    pub fn computes(mut self, computes: bool) -> Self {
        self.computes = computes;
        self
    }

    /// Spawns the task; see [`spawn`](crate::spawn).
    ///
    /// # Panics
    ///
    /// If there is no current runtime, or the class does not belong to it.
    #[track_caller]
    pub fn spawn<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let spawn = Spawn::new(self.class, self.name);
        spawn.computes(self.computes).here(future)
    }

    /// Spawns the task on a runtime that the calling thread need not belong to.
    ///
    /// # Panics
    ///
    /// If the class does not belong to the runtime.
    #[track_caller]
    pub fn spawn_on<F>(self, future: F, handle: &Handle) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let spawn = Spawn::new(self.class, self.name);
        spawn.computes(self.computes).on(handle.shared(), future)
    }
}
