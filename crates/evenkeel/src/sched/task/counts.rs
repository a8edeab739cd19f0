//! The numbers of a task that its runner alone changes: small ones, and what its polls took.
//!
//! All accesses are Relaxed. `state` orders one runner, and whoever queues the task, after another.
//! Other threads read the numbers for the statistics, each by itself.

use crate::counters::KEPT;
use crate::counters::accounts::Count;
use crate::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// A small number.
#[derive(Debug)]
pub(crate) struct Byte(AtomicU8);

impl Byte {
    pub(super) fn new(value: u8) -> Self {
        Self(AtomicU8::new(value))
    }

    #[inline]
    pub(crate) fn load(&self) -> u8 {
        // Relaxed: see the module.
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn put(&self, value: u8) {
        // Relaxed: see the module.
        self.0.store(value, Ordering::Relaxed);
    }
}

/// The longest poll is kept in units of 2^10 cycles, so that it fits a word of 32 bits: each is
/// less than a microsecond, and they are enough for some twenty minutes.
const COARSE: u32 = 10;

/// What those of a task's polls took that have returned pending. One that completes the task is not
/// counted, as nobody would see it.
///
/// 24 bytes of each task. That they are all written costs little: the runner has the task's
/// header in its cache, and has just read the clock to charge the class.
#[derive(Debug)]
pub(crate) struct Polls {
    /// Stays at the highest number.
    count: AtomicU32,
    longest: AtomicU32,
    /// Their sum, in cycles.
    spent: Count,
    /// What of it was blocked.
    blocked: Count,
}

/// The same at one moment, in cycles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PollCounts {
    pub(crate) count: u32,
    pub(crate) longest: u64,
    pub(crate) spent: u64,
    /// Contained in `spent`, but for a moment before that has it as well.
    pub(crate) blocked: u64,
}

impl Polls {
    pub(super) fn new() -> Self {
        Self {
            count: AtomicU32::new(0),
            longest: AtomicU32::new(0),
            spent: Count::new(),
            blocked: Count::new(),
        }
    }

    /// A poll of this length has returned pending. For the task's runner.
    #[inline]
    pub(crate) fn count(&self, length: u64) {
        if !KEPT {
            return;
        }
        // Relaxed, all: see the module.
        let count = self.count.load(Ordering::Relaxed);
        self.count.store(count.saturating_add(1), Ordering::Relaxed);
        self.spent.add(length);
        let coarse = length >> COARSE;
        if coarse > u64::from(self.longest.load(Ordering::Relaxed)) {
            let longest = u32::try_from(coarse).unwrap_or(u32::MAX);
            self.longest.store(longest, Ordering::Relaxed);
        }
    }

    /// A poll of about this length was found blocked. To be said before it is counted. For the
    /// task's runner.
    pub(crate) fn block(&self, length: u64) {
        if KEPT {
            self.blocked.add(length);
        }
    }

    pub(crate) fn read(&self) -> PollCounts {
        // Relaxed, all: see the module.
        let (count, spent) = (self.count.load(Ordering::Relaxed), self.spent.load());
        let longest = u64::from(self.longest.load(Ordering::Relaxed)) << COARSE;
        PollCounts {
            count,
            // The mean of polls that are shorter than the unit is exact.
            longest: longest.max(spent / u64::from(count).max(1)),
            spent,
            blocked: self.blocked.load(),
        }
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn polls_are_counted_summed_and_the_longest_kept() {
        let polls = Polls::new();
        assert_eq!(polls.read(), PollCounts::default());
        polls.block(9 << COARSE);
        for length in [5 << COARSE, 9 << COARSE, 1 << COARSE] {
            polls.count(length);
        }
        let expected = PollCounts {
            count: 3,
            longest: 9 << COARSE,
            spent: 15 << COARSE,
            blocked: 9 << COARSE,
        };
        assert_eq!(polls.read(), expected);
    }

    #[test]
    fn short_polls_are_not_lost_and_the_longest_ones_do_not_wrap() {
        let polls = Polls::new();
        polls.count(7);
        polls.count(9);
        assert_eq!(polls.read().longest, 8, "the mean");
        polls.count(1 << 45);
        // So that the mean is less.
        (0..15).for_each(|_| polls.count(0));
        assert_eq!(polls.read().longest, u64::from(u32::MAX) << COARSE);
    }
}
