//! How long somebody may take.
//!
//! A peer who sends a byte now and then would hold a connection for ever if each byte gave it the
//! whole time again. So waiting for a client uses up its time, and bytes give it back at a low
//! rate: a large body may take as long as it takes, at that rate. It never has more than the whole
//! time, so that one who has taken much at once, if only into the system's buffers, may not rest on
//! that.

use std::future::{Future, poll_fn};
use std::io;
use std::num::NonZeroU64;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use evenkeel::time::{Instant, timeout};

/// What is left of somebody's time.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    time: Duration,
    /// Without a rate, each wait has the whole time.
    rate: Option<NonZeroU64>,
    left: Duration,
}

impl Patience {
    /// For all waits together, and bytes give it back at this rate a second; 0 is for each wait
    /// alone.
    pub(super) fn in_all(time: Duration, rate: u64) -> Self {
        Self {
            time,
            rate: NonZeroU64::new(rate),
            left: time,
        }
    }

    /// For each wait.
    pub(super) fn each(time: Duration) -> Self {
        Self::in_all(time, 0)
    }

    /// Notes that so many bytes have been moved.
    pub(super) fn moved(&mut self, bytes: u64) {
        if let Some(rate) = self.rate {
            let ns = bytes.saturating_mul(1_000_000_000) / rate.get();
            self.left = self.time.min(self.left + Duration::from_nanos(ns));
        }
    }

    /// Waits for this as long as there is time. What is ready at once is not waited for, and costs
    /// no look at a clock.
    ///
    /// # Errors
    ///
    /// Its own, or `TimedOut`.
    pub(super) async fn wait<T>(
        &mut self,
        future: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let mut future = pin!(future);
        if let Poll::Ready(result) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return result;
        }
        let began = Instant::now();
        let result = timeout(self.left, future).await;
        self.note(began.elapsed());
        result.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    /// Notes that it was waited for, and that nothing has moved for so long. Returns whether the
    /// time is up.
    pub(super) fn stood(&mut self, waited: Duration, silent: Duration) -> bool {
        self.note(waited);
        match self.rate {
            Some(_) => self.left.is_zero(),
            None => silent >= self.time,
        }
    }

    /// How often to look at what moves without being waited for here: a part of the shorter time.
    pub(super) fn look(&self, other: &Self) -> Duration {
        /// Looks in that time, so that it is kept to a quarter.
        const LOOKS: u32 = 4;
        self.time.min(other.time) / LOOKS
    }

    fn note(&mut self, waited: Duration) {
        if self.rate.is_some() {
            self.left = self.left.saturating_sub(waited);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_now_and_then_does_not_give_the_whole_time_again() {
        let mut patience = Patience::in_all(Duration::from_secs(30), 500);
        patience.note(Duration::from_secs(29));
        patience.moved(1);
        assert_eq!(patience.left, Duration::from_millis(1_002));
        // Fast enough, for as long as it takes.
        for _ in 0..1_000 {
            patience.note(Duration::from_secs(1));
            patience.moved(500);
        }
        assert_eq!(patience.left, Duration::from_millis(1_002));
        patience.note(Duration::from_secs(2));
        assert_eq!(patience.left, Duration::ZERO);
        // What was fast is not saved up.
        patience.moved(1_000_000_000);
        assert_eq!(patience.left, Duration::from_secs(30));
    }

    #[test]
    fn what_moves_elsewhere_is_given_the_same_time() {
        let (second, quarter) = (Duration::from_secs(1), Duration::from_secs(8));
        let mut patience = Patience::in_all(Duration::from_secs(30), 500);
        assert_eq!(patience.look(&Patience::each(second * 32)), second * 15 / 2);
        assert!(!patience.stood(second * 29, Duration::ZERO));
        patience.moved(500);
        assert!(!patience.stood(second, Duration::ZERO));
        assert!(patience.stood(second, Duration::ZERO));
        let mut patience = Patience::each(second * 32);
        for looks in 1..4 {
            assert!(!patience.stood(quarter, quarter * looks));
        }
        assert!(patience.stood(quarter, quarter * 4));
    }

    #[test]
    fn without_a_rate_each_wait_has_the_time() {
        let mut patience = Patience::each(Duration::from_secs(30));
        patience.note(Duration::from_secs(29));
        patience.moved(1);
        assert_eq!(patience.left, Duration::from_secs(30));
    }
}
