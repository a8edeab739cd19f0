//! Handles to a spawned task: the join handle, and abort handles.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::class::Class;

use super::cell::{Join, Reference};
use super::error::JoinError;
use super::id::Id;

/// The right to a task's output.
///
/// Awaiting it gives what the task returned, or a [`JoinError`] if it panicked or was cancelled.
/// Dropping it detaches the task, which goes on.
///
/// # Cancel safety
///
/// `&mut handle` may be awaited in a `select!` and dropped there: the output is not lost.
///
/// # Panics
///
/// Awaiting a handle again after it gave its output panics.
///
/// # Examples
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() -> Result<(), evenkeel::task::JoinError> {
/// let handle = evenkeel::spawn(async { 1 + 1 });
/// assert_eq!(handle.await?, 2);
/// # Ok(())
/// # }
/// ```
pub struct JoinHandle<T> {
    join: Join<T>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(join: Join<T>) -> Self {
        Self { join }
    }

    /// Has the task's future dropped as soon as no worker polls it. The handle then gives an
    /// error for which [`JoinError::is_cancelled`] is true, unless the task finished first.
    ///
    /// A poll that is under way is not interrupted. Blocking work that has begun goes on to its
    /// end; what has not is dropped before this returns, on the calling thread, and its place in
    /// the queue is free. A thread that has just taken it drops it itself, a moment later.
    pub fn abort(&self) {
        self.join.task().abort();
    }

    /// Aborts the task for a handle that is about to be dropped.
    pub(crate) fn call_off(&mut self) {
        self.join.call_off();
    }

    /// Promises to wake `waker` when the task ends. Returns false if it has.
    #[cfg(feature = "drop-in")]
    pub(crate) fn watch(&mut self, waker: &std::task::Waker) -> bool {
        self.join.watch(waker)
    }

    /// Puts the task into another class: one that waits or is queued before its next poll, one that
    /// is being polled after that poll. Polls before count for the class that it was in, and those
    /// after for the new one.
    ///
    /// A task that waits is woken for it, and polled once without an event. If the task changes its
    /// class itself in the poll under way, this comes after. Nothing happens to a task that has
    /// ended, to blocking work, which keeps its place in its lane, and if the runtime has no such
    /// class.
    ///
    /// # Behaviour today
    ///
    /// A task in a queue takes its turn there once more, and then goes to the queue of the new
    /// class.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::future::poll_fn;
    /// use std::task::Poll;
    /// use evenkeel::{Class, task};
    ///
    /// # #[evenkeel::main]
    /// # async fn main() {
    /// let export = evenkeel::spawn(poll_fn(|_| match task::class() {
    ///     Some(Class::BULK) => Poll::Ready(()),
    ///     _ => Poll::Pending,
    /// }));
    /// export.change_class(Class::BULK);
    /// export.await.unwrap();
    /// # }
    /// ```
    pub fn change_class(&self, class: Class) {
        self.join.task().want_class(class);
    }

    /// A handle that can abort the task or change its class, and is no right to its output.
    pub fn abort_handle(&self) -> AbortHandle {
        AbortHandle {
            task: self.join.task().clone(),
        }
    }

    /// Whether the task has ended, in whatever way.
    pub fn is_finished(&self) -> bool {
        self.join.task().is_complete()
    }

    /// Tells the task from others.
    pub fn id(&self) -> Id {
        self.join.task().header().into()
    }

    /// Where in the source the task was spawned.
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.join.task().header().spawned_at()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.join.poll(cx.waker()) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Some(output)) => Poll::Ready(output),
            Poll::Ready(None) => panic!("JoinHandle polled after completion"),
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle")
            .field("spawned_at", &format_args!("{}", self.spawned_at()))
            .field("finished", &self.is_finished())
            .finish()
    }
}

/// The power to abort a task from afar, and to change its class.
///
/// # Examples
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() {
/// let handle = evenkeel::spawn(std::future::pending::<()>());
/// handle.abort_handle().abort();
/// assert!(handle.await.unwrap_err().is_cancelled());
/// # }
/// ```
#[derive(Clone)]
pub struct AbortHandle {
    task: Reference,
}

impl AbortHandle {
    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        self.task.abort();
    }

    /// As [`JoinHandle::change_class`].
    pub fn change_class(&self, class: Class) {
        self.task.want_class(class);
    }

    /// Whether the task has ended, in whatever way.
    pub fn is_finished(&self) -> bool {
        self.task.is_complete()
    }

    /// Tells the task from others.
    pub fn id(&self) -> Id {
        self.task.header().into()
    }
}

impl fmt::Debug for AbortHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AbortHandle")
            .field(
                "spawned_at",
                &format_args!("{}", self.task.header().spawned_at()),
            )
            .field("finished", &self.is_finished())
            .finish()
    }
}
