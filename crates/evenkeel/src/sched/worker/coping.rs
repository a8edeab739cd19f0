//! How a worker copes with what it has to do: whether it has room, or too much.
//!
//! Pure: it is told what waits and how long the worker slept. Times are in cycles.

use std::time::Duration;

use crate::clock::Clock;
use crate::sched::placement::Level;

/// How long a worker has too much to do until it is overloaded: less may be a burst, or the first
/// requests of many, whose code is cold.
const OVERDUE_FOR: Duration = Duration::from_millis(10);
/// How often it is asked whether a worker has room.
const WINDOW: Duration = Duration::from_millis(10);
/// In how many windows in a row it has to.
const WINDOWS: u64 = 10;
/// What part of a window a worker with room sleeps at least: a quarter.
const SLEEPS: u64 = 4;

/// How much waits at a worker, in parts of the latency targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(super) enum Fill {
    /// With as much again it would still serve all in time.
    Little,
    Much,
    TooMuch,
}

/// What the judgement rests on.
#[derive(Clone, Debug)]
pub(super) struct Coping {
    window: u64,
    overdue_for: u64,
    /// Since when each look has found too much.
    overdue_since: Option<u64>,
    began: u64,
    slept: u64,
    /// When the worker last slept.
    awake_since: u64,
    had_much: bool,
    /// In how many windows in a row there has been room.
    calm: u64,
}

impl Coping {
    pub(super) fn new(clock: &Clock, now: u64) -> Self {
        Self {
            window: clock.cycles_of(WINDOW),
            overdue_for: clock.cycles_of(OVERDUE_FOR),
            overdue_since: None,
            began: now,
            slept: 0,
            awake_since: now,
            had_much: false,
            calm: 0,
        }
    }

    /// The worker begins in a new runtime, where nothing has been too much.
    pub(super) fn begin(&mut self) {
        self.calm = WINDOWS;
    }

    /// So much waits at `now`, while there is work.
    #[inline]
    pub(super) fn look(&mut self, now: u64, fill: Fill) {
        if fill == Fill::TooMuch {
            self.overdue_since.get_or_insert(now);
        } else {
            self.overdue_since = None;
        }
        self.had_much |= fill > Fill::Little;
    }

    /// The worker has slept until `now`.
    pub(super) fn sleep(&mut self, now: u64, length: u64) {
        self.overdue_since = None;
        self.slept += length;
        self.awake_since = now;
    }

    /// Whether the worker has had no time to sleep for long.
    #[inline]
    pub(super) fn is_saturated(&self, now: u64) -> bool {
        now.saturating_sub(self.awake_since) >= self.overdue_for
    }

    fn is_overloaded(&self, now: u64) -> bool {
        let since = self.overdue_since;
        since.is_some_and(|since| now.saturating_sub(since) >= self.overdue_for)
    }

    /// Says at the end of a window, and as soon as it is overloaded, how the worker copes.
    #[inline]
    pub(super) fn judge(&mut self, now: u64) -> Option<Level> {
        if self.is_overloaded(now) {
            self.calm = 0;
            return Some(Level::Overloaded);
        }
        let length = now.saturating_sub(self.began);
        if length < self.window {
            return None;
        }
        let has_room = !self.had_much && self.slept * SLEEPS >= length;
        let windows = length / self.window;
        self.calm = if has_room { self.calm + windows } else { 0 };
        (self.began, self.slept, self.had_much) = (now, 0, false);
        Some(if self.calm >= WINDOWS {
            Level::Roomy
        } else {
            Level::Ordinary
        })
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    fn coping() -> Coping {
        let mut coping = Coping::new(&Clock::start(), 0);
        (coping.window, coping.overdue_for) = (100, 100);
        coping
    }

    #[test]
    fn a_worker_is_overloaded_when_each_look_finds_too_much() {
        let mut coping = coping();
        for now in (0..100).step_by(10) {
            coping.look(now, Fill::TooMuch);
            assert_eq!(coping.judge(now), None);
        }
        coping.look(100, Fill::TooMuch);
        assert_eq!(coping.judge(100), Some(Level::Overloaded));
        coping.look(110, Fill::Much);
        assert_eq!(coping.judge(110), Some(Level::Ordinary));
        coping.look(120, Fill::TooMuch);
        coping.sleep(121, 1);
        coping.look(215, Fill::TooMuch);
        assert_eq!(coping.judge(225), Some(Level::Ordinary), "it slept between");
    }

    #[test]
    fn a_worker_that_has_not_slept_for_long_is_saturated() {
        let mut coping = coping();
        assert!(!coping.is_saturated(99));
        assert!(coping.is_saturated(100));
        coping.sleep(150, 1);
        assert!(!coping.is_saturated(249));
        assert!(coping.is_saturated(250));
    }

    #[test]
    fn a_worker_that_sleeps_in_each_window_has_room() {
        let judge = |fill, slept| {
            let mut coping = coping();
            let mut level = None;
            for window in 1..=WINDOWS {
                assert_ne!(level, Some(Level::Roomy), "not for long enough");
                coping.look(100 * window, fill);
                coping.sleep(100 * window, slept);
                level = coping.judge(100 * window);
            }
            level
        };
        assert_eq!(judge(Fill::Little, 25), Some(Level::Roomy));
        assert_eq!(judge(Fill::Little, 24), Some(Level::Ordinary));
        assert_eq!(judge(Fill::Much, 25), Some(Level::Ordinary));
    }
}
