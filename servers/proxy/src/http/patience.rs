//! How long somebody may take.
//!
//! A peer who sends a byte now and then would hold a connection for ever if each byte gave it the
//! whole time again. So waiting for a client uses up its time, and bytes give it back at a low
//! rate: a large body may take as long as it takes, at that rate. It never has more than the whole
//! time, so that one who has taken much at once, if only into the system's buffers, may not rest on
//! that.
//!
//! Of those buffers a peer may take for minutes before there is room to write, and no event says so
//! ([`Socket::taken`](crate::socket::Socket::taken)). So it is looked at now and then, and what was
//! taken counts before it makes room, and not once more when it does.

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
    /// Bytes that count already, and make room for others.
    ahead: u64,
}

/// How often it is looked at what moves, in the time that it may take: so it is kept to a quarter.
pub(super) const LOOKS: u32 = 4;

impl Patience {
    /// For all waits together, and bytes give it back at this rate a second; 0 is for each wait
    /// alone.
    pub(super) fn in_all(time: Duration, rate: u64) -> Self {
        Self {
            time,
            rate: NonZeroU64::new(rate),
            left: time,
            ahead: 0,
        }
    }

    /// For each wait.
    pub(super) fn each(time: Duration) -> Self {
        Self::in_all(time, 0)
    }

    /// Notes that so many bytes have been moved.
    pub(super) fn moved(&mut self, bytes: u64) {
        let anew = bytes.saturating_sub(self.ahead);
        self.ahead -= bytes - anew;
        self.credit(anew);
    }

    /// Notes that a peer has taken so many bytes of a buffer, in which there is no room yet for
    /// others.
    pub(super) fn taken(&mut self, bytes: u64) {
        let gained = self.credit(bytes);
        if let Some(rate) = self.rate {
            // No more than they have given back, as bytes may be others' or memory.
            let bought = gained.as_nanos() * u128::from(rate.get()) / 1_000_000_000;
            self.ahead += u64::try_from(bought).unwrap_or(bytes).min(bytes);
        }
    }

    /// Returns how much time is given back.
    fn credit(&mut self, bytes: u64) -> Duration {
        let before = self.left;
        if let Some(rate) = self.rate {
            self.left = self.time.min(before + worth(bytes, rate));
        }
        self.left - before
    }

    /// Waits for this as long as there is time. What is ready at once is not waited for, and costs
    /// no look at a clock.
    ///
    /// # Errors
    ///
    /// Its own, or `TimedOut`.
    pub(super) fn wait<T>(
        &mut self,
        future: impl Future<Output = io::Result<T>>,
    ) -> impl Future<Output = io::Result<T>> {
        self.wait_while(|| 0, future)
    }

    /// The same for a peer who is to take something: what it has taken since the last call is asked
    /// for now and then, and counts.
    ///
    /// # Errors
    ///
    /// Its own, or `TimedOut`.
    pub(super) async fn wait_while<T>(
        &mut self,
        mut taken: impl FnMut() -> u64,
        future: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        let mut future = pin!(future);
        if let Poll::Ready(result) = poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await {
            return result;
        }
        taken();
        let mut silent = Duration::ZERO;
        loop {
            let began = Instant::now();
            let left = match self.rate {
                Some(_) => self.left,
                None => self.time.saturating_sub(silent),
            };
            let result = timeout(left.min(self.time / LOOKS), &mut future).await;
            let waited = began.elapsed();
            if let Ok(result) = result {
                self.note(waited);
                return result;
            }
            self.note(waited);
            let bytes = taken();
            self.taken(bytes);
            silent = match bytes {
                0 => silent + waited,
                _ => Duration::ZERO,
            };
            if self.is_over(silent) {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Whether the time is up, if nothing has moved for so long.
    pub(super) fn is_over(&self, silent: Duration) -> bool {
        match self.rate {
            Some(_) => self.left.is_zero(),
            None => silent >= self.time,
        }
    }

    /// How often to look at what moves without being waited for here: a part of the shorter time.
    pub(super) fn look(&self, other: &Self) -> Duration {
        self.time.min(other.time) / LOOKS
    }

    /// Notes that it was waited for, for so long.
    pub(super) fn note(&mut self, waited: Duration) {
        if self.rate.is_some() {
            self.left = self.left.saturating_sub(waited);
        }
    }
}

/// How much time bytes give back at this rate.
pub(super) fn worth(bytes: u64, rate: NonZeroU64) -> Duration {
    Duration::from_nanos(bytes.saturating_mul(1_000_000_000) / rate.get())
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
        patience.note(second * 29);
        assert!(!patience.is_over(Duration::ZERO));
        patience.moved(500);
        patience.note(second);
        assert!(!patience.is_over(Duration::ZERO));
        patience.note(second);
        assert!(patience.is_over(Duration::ZERO));
        let patience = Patience::each(second * 32);
        for looks in 1..4 {
            assert!(!patience.is_over(quarter * looks));
        }
        assert!(patience.is_over(quarter * 4));
    }

    #[test]
    fn without_a_rate_each_wait_has_the_time() {
        let mut patience = Patience::each(Duration::from_secs(30));
        patience.note(Duration::from_secs(29));
        patience.moved(1);
        assert_eq!(patience.left, Duration::from_secs(30));
    }

    #[test]
    fn what_is_taken_counts_once() {
        let mut patience = Patience::in_all(Duration::from_secs(30), 500);
        patience.note(Duration::from_secs(10));
        patience.taken(1_000);
        assert_eq!(patience.left, Duration::from_secs(22));
        // It has made room for as many.
        patience.moved(800);
        assert_eq!(patience.left, Duration::from_secs(22));
        patience.moved(700);
        assert_eq!(patience.left, Duration::from_secs(23));
        // What gives back no time makes room for nothing.
        patience.taken(1_000_000);
        assert_eq!(patience.left, Duration::from_secs(30));
        patience.note(Duration::from_secs(20));
        patience.moved(3_500 + 500);
        assert_eq!(patience.left, Duration::from_secs(11));
    }

    /// For how long somebody is waited for who takes this, quarter by quarter.
    fn waited(mut patience: Patience, taken: &[u64]) -> Duration {
        let runtime = evenkeel::runtime::Builder::new()
            .workers(1)
            .start_paused(true)
            .build()
            .unwrap();
        let mut taken = [0].iter().chain(taken).copied();
        runtime.block_on(async {
            let began = Instant::now();
            let taken = || taken.next().unwrap_or(0);
            let waited = patience.wait_while(taken, std::future::pending::<io::Result<()>>());
            assert_eq!(waited.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
            began.elapsed()
        })
    }

    #[test]
    fn who_takes_something_is_waited_for() {
        let seconds = Duration::from_secs;
        let close = |waited: Duration, expected: u64| {
            let more = waited.saturating_sub(seconds(expected));
            assert!(
                waited >= seconds(expected) && more < seconds(1),
                "{waited:?}"
            );
        };
        let each = || Patience::each(seconds(32));
        close(waited(each(), &[]), 32);
        close(waited(each(), &[0, 0, 0, 1]), 4 * 8 + 32);
        close(waited(each(), &[0, 1, 0, 0, 1, 1]), 6 * 8 + 32);
        let in_all = || Patience::in_all(seconds(32), 500);
        close(waited(in_all(), &[]), 32);
        // As fast as it has to be, and half as fast.
        close(waited(in_all(), &[4_000; 20]), 20 * 8 + 32);
        close(waited(in_all(), &[2_000; 4]), 4 * 8 + 16);
    }
}
