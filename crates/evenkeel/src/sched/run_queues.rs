//! A thread's run queues: for each class, one of woken tasks and one of tasks that yielded.
//!
//! A woken task goes before tasks that used up their slice, however many they are. So the time from
//! an event to its task does not depend on the number of busy tasks. To prevent starvation by a
//! stream of events, one busy task runs each time woken tasks have had a slice.
#![allow(unsafe_code, reason = "an entry is a task's reference, taken apart")]

use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::class::Class;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};
use crate::sys::prefetch::prefetch;

use super::bounded_queue::{BoundedQueue, CAPACITY};
use super::task::cell::{Header, Runnable};

/// How many tasks one steal moves at most, so that it stays short.
const STEAL_MAX: usize = 64;

/// How many cache lines of a task are prefetched: its header, and the state of a connection of an
/// HTTP library.
const TASK_LINES: usize = 16;

/// How many tasks move from the spill to the bounded queue at a time: enough to be worth the lock.
const REFILL: usize = CAPACITY / 4;

/// Which of a class's two run queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// For tasks that an event or another task has woken, and for new ones.
    Woken,
    /// For tasks that yielded while they had more to do.
    Yielded,
}

/// First in, first out, of any length: a bounded queue, and behind it a spill for tasks that do not
/// fit. The thread at the desk pushes and pops; any thread steals and takes.
#[derive(Debug)]
struct RunQueue {
    bounded: BoundedQueue<Header>,
    /// The length of `spill`, written under its lock. While it is not zero, pushes go to the spill,
    /// so that no task overtakes those that wait there. Relaxed throughout: a hint without the
    /// lock, but never a stale zero for the thread at the desk, which alone makes the spill grow.
    spilled: AtomicUsize,
    /// Each task is in one queue at most, so this is no longer than there are tasks.
    spill: Mutex<VecDeque<Runnable>>,
}

impl RunQueue {
    fn new() -> Self {
        Self {
            bounded: BoundedQueue::new(),
            spilled: AtomicUsize::new(0),
            spill: Mutex::new(VecDeque::new()),
        }
    }

    #[inline]
    fn push(&self, task: Runnable) {
        if self.has_spilled() {
            return self.push_spill(task);
        }
        if let Err(back) = self.bounded.push(task.into_raw()) {
            self.push_spill(received(back));
        }
    }

    #[cold]
    fn push_spill(&self, task: Runnable) {
        let mut spill = self.lock_spill();
        spill.push_back(task);
        self.note_spilled(&spill);
    }

    #[inline]
    fn has_spilled(&self) -> bool {
        // Relaxed: see `spilled`.
        self.spilled.load(Ordering::Relaxed) > 0
    }

    fn lock_spill(&self) -> MutexGuard<'_, VecDeque<Runnable>> {
        let spill = self.spill.lock();
        // Relaxed: see `spilled`.
        debug_assert_eq!(self.spilled.load(Ordering::Relaxed), spill.len());
        spill
    }

    fn note_spilled(&self, spill: &VecDeque<Runnable>) {
        // Relaxed: see `spilled`.
        self.spilled.store(spill.len(), Ordering::Relaxed);
    }

    #[inline]
    fn pop(&self) -> Option<Runnable> {
        let task = self.bounded.pop().map(received);
        if self.has_spilled() {
            return task.or_else(|| self.pop_spill());
        }
        task
    }

    /// Takes the first spilled task, and moves some of the others up.
    #[cold]
    fn pop_spill(&self) -> Option<Runnable> {
        let mut spill = self.lock_spill();
        let first = spill.pop_front();
        self.move_up(&mut spill, &self.bounded);
        first
    }

    /// Moves some spilled tasks to `to`, at whose desk the caller sits. Returns how many.
    fn move_up(&self, spill: &mut VecDeque<Runnable>, to: &BoundedQueue<Header>) -> usize {
        let mut count = 0;
        while count < REFILL {
            let Some(task) = spill.pop_front() else { break };
            if let Err(back) = to.push(task.into_raw()) {
                spill.push_front(received(back));
                break;
            }
            count += 1;
        }
        self.note_spilled(spill);
        count
    }

    /// Moves tasks to the queue of a thief, at whose desk the caller sits.
    fn steal_into(&self, thief: &RunQueue) -> usize {
        let count = self.bounded.steal_into(&thief.bounded, STEAL_MAX);
        if count > 0 || !self.has_spilled() {
            return count;
        }
        self.move_up(&mut self.lock_spill(), &thief.bounded)
    }

    /// Takes a task, in any order.
    fn take_any(&self) -> Option<Runnable> {
        self.bounded.pop().map(received).or_else(|| {
            let mut spill = self.lock_spill();
            let task = spill.pop_front();
            self.note_spilled(&spill);
            task
        })
    }

    #[inline]
    fn len(&self) -> usize {
        // Relaxed: see `spilled`.
        self.bounded.len() + self.spilled.load(Ordering::Relaxed)
    }
}

/// A thread's run queues. Pushing and popping is for the thread at the desk, everything else for
/// any thread.
#[derive(Debug)]
pub(crate) struct RunQueues {
    /// By class and rank.
    queues: Box<[[RunQueue; 2]]>,
    /// The classes that may have tasks here, so that nobody has to look into the queues of all. A
    /// bit is set with the first task and cleared when the queues were found empty, both by the
    /// thread at the desk, which alone pushes: so a queue with a task has its bit. Relaxed
    /// throughout: where others must not miss a task, a fence of the pusher's follows.
    filled: AtomicU64,
}

impl RunQueues {
    pub(crate) fn new(classes: usize) -> Self {
        let pair = |_| [RunQueue::new(), RunQueue::new()];
        Self {
            queues: (0..classes).map(pair).collect(),
            filled: AtomicU64::new(0),
        }
    }

    /// The classes that may have tasks here.
    #[inline]
    fn filled(&self) -> impl Iterator<Item = Class> + use<> {
        // Relaxed: see `filled`.
        Class::of_bits(self.filled.load(Ordering::Relaxed))
    }

    /// The queues of a class were found empty. For the thread at the desk.
    pub(crate) fn note_taken(&self, class: Class) {
        if self.len_of(class) == 0 {
            // Relaxed, both: see `filled`.
            let filled = self.filled.load(Ordering::Relaxed);
            self.filled.store(filled & !class.bit(), Ordering::Relaxed);
        }
    }

    #[inline]
    fn queue(&self, class: Class, rank: Rank) -> &RunQueue {
        &self.queues[class.index()][rank as usize]
    }

    #[inline]
    pub(crate) fn push(&self, class: Class, rank: Rank, task: Runnable) {
        debug_assert_eq!(
            task.header().class(),
            class,
            "tasks of one class in each queue"
        );
        self.note_pushed(class);
        self.queue(class, rank).push(task);
    }

    /// A queue of a class may have tasks. For the thread at the desk.
    #[inline]
    fn note_pushed(&self, class: Class) {
        // Relaxed, both: see `filled`.
        let filled = self.filled.load(Ordering::Relaxed);
        if filled & class.bit() == 0 {
            self.filled.store(filled | class.bit(), Ordering::Relaxed);
        }
    }

    #[inline]
    pub(crate) fn pop(&self, class: Class, rank: Rank) -> Option<Runnable> {
        self.queue(class, rank).pop()
    }

    #[inline]
    pub(crate) fn prefetch_next(&self, class: Class, rank: Rank) {
        let bounded = &self.queue(class, rank).bounded;
        if bounded.len() > 0 {
            prefetch(bounded.first(), TASK_LINES);
        }
    }

    /// How many tasks wait, of all classes; a hint.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.filled().map(|class| self.len_of(class)).sum()
    }

    /// Whether no task waits; a hint.
    pub(crate) fn is_empty(&self) -> bool {
        self.filled().all(|class| self.len_of(class) == 0)
    }

    /// How many tasks of a class wait; a hint.
    pub(crate) fn len_of(&self, class: Class) -> usize {
        self.queues[class.index()].iter().map(RunQueue::len).sum()
    }

    /// Takes a task, in any order.
    pub(crate) fn take_any(&self) -> Option<Runnable> {
        let mut queues = self.filled().flat_map(|class| &self.queues[class.index()]);
        queues.find_map(RunQueue::take_any)
    }

    /// Moves all tasks to the queues of an heir, at whose desk the caller sits. A task that the
    /// thread here pushes at the same time may stay.
    pub(crate) fn drain_into(&self, heir: &RunQueues) {
        for class in self.filled() {
            for rank in [Rank::Woken, Rank::Yielded] {
                while let Some(task) = self.queue(class, rank).take_any() {
                    heir.push(class, rank, task);
                }
            }
        }
    }

    /// Moves tasks of the first class that has some to the queues of a thief, at whose desk the
    /// caller sits. Returns the class and how many.
    pub(crate) fn steal_any_into(&self, thief: &RunQueues) -> Option<(Class, usize)> {
        let counts = self
            .filled()
            .map(|class| (class, self.steal_into(class, thief)));
        counts.into_iter().find(|&(_, count)| count > 0)
    }

    /// Moves tasks of one class to the queues of a thief, at whose desk the caller sits. Returns
    /// how many.
    pub(crate) fn steal_into(&self, class: Class, thief: &RunQueues) -> usize {
        let steal = |rank| self.queue(class, rank).steal_into(thief.queue(class, rank));
        let count = match steal(Rank::Woken) {
            0 => steal(Rank::Yielded),
            count => count,
        };
        if count > 0 {
            thief.note_pushed(class);
        }
        count
    }
}

/// Turns a queue's entry back into a right to run.
#[inline]
pub(crate) fn received(entry: NonNull<Header>) -> Runnable {
    // SAFETY: bounded queues, injection queues and the next-task slot are filled from
    // `Runnable::into_raw` alone, and hand out each entry once.
    unsafe { Runnable::from_raw(entry) }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use std::panic::Location;

    use crate::class::{CLASSES_MAX, Class};
    use crate::sched::task::cell::{Attributes, Schedule, new_task};

    use super::*;

    struct Never;

    impl Schedule for Never {
        fn schedule(&self, task: Runnable) {
            task.cancel(|_| ());
        }
    }

    fn task(number: usize) -> Runnable {
        let attributes = Attributes {
            class: Class::NORMAL,
            spawned_at: Location::caller(),
            name: None,
        };
        let (task, join) = new_task(async {}, Never, attributes);
        drop(join);
        // The queues do not look at it.
        task.header().since.put(number as u64);
        task
    }

    /// Empties a run queue. Returns what it had, in order.
    fn numbers(run_queues: &RunQueues) -> Vec<u64> {
        let pops = std::iter::from_fn(|| run_queues.pop(Class::NORMAL, Rank::Woken));
        pops.map(|task| {
            let number = task.header().since.load();
            task.cancel(|_| ());
            number
        })
        .collect()
    }

    #[test]
    fn a_class_with_tasks_is_not_forgotten() {
        let (here, last) = (RunQueues::new(CLASSES_MAX), Class::at(CLASSES_MAX - 1));
        let task = |class| {
            let attributes = Attributes {
                class,
                spawned_at: Location::caller(),
                name: None,
            };
            new_task(async {}, Never, attributes).0
        };
        assert!(here.is_empty());
        here.push(last, Rank::Yielded, task(last));
        here.note_taken(last);
        assert_eq!((here.len(), here.len_of(last)), (1, 1));
        let heir = RunQueues::new(CLASSES_MAX);
        here.drain_into(&heir);
        assert!(here.is_empty() && !heir.is_empty());
        let task = heir.take_any().expect("it was inherited");
        task.cancel(|_| ());
        heir.note_taken(last);
        assert!(heir.is_empty());
        assert_eq!(heir.filled().count(), 0, "nobody looks for it any more");
    }

    #[test]
    fn stolen_tasks_keep_their_order_and_are_counted() {
        const TASKS: usize = CAPACITY + 2 * REFILL;
        let victim = RunQueues::new(3);
        (0..TASKS).for_each(|number| victim.push(Class::NORMAL, Rank::Woken, task(number)));
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
