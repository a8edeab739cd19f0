//! Models of wake-ups that are held back.
//!
//! One thread sends bytes, handles the kernel's events, and sweeps. Its time advances to the next
//! entry of the sweep whenever there is nothing else to do. Another thread reads. Loom reports a
//! reader that is never woken.

use std::time::Duration;

use super::*;
use crate::io::interest::Direction;
use crate::io::pace::TICK_NS;
use crate::io::readiness::Waker;
use crate::sync::models::{Role, model, role, roles, waker_of_this_thread};
use crate::sync::thread;
use crate::sync::{Arc, Condvar, Mutex};

#[derive(Default)]
struct Numbers {
    now: u64,
    available: usize,
    watermark: usize,
    event: bool,
    /// The tick of the sweep's entry.
    armed: Option<u64>,
    ended: bool,
}

/// The kernel, the clock, the sweep, and the worker's means of sleeping.
struct World {
    numbers: Mutex<Numbers>,
    changed: Condvar,
    readiness: Readiness,
    has_watermark: bool,
}

impl World {
    fn new(mode: Delivery) -> Arc<Self> {
        Self::with_watermark(mode, true)
    }

    fn with_watermark(mode: Delivery, has_watermark: bool) -> Arc<Self> {
        let world = Self {
            numbers: Mutex::new(Numbers::default()),
            changed: Condvar::new(),
            readiness: Readiness::new(Ready::EMPTY),
            has_watermark,
        };
        world.set_mode(mode);
        Arc::new(world)
    }

    fn set_mode(&self, mode: Delivery) {
        let mut wakers = WakeList::new();
        self.readiness
            .set_delivery(mode, self.has_watermark, Some((3, self)), &mut wakers);
        wakers.into_iter().for_each(Waker::wake);
    }

    fn change<R>(&self, change: impl FnOnce(&mut Numbers) -> R) -> R {
        let result = change(&mut self.numbers.lock());
        self.changed.notify_one();
        result
    }

    /// One round of the worker: an event, or an entry of the sweep. Sleeps if there is neither.
    fn round(&self) -> bool {
        let mut numbers = self.numbers.lock();
        while !numbers.event && numbers.armed.is_none() && !numbers.ended {
            numbers = self.changed.wait(numbers);
        }
        let (event, ended) = (std::mem::take(&mut numbers.event), numbers.ended);
        let tick = if event { None } else { numbers.armed.take() };
        numbers.now = numbers.now.max(tick.unwrap_or(0) * TICK_NS);
        drop(numbers);
        let mut wakers = WakeList::new();
        if event {
            self.readiness.arrive(Ready::READABLE, self, &mut wakers);
        } else if tick.is_some() {
            self.readiness.due(self, &mut wakers);
        }
        wakers.into_iter().for_each(Waker::wake);
        !ended
    }

    fn send(&self) {
        self.change(|numbers| {
            numbers.available += 1;
            numbers.report();
        });
    }

    /// As `Source::poll_transfer`, until `count` bytes have come.
    fn read(&self, mut count: usize) {
        let waker = waker_of_this_thread();
        while count > 0 {
            let seen = self.readiness.look();
            if !seen.ready().is_readable() {
                if self.readiness.enlist(Direction::Read, &waker) {
                    thread::park();
                }
                continue;
            }
            let got = self.change(|numbers| std::mem::take(&mut numbers.available));
            count -= got;
            if got > 0 {
                self.readiness.clear(seen, Direction::Read);
            } else {
                self.readiness.clear_blocked(seen, Direction::Read);
            }
            match (seen.is_paced(), got) {
                (false, _) => {}
                (true, 0) => self.readiness.found_nothing(self),
                (true, _) => {
                    self.readiness.drained(self);
                }
            }
        }
        self.change(|numbers| numbers.ended = true);
    }
}

impl Numbers {
    fn report(&mut self) {
        self.event |= self.available > 0 && self.available >= self.watermark;
    }
}

impl Ground for World {
    fn now(&self) -> u64 {
        self.numbers.lock().now
    }

    fn pressure(&self) -> u64 {
        0
    }

    fn set_watermark(&self, _fd: RawFd, bytes: usize) -> bool {
        self.change(|numbers| {
            numbers.watermark = bytes;
            numbers.report();
        });
        true
    }

    fn arm(&self, tick: u64) -> Key {
        self.change(|numbers| numbers.armed = Some(tick));
        Key::STALE
    }

    fn disarm(&self, _key: Key) {
        self.change(|numbers| numbers.armed = None);
    }
}

fn coalesce(bytes: usize) -> Delivery {
    let delay = Duration::from_millis(2);
    Delivery::Coalesce { bytes, delay }
}

fn worker(world: &Arc<World>, bytes: usize) -> Role<()> {
    let world = Arc::clone(world);
    role(move || {
        (0..bytes).for_each(|_| world.send());
        while world.round() {}
    })
}

fn reader(world: &Arc<World>, bytes: usize) -> Role<()> {
    let world = Arc::clone(world);
    role(move || world.read(bytes))
}

/// The byte stays below the watermark, and the sweep releases it.
#[test]
fn a_tail_is_released() {
    model(|| {
        let world = World::new(coalesce(9));
        roles([reader(&world, 1), worker(&world, 1)], |_| ())
    });
}

/// A byte comes while the reader empties the socket, or the descriptor becomes silent.
#[test]
fn a_byte_while_the_reader_empties_the_socket_is_not_lost() {
    model(|| {
        let world = World::new(coalesce(9));
        let sender = Arc::clone(&world);
        let sender = role(move || sender.send());
        roles([reader(&world, 2), worker(&world, 1), sender], |_| ())
    });
}

/// The second byte reaches the watermark.
#[test]
fn a_reached_watermark_wakes_the_reader() {
    model(|| {
        let world = World::new(coalesce(2));
        let sender = Arc::clone(&world);
        let sender = role(move || sender.send());
        roles([reader(&world, 2), worker(&world, 1), sender], |_| ())
    });
}

/// With a watermark, the kernel would report the bytes again.
#[test]
fn a_change_of_the_mode_releases_what_is_held() {
    model(|| {
        let world = World::with_watermark(coalesce(9), false);
        let other = Arc::clone(&world);
        let other = role(move || other.set_mode(Delivery::Immediate));
        roles([reader(&world, 1), worker(&world, 1), other], |_| ())
    });
}

#[test]
fn a_mode_that_begins_while_a_byte_comes_loses_nothing() {
    model(|| {
        let world = World::new(Delivery::Immediate);
        let other = Arc::clone(&world);
        let other = role(move || other.set_mode(coalesce(9)));
        roles([reader(&world, 1), worker(&world, 1), other], |_| ())
    });
}
