//! Models of going to sleep: the idle set together with an injection queue and parkers, in the
//! order in which workers (`sched::worker`) and pushers (`sched::shared`) use them. Each runs once
//! for every interleaving of its threads.
//!
//! A worker that nobody wakes stays in its kernel for ever, which loom reports: so a model that
//! ends has shown that the workers never all sleep with mail.
//!
//! # Seen to fail
//!
//! Each of these changes was made on purpose, one at a time, and made these models fail:
//!
//! - no fence in `park`: `two_workers_do_not_both_sleep_with_mail` and 4 others
//! - no fence in `to_wake`: `the_last_searcher_sees_what_was_left_to_it` and 5 others
//! - no fence in `stop_search`: `the_last_searcher_sees_what_was_left_to_it`
//! - fences are AcqRel: `the_last_searcher_sees_what_was_left_to_it` and 5 others
//! - `park` stops to search after its fence: `two_workers_do_not_both_sleep_with_mail` and 4
//!   others
//! - `park` enlists after its fence: `two_workers_do_not_both_sleep_with_mail` and 4 others
//! - `to_wake` trusts `attended` when all sleep:
//!   `two_workers_do_not_both_sleep_with_mail_they_seemed_to_attend_to` and another
//! - `to_wake` does not count the woken one as searching: `a_burst_wakes_one_worker` and 3
//!   others
//! - `unpark` calls nobody woken: `a_burst_wakes_one_worker` and 3 others
//! - the worker does not look after it enlisted (in the model itself):
//!   `two_workers_do_not_both_sleep_with_mail` and 4 others
//! - no fence in `monitor_may_sleep`: `the_monitor_does_not_sleep_while_a_worker_is_awake` and
//!   another
//! - no fence in `rouses_monitor`: `the_monitor_does_not_sleep_while_a_worker_is_awake` and
//!   another
//! - `monitor_may_sleep` looks before it announces:
//!   `the_monitor_does_not_sleep_while_a_worker_is_awake` and another
//! - a visitor keeps the wake-up that it takes (in the model itself):
//!   `who_is_visited_while_it_goes_to_sleep_is_there_when_it_is_chosen`
#![allow(unsafe_code, reason = "the queue's entries link themselves")]

use std::ptr::{self, NonNull};

use super::*;
use crate::sched::injection::InjectionQueue;
use crate::sched::parker::Parker;
use crate::sched::parker::models::Queue;
use crate::sched::task::cell::Link;
use crate::sync::Arc;
use crate::sync::atomic::AtomicPtr;
use crate::sync::models::{Role, model, model_with_twins, role, roles};
use crate::sync::thread;

struct Item {
    link: AtomicPtr<Item>,
}

// SAFETY: always the same field, which nothing else here touches.
unsafe impl Link for Item {
    fn link(&self) -> &AtomicPtr<Item> {
        &self.link
    }
}

/// One worker's parker, and its place in the kernel.
struct Seat {
    parker: Parker,
    queue: Queue,
}

struct World {
    idle: Idle,
    injection_queue: InjectionQueue<Item>,
    items: Vec<Item>,
    /// How many items are still to be received.
    missing: AtomicUsize,
    seats: Vec<Seat>,
}

impl World {
    fn new(workers: usize, items: usize) -> Arc<Self> {
        let item = |_| Item {
            link: AtomicPtr::new(ptr::null_mut()),
        };
        let seat = |_| Seat {
            parker: Parker::new(),
            queue: Queue::new(),
        };
        Arc::new(Self {
            idle: Idle::new(workers),
            injection_queue: InjectionQueue::new(),
            items: (0..items).map(item).collect(),
            missing: AtomicUsize::new(items),
            seats: (0..workers).map(seat).collect(),
        })
    }

    /// As `Shared::push_outside`.
    fn push(&self, item: usize) {
        // SAFETY: items live as long as the injection queue, and each is pushed once.
        let pushed = unsafe { self.injection_queue.push(NonNull::from(&self.items[item])) };
        assert!(pushed.is_ok(), "the injection queue is open");
        if let Some(worker) = self.idle.to_wake() {
            self.unpark(worker);
        }
    }

    /// As `Shared::unpark`.
    fn unpark(&self, worker: usize) {
        let seat = &self.seats[worker];
        if seat.parker.unpark() {
            seat.queue.wake();
        }
    }

    fn is_done(&self) -> bool {
        // Acquire pairs with the Release in `receive`.
        self.missing.load(Ordering::Acquire) == 0
    }

    /// Takes one item. Whoever takes the last one ends all sleep.
    fn receive(&self) -> bool {
        if self.injection_queue.take(1, |_| ()) == 0 {
            return false;
        }
        // AcqRel: Release pairs with `is_done`.
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            (0..self.seats.len()).for_each(|worker| self.unpark(worker));
        }
        true
    }

    /// As `Worker::run`, without the tasks. `searching` says how it begins.
    fn work(&self, worker: usize, mut searching: bool) {
        self.seats[worker].queue.is_mine();
        while !self.is_done() {
            if self.receive() {
                // As `Worker::end_search`, for a worker whose polls are short.
                if std::mem::take(&mut searching) {
                    let _ = self.idle.stop_search();
                }
                continue;
            }
            searching = searching || self.idle.start_search();
            searching = self.park(worker, searching);
        }
        if searching {
            let _ = self.idle.stop_search();
        }
    }

    /// As `Worker::park`. Returns whether the worker is to search.
    fn park(&self, worker: usize, searching: bool) -> bool {
        let seat = &self.seats[worker];
        self.idle.park(worker, searching);
        if self.injection_queue.is_empty() && !self.is_done() && seat.parker.prepare() {
            seat.queue.sleep();
            seat.parker.finish();
        } else {
            // Lets others run, as whoever looks again and again has to in a model.
            thread::yield_now();
        }
        self.idle.unpark(worker)
    }
}

fn worker(world: &Arc<World>, worker: usize, searching: bool) -> Role<()> {
    let world = Arc::clone(world);
    role(move || world.work(worker, searching))
}

fn pusher(world: &Arc<World>, items: usize) -> Role<()> {
    let world = Arc::clone(world);
    role(move || (0..items).for_each(|item| world.push(item)))
}

#[test]
fn one_worker_does_not_sleep_with_mail() {
    model(move || {
        let world = World::new(1, 2);
        roles([worker(&world, 0, false), pusher(&world, 2)], |_| ())
    });
}

#[test]
fn two_workers_do_not_both_sleep_with_mail() {
    model_with_twins(move || {
        let world = World::new(2, 1);
        let workers = [worker(&world, 0, false), worker(&world, 1, false)];
        let [first, second] = workers;
        roles([first, second, pusher(&world, 1)], |_| ())
    });
}

/// Worker 1 sleeps and stays asleep, worker 0 searches, which holds wake-ups back: it must not go
/// to sleep without the mail that relied on it.
#[test]
fn a_searcher_does_not_sleep_on_what_was_left_to_it() {
    model(|| {
        let world = World::new(2, 2);
        world.idle.park(1, false);
        assert!(world.idle.start_search());
        roles([worker(&world, 0, true), pusher(&world, 2)], move |_| {
            // What worker 1 would have done, had it been woken, worker 0 did.
            let _ = world.idle.unpark(1);
        })
    });
}

/// A visitor comes while the one worker that can be chosen goes to sleep, is chosen, and counts as
/// searching: were its wake-up lost, nobody would be woken any more.
#[test]
fn who_is_visited_while_it_goes_to_sleep_is_there_when_it_is_chosen() {
    model(|| {
        let world = World::new(1, 1);
        let visited = Arc::clone(&world);
        let visitor = role(move || visited.seats[0].queue.visit());
        roles(
            [worker(&world, 0, false), pusher(&world, 1), visitor],
            |_| (),
        )
    });
}

/// Two pushers, and two workers that sleep: one of them is woken, once.
#[test]
fn a_burst_wakes_one_worker() {
    model(|| {
        let world = World::new(2, 2);
        world.idle.park(0, false);
        world.idle.park(1, false);
        let push = |item| {
            let world = Arc::clone(&world);
            role(move || world.push(item))
        };
        roles([push(0), push(1)], move |_| {
            let woken = |worker: &usize| world.seats[*worker].parker.is_notified();
            let woken: Vec<_> = (0..2).filter(woken).collect();
            assert_eq!(woken, [1], "the last one parked, and no other");
            assert!(world.idle.unpark(1), "it was woken in order to search");
            assert!(!world.idle.unpark(0), "it sleeps on");
            assert_eq!(world.injection_queue.take(usize::MAX, |_| ()), 2);
        })
    });
}

/// Of a searcher that found work and a pusher, the one sees the mail or the other wakes the
/// sleeper.
#[test]
fn the_last_searcher_sees_what_was_left_to_it() {
    model(|| {
        let world = World::new(2, 1);
        world.idle.park(1, false);
        assert!(world.idle.start_search());
        let (searcher, pusher) = (Arc::clone(&world), Arc::clone(&world));
        let searcher = role(move || {
            assert!(searcher.idle.stop_search(), "nobody else searched");
            !searcher.injection_queue.is_empty()
        });
        let pusher = role(move || {
            pusher.push(0);
            true
        });
        roles([searcher, pusher], move |[sees_mail, _]| {
            let woken = world.seats[1].parker.is_notified();
            assert!(
                sees_mail || woken,
                "the searcher saw no mail, and the pusher woke nobody"
            );
        })
    });
}

/// The monitor goes to sleep, as all workers are parked, while one of them wakes: by itself, or
/// struck off by a pusher.
fn a_worker_wakes_while_the_monitor_goes_to_sleep(pushed: bool) {
    model(move || {
        let world = World::new(1, 1);
        world.idle.park(0, false);
        let (monitor, waking) = (Arc::clone(&world), Arc::clone(&world));
        let monitor = role(move || {
            monitor.seats[0].queue.is_mine();
            if monitor.idle.monitor_may_sleep() {
                monitor.seats[0].queue.sleep();
            }
        });
        let waking = role(move || {
            if pushed {
                assert_eq!(waking.idle.to_wake(), Some(0));
            }
            assert_eq!(waking.idle.unpark(0), pushed);
            if waking.idle.rouses_monitor() {
                waking.seats[0].queue.wake();
            }
        });
        roles([monitor, waking], |_| ())
    });
}

#[test]
fn the_monitor_does_not_sleep_while_a_worker_is_awake() {
    a_worker_wakes_while_the_monitor_goes_to_sleep(false);
}

#[test]
fn the_monitor_does_not_sleep_while_a_worker_that_was_woken_is_awake() {
    a_worker_wakes_while_the_monitor_goes_to_sleep(true);
}
