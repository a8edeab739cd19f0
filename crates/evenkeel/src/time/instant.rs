//! A point in time.
#![allow(
    clippy::disallowed_methods,
    reason = "the seam of the clock that users see"
)]

use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

use crate::clock::is_any_pausable;
use crate::sched::context;

/// A stand-in for "never": about a hundred years. Clocks that count nanoseconds in 64 bits reach
/// 584 years from their start, so this can be added on every system.
const FAR_AWAY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A point in time of the monotonic clock, which never goes back and is not tied to a calendar.
///
/// It has the operations of [`std::time::Instant`] and converts to and from it.
///
/// # Examples
///
/// ```
/// use evenkeel::time::{Duration, Instant};
///
/// let start = Instant::now();
/// let deadline = start + Duration::from_secs(2);
/// assert_eq!(deadline - start, Duration::from_secs(2));
/// assert_eq!(start - deadline, Duration::ZERO); // never negative
/// assert_eq!(start.checked_add(Duration::MAX), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(std::time::Instant);

impl Instant {
    /// The current time: that of the thread's runtime, if its time is [paused](super::pause).
    pub fn now() -> Self {
        if is_any_pausable()
            && let Some(now) = context::pausable_now()
        {
            return Self(now);
        }
        Self(std::time::Instant::now())
    }

    /// The same point in time, as this type.
    pub fn from_std(std: std::time::Instant) -> Self {
        Self(std)
    }

    /// The same point in time, as the standard library's type.
    pub fn into_std(self) -> std::time::Instant {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// The time from `earlier` to `self`; `None` if `earlier` is later.
    pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
        self.0.checked_duration_since(earlier.0)
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }

    /// The time from `self` to now; zero if `self` is in the future.
    pub fn elapsed(&self) -> Duration {
        Self::now().duration_since(*self)
    }

    /// `self + duration`; `None` if the clock cannot express it.
    pub fn checked_add(&self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    /// `self - duration`; `None` if the clock cannot express it.
    pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
        self.0.checked_sub(duration).map(Self)
    }

    /// `self + duration`, or a time about a hundred years away if the clock cannot express it.
    pub(super) fn add_or_far_away(self, duration: Duration) -> Self {
        // If not even this can be added, the instant itself is far away.
        self.checked_add(duration)
            .or_else(|| self.checked_add(FAR_AWAY))
            .unwrap_or(self)
    }
}

impl From<std::time::Instant> for Instant {
    fn from(std: std::time::Instant) -> Self {
        Self::from_std(std)
    }
}

impl From<Instant> for std::time::Instant {
    fn from(instant: Instant) -> Self {
        instant.into_std()
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// # Panics
    ///
    /// If the clock cannot express the sum; see [`Instant::checked_add`].
    fn add(self, duration: Duration) -> Self {
        Self(self.0 + duration)
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Instant {
    type Output = Self;

    /// # Panics
    ///
    /// If the clock cannot express the difference; see [`Instant::checked_sub`].
    fn sub(self, duration: Duration) -> Self {
        Self(self.0 - duration)
    }
}

impl SubAssign<Duration> for Instant {
    fn sub_assign(&mut self, duration: Duration) {
        *self = *self - duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        self.duration_since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn arithmetic_is_that_of_the_standard_library() {
        let std = std::time::Instant::now();
        let mut instant = Instant::from_std(std);
        instant += SECOND;
        assert_eq!(instant.into_std(), std + SECOND);
        instant -= SECOND;
        assert_eq!(std::time::Instant::from(instant), std);
        assert_eq!(instant - SECOND + SECOND, Instant::from(std));
        assert_eq!(instant.checked_duration_since(instant + SECOND), None);
        assert_eq!(
            (instant + SECOND).checked_duration_since(instant),
            Some(SECOND)
        );
        assert_eq!(
            instant.saturating_duration_since(instant + SECOND),
            Duration::ZERO
        );
        assert_eq!((instant + SECOND).elapsed(), Duration::ZERO);
    }

    #[test]
    fn times_the_clock_cannot_express_are_far_away() {
        let now = Instant::now();
        assert_eq!(now.checked_add(Duration::MAX), None);
        assert_eq!(now.add_or_far_away(SECOND), now + SECOND);
        assert_eq!(now.add_or_far_away(Duration::MAX), now + FAR_AWAY);
        // The latest instant, found digit by digit, as the clock's width depends on the system.
        let latest = (0..64).rev().fold(now, |latest, bits| {
            latest
                .checked_add(Duration::from_secs(1 << bits))
                .unwrap_or(latest)
        });
        assert!(latest.add_or_far_away(Duration::MAX) >= latest);
    }
}
