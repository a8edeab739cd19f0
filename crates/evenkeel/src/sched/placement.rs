//! On which workers descriptors are registered.
//!
//! They gather at as few workers as serve them in time, since each worker that sleeps for itself
//! wakes for itself: two that are half idle spend more than one that is busy. A descriptor of a
//! worker with little to do moves to the first worker that has room. One of an overloaded worker
//! moves to the worker that has taken its task from there. Both happen when its task waits, so a
//! descriptor without traffic stays where it is.
//!
//! [`Coping`] says how a worker copes, and is pure: times are in cycles.
//!
//! All orderings are `Relaxed`: hints. Where a descriptor is registered is a matter of speed alone.

use std::time::Duration;

use crate::clock::Clock;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// How long a worker has too much to do until it is overloaded: less may be a burst, or the first
/// requests of many, whose code is cold.
const OVERDUE_FOR: Duration = Duration::from_millis(10);
/// How often it is asked whether a worker has room.
const WINDOW: Duration = Duration::from_millis(10);
/// In how many windows in a row it has to.
const WINDOWS: u64 = 10;
/// What part of a window a worker with room sleeps at least: a quarter.
const SLEEPS: u64 = 4;
/// How long after an overload descriptors gather again, at first. Twice as long after each
/// gathering that ended in another one, since that was in vain.
const HOLD: Duration = Duration::from_secs(1);
const HOLD_MAX: Duration = Duration::from_secs(60);

/// How much waits at a worker, in parts of the latency targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub(crate) enum Fill {
    /// With as much again it would still serve all in time.
    Little,
    Much,
    TooMuch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// There is room for the work of another worker.
    Roomy,
    Ordinary,
    Overloaded,
}

/// How a worker copes with what it has to do.
#[derive(Clone, Debug)]
pub(crate) struct Coping {
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
    pub(crate) fn new(clock: &Clock, now: u64) -> Self {
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
    pub(crate) fn begin(&mut self) {
        self.calm = WINDOWS;
    }

    /// So much waits at `now`, while there is work.
    #[inline]
    pub(crate) fn look(&mut self, now: u64, fill: Fill) {
        if fill == Fill::TooMuch {
            self.overdue_since.get_or_insert(now);
        } else {
            self.overdue_since = None;
        }
        self.had_much |= fill > Fill::Little;
    }

    /// The worker has slept until `now`.
    pub(crate) fn sleep(&mut self, now: u64, length: u64) {
        self.overdue_since = None;
        self.slept += length;
        self.awake_since = now;
    }

    /// Whether the worker has had no time to sleep for long.
    #[inline]
    pub(crate) fn is_saturated(&self, now: u64) -> bool {
        now.saturating_sub(self.awake_since) >= self.overdue_for
    }

    fn is_overloaded(&self, now: u64) -> bool {
        let since = self.overdue_since;
        since.is_some_and(|since| now.saturating_sub(since) >= self.overdue_for)
    }

    /// Says at the end of a window, and as soon as it is overloaded, how the worker copes.
    #[inline]
    pub(crate) fn judge(&mut self, now: u64) -> Option<Level> {
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

/// What becomes of a worker's descriptor when its task waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Plan {
    Stay,
    Spread,
    Gather,
}

#[derive(Debug)]
struct Place {
    /// A [`Plan`]. Written by the seat's holder, as is `roomy`.
    plan: AtomicU8,
    roomy: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct Placement {
    places: Box<[Place]>,
    /// When descriptors gather again.
    not_before: AtomicU64,
    hold: AtomicU64,
    /// Whether they have gathered since the last overload.
    gathered: AtomicBool,
    /// The least and the most that it is.
    holds: (u64, u64),
}

impl Placement {
    pub(crate) fn new(workers: usize, clock: &Clock) -> Self {
        let place = |worker| {
            let plan = if worker == 0 {
                Plan::Stay
            } else {
                Plan::Gather
            };
            Place {
                plan: AtomicU8::new(plan as u8),
                roomy: AtomicBool::new(true),
            }
        };
        Self {
            places: (0..workers).map(place).collect(),
            not_before: AtomicU64::new(0),
            hold: AtomicU64::new(clock.cycles_of(HOLD)),
            gathered: AtomicBool::new(false),
            holds: (clock.cycles_of(HOLD), clock.cycles_of(HOLD_MAX)),
        }
    }

    /// Whether a descriptor of the worker may have to move.
    #[inline]
    pub(crate) fn moves_from(&self, worker: usize) -> bool {
        !self.places[worker].follows(Plan::Stay)
    }

    /// Where a descriptor of the worker `from`, or one that would become its descriptor, goes
    /// instead, if it does. Its task runs on a thread of the worker `here`.
    pub(crate) fn next(&self, from: usize, here: Option<usize>) -> Option<usize> {
        let place = &self.places[from];
        if place.follows(Plan::Spread) {
            return here.filter(|&here| here != from && !self.places[here].follows(Plan::Spread));
        }
        let first = self.first_roomy();
        first.filter(|&first| first < from && place.follows(Plan::Gather))
    }

    /// How a worker copes at `now`. For the seat's holder.
    #[cold]
    pub(crate) fn note(&self, worker: usize, level: Level, now: u64) {
        let place = &self.places[worker];
        let roomy = level == Level::Roomy;
        // Relaxed, all: see the module.
        place.roomy.store(roomy, Ordering::Relaxed);
        let may_gather = roomy && now >= self.not_before.load(Ordering::Relaxed);
        let plan = if level == Level::Overloaded {
            Plan::Spread
        } else if may_gather && self.first_roomy().is_some_and(|first| first < worker) {
            Plan::Gather
        } else {
            Plan::Stay
        };
        // Relaxed: see the module.
        let before = place.plan.swap(plan as u8, Ordering::Relaxed);
        if plan == Plan::Spread && before != plan as u8 {
            self.hold_back(now);
        }
    }

    /// A descriptor has moved from the worker.
    pub(crate) fn note_moved(&self, from: usize) {
        if self.places[from].follows(Plan::Gather) {
            // Relaxed: see the module.
            self.gathered.store(true, Ordering::Relaxed);
        }
    }

    fn hold_back(&self, now: u64) {
        let (least, most) = self.holds;
        // Relaxed, all: see the module.
        let long_ago = now > self.not_before.load(Ordering::Relaxed) + most;
        let mut hold = self.hold.load(Ordering::Relaxed);
        if self.gathered.swap(false, Ordering::Relaxed) {
            hold = (2 * hold).min(most);
        }
        if long_ago {
            hold = least;
        }
        self.hold.store(hold, Ordering::Relaxed);
        self.not_before.store(now + hold, Ordering::Relaxed);
    }

    fn first_roomy(&self) -> Option<usize> {
        // Relaxed: see the module.
        let roomy = |place: &Place| place.roomy.load(Ordering::Relaxed);
        self.places.iter().position(roomy)
    }
}

impl Place {
    #[inline]
    fn follows(&self, plan: Plan) -> bool {
        // Relaxed: see the module.
        self.plan.load(Ordering::Relaxed) == plan as u8
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

    #[test]
    fn descriptors_leave_an_overloaded_worker_and_gather_again() {
        let placement = Placement::new(3, &Clock::start());
        let hold = placement.hold.load(Ordering::Relaxed);
        assert_eq!(placement.next(2, Some(2)), Some(0));
        placement.note(1, Level::Ordinary, 0);
        assert!(!placement.moves_from(1));
        placement.note(0, Level::Overloaded, 5);
        assert!(placement.moves_from(0) && !placement.moves_from(1));
        assert_eq!(placement.next(0, Some(2)), Some(2));
        assert_eq!(placement.next(0, Some(0)), None);
        assert_eq!(placement.next(0, None), None);
        placement.note(2, Level::Overloaded, 5);
        assert_eq!(placement.next(0, Some(2)), None, "it has no room either");

        for worker in 0..3 {
            placement.note(worker, Level::Roomy, 5 + hold - 1);
            assert!(!placement.moves_from(worker), "too soon");
        }
        (0..3).for_each(|worker| placement.note(worker, Level::Roomy, 5 + hold));
        assert_eq!(placement.next(2, Some(2)), Some(0));
        assert!(!placement.moves_from(0), "there is none before it");
        placement.note(0, Level::Ordinary, 5 + hold);
        assert_eq!(placement.next(2, Some(2)), Some(1));
    }

    #[test]
    fn gathering_in_vain_makes_the_next_one_come_later() {
        let placement = Placement::new(2, &Clock::start());
        let hold = placement.hold.load(Ordering::Relaxed);
        placement.note(0, Level::Overloaded, 0);
        assert_eq!(placement.not_before.load(Ordering::Relaxed), hold);
        for worker in 0..2 {
            placement.note(worker, Level::Roomy, hold);
        }
        placement.note_moved(1);
        placement.note(0, Level::Overloaded, hold);
        assert_eq!(placement.not_before.load(Ordering::Relaxed), 3 * hold);

        // Nothing has gathered since.
        placement.note(1, Level::Overloaded, 4 * hold);
        assert_eq!(placement.not_before.load(Ordering::Relaxed), 6 * hold);
        // Long ago, what was in vain may not be any more.
        let later = 7 * hold + placement.holds.1;
        placement.note(0, Level::Ordinary, later);
        placement.note(0, Level::Overloaded, later);
        assert_eq!(placement.not_before.load(Ordering::Relaxed), later + hold);
    }
}
