//! Where a task belongs: its class.
//!
//! Whoever has the right to run the task alone changes it, since the lists count tasks by class,
//! and a task in a queue has the queue's class. Others *want* another class for it, and wake it:
//! its runner finds the want before the next poll, or when the poll under way is over.
//!
//! # Contract
//!
//! The class and the wanted one are two bytes of one atomic, changed by read-modify-writes, so no
//! change is lost. All accesses are Relaxed: `state` orders them, and says whether a class is
//! wanted (`WANTED`). The want comes before that flag is set, together with a wake-up. The runner
//! clears the flag before it reads the want, so it takes over the last one. If the flag is set
//! before the `start` of a poll, this poll's runner sees it at the latest when the poll is over; if
//! after, the task is queued once more, and its next runner sees it.

use crate::class::{CLASSES_MAX, Class};
use crate::sync::atomic::{AtomicU16, Ordering};

/// The bits of the class; those of the wanted one are above.
const CLASS: u16 = 0xff;
const WANTED_SHIFT: u32 = 8;
const _: () = assert!(CLASSES_MAX <= 1 << WANTED_SHIFT, "a class has a byte");

/// See the module.
#[derive(Debug)]
pub(super) struct Place {
    class: AtomicU16,
}

impl Place {
    pub(super) fn new(class: Class) -> Self {
        Self {
            class: AtomicU16::new(bits_of(class)),
        }
    }

    #[inline]
    pub(super) fn class(&self) -> Class {
        // Relaxed: see the module.
        class_of(self.class.load(Ordering::Relaxed))
    }

    /// The class that was wanted last.
    pub(super) fn wanted(&self) -> Class {
        // Relaxed: see the module.
        class_of(self.class.load(Ordering::Relaxed) >> WANTED_SHIFT)
    }

    /// Others want the task to be in this class.
    pub(super) fn want(&self, class: Class) {
        self.update(|now| now & CLASS | bits_of(class) << WANTED_SHIFT);
    }

    /// Puts the task into a class, and leaves what is wanted. For the runner.
    pub(super) fn change(&self, class: Class) {
        self.update(|now| now & !CLASS | bits_of(class));
    }

    fn update(&self, change: impl Fn(u16) -> u16) {
        let change = |now| Some(change(now));
        // Relaxed, both: see the module.
        let changed = (self.class).fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        debug_assert!(changed.is_ok(), "it is changed always");
    }
}

fn bits_of(class: Class) -> u16 {
    class.index() as u16
}

#[inline]
fn class_of(bits: u16) -> Class {
    Class::at(usize::from(bits & CLASS))
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_class_and_the_wanted_one_change_apart() {
        let (place, last) = (Place::new(Class::NORMAL), Class::at(CLASSES_MAX - 1));
        place.want(last);
        assert_eq!((place.class(), place.wanted()), (Class::NORMAL, last));
        place.change(Class::BULK);
        assert_eq!((place.class(), place.wanted()), (Class::BULK, last));
        place.want(Class::URGENT);
        place.change(last);
        assert_eq!((place.class(), place.wanted()), (last, Class::URGENT));
    }
}
