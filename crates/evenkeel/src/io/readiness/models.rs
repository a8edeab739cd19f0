//! Models of readiness.
//!
//! The thread that checks the readiness queue puts bytes into a buffer and then reports the event
//! once, as the kernel does with edge-triggered events. Loom reports a task that waits for ever.
#![allow(
    unsafe_code,
    reason = "the model's cells are touched through their pointers"
)]

use super::*;
use crate::sync::models::{Role, model, role, roles, waker_of_this_thread};
use crate::sync::thread;
use crate::sync::{Arc, cell};

/// A descriptor whose buffer holds a number of bytes. Accesses of the buffer are Relaxed, so that
/// all order has to come from the readiness.
struct Descriptor {
    readiness: Readiness,
    bytes: AtomicUsize,
    room: AtomicUsize,
}

impl Descriptor {
    fn new(ready: Ready) -> Arc<Self> {
        Arc::new(Self {
            readiness: Readiness::new(ready),
            bytes: AtomicUsize::new(0),
            room: AtomicUsize::new(0),
        })
    }

    fn side(&self, direction: Direction) -> &AtomicUsize {
        match direction {
            Direction::Read => &self.bytes,
            Direction::Write => &self.room,
        }
    }

    /// The peer sends one byte (or makes room for one), and the event comes.
    fn event(&self, direction: Direction) {
        // Relaxed: see the type.
        self.side(direction).fetch_add(1, Ordering::Relaxed);
        self.report(Ready::of_direction(direction));
    }

    fn report(&self, ready: Ready) -> usize {
        let mut wakers = WakeList::new();
        let readers = self.readiness.set(ready, &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
        readers
    }

    /// One system call: takes all bytes.
    fn attempt(&self, direction: Direction) -> Option<usize> {
        // Relaxed: see the type.
        match self.side(direction).swap(0, Ordering::Relaxed) {
            0 => None,
            bytes => Some(bytes),
        }
    }

    /// As `Source::poll_io`, until `count` bytes have come. With `short`, every transfer counts as
    /// short of what was asked for, as in `Source::poll_transfer`.
    fn transfer(&self, direction: Direction, mut count: usize, short: bool) {
        let waker = waker_of_this_thread();
        while count > 0 {
            let seen = self.readiness.look();
            if seen.ready().for_interest(direction.into()).is_empty() {
                if self.readiness.enlist(direction, &waker) {
                    thread::park();
                }
                continue;
            }
            match self.attempt(direction) {
                Some(bytes) => {
                    count -= bytes;
                    if short {
                        self.readiness.clear(seen, direction);
                    }
                }
                None => self.readiness.clear_blocked(seen, direction),
            }
        }
    }

    /// As `Source::ready`: waits among others until the interest is ready.
    fn wait_among(&self, interest: Interest) -> Ready {
        let waker = waker_of_this_thread();
        let mut key = None;
        loop {
            let ready = self.readiness.look().ready().for_interest(interest);
            if !ready.is_empty() {
                if let Some(key) = key {
                    self.readiness.strike_off(key);
                }
                return ready;
            }
            if self.readiness.enlist_among(&mut key, interest, &waker) {
                thread::park();
            }
        }
    }
}

/// The thread that checks the readiness queue and finds these events.
fn checker(descriptor: &Arc<Descriptor>, directions: &'static [Direction]) -> Role<Ready> {
    let descriptor = Arc::clone(descriptor);
    role(move || {
        directions
            .iter()
            .for_each(|&direction| descriptor.event(direction));
        Ready::EMPTY
    })
}

fn task(descriptor: &Arc<Descriptor>, direction: Direction, count: usize) -> Role<Ready> {
    let descriptor = Arc::clone(descriptor);
    role(move || {
        descriptor.transfer(direction, count, false);
        Ready::EMPTY
    })
}

fn waiter(descriptor: &Arc<Descriptor>, interest: Interest) -> Role<Ready> {
    let descriptor = Arc::clone(descriptor);
    role(move || descriptor.wait_among(interest))
}

/// The first attempt may come before any event; then it finds nothing and clears.
#[test]
fn an_event_while_a_task_begins_to_wait_is_not_lost() {
    model(|| {
        let descriptor = Descriptor::new(Ready::READABLE | Ready::WRITABLE);
        let task = task(&descriptor, Direction::Read, 1);
        roles([task, checker(&descriptor, &[Direction::Read])], |_| ())
    });
}

#[test]
fn two_events_are_not_taken_for_one() {
    model(|| {
        let descriptor = Descriptor::new(Ready::READABLE);
        let task = task(&descriptor, Direction::Read, 2);
        roles(
            [
                task,
                checker(&descriptor, &[Direction::Read, Direction::Read]),
            ],
            |_| (),
        )
    });
}

#[test]
fn a_byte_after_a_short_transfer_is_not_lost() {
    model(|| {
        let descriptor = Descriptor::new(Ready::READABLE);
        let reader = Arc::clone(&descriptor);
        let task = role(move || {
            reader.transfer(Direction::Read, 2, true);
            Ready::EMPTY
        });
        roles(
            [
                task,
                checker(&descriptor, &[Direction::Read, Direction::Read]),
            ],
            |_| (),
        )
    });
}

/// A reader and a writer on one descriptor, and an event for each.
#[test]
fn both_directions_hear_of_their_events() {
    model(|| {
        let descriptor = Descriptor::new(Ready::EMPTY);
        let threads = [
            task(&descriptor, Direction::Read, 1),
            task(&descriptor, Direction::Write, 1),
            checker(&descriptor, &[Direction::Read, Direction::Write]),
        ];
        roles(threads, |_| ())
    });
}

/// Two threads report events, one of them the runtime's end. The task hears of both.
#[test]
fn two_threads_report_events() {
    model(|| {
        let descriptor = Descriptor::new(Ready::READABLE);
        let end = Arc::clone(&descriptor);
        let end = role(move || {
            end.report(Ready::SHUTDOWN);
            Ready::EMPTY
        });
        let threads = [waiter(&descriptor, Interest::WRITABLE), end, {
            checker(&descriptor, &[Direction::Read])
        }];
        roles(threads, move |[ready, ..]| {
            assert!(ready.is_shutdown(), "the only event that concerns a writer");
            let ready = descriptor.readiness.look().ready();
            assert!(ready.is_shutdown() && ready.is_readable());
        })
    });
}

#[test]
fn an_event_wakes_all_waiters() {
    model(|| {
        let descriptor = Descriptor::new(Ready::EMPTY);
        let threads = [
            waiter(&descriptor, Interest::READABLE),
            waiter(&descriptor, Interest::READABLE | Interest::WRITABLE),
            checker(&descriptor, &[Direction::Read]),
        ];
        roles(threads, move |[reader, any, _]| {
            assert!(reader.is_readable() && any.is_readable());
            assert!(
                descriptor.readiness.waiters.lock().others.is_empty(),
                "all are struck off"
            );
        })
    });
}

/// A waiter is removed while an event comes; the other one is woken all the same.
#[test]
fn removing_a_waiter_affects_no_other() {
    model(|| {
        let descriptor = Descriptor::new(Ready::EMPTY);
        let mut key = None;
        let readiness = &descriptor.readiness;
        assert!(readiness.enlist_among(&mut key, Interest::READABLE, Waker::noop()));
        let key = key.expect("it was enlisted");
        let leaver = Arc::clone(&descriptor);
        let leaver = role(move || {
            leaver.readiness.strike_off(key);
            Ready::EMPTY
        });
        let waiter = waiter(&descriptor, Interest::READABLE);
        roles(
            [leaver, waiter, checker(&descriptor, &[Direction::Read])],
            move |_| {
                assert!(
                    descriptor.readiness.waiters.lock().others.is_empty(),
                    "all are struck off"
                );
            },
        )
    });
}

/// Clearing by an old look does nothing, whatever has come meanwhile.
#[test]
fn an_old_tick_clears_nothing() {
    model(|| {
        let descriptor = Descriptor::new(Ready::READABLE);
        let seen = descriptor.readiness.look();
        let task = Arc::clone(&descriptor);
        let task = role(move || {
            task.readiness.clear(seen, Direction::Read);
            Ready::EMPTY
        });
        roles(
            [task, checker(&descriptor, &[Direction::Write])],
            move |_| {
                let now = descriptor.readiness.look().ready();
                assert!(now.is_writable(), "the event is there whoever came first");
                // The tick of `seen` has passed by now in any case.
                descriptor.readiness.clear(seen, Direction::Write);
                descriptor.readiness.clear(seen, Direction::Read);
                assert_eq!(descriptor.readiness.look().ready(), now);
            },
        )
    });
}

/// Data that is written before an event.
struct Written(cell::UnsafeCell<usize>);

// SAFETY: written before the event and read after it; the model checks this order.
unsafe impl Sync for Written {}

/// A task that sees an event sees the writes before it.
#[test]
fn an_event_publishes_what_came_before_it() {
    model(|| {
        let written = Arc::new(Written(cell::UnsafeCell::new(0)));
        let descriptor = Descriptor::new(Ready::EMPTY);
        let (cause, effect) = (Arc::clone(&written), written);
        let (checker, task) = (Arc::clone(&descriptor), descriptor);
        let checker = role(move || {
            // SAFETY: the other thread reads only after it saw the event.
            cause.0.with_mut(|cause| unsafe { *cause = 7 });
            checker.report(Ready::READABLE);
        });
        let task = role(move || {
            if task.readiness.look().ready().is_readable() {
                // SAFETY: as above; loom reports it if not.
                assert_eq!(effect.0.with(|effect| unsafe { *effect }), 7);
            }
        });
        roles([checker, task], |_| ())
    });
}
