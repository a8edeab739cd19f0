//! The end of a runtime.
//!
//! 1. New tasks are refused: the injection queues and the registry close. Workers are told to stop.
//!    Blocking work that waits for a thread is cancelled.
//! 2. Each worker, when it comes back from its poll, drops the tasks in its run queues and ends. So
//!    does each thread of the heavy pool.
//! 3. Meanwhile the caller drops the futures of all tasks that wait, and those in queues. A task
//!    that is being polled is marked, and its runner drops it. These drops are the user's code and
//!    may take any time; when the timeout passes between two of them, another thread goes on.
//! 4. The caller waits for running blocking work.
//! 5. When no task is left, only handles and sockets refer to the runtime's memory, and they count
//!    their references. If a task cannot be ended within the timeout, the memory is kept for good,
//!    since the task's wakers may use it.

use std::fmt;
use std::panic::Location;
use std::time::{Duration, Instant};

use crate::blocking::lanes::Lanes;
use crate::clock;
use crate::io::readiness::wake_all;
use crate::sched::context;
use crate::sched::run_queues::received;
use crate::sched::shared::{Shared, dropping};
use crate::sync::thread;
use crate::sync::{Arc, Mutex};

use super::threads::Threads;

/// How long to wait before looking again for tasks that are just moving between two places: nothing
/// would wake this thread.
const LOOK_AGAIN: Duration = Duration::from_micros(200);

pub(crate) fn shut_down(
    shared: &Arc<Shared>,
    threads: Threads,
    timeout: Duration,
) -> Result<(), ShutdownError> {
    // Futures that are dropped here may use the runtime, as they may on a worker.
    let _entered = context::enter(Arc::clone(shared));
    shared.stop();
    if context::is_own_thread(shared) {
        end_from_outside(shared, threads);
        return Ok(());
    }
    let deadline = clock::now().checked_add(timeout).unwrap_or_else(far_away);
    end(shared, threads, deadline)
}

/// Leaves the rest to another thread, without a limit: this one is the runtime's own, and would
/// wait for itself, or has no more time.
fn end_from_outside(shared: &Arc<Shared>, threads: Threads) {
    let name = format!("{}-end", shared.config.thread_name);
    let ending = Arc::clone(shared);
    let started = thread::Builder::new()
        .name(name)
        .spawn(move || end(&ending, threads, far_away()));
    if started.is_err() {
        drop(Kept(Some(Arc::clone(shared))));
    }
}

fn end(shared: &Arc<Shared>, threads: Threads, deadline: Instant) -> Result<(), ShutdownError> {
    // The memory is kept unless the end of this function is reached.
    let mut kept = Kept(Some(Arc::clone(shared)));
    // As in `shut_down`, for another thread.
    let _entered = context::enter(Arc::clone(shared));
    // First, as a poll may wait for blocking work that has no thread yet.
    Lanes::of(shared).close(shared);
    loop {
        if !drop_waiting(shared, deadline) {
            let error = ShutdownError::new(shared);
            end_from_outside(shared, threads);
            // That thread keeps the memory.
            kept.0 = None;
            return Err(error);
        }
        let no_task = shared.registry.len() == 0 && !shared.has_injected();
        let idle = clock::now() + LOOK_AGAIN;
        if threads.wait(if no_task {
            deadline
        } else {
            idle.min(deadline)
        }) && no_task
        {
            break;
        }
        if clock::now() >= deadline {
            return Err(ShutdownError::new(shared));
        }
        thread::yield_now();
    }
    // The workers have ended, and dropped the tasks in their run queues. Tasks that the drop of a
    // future put there afterwards are dropped here.
    while drop_queued(shared) {}
    debug_assert_eq!(
        shared.registry.len(),
        0,
        "a task was registered after the end"
    );
    if !Lanes::of(shared).wait(deadline) {
        return Err(ShutdownError::new(shared));
    }
    kept.0 = None;
    Ok(())
}

/// Drops the futures of tasks that wait, and of those in the injection queues and run queues: a
/// worker that is stuck in a poll must not keep the tasks behind it. Their drops are the user's
/// code and may take any time. Returns false if the deadline passed between two of them.
fn drop_waiting(shared: &Shared, deadline: Instant) -> bool {
    for task in shared.registry.all() {
        dropping(|| task.cancel_waiting(|header| shared.registry.remove(header)));
        if clock::now() >= deadline && shared.registry.len() > 0 {
            return false;
        }
    }
    while drop_injected(shared) || drop_queued(shared) {
        if clock::now() >= deadline {
            return false;
        }
    }
    // Whatever still waits for readiness or a timer is not a task of this runtime.
    let mut wakers = Vec::new();
    for seat in &shared.seats {
        seat.driver.shut_down(&mut wakers);
        seat.timers.close(&mut wakers);
    }
    wake_all(&mut wakers);
    true
}

/// Drops a task of each injection queue. Returns whether there was one.
fn drop_injected(shared: &Shared) -> bool {
    let mut found = false;
    for queue in &shared.injection_queues {
        let mut task = None;
        queue.take(1, |entry| task = Some(received(entry)));
        found |= task.is_some();
        task.into_iter().for_each(|task| shared.cancel(task));
    }
    found
}

/// Drops a task of each worker's run queues and slot, from which any thread may take. Returns
/// whether there was one.
fn drop_queued(shared: &Shared) -> bool {
    let mut found = false;
    for desk in shared.desks.iter() {
        let task = desk.take_any();
        found |= task.is_some();
        task.into_iter().for_each(|task| shared.cancel(task));
    }
    found
}

/// Keeps a runtime's memory for good when this is dropped, unless it is `None`; see the invariant
/// of [`Home`](crate::sched::shared::Home).
struct Kept(Option<Arc<Shared>>);

impl Drop for Kept {
    fn drop(&mut self) {
        /// Leak checkers find the memory here, and do not report it.
        static FOR_GOOD: Mutex<Vec<Arc<Shared>>> = Mutex::new(Vec::new());
        FOR_GOOD.lock().extend(self.0.take());
    }
}

/// The deadline for timeouts that are too long to be added to the time.
fn far_away() -> Instant {
    clock::now() + Duration::from_secs(60 * 60 * 24 * 365)
}

fn stuck(shared: &Shared) -> Vec<StuckThread> {
    let name = &shared.config.thread_name;
    let workers = shared.desks.iter().filter_map(|desk| {
        Some(StuckThread {
            spawned_at: desk.running()?,
            thread: desk.thread_name()?,
            name: None,
        })
    });
    let lanes = Lanes::of(shared).running().into_iter();
    let blocking = lanes.map(|(suffix, running)| StuckThread {
        thread: format!("{name}-{suffix}"),
        spawned_at: running.spawned_at,
        name: running.name,
    });
    workers.chain(blocking).collect()
}

/// A thread that did not end, and the task that holds it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StuckThread {
    /// The thread's name.
    pub thread: String,
    /// The spawn site of the task that the thread is running.
    pub spawned_at: &'static Location<'static>,
    /// The name of the operation, if it is file work.
    pub name: Option<&'static str>,
}

/// The error of a runtime that did not end within the timeout.
#[derive(Clone)]
pub struct ShutdownError {
    stuck: Vec<StuckThread>,
    /// How many waiting tasks had not been dropped.
    left: usize,
}

impl ShutdownError {
    fn new(shared: &Shared) -> Self {
        Self {
            stuck: stuck(shared),
            left: shared.registry.len(),
        }
    }

    /// The threads that did not end, with the tasks that hold them. Empty if the last of them
    /// returned just after the timeout, or if the time passed while futures were dropped.
    pub fn stuck(&self) -> &[StuckThread] {
        &self.stuck
    }
}

impl fmt::Display for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime did not shut down within the timeout")?;
        for StuckThread {
            thread,
            spawned_at,
            name,
        } in &self.stuck
        {
            match name {
                Some(name) => write!(
                    f,
                    "; thread `{thread}` is held by `{name}` called at {spawned_at}"
                )?,
                None => write!(
                    f,
                    "; thread `{thread}` is held by the task spawned at {spawned_at}"
                )?,
            }
        }
        if self.stuck.is_empty() && self.left > 0 {
            write!(f, "; {} tasks' futures are still being dropped", self.left)?;
        }
        Ok(())
    }
}

/// Contains the message, as `main` prints its error by `Debug`.
impl fmt::Debug for ShutdownError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShutdownError({self})")
    }
}

impl std::error::Error for ShutdownError {}

impl From<ShutdownError> for std::io::Error {
    fn from(error: ShutdownError) -> Self {
        std::io::Error::new(std::io::ErrorKind::TimedOut, error)
    }
}
