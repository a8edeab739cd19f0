//! Cooperation: how a task that has much to do gives way to others.
//!
//! A poll begins with a slice of 100 microseconds. The runtime's own futures (sockets, timers, sets
//! of tasks) look at the clock before they do something, and yield when the slice is used up;
//! [`checkpoint`] does the same for loops that compute. The slice is time and not a count of
//! operations, as operations differ a thousandfold in what they cost.
//!
//! A task that was cut short is not cut short again before one of these futures has got something
//! done: a future that computes for longer than a slice before its first leaf would else be cut
//! short there for ever. Where several of a task's futures were cut short in one poll, as in the
//! branches of a join, one of them that chance chooses goes on in the next poll beside the first:
//! if the first always has something to do, the others would else never have their turn.
//!
//! Nor does a poll cut futures short without end. One that blocks its thread on a future, as with
//! another crate's `block_on`, polls that future again and again and does not return before it is
//! ready. So after a thousand cuts the next future goes on, and has a slice once it has got
//! something done. A join of more futures than that gives way as well, a slice later for each
//! thousand.

use std::future::poll_fn;
use std::task::{Context, Poll};

use crate::sched::context;

/// For leaf futures: yields if the running task's slice is used up.
#[inline]
pub(crate) fn poll_proceed(cx: &mut Context<'_>) -> Poll<()> {
    context::with_worker(|worker| match worker {
        Some(worker) if worker.cuts_short() => {
            worker.give_way(true);
            cx.waker().wake_by_ref();
            Poll::Pending
        }
        _ => Poll::Ready(()),
    })
}

/// For leaf futures: they got something done, so the task may be asked to yield again.
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
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
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
