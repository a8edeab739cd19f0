//! The running task: which it is, and its class.

use std::fmt;

use crate::class::Class;
use crate::sched::context;
use crate::sched::task::Id;
use crate::sched::worker::Worker;

/// Which task calls this; `None` outside tasks.
pub fn id() -> Option<Id> {
    context::with_worker(|worker| worker.and_then(Worker::running_id))
}

/// The worker whose place the calling thread has: its index in
/// [`Stats::workers`](crate::stats::Stats::workers); `None` outside the workers.
///
/// A task may go on at another worker after any `.await`. This is a hint, for spreading work and
/// for looking at where it runs.
///
/// # Examples
///
/// ```
/// use evenkeel::task;
///
/// # #[evenkeel::main]
/// # async fn main() {
/// let worker = evenkeel::spawn(async { task::worker() });
/// assert!(worker.await.unwrap().is_some());
/// # }
/// ```
pub fn worker() -> Option<usize> {
    context::with_worker(|worker| worker.map(Worker::index))
}

/// The name of the task that calls this, if it was given one ([`Builder`](crate::task::Builder));
/// `None` outside tasks.
///
/// # Examples
///
/// ```
/// use evenkeel::task;
///
/// # #[evenkeel::main]
/// # async fn main() {
/// let index = task::Builder::new().name("index").spawn(async { task::name() });
/// assert_eq!(index.await.unwrap(), Some("index"));
/// assert_eq!(task::name(), None);
/// # }
/// ```
pub fn name() -> Option<&'static str> {
    context::with_worker(|worker| worker.and_then(Worker::running_name))
}

/// The class of the task or of the blocking work that calls this; `None` outside of both.
///
/// # Examples
///
/// ```
/// use evenkeel::{Class, task};
///
/// # #[evenkeel::main]
/// # async fn main() {
/// let class = evenkeel::spawn_in(Class::BULK, async { task::class() });
/// assert_eq!(class.await.unwrap(), Some(Class::BULK));
/// # }
/// ```
pub fn class() -> Option<Class> {
    context::with_worker(|worker| match worker {
        Some(worker) => worker.running_class(),
        None => context::blocking_class(),
    })
}

/// Puts the task that calls this into another class, and returns the one that it was in.
///
/// For work whose class is known only when it has begun: the task of a connection, once a request's
/// path has been read. From its next poll on, the task waits in the new class's queues and its time
/// is charged there; the poll under way is charged to the class in which it began. So it is good to
/// wait for something, or to [yield](crate::task::yield_now), before much is computed. What the
/// task spawns from now on inherits the new class.
///
/// It costs less than a lock or a reading of the clock.
///
/// # Errors
///
/// Outside tasks: in [`block_on`](crate::runtime::Runtime::block_on) itself, in blocking work, and
/// on threads of others. Then nothing has changed.
///
/// # Panics
///
/// If the class does not belong to the runtime.
///
/// # Examples
///
/// ```
/// use evenkeel::{Class, task};
///
/// # #[evenkeel::main]
/// # async fn main() {
/// let export = evenkeel::spawn(async {
///     let before = task::change_class(Class::BULK).expect("this is a task");
///     task::yield_now().await;
///     // ... what takes long ...
///     task::change_class(before).expect("this is a task");
/// });
/// export.await.unwrap();
/// # }
/// ```
pub fn change_class(class: Class) -> Result<Class, NotInTask> {
    let change = |worker: &Worker| worker.change_class(class);
    context::with_worker(|worker| worker.and_then(change)).ok_or(NotInTask(()))
}

/// Only a task has a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotInTask(());

impl fmt::Display for NotInTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no task of evenkeel's runs here, so there is none to put into another class")
    }
}

impl std::error::Error for NotInTask {}
