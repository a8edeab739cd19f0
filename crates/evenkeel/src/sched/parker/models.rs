//! Models of the parker: each runs once for every interleaving of its threads.
//!
//! # Seen to fail
//!
//! Each of these changes was made on purpose, one at a time, and made these models fail:
//!
//! - `unpark` swaps Relaxed: `a_notification_ends_the_sleep_it_meets_or_the_next` and 2 others
//! - `prepare` compares Relaxed and clears Relaxed:
//!   `a_notification_ends_the_sleep_it_meets_or_the_next` and 2 others
//! - `prepare` overwrites a notification: `a_notification_ends_the_sleep_it_meets_or_the_next`
//!   and 2 others
//! - `prepare` leaves a notification standing, and does not report it:
//!   `a_notification_ends_the_sleep_it_meets_or_the_next` and 2 others
//! - `finish` swaps Relaxed: `two_notifications_cost_one_event_for_each_sleep`
//! - `unpark` asks for an event each time: `two_notifications_cost_one_event_for_each_sleep`
//! - `unpark` loads, then stores: `a_notification_ends_the_sleep_it_meets_or_the_next` and 2
//!   others

use std::sync::OnceLock;

use super::*;
use crate::sync::Arc;
use crate::sync::atomic::AtomicBool;
use crate::sync::models::{Role, model, role, roles};
use crate::sync::thread::{self, Thread};

/// One worker, and its place in the kernel.
struct World {
    parker: Parker,
    /// An event stays until it is waited for, as in an event descriptor.
    event: AtomicBool,
    events: AtomicUsize,
    worker: OnceLock<Thread>,
    reasons: [AtomicBool; 2],
}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            parker: Parker::new(),
            event: AtomicBool::new(false),
            events: AtomicUsize::new(0),
            worker: OnceLock::new(),
            reasons: [AtomicBool::new(false), AtomicBool::new(false)],
        })
    }

    fn unpark(&self) {
        if self.parker.unpark() {
            // Relaxed, here and below: the order has to come from the parker.
            self.event.swap(true, Ordering::Relaxed);
            self.events.fetch_add(1, Ordering::Relaxed);
            self.worker.get().expect("a worker sleeps").unpark();
        }
    }

    /// Sleeps in the kernel; loom reports a sleep that nothing ends.
    fn sleep(&self) {
        while !self.event.swap(false, Ordering::Relaxed) {
            thread::park();
        }
    }

    /// Sleeps until the first `reasons` reasons have been seen. Returns how many sleeps it took.
    fn work(&self, reasons: usize) -> usize {
        self.worker.get_or_init(thread::current);
        let mut sleeps = 0;
        while !self.reasons[..reasons]
            .iter()
            .all(|reason| reason.load(Ordering::Relaxed))
        {
            if self.parker.prepare() {
                sleeps += 1;
                self.sleep();
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

/// Two notifications: none is lost, and a sleep costs at most one visit to the kernel.
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
            worker.worker.get_or_init(thread::current);
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
