//! The right to a task's output, whichever runtime has the task.

use super::upstream_join as upstream;
use super::{AbortHandle, Id, JoinError, RawTask};
use std::fmt;
use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::task::{ready, Context, Poll, Waker};

/// An owned permission to join on a task (await its termination).
pub struct JoinHandle<T>(Inner<T>);

enum Inner<T> {
    Evenkeel(evenkeel::task::JoinHandle<T>, Id),
    Upstream(upstream::JoinHandle<T>),
}

use Inner::{Evenkeel, Upstream};

impl<T> Unpin for JoinHandle<T> {}
impl<T> UnwindSafe for JoinHandle<T> {}
impl<T> RefUnwindSafe for JoinHandle<T> {}

impl<T> JoinHandle<T> {
    pub(super) fn new(raw: RawTask) -> Self {
        Self(Upstream(upstream::JoinHandle::new(raw)))
    }

    pub(crate) fn of_evenkeel(join: evenkeel::task::JoinHandle<T>, id: Id) -> Self {
        Self(Evenkeel(join, id))
    }

    /// Abort the task associated with the handle.
    pub fn abort(&self) {
        match &self.0 {
            Evenkeel(join, _) => join.abort(),
            Upstream(join) => join.abort(),
        }
    }

    /// Checks if the task associated with this `JoinHandle` has finished.
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Evenkeel(join, _) => join.is_finished(),
            Upstream(join) => join.is_finished(),
        }
    }

    /// Has the waker woken when the task ends, or now if it has.
    pub(crate) fn set_join_waker(&mut self, waker: &Waker) {
        match &mut self.0 {
            Evenkeel(join, _) => {
                if !evenkeel::drop_in::watch(join, waker) {
                    waker.wake_by_ref();
                }
            }
            Upstream(join) => join.set_join_waker(waker),
        }
    }

    /// Returns a new `AbortHandle` that can be used to remotely abort this task.
    #[must_use = "abort handles do nothing unless `.abort` is called"]
    pub fn abort_handle(&self) -> AbortHandle {
        match &self.0 {
            Evenkeel(join, id) => AbortHandle::of_evenkeel(join.abort_handle(), *id),
            Upstream(join) => join.abort_handle(),
        }
    }

    /// Returns a task ID that uniquely identifies this task relative to other tasks.
    pub fn id(&self) -> Id {
        match &self.0 {
            Evenkeel(_, id) => *id,
            Upstream(join) => join.id(),
        }
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = super::Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Evenkeel(join, id) => {
                let budget = ready!(crate::task::coop::poll_proceed(cx));
                let output = ready!(Pin::new(join).poll(cx));
                budget.made_progress();
                Poll::Ready(output.map_err(|error| match error.try_into_panic() {
                    Ok(payload) => JoinError::panic(*id, payload),
                    Err(_) => JoinError::cancelled(*id),
                }))
            }
            Upstream(join) => Pin::new(join).poll(cx),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("id", &self.id()).finish()
    }
}
