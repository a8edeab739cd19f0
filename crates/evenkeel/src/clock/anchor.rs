//! Readings of the counter as instants.
#![allow(
    clippy::disallowed_methods,
    reason = "the seam of the scheduler's clock"
)]

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::Clock;

/// How long the system's clock is not read again. The counter's scale is exact to 0.005 %, which
/// is 50 ns of this.
const LASTS: Duration = Duration::from_millis(1);

/// How often both clocks are read at most to get both at one moment: the thread may lose its
/// processor in between.
const READINGS: usize = 4;

/// Both readings are of one moment if the counter has gone on by no more than this in between.
const CLOSE: Duration = Duration::from_nanos(250);

/// Converts readings of the counter, by one moment at which both clocks were read.
#[derive(Debug)]
pub(crate) struct Anchor {
    /// The counter, and the system's clock.
    at: Cell<(u64, Instant)>,
    lasts: u64,
    close: u64,
}

impl Anchor {
    pub(crate) fn new(clock: &Clock) -> Self {
        let new = Self {
            at: Cell::new((0, Instant::now())),
            lasts: clock.cycles_of(LASTS),
            close: clock.cycles_of(CLOSE),
        };
        new.renew(clock);
        new
    }

    /// When the counter had this value, which it had a moment ago.
    #[inline]
    pub(crate) fn instant(&self, clock: &Clock, cycles: u64) -> Instant {
        if cycles.wrapping_sub(self.at.get().0) > self.lasts {
            self.renew(clock);
        }
        let (at, instant) = self.at.get();
        if cycles >= at {
            instant + clock.to_duration(cycles - at)
        } else {
            let before = instant.checked_sub(clock.to_duration(at - cycles));
            before.unwrap_or(instant)
        }
    }

    #[cold]
    fn renew(&self, clock: &Clock) {
        let mut closest = u64::MAX;
        for _ in 0..READINGS {
            let before = clock.cycles();
            let instant = Instant::now();
            let between = clock.cycles().saturating_sub(before);
            if between < closest {
                closest = between;
                self.at.set((before + between / 2, instant));
            }
            if between <= self.close {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_the_counter_are_instants_of_the_systems_clock() {
        let clock = Clock::start();
        let anchor = Anchor::new(&clock);
        let check = || {
            let (before, cycles) = (Instant::now(), clock.cycles());
            let after = Instant::now();
            let instant = anchor.instant(&clock, cycles);
            // What the scale and the two readings of the anchor are uncertain by.
            let error = Duration::from_micros(20);
            assert!(instant + error >= before, "{:?} early", before - instant);
            assert!(instant <= after + error, "{:?} late", instant - after);
        };
        let since = Instant::now();
        while since.elapsed() < 5 * LASTS {
            check();
        }
        // A worker may have slept.
        std::thread::sleep(20 * LASTS);
        check();
        // A reading from before the anchor.
        let (before, cycles) = (Instant::now(), clock.cycles());
        std::thread::sleep(2 * LASTS);
        anchor.renew(&clock);
        let instant = anchor.instant(&clock, cycles);
        assert!(instant.saturating_duration_since(before) < LASTS);
        assert!(before.saturating_duration_since(instant) < LASTS);
    }
}
