//! The handle: a runtime's services, for whoever holds one.

use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use crate::blocking;
use crate::class::{Class, ClassConfig, ClassError, ClassInfo, Terms};
use crate::sched::context::{self, NoRuntime};
use crate::sched::shared::Shared;
use crate::sched::shares::Term;
use crate::sched::spawn::Spawn;
use crate::sched::task::JoinHandle;
use crate::stats::{Load, Stats};
use crate::sync::Arc;

use super::block_on;

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
        context::current().map(Self::from_shared)
    }

    /// Spawns a task, in the class of the task that calls, or in [`Class::NORMAL`].
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

    /// The class of this name, if the runtime has it.
    pub fn class(&self, name: &str) -> Option<Class> {
        self.shared.config.classes.find(name)
    }

    /// All classes, and what they are entitled to at the moment.
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

    /// Changes what a class is entitled to, from now on: within about a tenth of a millisecond the
    /// workers act on it. What the class is owed from before stays.
    ///
    /// # Errors
    ///
    /// If the class does not belong to this runtime, or a setting is out of range. Nothing changes
    /// then.
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
        // To the microsecond in which it was set: the clock's unit does not divide it evenly.
        let target = Duration::from_micros((nanos + 500) / 1_000);
        Terms { share, target }
    }

    /// How long a new task of a class would wait before it is polled, as far as one can tell: for
    /// accept loops, which had better refuse early than serve late.
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
    /// # #[evenkeel::main]
    /// # async fn main() {
    /// let too_late = Duration::from_millis(50);
    /// if Handle::current().load(Class::NORMAL).wait > too_late {
    ///     // Answer "503 try again later", close, and do not spawn.
    /// }
    /// # }
    /// ```
    #[track_caller]
    pub fn load(&self, class: Class) -> Load {
        self.shared.check_class(class);
        Load::read(&self.shared, class)
    }

    /// What the runtime did with its time so far.
    pub fn stats(&self) -> Stats {
        Stats::read(&self.shared)
    }
}
