//! Models of a writer on a descriptor that is registered for reading alone.
//!
//! The kernel keeps the report of an event until a worker takes it, and wakes the worker. Loom
//! reports a task that waits for ever.

use std::task::Waker;

use super::*;
use crate::io::interest::{Direction, Ready};
use crate::io::readiness::{Readiness, WakeList};
use crate::sync::models::{Role, model, model_with_twins, role, roles, waker_of_this_thread};
use crate::sync::{Arc, Mutex, thread};

/// What the kernel knows of the descriptor.
#[derive(Default)]
struct Kernel {
    room: usize,
    reports_room: bool,
    has_event: bool,
    /// The worker, if it sleeps.
    worker: Option<Waker>,
    /// How many writers there still are.
    writers: usize,
}

struct Descriptor {
    readiness: Readiness,
    watched: Watched,
    /// The lock of the registration.
    home: Mutex<()>,
    kernel: Mutex<Kernel>,
}

impl Descriptor {
    /// With so many writers, registered for reading alone.
    fn new(writers: usize) -> Arc<Self> {
        let both = Interest::READABLE | Interest::WRITABLE;
        let watched = Watched::new(both);
        let first = watched.to_cover(Interest::READABLE);
        assert_eq!(first, Interest::READABLE);
        watched.note(first);
        Arc::new(Self {
            readiness: Readiness::new(Ready::WRITABLE),
            watched,
            home: Mutex::new(()),
            kernel: Mutex::new(Kernel {
                writers,
                ..Kernel::default()
            }),
        })
    }

    /// A system call, after which the worker wakes if there is something for it.
    fn call<R>(&self, change: impl FnOnce(&mut Kernel) -> R) -> R {
        let mut kernel = self.kernel.lock();
        let result = change(&mut kernel);
        let is_for_worker = kernel.has_event || kernel.writers == 0;
        let woken = kernel.worker.take_if(|_| is_for_worker);
        drop(kernel);
        woken.into_iter().for_each(Waker::wake);
        result
    }

    /// (a) The peer makes room.
    fn make_room(&self, bytes: usize) {
        self.call(|kernel| {
            kernel.room += bytes;
            kernel.has_event |= kernel.reports_room;
        });
    }

    /// As `Source::register`.
    fn register(&self) {
        if self.watched.covers(Interest::WRITABLE) {
            return;
        }
        let _home = self.home.lock();
        if !self.watched.covers(Interest::WRITABLE) {
            let wanted = self.watched.to_cover(Interest::WRITABLE);
            assert!(wanted.is_readable() && wanted.is_writable());
            // (b)
            self.call(|kernel| {
                kernel.reports_room = true;
                kernel.has_event |= kernel.room > 0;
            });
            self.watched.note(wanted);
        }
    }

    /// As `Source::io`: writes a byte, among any number of writers.
    fn write(&self) {
        let waker = waker_of_this_thread();
        let mut key = None;
        loop {
            let seen = self.readiness.look();
            if seen.ready().for_interest(Interest::WRITABLE).is_empty() {
                self.register();
                if self
                    .readiness
                    .enlist_among(&mut key, Interest::WRITABLE, &waker)
                {
                    thread::park();
                }
                continue;
            }
            let took = self.call(|kernel| {
                let had_room = kernel.room > 0;
                kernel.room -= usize::from(had_room);
                had_room
            });
            if took {
                break;
            }
            self.readiness.clear_blocked(seen, Direction::Write);
        }
        if let Some(key) = key {
            self.readiness.strike_off(key);
        }
        self.call(|kernel| kernel.writers -= 1);
    }

    /// A worker takes events until the writers have ended.
    fn work(&self) {
        let waker = waker_of_this_thread();
        loop {
            let mut kernel = self.kernel.lock();
            if std::mem::take(&mut kernel.has_event) {
                drop(kernel);
                let mut wakers = WakeList::new();
                self.readiness.set(Ready::WRITABLE, &mut wakers);
                wakers.into_iter().for_each(Waker::wake);
            } else if kernel.writers == 0 {
                return;
            } else {
                kernel.worker = Some(waker.clone());
                drop(kernel);
                thread::park();
            }
        }
    }
}

fn part(descriptor: &Arc<Descriptor>, act: fn(&Descriptor)) -> Role<()> {
    let descriptor = Arc::clone(descriptor);
    role(move || act(&descriptor))
}

/// Room may come before the first attempt, before writing is watched, or after.
#[test]
fn a_writer_hears_of_room_though_reading_alone_was_watched() {
    model(|| {
        let descriptor = Descriptor::new(1);
        let writer = part(&descriptor, Descriptor::write);
        let peer = part(&descriptor, |descriptor| descriptor.make_room(1));
        let worker = part(&descriptor, Descriptor::work);
        roles([writer, peer, worker], move |_| {
            assert_eq!(descriptor.kernel.lock().room, 0);
        })
    });
}

/// The second one may find that the first one is having writing watched, or has had it.
#[test]
fn two_writers_have_writing_watched_once() {
    model_with_twins(|| {
        let descriptor = Descriptor::new(2);
        // The last thread is the peer, and then the worker.
        let others = part(&descriptor, |descriptor| {
            descriptor.make_room(2);
            descriptor.work();
        });
        let writers = [(); 2].map(|()| part(&descriptor, Descriptor::write));
        let [one, two] = writers;
        roles([one, two, others], move |_| {
            assert_eq!(descriptor.kernel.lock().room, 0);
        })
    });
}
