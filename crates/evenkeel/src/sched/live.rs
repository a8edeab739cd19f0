//! Settings that change while the runtime works.
//!
//! Each is a word of its own that whoever goes by it reads again: the monitor at each look, a
//! worker when it looks around, has run out of work or has a long poll behind it, a stream when it
//! is made. None of them is read for a poll. The words guard nothing else, so `Relaxed` will do for
//! all: who misses a change sees it the next time.

use std::time::Duration;

use crate::clock::Clock;
use crate::io::delivery::Delivery;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::monitor::lookout::guard_after;
use super::spin::BusyWait;

/// `hand_off` for no hand-off.
const NEVER: u64 = u64::MAX;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Live {
    clock: Clock,
    /// How long a poll may last, in nanoseconds.
    hand_off: AtomicU64,
    /// The level's place in `BusyWait::ALL`.
    busy_wait: AtomicUsize,
    /// Whether new streams deliver at once, so that the lock is seldom taken.
    at_once: AtomicBool,
    delivery: Mutex<Delivery>,
}

impl Live {
    pub(crate) fn new(hand_off: Option<Duration>, level: BusyWait, clock: Clock) -> Self {
        let live = Self {
            clock,
            hand_off: AtomicU64::new(NEVER),
            busy_wait: AtomicUsize::new(0),
            at_once: AtomicBool::new(true),
            delivery: Mutex::new(Delivery::Immediate),
        };
        live.set_hand_off_after(hand_off);
        live.set_busy_wait(level);
        live
    }

    /// How long a poll may last before its worker's seat is handed over; `None` for ever.
    pub(crate) fn hand_off_after(&self) -> Option<Duration> {
        // Relaxed, here and below: see the module.
        let nanos = self.hand_off.load(Ordering::Relaxed);
        (nanos != NEVER).then(|| Duration::from_nanos(nanos))
    }

    pub(crate) fn set_hand_off_after(&self, after: Option<Duration>) {
        let nanos = after.map_or(NEVER, |after| {
            u64::try_from(after.as_nanos()).unwrap_or(NEVER - 1)
        });
        // Relaxed: see the module.
        self.hand_off.store(nanos, Ordering::Relaxed);
    }

    /// How long a poll may last before its task is a hog, in cycles; `u64::MAX` for ever.
    pub(crate) fn hog(&self) -> u64 {
        let after = self.hand_off_after();
        after.map_or(u64::MAX, |after| self.clock.cycles_of(after))
    }

    /// The same for a poll on guard before another thread takes over.
    pub(crate) fn guard(&self) -> u64 {
        let after = self.hand_off_after().map(guard_after);
        after.map_or(u64::MAX, |after| self.clock.cycles_of(after))
    }

    pub(crate) fn busy_wait(&self) -> BusyWait {
        // Relaxed: see the module.
        let place = self.busy_wait.load(Ordering::Relaxed);
        BusyWait::ALL.get(place).copied().unwrap_or_default()
    }

    pub(crate) fn set_busy_wait(&self, level: BusyWait) {
        let place = BusyWait::ALL.iter().position(|&known| known == level);
        // Relaxed: see the module.
        self.busy_wait.store(place.unwrap_or(0), Ordering::Relaxed);
    }

    /// How the readers of streams are woken that are made now.
    pub(crate) fn delivery(&self) -> Delivery {
        // Relaxed: see the module.
        if self.at_once.load(Ordering::Relaxed) {
            return Delivery::Immediate;
        }
        *self.delivery.lock()
    }

    pub(crate) fn set_delivery(&self, mode: Delivery) {
        let mut delivery = self.delivery.lock();
        *delivery = mode;
        // Relaxed: see the module. Under the lock, so that two changes leave one of the two.
        self.at_once
            .store(mode == Delivery::Immediate, Ordering::Relaxed);
    }
}
