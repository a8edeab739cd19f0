//! Models of going to sleep: the idle set together with an injection queue and parkers, in the
//! order in which workers (`sched::worker`) and pushers (`sched::shared`) use them. Each runs once
//! for every interleaving of its threads.
//!
//! A worker that is not woken sleeps for ever, which loom reports: so a model that ends has shown
//! that the workers never all sleep beside an entry.
#![allow(unsafe_code, reason = "the queue's entries link themselves")]

use std::ptr::{self, NonNull};

use super::*;
use crate::sched::injection::InjectionQueue;
use crate::sched::parker::Parker;
use crate::sched::parker::models::Queue;
use crate::sched::task::link::Link;
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

/// One worker's parker and readiness queue.
struct Seat {
    parker: Parker,
    queue: Queue,
}

struct World {
    idle: Idle,
    injection_queue: InjectionQueue<Item>,
    items: Vec<Item>,
    /// How many items have not been taken yet.
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

    /// Takes one item. The thread that takes the last one wakes all workers.
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

    /// As `Worker::run`, without the tasks. `searching` if the worker begins as a searching one.
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
            // Lets other threads run, as a thread that polls has to in a model.
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
fn one_worker_does_not_sleep_beside_an_entry() {
    model(move || {
        let world = World::new(1, 2);
        roles([worker(&world, 0, false), pusher(&world, 2)], |_| ())
    });
}

#[test]
fn two_workers_do_not_both_sleep_beside_an_entry() {
    model_with_twins(move || {
        let world = World::new(2, 1);
        let workers = [worker(&world, 0, false), worker(&world, 1, false)];
        let [first, second] = workers;
        roles([first, second, pusher(&world, 1)], |_| ())
    });
}

/// Worker 1 sleeps and stays asleep. Worker 0 searches, so that pushers wake no other: it must not
/// go to sleep beside an entry that relied on it.
#[test]
fn a_searcher_does_not_sleep_beside_an_entry_that_was_left_to_it() {
    model(|| {
        let world = World::new(2, 2);
        world.idle.park(1, false);
        assert!(world.idle.start_search());
        roles([worker(&world, 0, true), pusher(&world, 2)], move |_| {
            // Worker 0 has done all the work.
            let _ = world.idle.unpark(1);
        })
    });
}

/// A visit meets the one worker as it goes to sleep, is woken by a pusher, and counts as searching.
/// If its wake-up were lost, no worker would ever be woken again.
#[test]
fn a_worker_that_is_visited_as_it_goes_to_sleep_can_still_be_woken() {
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

/// Either a searcher that found work sees the next entry, or the pusher wakes the sleeper.
#[test]
fn the_last_searcher_sees_an_entry_that_was_left_to_it() {
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
        roles([searcher, pusher], move |[sees_it, _]| {
            let woken = world.seats[1].parker.is_notified();
            assert!(
                sees_it || woken,
                "the searcher missed the entry, and the pusher woke no worker"
            );
        })
    });
}

/// The monitor goes to sleep, as all workers are parked, while one of them wakes: by itself, or
/// because a pusher took it off the list.
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
