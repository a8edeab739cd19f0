//! How far a worker is behind, as a measure for `Adaptive` delivery.
//!
//! Each time a worker looks around, it notes the longest wait among the tasks that it has polled
//! since the last time. The mean of these waits over the last 20 ms, in which sleep counts as zero,
//! is the *age* of its queues. A backlog of a moment raises the mean a little; a lasting one raises
//! it to its own age.
//!
//! The pressure rises with the age at once and falls slowly, over a second: the queues may be young
//! only because readers are held back. A worker that sleeps nearly all the time is not behind, and
//! its pressure follows the age at once.
//!
//! All orderings are `Relaxed`: these are estimates with one writer. A reader that sees numbers of
//! two notes gets an estimate between them.

use std::time::Duration;

use super::pace::PRESSURE_MAX;
use crate::sync::atomic::{AtomicU64, Ordering};

/// After this time, the past counts half.
const AGE_HALVES: Duration = Duration::from_millis(14);
const BUSY_HALVES: Duration = Duration::from_millis(20);
/// Up to this age there is no pressure: one or two tasks of a few microseconds each.
const AGE_MIN: Duration = Duration::from_micros(30);
/// From this age on the pressure is full.
const AGE_MAX: Duration = Duration::from_micros(150);
/// How long the pressure takes to fall from its maximum to zero.
const FALL: Duration = Duration::from_secs(1);
/// A worker that is awake for less than this share of the time is idle.
const IDLE: u64 = ONE / 20;

/// One, in fixed point.
const ONE: u64 = 1 << 20;
/// The highest pressure, in fixed point.
const LEVEL_MAX: u64 = PRESSURE_MAX * ONE;

/// The pressure of a worker, which writes it; any thread reads it.
#[derive(Debug)]
pub(crate) struct Pressure {
    /// The mean age, and the mean share of time in which the worker was awake.
    age: AtomicU64,
    busy: AtomicU64,
    level: AtomicU64,
    /// The time of the latest note.
    at: AtomicU64,
    lengths: Lengths,
}

/// The durations above, in the unit of the times passed in.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    age_halves: u64,
    busy_halves: u64,
    age_min: u64,
    age_range: u64,
    fall: u64,
}

#[derive(Clone, Copy, Debug)]
struct State {
    age: u64,
    busy: u64,
    level: u64,
}

impl State {
    /// The state after a time `passed` in which tasks waited for up to `age`.
    fn after(self, passed: u64, age: u64, is_awake: bool, lengths: &Lengths) -> State {
        let busy = if is_awake { ONE } else { 0 };
        let age = faded(self.age, age, passed, lengths.age_halves);
        let busy = faded(self.busy, busy, passed, lengths.busy_halves);
        let above = age.saturating_sub(lengths.age_min).min(lengths.age_range);
        let of_age = scaled(LEVEL_MAX, above, lengths.age_range);
        let fallen = scaled(LEVEL_MAX, passed.min(lengths.fall), lengths.fall);
        let level = if busy < IDLE {
            of_age
        } else {
            of_age.max(self.level.saturating_sub(fallen))
        };
        debug_assert!(
            busy <= ONE && level <= LEVEL_MAX,
            "busy {busy}, level {level}"
        );
        State { age, busy, level }
    }
}

impl Pressure {
    /// `length_of` converts a duration to the unit of the times passed in.
    pub(crate) fn new(length_of: impl Fn(Duration) -> u64) -> Self {
        let at_least_one = |duration| length_of(duration).max(1);
        Self {
            age: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            level: AtomicU64::new(0),
            at: AtomicU64::new(0),
            lengths: Lengths {
                age_halves: at_least_one(AGE_HALVES),
                busy_halves: at_least_one(BUSY_HALVES),
                age_min: length_of(AGE_MIN),
                age_range: at_least_one(AGE_MAX - AGE_MIN),
                fall: at_least_one(FALL),
            },
        }
    }

    /// Notes that from the latest note until `now` tasks waited for up to `age`, and whether the
    /// worker was awake. For the worker alone.
    pub(crate) fn note(&self, now: u64, age: u64, is_awake: bool) {
        let (state, passed) = self.read(now);
        let state = state.after(passed, age, is_awake, &self.lengths);
        // Relaxed: see the module.
        self.age.store(state.age, Ordering::Relaxed);
        self.busy.store(state.busy, Ordering::Relaxed);
        self.level.store(state.level, Ordering::Relaxed);
        self.at.store(now, Ordering::Relaxed);
    }

    /// The pressure, from 0 to [`PRESSURE_MAX`]. The time since the latest note counts as sleep.
    pub(crate) fn now(&self, now: u64) -> u64 {
        let (state, passed) = self.read(now);
        // The common case: there is no pressure, and sleep does not raise any.
        if state.level == 0 && state.age <= self.lengths.age_min {
            return 0;
        }
        state.after(passed, 0, false, &self.lengths).level / ONE
    }

    fn read(&self, now: u64) -> (State, u64) {
        // Relaxed: see the module.
        let state = State {
            age: self.age.load(Ordering::Relaxed),
            busy: self.busy.load(Ordering::Relaxed),
            level: self.level.load(Ordering::Relaxed),
        };
        let passed = now.saturating_sub(self.at.load(Ordering::Relaxed));
        (state, passed)
    }
}

/// An exponential mean: the weight of `before` halves with each `halves` passed, the rest is
/// `then`.
fn faded(before: u64, then: u64, passed: u64, halves: u64) -> u64 {
    let times = passed / halves;
    if times >= 32 {
        return then;
    }
    // 2^-x between two halvings: 1 - 2/3 x + 1/6 x², exact to 0.6 %.
    let x = scaled(ONE, passed % halves, halves);
    let keeps = (ONE - x * 2 / 3 + scaled(x, x, 6 * ONE)) >> times;
    let sum = u128::from(before) * u128::from(keeps) + u128::from(then) * u128::from(ONE - keeps);
    (sum / u128::from(ONE)) as u64
}

fn scaled(whole: u64, part: u64, of: u64) -> u64 {
    debug_assert!(part <= of, "{part} is not a part of {of}");
    (u128::from(whole) * u128::from(part) / u128::from(of)) as u64
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    /// Times of the tests are in microseconds, with a finer unit behind them.
    struct Fine(Pressure);

    impl Fine {
        fn now(&self, micros: u64) -> u64 {
            self.0.now(micros * 1000)
        }
    }

    fn pressure() -> Fine {
        Fine(Pressure::new(|duration| duration.as_nanos() as u64))
    }

    /// A worker that notes every 100 us, from `from` until `to` us, and is awake in every `awake`th
    /// note.
    fn keep_noting(pressure: &Fine, from: u64, to: u64, age: u64, awake: u64) {
        for (number, at) in (from..to).step_by(100).enumerate() {
            let is_awake = (number as u64).is_multiple_of(awake);
            let age = if is_awake { age * 1000 } else { 0 };
            pressure.0.note((at + 100) * 1000, age, is_awake);
        }
    }

    #[test]
    fn a_worker_that_keeps_up_has_no_pressure() {
        let pressure = pressure();
        keep_noting(&pressure, 0, 1_000_000, 29, 1);
        assert_eq!(pressure.now(1_000_000), 0);
    }

    #[test]
    fn a_lasting_backlog_makes_full_pressure() {
        let pressure = pressure();
        keep_noting(&pressure, 0, 100_000, 160, 1);
        assert!(pressure.now(100_000) > PRESSURE_MAX * 9 / 10);
        keep_noting(&pressure, 100_000, 120_000, 1_000, 1);
        assert_eq!(pressure.now(120_000), PRESSURE_MAX);
    }

    #[test]
    fn pressure_falls_in_a_second_while_there_is_work() {
        let pressure = pressure();
        keep_noting(&pressure, 0, 200_000, 1_000, 1);
        keep_noting(&pressure, 200_000, 700_000, 1, 4);
        let later = pressure.now(700_000);
        assert!((PRESSURE_MAX / 3..PRESSURE_MAX * 2 / 3).contains(&later));
        keep_noting(&pressure, 700_000, 1_400_000, 1, 4);
        assert_eq!(pressure.now(1_400_000), 0);
    }

    #[test]
    fn an_idle_worker_soon_has_no_pressure() {
        let pressure = pressure();
        keep_noting(&pressure, 0, 200_000, 1_000, 1);
        assert!(pressure.now(220_000) > 0);
        assert_eq!(pressure.now(320_000), 0, "nothing was noted meanwhile");
        keep_noting(&pressure, 200_000, 320_000, 1_000, 1_000);
        assert_eq!(pressure.now(320_000), 0, "asleep nearly all the time");
    }

    /// A few readers at once for 200 us, every 100 ms.
    #[test]
    fn occasional_backlogs_make_no_pressure() {
        let pressure = pressure();
        for period in 0..20 {
            let began = period * 100_000;
            keep_noting(&pressure, began, began + 200, 200, 1);
            keep_noting(&pressure, began + 200, began + 100_000, 0, 100);
            assert_eq!(pressure.now(began + 100_000), 0);
        }
    }
}
