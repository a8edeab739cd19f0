//! A task's stay in a class.

use evenkeel::task::{self, Id};
use evenkeel::{Class, task::yield_now};

/// Puts the running task into a class and gives way once, so that what follows is done in it. For
/// a handler that learns only by and by what a request is.
///
/// If the task is in that class already, or no task of evenkeel's runs (as in a service on Tokio
/// with `EVENKEEL=off`), it returns at once. The task stays there until something changes its class
/// again: a [`ClassLayer`](crate::ClassLayer) around the service does when the request has ended.
///
/// # Panics
///
/// If the class does not belong to the runtime.
///
/// # Cancel safety
///
/// If it is dropped before it has given way, the class is changed all the same.
///
/// # Examples
///
/// ```
/// use evenkeel::{Class, task};
///
/// # #[evenkeel::main]
/// # async fn main() {
/// let report = evenkeel::spawn(async {
///     evenkeel_tower::enter(Class::BULK).await;
///     task::class()
/// });
/// assert_eq!(report.await.unwrap(), Some(Class::BULK));
/// # }
/// ```
pub async fn enter(class: Class) {
    if change(class) {
        yield_now().await;
    }
}

/// Whether the running task was in another class.
pub(crate) fn change(class: Class) -> bool {
    task::change_class(class).is_ok_and(|before| before != class)
}

/// Brings a task back into the class that it had, when it is dropped there.
#[derive(Debug)]
pub(crate) struct Stay {
    task: Id,
    before: Class,
}

impl Stay {
    /// From now on; `None` if no task of evenkeel's runs.
    pub(crate) fn begin() -> Option<Self> {
        Some(Stay {
            task: task::id()?,
            before: task::class()?,
        })
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        if task::id() == Some(self.task) {
            change(self.before);
        }
    }
}
