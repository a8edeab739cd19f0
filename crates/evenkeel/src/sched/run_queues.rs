//! A thread's run queues: for each class, one of tasks that were woken and one of tasks that
//! yielded.
//!
//! A task whose event has come goes before tasks that used up their slice, however many of those
//! there are. So the time from an event to its task does not depend on the number of busy tasks. To
//! prevent starvation by a stream of events, one busy task runs each time the woken ones have had a
//! slice's worth of time.
#![allow(unsafe_code, reason = "an entry is a task's reference, taken apart")]

use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::class::Class;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sys::prefetch::prefetch;

use super::ring::{CAPACITY, Ring};
use super::task::cell::{Header, Runnable};

/// How many tasks one steal moves at most, of half a run queue: a steal stays short whatever it
/// finds.
const STEAL_MAX: usize = 64;

/// How many cache lines are fetched ahead of a task: its header, and the state of a connection of
/// some HTTP library.
const TASK_LINES: usize = 16;

/// How many tasks move from the spill to the ring at a time: the lock is worth it, and the ring
/// is never short of work.
const REFILL: usize = CAPACITY / 4;

/// Which of a class's two run queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// For tasks that an event, another task or their birth made ready.
    Woken,
    /// For tasks that gave way while they had more to do.
    Yielded,
}

/// First in, first out, of any length: a ring, and behind it a spill for what does not fit.
#[derive(Debug)]
struct RunQueue {
    ring: Ring<Header>,
    /// The length of `spill`, for a look without the lock. While it is not zero, pushes go to the
    /// spill, so that nothing overtakes what waits there.
    spilled: AtomicUsize,
    /// It grows with the number of tasks, each of which is in one queue at most.
    spill: Mutex<VecDeque<Runnable>>,
}

impl RunQueue {
    fn new() -> Self {
        Self {
            ring: Ring::new(),
            spilled: AtomicUsize::new(0),
            spill: Mutex::new(VecDeque::new()),
        }
    }

    /// For the holder of the seat.
    #[inline]
    fn push(&self, task: Runnable) {
        // Relaxed: only this thread makes it grow, so zero is never seen too late.
        if self.spilled.load(Ordering::Relaxed) > 0 {
            return self.push_spill(task);
        }
        if let Err(back) = self.ring.push(task.into_raw()) {
            self.push_spill(received(back));
        }
    }

    #[cold]
    fn push_spill(&self, task: Runnable) {
        let mut spill = self.spill.lock();
        spill.push_back(task);
        // Relaxed: changed under the lock; a hint without it.
        self.spilled.store(spill.len(), Ordering::Relaxed);
    }

    /// For the holder of the seat.
    #[inline]
    fn pop(&self) -> Option<Runnable> {
        let task = self.ring.pop().map(received);
        // Relaxed: as in `push`.
        if self.spilled.load(Ordering::Relaxed) > 0 {
            return task.or_else(|| self.pop_spill());
        }
        task
    }

    /// Takes the first spilled task, and moves some of those behind it up. For the holder of the
    /// seat.
    #[cold]
    fn pop_spill(&self) -> Option<Runnable> {
        let mut spill = self.spill.lock();
        let first = spill.pop_front();
        self.move_up(&mut spill, &self.ring);
        first
    }

    /// Moves some spilled tasks to `ring`, whose seat the caller holds. Returns how many.
    fn move_up(&self, spill: &mut VecDeque<Runnable>, ring: &Ring<Header>) -> usize {
        let mut count = 0;
        while count < REFILL {
            let Some(task) = spill.pop_front() else { break };
            if let Err(back) = ring.push(task.into_raw()) {
                spill.push_front(received(back));
                break;
            }
            count += 1;
        }
        // Relaxed: changed under the lock; a hint without it.
        self.spilled.store(spill.len(), Ordering::Relaxed);
        count
    }

    /// For anybody: moves tasks to the queue of a seat that the caller holds.
    fn steal_into(&self, thief: &RunQueue) -> usize {
        let count = self.ring.steal_into(&thief.ring, STEAL_MAX);
        // Relaxed: a hint; the lock decides.
        if count > 0 || self.spilled.load(Ordering::Relaxed) == 0 {
            return count;
        }
        self.move_up(&mut self.spill.lock(), &thief.ring)
    }

    /// For anybody, where order does not matter.
    fn take_any(&self) -> Option<Runnable> {
        self.ring.pop().map(received).or_else(|| {
            let mut spill = self.spill.lock();
            let task = spill.pop_front();
            // Relaxed: changed under the lock; a hint without it.
            self.spilled.store(spill.len(), Ordering::Relaxed);
            task
        })
    }

    /// For anybody: moves everything to the queue of a seat that the caller holds.
    fn drain_into(&self, heir: &RunQueue) {
        while let Some(task) = self.take_any() {
            heir.push(task);
        }
    }

    #[inline]
    fn len(&self) -> usize {
        // Relaxed: a hint.
        self.ring.len() + self.spilled.load(Ordering::Relaxed)
    }
}

/// A class's two run queues.
#[derive(Debug)]
struct Pair {
    woken: RunQueue,
    yielded: RunQueue,
}

impl Pair {
    fn len(&self) -> usize {
        self.woken.len() + self.yielded.len()
    }
}

/// The queues of one worker. Pushing and popping is for the holder of the seat; stealing is for
/// anybody.
#[derive(Debug)]
pub(crate) struct RunQueues {
    /// One pair for each class.
    pairs: Box<[Pair]>,
}

impl RunQueues {
    pub(crate) fn new(classes: usize) -> Self {
        let pair = |_| Pair {
            woken: RunQueue::new(),
            yielded: RunQueue::new(),
        };
        Self {
            pairs: (0..classes).map(pair).collect(),
        }
    }

    #[inline]
    fn queue(&self, class: Class, rank: Rank) -> &RunQueue {
        let pair = &self.pairs[class.index()];
        match rank {
            Rank::Woken => &pair.woken,
            Rank::Yielded => &pair.yielded,
        }
    }

    /// Appends a task.
    #[inline]
    pub(crate) fn push(&self, rank: Rank, task: Runnable) {
        self.queue(task.header().class(), rank).push(task);
    }

    /// Takes the first task of a run queue.
    #[inline]
    pub(crate) fn pop(&self, class: Class, rank: Rank) -> Option<Runnable> {
        self.queue(class, rank).pop()
    }

    /// Fetches the next task of a run queue into the cache.
    #[inline]
    pub(crate) fn prefetch_next(&self, class: Class, rank: Rank) {
        let ring = &self.queue(class, rank).ring;
        if ring.len() > 0 {
            prefetch(ring.first(), TASK_LINES);
        }
    }

    /// How many tasks wait, of all classes; a hint.
    pub(crate) fn len(&self) -> usize {
        self.pairs.iter().map(Pair::len).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many tasks of a class wait; a hint.
    pub(crate) fn len_of(&self, class: Class) -> usize {
        self.pairs[class.index()].len()
    }

    /// Takes some task, for anybody, in whatever order.
    pub(crate) fn take_any(&self) -> Option<Runnable> {
        let mut pairs = self.pairs.iter();
        pairs.find_map(|pair| pair.woken.take_any().or_else(|| pair.yielded.take_any()))
    }

    /// Moves all tasks from here, of which there may be any number, to `heir`, whose seat the
    /// caller holds. What its thread pushes at the same time may stay.
    pub(crate) fn drain_into(&self, heir: &RunQueues) {
        for (from, to) in self.pairs.iter().zip(&heir.pairs) {
            from.woken.drain_into(&to.woken);
            from.yielded.drain_into(&to.yielded);
        }
    }

    /// Moves tasks of one class from here to `thief`, whose seat the caller holds.
    pub(crate) fn steal_into(&self, class: Class, thief: &RunQueues) -> usize {
        let steal = |rank| self.queue(class, rank).steal_into(thief.queue(class, rank));
        match steal(Rank::Woken) {
            0 => steal(Rank::Yielded),
            count => count,
        }
    }
}

/// Turns a queue's entry back into the right to run that was put in.
#[inline]
pub(crate) fn received(entry: NonNull<Header>) -> Runnable {
    // SAFETY: rings, injection queues and the next-task slot are filled from `Runnable::into_raw`
    // alone, and hand each entry out once.
    unsafe { Runnable::from_raw(entry) }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use std::panic::Location;

    use crate::class::Class;
    use crate::sched::task::cell::{Origin, Schedule, new_task};

    use super::*;

    struct Never;

    impl Schedule for Never {
        fn schedule(&self, task: Runnable) {
            task.cancel(|_| ());
        }
    }

    fn task(number: usize) -> Runnable {
        let origin = Origin {
            class: Class::NORMAL,
            spawned_at: Location::caller(),
            name: None,
        };
        let (task, join) = new_task(async {}, Never, origin);
        drop(join);
        // Nothing of the queues looks at it.
        task.header()
            .queued_at
            .store(number as u64, Ordering::Relaxed);
        task
    }

    /// What a run queue has, in its order. Leaves it empty.
    fn numbers(run_queues: &RunQueues) -> Vec<u64> {
        let pops = std::iter::from_fn(|| run_queues.pop(Class::NORMAL, Rank::Woken));
        pops.map(|task| {
            let number = task.header().queued_at.load(Ordering::Relaxed);
            task.cancel(|_| ());
            number
        })
        .collect()
    }

    #[test]
    fn what_is_stolen_keeps_its_order_and_is_counted() {
        const TASKS: usize = CAPACITY + 2 * REFILL;
        let victim = RunQueues::new(3);
        (0..TASKS).for_each(|number| victim.push(Rank::Woken, task(number)));
        let mut stolen = Vec::new();
        loop {
            let thief = RunQueues::new(3);
            let count = victim.steal_into(Class::NORMAL, &thief);
            if count == 0 {
                break;
            }
            assert_eq!(thief.len(), count);
            stolen.extend(numbers(&thief));
        }
        assert!(stolen.is_sorted(), "{stolen:?}");
        assert_eq!(stolen.len(), TASKS);
    }
}
