//! Which task a worker polls next.

use std::cell::Cell;

use crate::class::{CLASSES_MAX, Class};
use crate::sched::run_queues::{Rank, received};
use crate::sched::shares::Choice;
use crate::sched::task::cell::Runnable;

use super::Worker;

/// How many tasks a worker takes from an injection queue at a time: enough to be worth the lock,
/// few enough to leave some for the others.
const INJECTED_BATCH: usize = 64;

/// Where a task goes that is woken on this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WokenTo {
    /// The next-task slot.
    Slot,
    /// The run queue: events are being dispatched.
    RunQueue,
    /// The injection queue, as this thread blocks and may have to wait for the task (`in_place`).
    Outside,
}

/// What the choice depends on, beside the queues and the classes' shares.
pub(super) struct Choosing {
    /// Since when the next-task slot has been served.
    slot_since: Cell<u64>,
    /// For each class, how long woken tasks have run since a yielded one did.
    woken_for: [Cell<u64>; CLASSES_MAX],
    /// Which run queue the running task came from; the next-task slot counts as the woken one.
    taken_from: Cell<Rank>,
    /// The class of the last task that ran.
    last_class: Cell<Class>,
}

impl Choosing {
    pub(super) fn new() -> Self {
        Self {
            slot_since: Cell::new(0),
            woken_for: std::array::from_fn(|_| Cell::new(0)),
            taken_from: Cell::new(Rank::Woken),
            last_class: Cell::new(Class::NORMAL),
        }
    }

    /// Whether the task that was chosen was woken, and did not yield.
    #[inline]
    pub(super) fn took_woken(&self) -> bool {
        self.taken_from.get() == Rank::Woken
    }

    #[inline]
    pub(super) fn runs(&self, class: Class) {
        self.last_class.set(class);
    }

    #[inline]
    pub(super) fn ran(&self, class: Class, length: u64) {
        if self.took_woken() {
            let woken_for = &self.woken_for[class.index()];
            woken_for.set(woken_for.get() + length);
        }
    }
}

impl Worker {
    #[inline]
    pub(super) fn next_task(&self) -> Option<Runnable> {
        let (now, choosing) = (self.now.get(), &self.choosing);
        if let Some(task) = self.desk.take_next() {
            let in_time = now.wrapping_sub(choosing.slot_since.get()) < self.bounds.slot;
            if in_time && task.header().class() == choosing.last_class.get() {
                choosing.taken_from.set(Rank::Woken);
                return Some(task);
            }
            // The slot's time is over, or its task is of another class, which may not be next. The
            // task joins the queue of woken ones. In the slot it would wait until the run queues
            // are empty, and beside busy tasks they never are.
            self.enqueue(Rank::Woken, task);
        }
        choosing.slot_since.set(now);
        self.next_queued()
    }

    /// The first task of the class that is next. If the run queues are empty, a task of an
    /// injection queue.
    fn next_queued(&self) -> Option<Runnable> {
        loop {
            let first = self.shares.borrow().first();
            let class = match first {
                Some(Choice::Here(class)) => class,
                Some(Choice::HeavyPool(class)) => {
                    self.lending.ask(class);
                    return None;
                }
                None => break,
            };
            if let Some(task) = self.next_of_class(class) {
                return Some(task);
            }
            self.desk.run_queues.note_taken(class);
            self.shares.borrow_mut().rest(class);
        }
        let class = self
            .classes()
            .find(|&class| self.take_injected(class) > 0)?;
        self.next_of_class(class)
    }

    /// The first task of a class. For a slice at a time woken tasks go before those that yielded.
    #[inline]
    fn next_of_class(&self, class: Class) -> Option<Runnable> {
        let run_queues = &self.desk.run_queues;
        let woken_for = &self.choosing.woken_for[class.index()];
        let yielded_is_due = woken_for.get() >= self.bounds.slice;
        self.choosing.taken_from.set(Rank::Woken);
        let pop_woken = || run_queues.pop(class, Rank::Woken);
        if !yielded_is_due {
            let injected = || (self.take_injected(class) > 0).then(pop_woken).flatten();
            if let Some(task) = pop_woken().or_else(injected) {
                return Some(task);
            }
        }
        woken_for.set(0);
        if let Some(task) = run_queues.pop(class, Rank::Yielded) {
            self.choosing.taken_from.set(Rank::Yielded);
            return Some(task);
        }
        yielded_is_due.then(pop_woken).flatten()
    }

    /// Moves tasks from a class's injection queue to its queue of woken tasks.
    #[inline]
    pub(super) fn take_injected(&self, class: Class) -> usize {
        if self.shared.injection_queue(class).is_empty() {
            return 0;
        }
        self.move_injected(class)
    }

    /// Apart from the look above, which is made before almost every poll.
    #[cold]
    fn move_injected(&self, class: Class) -> usize {
        let receive = |entry| self.enqueue(Rank::Woken, received(entry));
        let queue = self.shared.injection_queue(class);
        queue.take(INJECTED_BATCH, receive)
    }

    /// Inlined into each of its few callers: as a call it makes a yield 3 % dearer.
    #[inline(always)]
    pub(super) fn enqueue(&self, rank: Rank, task: Runnable) {
        let class = task.header().class();
        self.desk.run_queues.push(class, rank, task);
        self.note_ready(class);
    }

    #[inline]
    pub(super) fn note_ready(&self, class: Class) {
        self.backlog.note_ready();
        self.shares.borrow_mut().wake(class);
    }

    /// A task was woken on this thread.
    #[inline]
    pub(crate) fn wake_here(&self, task: Runnable) {
        if self.desk.tenure().is_contested() {
            // This poll is long and may lose its seat. Other workers do not look here for work.
            return self.shared.push_outside(task);
        }
        // The time is that of the running poll's beginning, so that a wake-up costs no clock
        // reading. The wait comes out too long by at most that poll.
        task.header().since.put(self.now.get());
        let queued = match self.woken_to.get() {
            WokenTo::Slot => self.desk.put_next(task),
            WokenTo::RunQueue => Some(task),
            WokenTo::Outside => return self.shared.push_outside(task),
        };
        if let Some(task) = queued {
            self.enqueue(Rank::Woken, task);
        }
    }

    /// Whether only the running task is ready here: a hint.
    pub(crate) fn has_no_other_task(&self) -> bool {
        self.running.class().is_some()
            && self.desk.run_queues.is_empty()
            && !self.desk.has_next()
            && !self.shared.has_injected()
    }
}
