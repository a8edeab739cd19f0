//! A set of tasks that is waited for as one.
//!
//! Its handles are not polled to see which is ready: each has a notice on a
//! [list](super::ready_list) that says so, hence a completion costs the same in a set of any size.

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

/// A set of tasks, whose outputs are taken in the order in which they complete.
///
/// Dropping the set aborts all its tasks; [`detach_all`](Self::detach_all) lets them run on.
///
/// # Examples
///
/// ```
/// use evenkeel::task::JoinSet;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # evenkeel::runtime::Runtime::new()?.block_on(async {
/// let mut set: JoinSet<u32> = (1..=3).map(|n| async move { n * n }).collect();
/// let mut sum = 0;
/// while let Some(output) = set.join_next().await {
///     sum += output.expect("no task panics or is aborted");
/// }
/// assert_eq!(sum, 14);
/// # });
/// # Ok(())
/// # }
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

    /// Takes all tasks out of the set and lets them run on.
    pub fn detach_all(&mut self) {
        self.members.clear();
        // A task keeps its notice until it ends, but must not keep the task that waited.
        self.ready.cease();
    }
}

impl<T: Send + 'static> JoinSet<T> {
    /// Spawns a task into the class of the present one and adds it to the set.
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn<F>(&mut self, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(runtime::spawn(future))
    }

    /// Spawns a task into `class` and adds it to the set.
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn_in<F>(&mut self, class: Class, future: F) -> AbortHandle
    where
        F: Future<Output = T> + Send + 'static,
    {
        self.insert(runtime::spawn_in(class, future))
    }

    /// Runs `work` where it may block and adds it to the set.
    ///
    /// Aborting it has an effect only as long as it has not started.
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    #[track_caller]
    pub fn spawn_blocking<F>(&mut self, work: F) -> AbortHandle
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.insert(runtime::spawn_blocking(work))
    }

    /// Aborts all tasks. They stay in the set, and their outputs, or the fact that they were
    /// aborted, can be taken.
    pub fn abort_all(&mut self) {
        self.members
            .iter()
            .for_each(|(_, member)| member.handle.abort());
    }

    /// Aborts all tasks and waits until each has ended. Outputs and panics are discarded.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: all tasks are aborted at the first poll, and those that were not waited for are
    /// still in the set.
    pub async fn shutdown(&mut self) {
        self.abort_all();
        while self.join_next().await.is_some() {}
    }

    /// Waits for all tasks and returns their outputs in the order in which they completed.
    ///
    /// # Panics
    ///
    /// As a task did, if one panicked; or because a task was aborted. The others are aborted then.
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
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # evenkeel::runtime::Runtime::new()?.block_on(async {
    /// let mut set = JoinSet::new();
    /// set.spawn(async { 1 });
    /// set.spawn_blocking(|| 2);
    /// let mut outputs = set.join_all().await;
    /// outputs.sort();
    /// assert_eq!(outputs, [1, 2]);
    /// # });
    /// # Ok(())
    /// # }
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

    /// Waits for a task to complete, takes it out of the set and returns its output; `None` if the
    /// set is empty.
    ///
    /// # Errors
    ///
    /// The inner result is a [`JoinError`] if the task panicked or was aborted.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a task is taken out of the set only when its output is returned.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| self.poll_join_next(cx)).await
    }

    /// Takes a task that has completed out of the set and returns its output; `None` if there is
    /// none at present, or none at all.
    ///
    /// # Errors
    ///
    /// The inner result is a [`JoinError`] if the task panicked or was aborted.
    pub fn try_join_next(&mut self) -> Option<Result<T, JoinError>> {
        self.take_completed(self.ready.len())
    }

    /// Polls for a task that has completed, as [`join_next`](Self::join_next) does.
    ///
    /// `Pending` may be returned although a task has completed, if the slice of the task that polls
    /// is used up; it is woken at once then. The latest waker is the one that is woken.
    pub fn poll_join_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        if self.is_empty() {
            return Poll::Ready(None);
        }
        ready!(coop::poll_proceed(cx));
        // The waiter is put in place before the list is read, so that each index which this poll
        // does not see wakes it.
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

    /// Polls the handles of the first `listed` indices until one is ready.
    ///
    /// No more than were listed before: a handle that yields as the task's slice is used up lists
    /// itself again, and must not be polled again before the task has yielded.
    fn take_completed(&mut self, listed: usize) -> Option<Result<T, JoinError>> {
        for _ in 0..listed {
            let index = self.ready.pop()?;
            // Detached or taken since it was listed.
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
        // A task keeps its notice until it ends, but must not keep the task that waited.
        self.ready.cease();
    }
}

impl<T, F> FromIterator<F> for JoinSet<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    /// Spawns each future into the class of the present task.
    ///
    /// # Panics
    ///
    /// Outside a runtime.
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
