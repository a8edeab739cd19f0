//! Time limits for futures.

use std::error::Error;
use std::fmt;
use std::future::{Future, IntoFuture};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::Instant;
use super::sleep::{Sleep, sleep, sleep_until};

/// Requires `future` to complete within `duration`.
///
/// The future is polled before the clock is read, so a future that is ready when the task runs
/// wins, even if it is late. The limit is checked whenever the future is pending, and wakes the
/// task when it is reached. A future that blocks its thread is not interrupted.
///
/// # Errors
///
/// [`Elapsed`] if the time is up and `future` is still pending. The future is then dropped with the
/// `Timeout`, or recovered by [`Timeout::into_inner`].
///
/// # Panics
///
/// When polled outside a runtime while `future` is pending and the time is not up.
///
/// # Cancel safety
///
/// Dropping the `Timeout` drops `future`, and is as safe as that is.
///
/// # Examples
///
/// ```
/// use std::future::pending;
/// use evenkeel::time::{Duration, timeout};
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let limit = Duration::from_millis(5);
/// assert_eq!(timeout(limit, async { 7 }).await, Ok(7));
/// assert!(timeout(limit, pending::<()>()).await.is_err());
/// # });
/// ```
pub fn timeout<F: IntoFuture>(duration: Duration, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        limit: sleep(duration),
    }
}

/// Requires `future` to complete before `deadline`. Otherwise as [`timeout()`].
///
/// # Errors
///
/// [`Elapsed`] if the deadline has come and `future` is still pending.
///
/// # Panics
///
/// When polled outside a runtime while `future` is pending and the deadline has not come.
///
/// # Cancel safety
///
/// Dropping the `Timeout` drops `future`, and is as safe as that is.
///
/// # Examples
///
/// ```
/// use evenkeel::time::{Duration, Instant, sleep, timeout_at};
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let deadline = Instant::now() + Duration::from_millis(5);
/// assert!(timeout_at(deadline, sleep(Duration::from_secs(60))).await.is_err());
/// # });
/// ```
pub fn timeout_at<F: IntoFuture>(deadline: Instant, future: F) -> Timeout<F::IntoFuture> {
    Timeout {
        future: future.into_future(),
        limit: sleep_until(deadline),
    }
}

pin_project! {
    /// The future of [`timeout()`] and [`timeout_at`].
    #[must_use = "a timeout does nothing unless it is awaited"]
    #[derive(Debug)]
    pub struct Timeout<F> {
        #[pin]
        future: F,
        limit: Sleep,
    }
}

impl<F> Timeout<F> {
    /// The inner future.
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// The inner future.
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// Returns the inner future.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        // Regardless of the task's slice: otherwise a future that uses up every slice would never
        // reach its limit.
        this.limit.poll_elapsed(cx).map(|()| Err(Elapsed(())))
    }
}

/// The error of [`timeout()`]: the time was up before the future completed.
///
/// Converts to an [`io::Error`] of kind [`TimedOut`](io::ErrorKind::TimedOut).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time limit passed before the future completed")
    }
}

/// Contains the message, as `main` prints its error by `Debug`.
impl fmt::Debug for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Elapsed({self})")
    }
}

impl Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(io::ErrorKind::TimedOut, elapsed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_is_an_io_error() {
        let error = io::Error::from(Elapsed(()));
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(error.to_string(), Elapsed(()).to_string());
    }
}
