//! What the package that stands in for the `tokio` crate is built on. No public interface: it
//! changes without notice, in step with that package.

mod io;
mod left;
mod report;
mod settings;
mod timer;

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::task::Waker;
use std::time::Duration;

pub use io::{Io, Seen};
pub use left::{LeftToTokio, leave};
pub use report::{begin, end, prepare};
pub use settings::Settings;
pub use timer::Timer;

use crate::runtime::{BuildError, Builder, Handle, Runtime};
use crate::sched::context;
use crate::sched::spawn::Spawn;
use crate::sched::worker::Worker;
use crate::stats;
use crate::task::JoinHandle;

/// Spawns on this runtime, in the class of the task that spawns.
pub fn spawn<F>(
    handle: &Handle,
    future: F,
    spawned_at: &'static Location<'static>,
) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    let mut spawn = Spawn::new(None, None);
    spawn.spawned_at = spawned_at;
    spawn.on(handle.shared(), future)
}

/// Builds a runtime. The function is called before any thread starts.
///
/// # Errors
///
/// As [`Builder::build`].
pub fn build(builder: &Builder, before: impl FnOnce(&Handle)) -> Result<Runtime, BuildError> {
    builder.build_with(before)
}

/// Makes this thread belong to the runtime until the guard is dropped, for what is spawned, opened
/// and awaited by Evenkeel's own interface.
pub fn enter(handle: &Handle) -> Entered {
    Entered {
        _entered: context::enter(handle.shared().clone()),
    }
}

/// See [`enter`].
pub struct Entered {
    _entered: context::Entered,
}

impl fmt::Debug for Entered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entered").finish_non_exhaustive()
    }
}

/// The seat of this thread's worker, if it is one of this runtime's.
pub fn worker_index(handle: &Handle) -> Option<usize> {
    context::worker_index(handle.shared())
}

/// Whether this thread is a worker's, or polls what it began as one, whatever runtime that is of.
pub fn is_worker() -> bool {
    context::with_worker(|worker| worker.is_some())
}

/// Whether this thread is in a function that a task runs by `block_in_place`.
pub fn is_in_place() -> bool {
    context::with_worker(|worker| worker.is_some_and(Worker::is_in_place))
}

/// Promises to wake `waker` when the task ends. Returns false if it has.
pub fn watch<T>(join: &mut JoinHandle<T>, waker: &Waker) -> bool {
    join.watch(waker)
}

/// Has all workers stop, without waiting for them. If a report is to be printed, waits a while for
/// the names of what has hogged.
pub fn stop(handle: &Handle) {
    report::stop(handle);
    handle.shared().stop();
}

/// Whether the runtime ends.
pub fn is_stopping(handle: &Handle) -> bool {
    handle.shared().is_stopping()
}

/// How many tasks wait in the injection queues.
pub fn injected(handle: &Handle) -> usize {
    handle.shared().injected()
}

/// What a worker has done.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Neither asleep nor looking for work.
    pub busy: Duration,
    /// How often it has gone to sleep, a sleep under way included.
    pub parks: u64,
    pub is_parked: bool,
    /// How many polls it has begun in its seat, and how long one took on average.
    pub polls: u64,
    pub poll_mean: Duration,
    /// How many tasks it took from other workers.
    pub steals: u64,
    /// How many tasks are in its run queues.
    pub queued: usize,
}

/// What the worker has done so far.
///
/// # Panics
///
/// If there is no such worker.
pub fn figures(handle: &Handle, worker: usize) -> Figures {
    let shared = handle.shared();
    // The accounts of a worker that has ended stay at what it did last.
    let seat = &shared.seats[worker];
    let of_worker = stats::read_worker(shared, seat);
    let is_parked = seat.accounts.is_parked() && !shared.is_stopping();
    let polls = seat.accounts.polls();
    let run_queues = &shared.desk_of(seat).run_queues;
    let classes = shared.config.classes.iter();
    Figures {
        busy: of_worker.run() + of_worker.check,
        parks: of_worker.parks + u64::from(is_parked),
        is_parked,
        polls,
        poll_mean: (of_worker
            .run()
            .checked_div(u32::try_from(polls).unwrap_or(u32::MAX)))
        .unwrap_or_default(),
        steals: of_worker.steals,
        queued: classes.map(|(class, _)| run_queues.len_of(class)).sum(),
    }
}
