//! How old a worker's queues are, as a number that is smooth and fades by itself.
//!
//! The worker notes, each time that it looks around, how long the task had waited that waited
//! longest of those it polled since. The mean of that over time, in which sleep counts as zero, is
//! the *age*. So a queue that is long for a moment makes the mean a little older, and one that is
//! long all the time makes it as old as itself.

use std::time::Duration;

use super::pace::PRESSURE_MAX;
use crate::sync::atomic::{AtomicU64, Ordering};

/// How far back the mean reaches.
const REACH: Duration = Duration::from_millis(20);
/// Up to this age there is no pressure: a few tasks of a few microseconds each.
const AGE_MIN: Duration = Duration::from_micros(50);
/// From this age on there is all of it.
const AGE_MAX: Duration = Duration::from_micros(550);

/// The mean as one worker writes it and any thread reads it.
#[derive(Debug)]
pub(crate) struct Pressure {
    age: AtomicU64,
    /// Until when it has been taken.
    at: AtomicU64,
    reach: u64,
    age_min: u64,
    age_max: u64,
}

impl Pressure {
    /// `cycles_of`: the length of a duration in the unit of all times here.
    pub(crate) fn new(cycles_of: impl Fn(Duration) -> u64) -> Self {
        Self {
            age: AtomicU64::new(0),
            at: AtomicU64::new(0),
            reach: cycles_of(REACH),
            age_min: cycles_of(AGE_MIN),
            age_max: cycles_of(AGE_MAX),
        }
    }

    /// From the latest note until `now` tasks waited for up to `age`. For the worker alone.
    pub(crate) fn note(&self, now: u64, age: u64) {
        // Relaxed, here and below: an estimate with one writer. Whoever reads one number of an
        // older note gets an estimate between the two.
        let before = self.age.load(Ordering::Relaxed);
        let passed = now.saturating_sub(self.at.load(Ordering::Relaxed));
        self.age
            .store(mean(before, age, passed, self.reach), Ordering::Relaxed);
        self.at.store(now, Ordering::Relaxed);
    }

    /// The pressure, from 0 to [`PRESSURE_MAX`]. What has not been noted yet counts as idle.
    pub(crate) fn now(&self, now: u64) -> u64 {
        let passed = now.saturating_sub(self.at.load(Ordering::Relaxed));
        let age = mean(self.age.load(Ordering::Relaxed), 0, passed, self.reach);
        let above = age.saturating_sub(self.age_min);
        let range = (self.age_max - self.age_min).max(1);
        above.min(range) * PRESSURE_MAX / range
    }
}

/// The mean of `before` over `reach` and `then` over `passed`.
fn mean(before: u64, then: u64, passed: u64, reach: u64) -> u64 {
    let sum = u128::from(before) * u128::from(reach) + u128::from(then) * u128::from(passed);
    let length = u128::from(reach) + u128::from(passed);
    (sum / length.max(1)) as u64
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    fn pressure() -> Pressure {
        Pressure::new(|duration| duration.as_micros() as u64)
    }

    /// A worker that notes every 100 us, from `from` until `to` us.
    fn keep_noting(pressure: &Pressure, from: u64, to: u64, age: u64) {
        (from..to)
            .step_by(100)
            .for_each(|at| pressure.note(at + 100, age));
    }

    #[test]
    fn a_worker_that_keeps_up_has_none() {
        let pressure = pressure();
        keep_noting(&pressure, 0, 1_000_000, 49);
        assert_eq!(pressure.now(1_000_000), 0);
    }

    #[test]
    fn queues_that_stay_old_make_all_of_it_and_it_fades() {
        let pressure = pressure();
        keep_noting(&pressure, 0, 200_000, 1_000);
        assert_eq!(pressure.now(200_000), PRESSURE_MAX);
        let later = pressure.now(240_000);
        assert!(0 < later && later < PRESSURE_MAX, "{later}");
        assert_eq!(pressure.now(1_000_000), 0, "nothing was noted meanwhile");
        keep_noting(&pressure, 200_000, 400_000, 0);
        assert_eq!(pressure.now(400_000), 0);
    }

    /// 350 readers at once for 2 ms, every 100 ms.
    #[test]
    fn a_short_queue_now_and_then_makes_little() {
        let pressure = pressure();
        for period in 0..20 {
            let began = period * 100_000;
            keep_noting(&pressure, began, began + 2_000, 1_000);
            keep_noting(&pressure, began + 2_000, began + 100_000, 0);
        }
        assert_eq!(pressure.now(2_000_000), 0);
    }
}
