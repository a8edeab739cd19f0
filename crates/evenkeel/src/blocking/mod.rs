//! Blocking work: functions that would hold up a worker, on threads of their own.

pub(crate) mod pool;

use std::panic::Location;

use crate::class::Class;
use crate::runtime::context;
use crate::runtime::handle::Handle;
use crate::task::JoinHandle;
use crate::task::cell::{Origin, Runnable, Schedule, new_task};

/// The scheduler of blocking work, which is polled once and never waits, so nothing wakes it.
struct Never;

impl Schedule for Never {
    fn schedule(&self, task: Runnable) {
        // Only a task that waits is scheduled; if one ever did, ending it is the safe answer.
        task.cancel(|_| ());
    }
}

/// Runs a function on a thread of the runtime's pool.
pub(crate) fn spawn<F, T>(
    handle: &Handle,
    spawned_at: &'static Location<'static>,
    function: F,
) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let class = context::with_worker(|worker| worker.map(|worker| worker.current_class()));
    let origin = Origin {
        class: class.unwrap_or(Class::NORMAL),
        spawned_at,
        name: None,
    };
    let (task, join) = new_task(async move { function() }, Never, origin);
    handle.shared().pool.submit(handle, task);
    JoinHandle::new(join)
}
