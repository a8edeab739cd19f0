//! Spawning on the runtime of the calling thread.

use std::future::Future;

use crate::class::Class;
use crate::sched::spawn::Spawn;
use crate::sched::task::JoinHandle;

use super::handle::Handle;

/// Spawns a task, which runs on the workers whether or not its handle is awaited.
///
/// It gets the class of the calling task, or [`Class::NORMAL`].
///
/// # Panics
///
/// If there is no current runtime; [`Handle::spawn`] needs none.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let sum = evenkeel::spawn(async { 2 + 2 });
/// assert_eq!(sum.await.unwrap(), 4);
/// # });
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
/// If there is no current runtime, or the class does not belong to it.
///
/// # Examples
///
/// ```
/// use evenkeel::Class;
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let sum = evenkeel::spawn_in(Class::BULK, async { (1..=1_000).sum::<u64>() });
/// assert_eq!(sum.await.unwrap(), 500_500);
/// # });
/// ```
#[track_caller]
pub fn spawn_in<F>(class: Class, future: F) -> JoinHandle<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Spawn::new(Some(class), None).here(future)
}

/// Runs a function that blocks or computes for long on a thread of its own, so that no worker waits
/// for it.
///
/// The runtime has at most [`max_blocking_threads`](super::Builder::max_blocking_threads) such
/// threads; more work waits in a queue. A function that has begun cannot be aborted.
///
/// # Panics
///
/// If there is no current runtime.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let manifest = evenkeel::spawn_blocking(|| std::fs::read_to_string("Cargo.toml")).await??;
/// assert!(manifest.contains("evenkeel"));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[track_caller]
pub fn spawn_blocking<F, T>(function: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Handle::current().spawn_blocking(function)
}
