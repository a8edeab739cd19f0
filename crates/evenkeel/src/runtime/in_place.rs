//! Blocking in a task, on purpose.

use crate::sched::context;
use crate::sched::monitor::Stuck;
use crate::sched::shared::Shared;
use crate::sched::worker::Begun;
use crate::sync::Arc;

use super::threads::Threads;

/// Runs a function that blocks or computes for long, here and now, and leaves the worker to another
/// thread meanwhile.
///
/// The calling task waits for the function, as do other futures that the same task polls, such as
/// those of a `join!`. All other tasks go on: a thread is started at once, which takes over the
/// worker's seat unless the function returns first. The calling thread finishes the task's poll in
/// the heavy pool, as that of a hog. Such a poll is not reported as a hog's, and the task's next
/// poll is on a worker again. [`HeavyStats::given_up`](crate::stats::HeavyStats::given_up) counts
/// the seats that were given up.
///
/// Inside the function [`block_on`](super::Handle::block_on) may be called, and tasks may be
/// spawned and awaited. A call inside another, or outside of a task, only runs the function.
///
/// # Limits
///
/// As many threads as [`blocked_threads`](super::Builder::blocked_threads) may be in such functions
/// at a time. If more are called, or the system has no thread, the function runs all the same, but
/// its worker is held up until there is room; other workers take over its tasks.
///
/// # Behaviour today
///
/// Each call starts a thread, which costs some tens of microseconds. For work of less than a
/// millisecond it is cheaper to do it in the task. [`spawn_blocking`](super::spawn_blocking) has
/// threads that stay, but its function has to be `'static`.
///
/// # Panics
///
/// If the function does.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let task = evenkeel::spawn(async {
///     let text = String::from("Cargo.toml");
///     // Borrows from the task, as `spawn_blocking` could not.
///     let read = evenkeel::block_in_place(|| std::fs::read_to_string(&text));
///     read.map(|manifest| manifest.len())
/// });
/// assert!(task.await.unwrap().unwrap() > 0);
/// # });
/// ```
pub fn block_in_place<F, R>(function: F) -> R
where
    F: FnOnce() -> R,
{
    let begun = context::with_worker(|worker| {
        let worker = worker?;
        let begun = worker.begin_in_place()?;
        if let Some(stuck) = begun.stuck
            && !start_heir(worker.shared(), stuck)
        {
            worker.keep_in_place(stuck);
        }
        Some(InPlace(begun))
    });
    let result = function();
    drop(begun);
    result
}

/// Starts the thread that is to take over the seat. Returns whether it did, or none is needed.
fn start_heir(shared: &Arc<Shared>, stuck: Stuck) -> bool {
    // At the end, tasks are dropped and not polled.
    shared.is_stopping()
        || (shared.heavy_pool.seems_to_have_room(stuck.blocked) && {
            let threads = shared.extensions.get::<Threads>();
            threads.start_heir(Arc::clone(shared), stuck).is_ok()
        })
}

/// While it lives, the running task is in a function that may block.
struct InPlace(Begun);

impl Drop for InPlace {
    fn drop(&mut self) {
        context::with_worker(|worker| {
            if let Some(worker) = worker {
                worker.end_in_place(&self.0);
            }
        });
    }
}
