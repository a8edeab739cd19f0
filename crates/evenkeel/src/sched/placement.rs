//! On which workers descriptors are registered.
//!
//! They gather at as few workers as serve them in time, since each worker that sleeps for itself
//! wakes for itself: two that are half idle spend more than one that is busy. A descriptor of a
//! worker with little to do moves to the first worker that has room. One of an overloaded worker
//! moves to the worker that has taken its task from there. Both happen when its task waits, so a
//! descriptor without traffic stays where it is. A listener of one worker does not move, and the
//! connections that it has accepted do not gather.
//!
//! Times are in cycles. All orderings are `Relaxed`: hints. Where a descriptor is registered is a
//! matter of speed alone.

use std::time::Duration;

use crate::clock::Clock;
use crate::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

/// How long after an overload descriptors gather again, at first. Twice as long after each
/// gathering that ended in another one, since that was in vain.
const HOLD: Duration = Duration::from_secs(1);
const HOLD_MAX: Duration = Duration::from_secs(60);

/// How a worker copes with what it has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// There is room for the work of another worker.
    Roomy,
    Ordinary,
    Overloaded,
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
    /// A [`Plan`]. The seat's holder writes it, and the monitor if that one is stuck; `roomy` too.
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

    /// As [`moves_from`](Self::moves_from), for a descriptor that only leaves a worker that is
    /// overloaded.
    #[inline]
    pub(crate) fn spreads_from(&self, worker: usize) -> bool {
        self.places[worker].follows(Plan::Spread)
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

    /// How a worker copes at `now`. For the seat's holder, and for the monitor if that is stuck.
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
