//! A set of tasks.
//!
//! Its handles are not polled to find out which is ready: each has a notice, which puts it on a
//! [list](super::ready_list). So a completion costs the same in a set of any size.

use std::fmt;
use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use slab::Slab;

use crate::class::Class;
use crate::runtime;
use crate::sched::coop;
use crate::sync::Arc;

use super::ready_list::{Notice, ReadyList};
use super::{AbortHandle, JoinError, JoinHandle};

/// A set of tasks, which returns their outputs in the order in which they complete.
///
/// Dropping the set aborts all its tasks; [`detach_all`](Self::detach_all) lets them run on.
///
/// # Examples
///
/// ```
/// use evenkeel::task::JoinSet;
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let mut set: JoinSet<u32> = (1..=3).map(|n| async move { n * n }).collect();
/// let mut sum = 0;
/// while let Some(output) = set.join_next().await {
///     sum += output.expect("no task panics or is aborted");
/// }
/// assert_eq!(sum, 14);
/// # });
/// ```
#[must_use = "dropping a set aborts its tasks"]
pub struct JoinSet<T> {
    members: Slab<Member<T>>,
    ready: Arc<ReadyList>,
}

struct Member<T> {
    handle: JoinHandle<T>,
    notice: Arc<Notice>,
}

impl<T> JoinSet<T> {
    /// Makes an empty set.
    pub fn new() -> Self {
        Self {
            members: Slab::new(),
            ready: ReadyList::new(),
        }
    }

    /// The number of tasks whose outputs have not been taken, completed or not.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether no output is left to take.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Removes all tasks from the set and lets them run on.
    pub fn detach_all(&mut self) {
        self.members.clear();
        // A task keeps its notice until it ends, but must not keep the waiting task alive.
        self.ready.cease();
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Spawns a task, in the class of the calling task, and adds it to the set.
    ///
    /// # Panics
    ///
    /// If there is no current runtime.
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(runtime::spawn(future))
    }

    /// Spawns a task in `class` and adds it to the set.
    ///
    /// # Panics
    ///
    /// If there is no current runtime, or the class does not belong to it.
    #[track_caller]
    pub fn spawn_in<F>(&mut self, class: Class, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(runtime::spawn_in(class, future))
    }

    /// Runs `work` on a thread where it may block, and adds it to the set.
    ///
    /// Aborting it has no effect once it has begun.
    ///
    /// # Panics
    ///
    /// If there is no current runtime.
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, work: F) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.insert(runtime::spawn_blocking(work))
    }

    /// Aborts all tasks. They stay in the set, which returns their outputs or errors.
    pub fn abort_all(&mut self) {
        self.members
            .iter()
            .for_each(|(_, member)| member.handle.abort());
    }

    /// Aborts all tasks and waits until each has ended. Outputs and panics are discarded.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: all tasks are aborted at the first poll, and those that have not ended by then
    /// are still in the set.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Waits for all tasks and returns their outputs in the order in which they completed.
    ///
    /// # Panics
    ///
    /// If a task panicked, with its payload, or was aborted. The other tasks are then aborted.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts the tasks that have not completed and drops the outputs of those
    /// that have.
    ///
    /// # Examples
    ///
    /// ```
    /// use evenkeel::task::JoinSet;
    ///
    /// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
    /// let mut set = JoinSet::new();
    /// set.spawn(async { 1 });
    /// set.spawn_blocking(|| 2);
    /// let mut outputs = set.join_all().await;
    /// outputs.sort();
    /// assert_eq!(outputs, [1, 2]);
    /// # });
    /// ```
    pub async fn join_all(mut self) -> Vec<T> {
        let mut outputs = Vec::with_capacity(self.len());
        while let Some(result) = self.join_next().await {
            match result {
                Ok(output) => outputs.push(output),
                Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
                Err(error) => panic!("a task of the set did not complete: {error}"),
            }
        }
        outputs
    }

    /// Waits for a task to complete, removes it from the set and returns its output; `None` if the
    /// set is empty.
    ///
    /// # Errors
    ///
    /// The inner result is a [`JoinError`] if the task panicked or was aborted.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a task is removed from the set only when its output is returned.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// Removes a completed task from the set and returns its output; `None` if no task has
    /// completed yet, or the set is empty.
    ///
    /// # Errors
    ///
    /// The inner result is a [`JoinError`] if the task panicked or was aborted.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.take_completed(self.ready.len())
    }

    /// Polls for a completed task; see [`join_next`](Self::join_next). The latest waker is woken.
    ///
    /// If the slice of the calling task is used up, this may return `Pending` although a task has
    /// completed; then the caller is woken at once.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        ready!(coop::poll_proceed(cx));
        // The waker is stored before the list is read, so that an index that this poll does not see
        // wakes it.
        let listed = self.ready.wait(cx.waker().clone());
        match self.take_completed(listed) {
            Some(result) => {
                self.ready.cease();
                coop::got_on();
                Poll::Ready(Some(result))
            }
            None => Poll::Pending,
        }
    }

    fn insert(&mut self, handle: JoinHandle<T>) -> AbortHandle {
        let abort_handle = handle.abort_handle();
        let vacancy = self.members.vacant_entry();
        let notice = Notice::listed(vacancy.key(), &self.ready);
        vacancy.insert(Member { handle, notice });
        abort_handle
    }

    /// Polls the handles of the first `listed` indices until one is ready. No more than those: a
    /// handle that yields because the slice is used up lists itself again, and must not be polled
    /// again before the task has yielded.
    fn take_completed(&mut self, listed: usize) -> Option<Result<T, JoinError>> {
        for _ in 0..listed {
            let index = self.ready.pop()?;
            // It was detached or returned since it was listed.
            let Some(Member { handle, notice }) = self.members.get_mut(index) else {
                continue;
            };
            notice.unlist();
            let waker = Waker::from(Arc::clone(notice));
            if let Poll::Ready(result) = Pin::new(handle).poll(&mut Context::from_waker(&waker)) {
                self.members.remove(index);
                return Some(result);
            }
        }
        None
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.members
            .iter()
            .for_each(|(_, member)| member.handle.abort());
        // A task keeps its notice until it ends, but must not keep the waiting task alive.
        self.ready.cease();
    }
}

impl<T, F> FromIterator<F> for JoinSet<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    /// Spawns each future in the class of the calling task.
    ///
    /// # Panics
    ///
    /// If there is no current runtime.
    #[track_caller]
    fn from_iter<I: IntoIterator<Item = F>>(futures: I) -> Self {
        let mut set = Self::new();
        futures.into_iter().for_each(|future| _ = set.spawn(future));
        set
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for JoinSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinSet")
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
