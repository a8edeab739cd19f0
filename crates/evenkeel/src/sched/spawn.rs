//! Spawning a task.

use std::future::Future;
use std::panic::Location;

use crate::class::Class;
use crate::sync::Arc;

use super::context::{self, NoRuntime};
use super::hog;
use super::shared::{Home, Shared};
use super::task::cell::{Attributes, new_task};
use super::task::join::JoinHandle;

/// All that a spawn needs, except the future.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spawn {
    /// `None` for the class of the spawning task.
    class: Option<Class>,
    name: Option<&'static str>,
    /// It is known to compute for long.
    computes: bool,
    pub(crate) spawned_at: &'static Location<'static>,
}

impl Spawn {
    /// The caller is the spawn site.
    #[track_caller]
    pub(crate) fn new(class: Option<Class>, name: Option<&'static str>) -> Self {
        Self {
            class,
            name,
            computes: false,
            spawned_at: Location::caller(),
        }
    }

    /// Whether it is known to compute for long.
    pub(crate) fn computes(self, computes: bool) -> Self {
        Self { computes, ..self }
    }

    /// Spawns a task on the runtime of the calling thread. Panics if there is none, or if the class
    /// does not belong to it.
    #[track_caller]
    pub(crate) fn here<F>(self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match self.spawn(None, future) {
            Ok(join) => join,
            Err(error) => panic!("{error}"),
        }
    }

    /// Spawns a task on a runtime. Panics if the class does not belong to it.
    pub(crate) fn on<F>(self, shared: &Arc<Shared>, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        match self.spawn(Some(shared), future) {
            Ok(join) => join,
            Err(NoRuntime { .. }) => unreachable!("a runtime was given"),
        }
    }

    #[inline]
    fn spawn<F>(
        self,
        on: Option<&Arc<Shared>>,
        future: F,
    ) -> Result<JoinHandle<F::Output>, NoRuntime>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        context::with_worker(|worker| {
            let is_meant = |shared| on.is_none_or(|on| Arc::ptr_eq(on, shared));
            let own = worker.filter(|worker| is_meant(worker.shared()));
            let entered;
            // On a worker, the common case, this saves counting a reference.
            let shared = match (own, on) {
                (Some(worker), _) => worker.shared(),
                (None, Some(on)) => on,
                (None, None) => {
                    entered = context::current()?;
                    &entered
                }
            };
            let attributes = Attributes {
                class: self.class_in(shared, || match worker {
                    Some(worker) => Some(worker.current_class()),
                    None => context::blocking_class(),
                }),
                spawned_at: self.spawned_at,
                name: self.name,
            };
            #[cfg(feature = "console")]
            let future = super::task::console::task(future, &attributes);
            let (task, join) = new_task(future, Home::new(shared), attributes);
            if self.computes {
                hog::expect(task.header());
            }
            match own {
                Some(_) if shared.is_stopping() => shared.cancel(task),
                Some(worker) => worker.wake_here(task),
                None => shared.push_outside(task),
            }
            Ok(JoinHandle::new(join))
        })
    }

    #[inline]
    fn class_in(self, shared: &Shared, inherited: impl FnOnce() -> Option<Class>) -> Class {
        if let Some(class) = self.class {
            shared.check_class(class);
            return class;
        }
        // A class that was defined in another runtime means nothing here.
        let known = |class: &Class| shared.config.classes.has(*class);
        inherited().filter(known).unwrap_or_default()
    }
}
