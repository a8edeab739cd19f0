//! Cooperation: how a task that has much to do yields to others.
//!
//! A poll begins with a slice of 100 microseconds. The runtime's own futures (sockets, timers, sets
//! of tasks) read the clock before they do something, and yield when the slice is used up;
//! [`checkpoint`] does the same in loops that compute. The slice is a time and not a count of
//! operations, which differ a thousandfold in cost.
//!
//! A task that was cut short is not cut short again before one of these futures has made progress.
//! Otherwise a future that computes for longer than a slice before its first leaf would be cut
//! short there for ever. If several of a task's futures were cut short in one poll, as in the
//! branches of a join, one of them, chosen at random, goes on in the next poll beside the first.
//! Otherwise a first branch that always has something to do would starve the others.
//!
//! Nor does a poll cut futures short without end. A poll that blocks its thread on a future, as
//! with another crate's `block_on`, polls that future again and again and does not return before it
//! is ready. So after a thousand cuts the next future goes on, and has a new slice once it has made
//! progress. A join of more futures than that yields as well, a slice later for each thousand.

use std::future::poll_fn;
use std::task::{Context, Poll};

use crate::sched::context;
use crate::sched::task::trace;

/// For leaf futures: yields if the running task's slice is used up.
#[inline]
pub(crate) fn poll_proceed(cx: &mut Context<'_>) -> Poll<()> {
    context::with_worker(|worker| match worker {
        Some(worker) if worker.cuts_short() && !trace::spares() => {
            worker.give_way(true);
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        _ => Poll::Ready(()),
    })
}

/// For leaf futures: the running task has made progress, and may be cut short again.
#[inline]
pub(crate) fn got_on() {
    context::with_worker(|worker| {
        if let Some(worker) = worker {
            worker.got_on();
        }
    });
}

/// Yields if the running task has used up its slice, and goes on at once if not.
///
/// Put it into loops that compute. It costs a reading of the clock when there is nothing to do.
/// Outside a worker (in [`block_on`](crate::runtime::Runtime::block_on) itself) it does nothing.
///
/// # Cancel safety
///
/// Cancel safe: it has no effect but to give way.
///
/// # Examples
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() {
/// let sum = evenkeel::spawn(async {
///     let mut sum = 0u64;
///     for chunk in 0..1_000u64 {
///         sum += (chunk * 1_000..(chunk + 1) * 1_000).sum::<u64>();
///         evenkeel::task::checkpoint().await;
///     }
///     sum
/// });
/// assert_eq!(sum.await.unwrap(), 499_999_500_000);
/// # }
/// ```
pub async fn checkpoint() {
    poll_fn(poll_proceed).await;
    got_on();
}

/// Gives way to every task that is ready now, once.
///
/// # Cancel safety
///
/// Cancel safe: it has no effect but to give way.
///
/// # Examples
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() {
/// evenkeel::task::yield_now().await;
/// # }
/// ```
pub async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context::with_worker(|worker| {
            if let Some(worker) = worker {
                worker.give_way(false);
            }
        });
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
