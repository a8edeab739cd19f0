//! Functions as tasks that a lane runs.

use std::panic::Location;

use crate::class::Class;
use crate::sched::context;
use crate::sched::shared::Shared;
use crate::sched::task::JoinHandle;
use crate::sched::task::cell::{Attributes, Header, Runnable, Schedule, new_task};
use crate::sync::Arc;

use super::core::Core;
use super::lanes::Lanes;

/// The scheduler of blocking work, which is polled once and never waits, so it is never woken.
struct InQueue(Arc<Core>);

impl Schedule for InQueue {
    fn schedule(&self, task: Runnable) {
        // Only a task that waits is scheduled. If one ever did, cancelling it would be safe.
        task.cancel(|_| ());
    }

    fn aborted_in_queue(&self, task: &Header) {
        self.0.cancel(task);
    }

    fn lane(&self) -> Option<Arc<str>> {
        Some(Arc::clone(self.0.name()))
    }
}

/// Makes a function a task in the class of the calling task.
pub(crate) fn new_work<F, T>(
    core: &Arc<Core>,
    spawned_at: &'static Location<'static>,
    name: Option<&'static str>,
    function: F,
) -> (Runnable, JoinHandle<T>)
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let class = context::with_worker(|worker| worker.map(|worker| worker.current_class()));
    let attributes = Attributes {
        class: class.unwrap_or(Class::NORMAL),
        spawned_at,
        name,
    };
    let queue = InQueue(Arc::clone(core));
    let future = async move { function() };
    #[cfg(feature = "console")]
    let future = crate::sched::task::console::blocking::<F, _>(future, &attributes);
    let (task, join) = new_task(future, queue, attributes);
    (task, JoinHandle::new(join))
}

/// Runs a function on a thread of the general lane.
pub(crate) fn spawn<F, T>(
    shared: &Arc<Shared>,
    spawned_at: &'static Location<'static>,
    function: F,
) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let general = &Lanes::of(shared).general;
    let (task, join) = new_work(general, spawned_at, None, function);
    general.submit(shared, task, false);
    join
}

/// Runs a function on the thread of the lane for dumps.
pub(crate) fn spawn_dump<F, T>(
    shared: &Arc<Shared>,
    spawned_at: &'static Location<'static>,
    function: F,
) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let lane = Lanes::of(shared).dumps(shared);
    let (task, join) = new_work(&lane, spawned_at, None, function);
    lane.submit(shared, task, false);
    join
}
