//! A worker's queues: for each class, one line of tasks that were woken and one of tasks that
//! yielded.
//!
//! A task that waited for an event and got it goes before tasks that merely used up their slice
//! and want more, however many of those there are: so an event reaches its task within a bound
//! that does not depend on the number of busy tasks. So that the busy ones are not starved by a
//! stream of events, one of them runs each time the woken ones have had a slice's worth of time.

use std::ptr::NonNull;

use crate::class::{CLASSES, Class};
use crate::task::cell::{Header, Runnable};

use super::ring::{CAPACITY, Ring};

/// How many tasks one steal moves at most, of half a line: a steal stays short whatever it finds.
const STEAL_MAX: usize = 64;

/// Which of a class's two lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// For tasks that an event, another task or their birth made ready.
    Woken,
    /// For tasks that gave way while they had more to do.
    Yielded,
}

/// The queues of one worker. Pushing is for the holder of the seat; taking is for anybody.
#[derive(Debug)]
pub(crate) struct Lines {
    woken: [Ring<Header>; CLASSES],
    yielded: [Ring<Header>; CLASSES],
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self {
            woken: std::array::from_fn(|_| Ring::new()),
            yielded: std::array::from_fn(|_| Ring::new()),
        }
    }

    #[inline]
    fn ring(&self, class: Class, line: Line) -> &Ring<Header> {
        match line {
            Line::Woken => &self.woken[class.index()],
            Line::Yielded => &self.yielded[class.index()],
        }
    }

    /// Appends a task, or gives it back when the line is full.
    #[inline]
    pub(crate) fn push(&self, line: Line, task: Runnable) -> Result<(), Runnable> {
        let ring = self.ring(task.header().class(), line);
        // SAFETY: `from_raw` only undoes the `into_raw` here.
        ring.push(task.into_raw())
            .map_err(|back| unsafe { Runnable::from_raw(back) })
    }

    #[inline]
    pub(crate) fn pop(&self, class: Class, line: Line) -> Option<Runnable> {
        self.ring(class, line).pop().map(received)
    }

    /// How many tasks can be pushed for sure; for the holder of the seat.
    #[inline]
    pub(crate) fn room(&self, class: Class, line: Line) -> usize {
        CAPACITY - self.ring(class, line).len()
    }

    /// How many tasks wait, of all classes; a hint.
    pub(crate) fn len(&self) -> usize {
        self.woken.iter().chain(&self.yielded).map(Ring::len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves tasks of one class from here to `thief`, whose seat the caller holds.
    pub(crate) fn steal_into(&self, class: Class, thief: &Lines) -> usize {
        match self
            .ring(class, Line::Woken)
            .steal_into(thief.ring(class, Line::Woken), STEAL_MAX)
        {
            0 => self
                .ring(class, Line::Yielded)
                .steal_into(thief.ring(class, Line::Yielded), STEAL_MAX),
            count => count,
        }
    }
}

/// What came out of a queue is the right to run that was put in.
#[inline]
pub(crate) fn received(entry: NonNull<Header>) -> Runnable {
    // SAFETY: rings, inboxes and the next-task slot are filled from `Runnable::into_raw` alone,
    // and hand each entry out once.
    unsafe { Runnable::from_raw(entry) }
}
