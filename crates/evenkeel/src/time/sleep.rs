//! Waiting for a time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use super::Instant;
use crate::sched::context::{TimerHome, timers_here};
use crate::sched::coop;
use crate::sched::task::trace::{self, Noted};
use crate::timer::wheel::Key;

/// Waits for `duration`.
///
/// Never completes early; a `duration` of zero completes at the first poll. A duration too long for
/// the clock to add counts as about a hundred years.
///
/// # Panics
///
/// When polled outside a runtime before its time has come.
///
/// # Cancel safety
///
/// Dropping the future cancels the wait and has no other effect. To go on waiting later, keep the
/// future, or remember the deadline and use [`sleep_until`].
///
/// # Examples
///
/// ```
/// use evenkeel::time::{Duration, Instant, sleep};
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let start = Instant::now();
/// sleep(Duration::from_millis(5)).await;
/// assert!(start.elapsed() >= Duration::from_millis(5));
/// # });
/// ```
pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(Instant::now().add_or_far_away(duration))
}

/// Waits until `deadline`.
///
/// Never completes early; a `deadline` in the past completes at the first poll.
///
/// # Panics
///
/// When polled outside a runtime before its time has come.
///
/// # Cancel safety
///
/// Dropping the future cancels the wait and has no other effect.
///
/// # Examples
///
/// ```
/// use evenkeel::time::{Duration, Instant, sleep_until};
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let deadline = Instant::now() + Duration::from_millis(5);
/// sleep_until(deadline).await;
/// assert!(Instant::now() >= deadline);
/// # });
/// ```
pub fn sleep_until(deadline: Instant) -> Sleep {
    Sleep {
        deadline,
        timer: None,
    }
}

/// The future of [`sleep()`] and [`sleep_until`].
///
/// It may be made anywhere, and polled by any task of a runtime. Its timer stays with the worker on
/// which it first had to wait; a task that has moved is woken where it is.
///
/// It is ready when the deadline has come by the clock, and stays ready, even if it is polled again
/// after it has completed. Once its runtime has shut down, nothing wakes the task, but a poll after
/// the deadline is still ready.
///
/// `Sleep` is `Unpin`, so that `&mut sleep` can be awaited, for example in a loop that keeps one
/// deadline while it does other things.
///
/// # Examples
///
/// ```
/// use std::pin::Pin;
/// use evenkeel::time::{Duration, Instant, sleep};
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let mut idle = sleep(Duration::from_secs(60));
/// assert!(!idle.is_elapsed());
/// Pin::new(&mut idle).reset(Instant::now() + Duration::from_millis(5));
/// (&mut idle).await;
/// assert!(idle.is_elapsed());
/// # });
/// ```
#[must_use = "a sleep does nothing unless it is awaited"]
pub struct Sleep {
    deadline: Instant,
    /// `Some` from the first poll that had to wait, for as long as the timer may be set.
    timer: Option<Timer>,
}

struct Timer {
    home: TimerHome,
    key: Key,
}

impl Sleep {
    /// The time at which this completes.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Whether the deadline has come.
    pub fn is_elapsed(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Moves the deadline, earlier or later, also after it has passed.
    ///
    /// A task that already waits need not poll again to be woken at the new time: unlike a new
    /// `Sleep`, this keeps the timer and its waker.
    pub fn reset(self: Pin<&mut Self>, deadline: Instant) {
        self.get_mut().set_deadline(deadline);
    }

    pub(super) fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
        let Some(Timer { home, key }) = &mut self.timer else {
            return;
        };
        match home
            .timers()
            .reschedule(*key, home.tick_at(deadline.into_std()))
        {
            Some((new_key, call)) => {
                *key = new_key;
                if call {
                    home.unpark();
                }
            }
            // The timer has fired, so the task has been woken and will poll.
            None => self.timer = None,
        }
    }

    /// As `poll`, but even if the task's slice is used up: a time limit must not depend on the
    /// slice that the limited future has left. Public for `serve`, which beneath Tokio is in
    /// another package.
    #[doc(hidden)]
    pub fn poll_elapsed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_elapsed() {
            self.cancel();
            return Poll::Ready(());
        }
        let waits = self
            .timer
            .as_ref()
            .is_some_and(|timer| timer.home.timers().update_waker(timer.key, cx.waker()));
        if !waits {
            self.register(cx.waker());
        }
        trace::note(|| Noted::Timer(self.deadline.into_std()));
        Poll::Pending
    }

    /// Registers a timer with the worker on which this runs.
    fn register(&mut self, waker: &Waker) {
        let home = match timers_here() {
            Ok(home) => home,
            Err(error) => panic!("a sleep was polled outside a runtime: {error}"),
        };
        let (key, call) = home
            .timers()
            .insert(home.tick_at(self.deadline.into_std()), waker.clone());
        if call {
            home.unpark();
        }
        self.timer = Some(Timer { home, key });
    }

    fn cancel(&mut self) {
        if let Some(Timer { home, key }) = self.timer.take() {
            home.timers().cancel(key);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        ready!(coop::poll_proceed(cx));
        self.get_mut().poll_elapsed(cx).map(|()| coop::got_on())
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep")
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_may_be_moved_and_shared() {
        fn check<T: Send + Sync + Unpin>() {}
        check::<Sleep>();
    }

    #[test]
    fn a_past_deadline_needs_no_runtime() {
        let mut sleep = sleep(Duration::ZERO);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(sleep.poll_elapsed(&mut cx).is_ready());
        assert!(sleep.poll_elapsed(&mut cx).is_ready(), "ready stays ready");
    }

    #[test]
    #[should_panic(expected = "outside a runtime")]
    fn waiting_needs_a_runtime() {
        let mut sleep = sleep(Duration::from_secs(60));
        _ = sleep.poll_elapsed(&mut Context::from_waker(Waker::noop()));
    }
}
