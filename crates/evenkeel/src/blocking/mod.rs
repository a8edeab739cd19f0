//! Blocking work: functions that would hold up a worker, on threads of their own.
//!
//! Work is done in *lanes*: bounded queues with bounded threads, so that what hangs in one holds
//! up no other. [`spawn_blocking`](crate::spawn_blocking) has a lane, [`fs`](crate::fs) has some
//! for each device, and a [`Lane`] is one of your own. [`Stats::lanes`](crate::stats::Stats::lanes)
//! has the accounts of all.

pub(crate) mod core;
mod error;
pub(crate) mod lane;
pub(crate) mod lanes;
pub(crate) mod misses;
mod order;
#[cfg(target_os = "linux")]
pub(crate) mod ring;

use std::panic::Location;

use crate::class::Class;
use crate::runtime::context;
use crate::runtime::handle::Handle;
use crate::sync::Arc;
use crate::task::JoinHandle;
use crate::task::cell::{Header, Origin, Runnable, Schedule, new_task};

use self::core::Core;

pub use error::LaneError;
pub use lane::{Lane, LaneBuildError, LaneBuilder};

/// The scheduler of blocking work, which is polled once and never waits, so nothing wakes it.
struct InQueue(Arc<Core>);

impl Schedule for InQueue {
    fn schedule(&self, task: Runnable) {
        // Only a task that waits is scheduled; if one ever did, ending it is the safe answer.
        task.cancel(|_| ());
    }

    fn aborted_in_queue(&self, task: &Header) {
        self.0.call_off(task);
    }
}

/// A function as a task of the calling task's class, for this lane to run.
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
    let origin = Origin {
        class: class.unwrap_or(Class::NORMAL),
        spawned_at,
        name,
    };
    let queue = InQueue(Arc::clone(core));
    let (task, join) = new_task(async move { function() }, queue, origin);
    (task, JoinHandle::new(join))
}

/// Runs a function on a thread of the general lane.
pub(crate) fn spawn<F, T>(
    handle: &Handle,
    spawned_at: &'static Location<'static>,
    function: F,
) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let general = &handle.shared().lanes.general;
    let (task, join) = new_work(general, spawned_at, None, function);
    general.submit(handle, task, false);
    join
}
