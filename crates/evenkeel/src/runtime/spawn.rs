//! Spawning on the runtime of the calling thread.

use std::future::Future;

use crate::class::Class;
use crate::sched::spawn::Spawn;
use crate::sched::task::JoinHandle;

use super::handle::Handle;

/// Spawns a task: it runs on the workers, whether or not its handle is awaited.
///
/// It joins the class of the task that calls, or [`Class::NORMAL`].
///
/// # Panics
///
/// Outside a runtime; [`Handle::spawn`] needs none on the calling thread.
///
/// # Examples
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() {
/// let sum = evenkeel::spawn(async { 2 + 2 });
/// assert_eq!(sum.await.unwrap(), 4);
/// # }
/// ```
#[track_caller]
pub fn spawn<F>(future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Spawn::new(None, None).here(future)
}

/// Spawns a task in a class; else as [`spawn`].
///
/// # Panics
///
/// Outside a runtime, and if the class does not belong to it.
#[track_caller]
pub fn spawn_in<F>(class: Class, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Spawn::new(Some(class), None).here(future)
}

/// Runs a function that blocks or computes for long on a thread of its own, so that no worker
/// waits for it.
///
/// The threads are the runtime's, at most
/// [`max_blocking_threads`](super::Builder::max_blocking_threads); more work waits in a queue. A
/// function that has begun cannot be aborted.
///
/// # Panics
///
/// Outside a runtime.
///
/// # Examples
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let manifest = evenkeel::spawn_blocking(|| std::fs::read_to_string("Cargo.toml")).await??;
/// assert!(manifest.contains("evenkeel"));
/// # Ok(())
/// # }
/// ```
#[track_caller]
pub fn spawn_blocking<F, T>(function: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Handle::current().spawn_blocking(function)
}
