//! Periodic ticks.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::Instant;
use super::sleep::{Sleep, sleep_until};

/// How late a tick may be without counting as missed, unless the period is shorter.
///
/// The resolution of timers makes a tick up to a millisecond late, and a busy worker a little more.
/// If that counted, `Delay` would drift by a millisecond a tick.
const LATENESS_MAX: Duration = Duration::from_millis(5);

/// Ticks at once, and then each `period`.
///
/// See [`Interval`] for what happens when ticks are missed.
///
/// # Panics
///
/// If `period` is zero.
///
/// # Examples
///
/// ```
/// use evenkeel::time::{Duration, interval};
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let period = Duration::from_millis(5);
/// let mut interval = interval(period);
/// let first = interval.tick().await; // at once
/// let second = interval.tick().await;
/// assert!(second - first >= period);
/// # });
/// ```
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    interval_at(Instant::now(), period)
}

/// Ticks at `start`, and then each `period`.
///
/// # Panics
///
/// If `period` is zero.
///
/// # Examples
///
/// ```
/// use evenkeel::time::{Duration, Instant, interval_at};
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let start = Instant::now() + Duration::from_millis(5);
/// let mut interval = interval_at(start, Duration::from_secs(60));
/// assert_eq!(interval.tick().await, start);
/// # });
/// ```
#[track_caller]
pub fn interval_at(start: Instant, period: Duration) -> Interval {
    assert!(
        !period.is_zero(),
        "the period of an interval must not be zero"
    );
    Interval {
        next: sleep_until(start),
        period,
        behavior: MissedTickBehavior::default(),
    }
}

/// A source of ticks, made by [`interval()`] and [`interval_at`].
///
/// The period runs from tick to tick, whatever happens in between, unlike that of a
/// [`sleep`](super::sleep()) in a loop. A tick that is taken more than 5 ms late (or, with a
/// shorter period, more than a period late) counts as missed, and [`MissedTickBehavior`] says when
/// the next ones come.
#[derive(Debug)]
pub struct Interval {
    next: Sleep,
    period: Duration,
    behavior: MissedTickBehavior,
}

impl Interval {
    /// Waits for the next tick, and returns the time for which it was due.
    ///
    /// # Panics
    ///
    /// When polled outside a runtime before the tick is due.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: if no tick was returned, the next call returns it.
    ///
    /// # Examples
    ///
    /// ```
    /// use evenkeel::time::{Duration, interval, timeout};
    ///
    /// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
    /// let period = Duration::from_millis(10);
    /// let mut interval = interval(period);
    /// let first = interval.tick().await;
    /// // Giving up on a tick does not lose it.
    /// while timeout(Duration::from_millis(1), interval.tick()).await.is_err() {}
    /// assert!(first.elapsed() >= period);
    /// # });
    /// ```
    pub async fn tick(&mut self) -> Instant {
        poll_fn(|cx| self.poll_tick(cx)).await
    }

    /// Polls for the next tick, as [`tick`](Self::tick) does.
    ///
    /// # Panics
    ///
    /// When called outside a runtime before the tick is due.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        ready!(Future::poll(Pin::new(&mut self.next), cx));
        let due = self.next.deadline();
        self.next
            .set_deadline(self.behavior.after(due, Instant::now(), self.period));
        Poll::Ready(due)
    }

    /// Restarts the interval: the next tick comes after a period.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Restarts the interval: the next tick comes at once.
    pub fn reset_immediately(&mut self) {
        self.reset_at(Instant::now());
    }

    /// Restarts the interval: the next tick comes after `duration`.
    pub fn reset_after(&mut self, duration: Duration) {
        self.reset_at(Instant::now().add_or_far_away(duration));
    }

    /// Restarts the interval: the next tick comes at `deadline`.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.next.set_deadline(deadline);
    }

    /// What happens when ticks are missed.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.behavior
    }

    /// Sets what happens when ticks are missed.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.behavior = behavior;
    }

    /// The time from tick to tick.
    pub fn period(&self) -> Duration {
        self.period
    }
}

/// When an [`Interval`] ticks after it has missed a tick.
///
/// With a period of 50 ms, if the task was busy and took the tick due at 50 only at 130:
///
/// ```text
/// due      |       |       |       |       |       |
/// Burst    |                   ||  |       |       |
/// Delay    |                   |       |       |
/// Skip     |                   |   |       |       |
/// ms       0       50      100     150     200     250
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissedTickBehavior {
    /// Makes up for all missed ticks without waiting, and then continues as if none had been
    /// missed. Keeps the number of ticks.
    #[default]
    Burst,
    /// Continues a period after the late tick. Keeps the distance between ticks.
    Delay,
    /// Leaves missed ticks out, and continues at the next multiple of the period. Keeps the times
    /// of ticks.
    Skip,
}

impl MissedTickBehavior {
    /// The time of the tick after one that was due at `due` and taken at `now`.
    fn after(self, due: Instant, now: Instant, period: Duration) -> Instant {
        let lateness = now.duration_since(due);
        let missed = lateness > LATENESS_MAX.min(period);
        match self {
            Self::Delay if missed => now.add_or_far_away(period),
            Self::Skip if missed => {
                now.add_or_far_away(period.saturating_sub(remainder(lateness, period)))
            }
            Self::Burst | Self::Delay | Self::Skip => due.add_or_far_away(period),
        }
    }
}

fn remainder(duration: Duration, period: Duration) -> Duration {
    const NANOS: u128 = 1_000_000_000;
    let nanos = duration.as_nanos() % period.as_nanos();
    // Less than a period, so the seconds fit in 64 bits.
    let rest = Duration::new((nanos / NANOS) as u64, (nanos % NANOS) as u32);
    debug_assert!(rest < period);
    rest
}

#[cfg(test)]
mod tests {
    use super::MissedTickBehavior::{Burst, Delay, Skip};
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The next tick, in milliseconds after the one due at 0 and taken at `taken_ms`.
    fn next(behavior: MissedTickBehavior, taken_ms: u64, period_ms: u64) -> u64 {
        let due = Instant::now();
        let next = behavior.after(due, due + ms(taken_ms), ms(period_ms));
        (next - due).as_millis() as u64
    }

    #[test]
    fn a_tick_in_time_keeps_the_times() {
        for behavior in [Burst, Delay, Skip] {
            assert_eq!(next(behavior, 0, 50), 50);
            assert_eq!(next(behavior, 5, 50), 50);
            assert_eq!(
                next(behavior, 2, 2),
                2,
                "up to a period late, with a short one"
            );
        }
    }

    #[test]
    fn a_missed_tick_is_followed_as_told() {
        assert_eq!(
            [Burst, Delay, Skip].map(|behavior| next(behavior, 80, 50)),
            [50, 130, 100]
        );
        assert_eq!(
            [Burst, Delay, Skip].map(|behavior| next(behavior, 6, 50)),
            [50, 56, 50]
        );
        // If a tick is taken exactly when another is due, that one is left out too.
        assert_eq!(next(Skip, 100, 50), 150);
        assert_eq!(next(Skip, 3, 2), 4);
    }

    #[test]
    fn the_longest_period_does_not_overflow() {
        let now = Instant::now();
        for behavior in [Burst, Delay, Skip] {
            assert!(behavior.after(now, now + ms(100), Duration::MAX) > now + ms(100));
            assert!(behavior.after(now, now + ms(100), Duration::from_nanos(1)) > now);
        }
        assert_eq!(remainder(Duration::MAX, Duration::MAX), Duration::ZERO);
        assert_eq!(remainder(ms(1), Duration::MAX), ms(1));
    }

    #[test]
    #[should_panic(expected = "must not be zero")]
    fn a_period_is_not_zero() {
        _ = interval(Duration::ZERO);
    }
}
