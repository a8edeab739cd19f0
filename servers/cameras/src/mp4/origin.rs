//! From the times of a session to those of the calendar.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::media::{Sample, Track};

/// When the session's time was zero, by the calendar: microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Microseconds; negative before 1970, where clocks of devices without batteries begin.
    pub us: i64,
}

impl Origin {
    /// The one by which this sample came at this time.
    pub fn by(track: &Track, sample: &Sample, came: SystemTime) -> Self {
        let ticks = i128::from(sample.dts) * 1_000_000 / i128::from(track.clock_rate.max(1));
        Self {
            us: unix_us(came).saturating_sub(narrow(ticks)),
        }
    }

    /// When a sample is decoded, in ticks since 1970. What comes before is 1970.
    pub fn ticks(self, track: &Track, dts: i64) -> u64 {
        let rate = i128::from(track.clock_rate);
        let ticks = i128::from(self.us) * rate / 1_000_000 + i128::from(dts);
        u64::try_from(ticks.max(0)).unwrap_or(u64::MAX)
    }

    /// The same in microseconds.
    pub fn us_of(self, track: &Track, dts: i64) -> i64 {
        let us = i128::from(dts) * 1_000_000 / i128::from(track.clock_rate.max(1));
        self.us.saturating_add(narrow(us))
    }
}

/// A time of the calendar in microseconds since 1970.
pub fn unix_us(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => us_of(since),
        Err(before) => -us_of(before.duration()),
    }
}

/// A duration in microseconds.
pub fn us_of(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn narrow(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}
