//! Models of the parker: each runs once for every interleaving of its threads.

use std::sync::OnceLock;

use super::*;
use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;
use crate::sync::models::{Role, model, role, roles};
use crate::sync::thread::{self, Thread};

/// One worker's readiness queue, as `Driver`. Its lock is not loom's, whose `unpark` counts a
/// thread that waits for such a lock as parked; and it is left by a read-modify-write, as loom may
/// let a swap miss a concurrent store.
pub(in crate::sched) struct Queue {
    owner: OnceLock<Thread>,
    /// An event stays until it is waited for, as in an event descriptor.
    event: AtomicBool,
    locked: AtomicBool,
    /// A visitor took the event. Touched under the lock.
    wake_up: AtomicBool,
}

impl Queue {
    pub(in crate::sched) fn new() -> Self {
        Self {
            owner: OnceLock::new(),
            event: AtomicBool::new(false),
            locked: AtomicBool::new(false),
            wake_up: AtomicBool::new(false),
        }
    }

    pub(in crate::sched) fn is_mine(&self) {
        self.owner.get_or_init(thread::current);
    }

    /// As `Driver::wake`.
    pub(in crate::sched) fn wake(&self) {
        // Relaxed, here and below: the order has to come from the parker.
        self.event.swap(true, Ordering::Relaxed);
        self.owner.get().into_iter().for_each(Thread::unpark);
    }

    /// As `Driver::check` without a timeout; loom reports a sleep that nothing ends.
    pub(in crate::sched) fn sleep(&self) {
        // Acquire and Release, here and in `visit`: a lock.
        while self.locked.swap(true, Ordering::Acquire) {
            thread::park();
        }
        if !self.wake_up.swap(false, Ordering::Relaxed) {
            while !self.event.swap(false, Ordering::Relaxed) {
                thread::park();
            }
        }
        self.locked.swap(false, Ordering::Release);
    }

    /// As `Driver::visit`.
    pub(in crate::sched) fn visit(&self) {
        if !self.locked.swap(true, Ordering::Acquire) {
            if self.event.swap(false, Ordering::Relaxed) {
                self.wake_up.store(true, Ordering::Relaxed);
            }
            self.locked.swap(false, Ordering::Release);
            self.owner.get().into_iter().for_each(Thread::unpark);
        }
    }
}

/// One worker and its readiness queue.
struct World {
    parker: Parker,
    queue: Queue,
    events: AtomicUsize,
    reasons: [AtomicBool; 2],
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            parker: Parker::new(),
            queue: Queue::new(),
            events: AtomicUsize::new(0),
            reasons: [AtomicBool::new(false), AtomicBool::new(false)],
        })
    }

    fn unpark(&self) {
        if self.parker.unpark() {
            // Relaxed: a count.
            self.events.fetch_add(1, Ordering::Relaxed);
            self.queue.wake();
        }
    }

    /// Sleeps until the first `reasons` reasons have been seen. Returns the number of sleeps.
    fn work(&self, reasons: usize) -> usize {
        self.queue.is_mine();
        let mut sleeps = 0;
        while !self.reasons[..reasons]
            .iter()
            .all(|reason| reason.load(Ordering::Relaxed))
        {
            if self.parker.prepare() {
                sleeps += 1;
                self.queue.sleep();
                self.parker.finish();
            }
        }
        sleeps
    }
}

fn notifier(world: &Arc<World>, reason: usize) -> Role<usize> {
    let world = Arc::clone(world);
    role(move || {
        world.reasons[reason].store(true, Ordering::Relaxed);
        world.unpark();
        0
    })
}

#[test]
fn a_notification_ends_the_sleep_it_meets_or_the_next() {
    model(|| {
        let world = World::new();
        let worker = Arc::clone(&world);
        let threads = [notifier(&world, 0), role(move || worker.work(1))];
        roles(threads, move |_| drop(world))
    });
}

/// Two notifications: none is lost, and a sleep costs at most one event.
#[test]
fn two_notifications_cost_one_event_for_each_sleep() {
    model(|| {
        let world = World::new();
        let worker = Arc::clone(&world);
        let worker = role(move || worker.work(2));
        roles(
            [notifier(&world, 0), notifier(&world, 1), worker],
            move |[_, _, sleeps]| {
                let events = world.events.load(Ordering::Relaxed);
                assert!(events <= sleeps, "{events} events for {sleeps} sleeps");
            },
        )
    });
}

/// A sleep that ends by itself, as by an I/O event, takes its notification along.
#[test]
fn a_sleep_that_ends_by_itself_loses_no_reason() {
    model(|| {
        let world = World::new();
        let worker = Arc::clone(&world);
        let worker = role(move || {
            worker.queue.is_mine();
            // The kernel returns at once.
            let notified = worker.parker.prepare() && worker.parker.finish();
            if notified {
                assert!(
                    worker.reasons[0].load(Ordering::Relaxed),
                    "notified, but of what?"
                );
            }
            worker.work(1)
        });
        roles([notifier(&world, 0), worker], move |_| drop(world))
    });
}

/// A worker that busy-waits before it sleeps gets each notification once.
#[test]
fn a_notification_that_is_taken_ends_one_busy_wait() {
    model(|| {
        let world = World::new();
        let worker = Arc::clone(&world);
        let worker = role(move || {
            worker.queue.is_mine();
            if worker.parker.take_notification() {
                assert!(
                    worker.reasons[0].load(Ordering::Relaxed),
                    "notified, but of what?"
                );
                assert!(!worker.parker.take_notification(), "of the same once more");
            }
            worker.work(1)
        });
        roles([notifier(&world, 0), worker], move |_| drop(world))
    });
}

fn visitor(world: &Arc<World>) -> Role<usize> {
    let world = Arc::clone(world);
    role(move || {
        world.queue.visit();
        0
    })
}

/// Another thread visits the readiness queue while the worker goes to sleep and is notified.
#[test]
fn a_visitor_takes_no_wake_up_from_the_owner() {
    model(|| {
        let world = World::new();
        let worker = Arc::clone(&world);
        let worker = role(move || worker.work(1));
        let threads = [notifier(&world, 0), visitor(&world), worker];
        roles(threads, move |_| drop(world))
    });
}

/// The same for the notifications that follow.
#[test]
fn a_worker_that_was_visited_hears_of_what_comes_later() {
    model(|| {
        let world = World::new();
        let worker = Arc::clone(&world);
        let both = Arc::clone(&world);
        let notifier = role(move || {
            for reason in 0..2 {
                both.reasons[reason].store(true, Ordering::Relaxed);
                both.unpark();
            }
            0
        });
        let worker = role(move || worker.work(2));
        roles([notifier, visitor(&world), worker], move |_| drop(world))
    });
}
