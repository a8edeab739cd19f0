//! One timer for all the waits of a task.
//!
//! A connection waits again and again, and hardly ever to the limit. A timer for each wait would be
//! set and cancelled for nothing. This one is left alone while it is due before the deadline of the
//! wait. When it is due too early, it wakes the task in vain, and is set for the deadline that
//! holds by then. So a task pays for a timer once in the time that it may wait, whatever the number
//! of its waits.

use std::future::{Future, Pending, pending, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use evenkeel::time::{Elapsed, Instant, Timeout, timeout_at};

/// No time is longer, so that it can be added to any present.
const NEVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The timer of a task.
#[derive(Debug, Default)]
pub struct Timer(Option<Set>);

/// A timer that is set.
#[derive(Debug)]
struct Set {
    until: Instant,
    /// Whom it wakes.
    waker: Waker,
    limit: Timeout<Pending<()>>,
}

impl Timer {
    /// As [`evenkeel::time::timeout()`].
    ///
    /// # Errors
    ///
    /// [`Elapsed`]: the time is up, and the future is pending.
    pub fn within<F: Future>(
        &mut self,
        time: Duration,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> {
        // Not an async function, in which the future would have its place once more.
        let mut deadline = None;
        let deadline = move |now: Instant| *deadline.get_or_insert_with(|| now + time.min(NEVER));
        self.wait(deadline, future)
    }

    /// As [`evenkeel::time::timeout_at`].
    ///
    /// # Errors
    ///
    /// [`Elapsed`]: the deadline has come, and the future is pending.
    pub fn until<F: Future>(
        &mut self,
        deadline: Instant,
        future: F,
    ) -> impl Future<Output = Result<F::Output, Elapsed>> {
        self.wait(move |_| deadline, future)
    }

    /// Whether so much time is up since this was first polled, for which `deadline` was `None`.
    pub fn poll_within(
        &mut self,
        time: Duration,
        deadline: &mut Option<Instant>,
        cx: &mut Context<'_>,
    ) -> Poll<Elapsed> {
        let now = Instant::now();
        let deadline = *deadline.get_or_insert_with(|| now + time.min(NEVER));
        self.poll(now, deadline, cx)
    }

    async fn wait<F: Future>(
        &mut self,
        mut deadline: impl FnMut(Instant) -> Instant,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let mut future = pin!(future);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            let now = Instant::now();
            self.poll(now, deadline(now), cx).map(Err)
        })
        .await
    }

    fn poll(&mut self, now: Instant, deadline: Instant, cx: &mut Context<'_>) -> Poll<Elapsed> {
        let serves = |set: &Set| {
            // One that was due by now may have fired.
            now < set.until && set.until <= deadline && set.waker.will_wake(cx.waker())
        };
        if self.0.as_ref().is_some_and(serves) {
            return Poll::Pending;
        }
        let set = self.0.insert(Set {
            until: deadline,
            waker: cx.waker().clone(),
            limit: timeout_at(deadline, pending()),
        });
        match Pin::new(&mut set.limit).poll(cx) {
            Poll::Ready(Err(elapsed)) => {
                self.0 = None;
                Poll::Ready(elapsed)
            }
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel::runtime::Builder;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// In a runtime whose time passes only when all wait.
    fn run(test: impl Future<Output = ()>) {
        let runtime = Builder::new().workers(1).start_paused(true).build();
        runtime.unwrap().block_on(test);
    }

    #[test]
    fn a_wait_ends_at_its_deadline_whatever_was_set_before() {
        run(async {
            let mut timer = Timer::default();
            let began = Instant::now();
            for (limit, after) in [(30, 30), (60, 90), (10, 100), (60, 160), (60, 220)] {
                let limit = Duration::from_secs(limit);
                assert!(timer.within(limit, pending::<()>()).await.is_err());
                assert_eq!(began.elapsed().as_secs(), after);
            }
            // One that is set for later does not hold it up.
            let began = Instant::now();
            let ready = timer.within(LONG, evenkeel::time::sleep(LONG / 60));
            assert!(ready.await.is_ok());
            assert!(timer.within(LONG / 6, pending::<()>()).await.is_err());
            assert_eq!(began.elapsed().as_secs(), 11);
            let deadline = Instant::now() + LONG;
            assert!(timer.until(deadline, pending::<()>()).await.is_err());
            assert!(Instant::now() >= deadline);
        });
    }

    #[test]
    fn waits_that_follow_each_other_share_a_timer() {
        run(async {
            let mut timer = Timer::default();
            let second = Duration::from_secs(1);
            let mut set = None;
            for _ in 0..50 {
                let slept = timer.within(LONG, evenkeel::time::sleep(second)).await;
                assert!(slept.is_ok());
                let until = timer.0.as_ref().map(|set| set.until);
                assert_eq!(*set.get_or_insert(until), until);
            }
            // It is due 10 seconds from now, and the wait ends 60 from now.
            let began = Instant::now();
            assert!(timer.within(LONG, pending::<()>()).await.is_err());
            assert!(began.elapsed() >= LONG);
        });
    }

    #[test]
    fn a_future_that_is_ready_needs_no_timer() {
        run(async {
            let mut timer = Timer::default();
            let ready = timer.within(Duration::ZERO, async { 7 }).await;
            assert_eq!((ready.ok(), timer.0.is_none()), (Some(7), true));
        });
    }
}
