//! Whose turn it is: the choice among classes on one worker.
//!
//! A pure core: it knows no thread, clock or queue. Times go in as lengths of polls.

use crate::class::{CLASSES, Class};

/// Which classes have work here, and how much time each has had.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// Bit `c`: class `c` may have work.
    waiting: u32,
    spent: [u64; CLASSES],
    /// What a class that was idle may be behind the others, so that it cannot save up time.
    credit: u64,
}

impl Turn {
    pub(crate) fn new(credit: u64) -> Self {
        Self {
            waiting: 0,
            spent: [0; CLASSES],
            credit,
        }
    }

    /// A class has work.
    #[inline]
    pub(crate) fn wake(&mut self, class: Class) {
        let bit = 1 << class.index();
        if self.waiting & bit == 0 {
            // With no class waiting, none is behind: all begin where the one that had most is. Else
            // that one would have to wait until another has caught up with all it ever had.
            let present = match self.order().next() {
                Some(least) => self.spent[least.index()],
                None => self.spent.into_iter().max().unwrap_or(0),
            };
            let floor = present.saturating_sub(self.credit);
            let spent = &mut self.spent[class.index()];
            *spent = (*spent).max(floor);
            self.waiting |= bit;
        }
    }

    /// A class has no work.
    #[inline]
    pub(crate) fn rest(&mut self, class: Class) {
        self.waiting &= !(1 << class.index());
    }

    /// A poll of the class took `length`.
    #[inline]
    pub(crate) fn charge(&mut self, class: Class, length: u64) {
        // The shares are equal, so time itself is what is compared. It wraps after centuries.
        self.spent[class.index()] = self.spent[class.index()].wrapping_add(length);
    }

    /// The class that may have work and has had the least time.
    #[inline]
    pub(crate) fn first(&self) -> Option<Class> {
        if self.waiting.count_ones() <= 1 {
            return Class::ALL
                .get(self.waiting.trailing_zeros() as usize)
                .copied();
        }
        self.order().next()
    }

    /// The classes that may have work, the one with the least time first.
    pub(crate) fn order(&self) -> impl Iterator<Item = Class> + use<> {
        let mut classes = Class::ALL;
        let spent = self.spent;
        classes.sort_by_key(|class| spent[class.index()]);
        let waiting = self.waiting;
        classes
            .into_iter()
            .filter(move |class| waiting & 1 << class.index() != 0)
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Classes with work at all times get equal time, but for one poll of each.
        #[test]
        fn backlogged_classes_get_equal_time(lengths in prop::collection::vec(1u64..1000, 300)) {
            let mut turn = Turn::new(100);
            let mut spent = [0u64; CLASSES];
            Class::ALL.into_iter().for_each(|class| turn.wake(class));
            for length in lengths {
                let class = turn.first().expect("all classes have work");
                turn.charge(class, length);
                spent[class.index()] += length;
                let (least, most) = (spent.iter().min().unwrap(), spent.iter().max().unwrap());
                prop_assert!(most - least <= 1000);
            }
        }

        /// A class that slept catches up by no more than its credit.
        #[test]
        fn sleep_saves_nothing_up(busy in 1_000u64..1_000_000, credit in 1u64..500) {
            let mut turn = Turn::new(credit);
            turn.wake(Class::NORMAL);
            turn.charge(Class::NORMAL, busy);
            turn.wake(Class::BULK);
            let mut ahead = 0;
            while turn.first() == Some(Class::BULK) {
                turn.charge(Class::BULK, 1);
                ahead += 1;
            }
            prop_assert!(ahead <= credit + 1);
        }
    }

    #[test]
    fn a_resting_class_is_not_chosen() {
        let mut turn = Turn::new(10);
        assert_eq!(turn.first(), None);
        turn.wake(Class::BULK);
        assert_eq!(turn.first(), Some(Class::BULK));
        turn.rest(Class::BULK);
        assert_eq!(turn.first(), None);
    }
}
