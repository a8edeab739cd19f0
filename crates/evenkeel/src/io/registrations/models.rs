//! Models of descriptors that are closed while their events are on the way.
//!
//! The kernel is not told of the end of a descriptor. Another thread has taken its events from the
//! readiness queue and delivers them at any moment: before the end, or when the next descriptor has
//! its slot.

use super::*;
use crate::io::readiness::Ground;
use crate::sync::models::{Role, model, role, roles};
use crate::timer::timers::Key;
use std::os::fd::RawFd;

/// No descriptor here has a mode of delivery.
struct Bare;

impl Ground for Bare {
    fn now(&self) -> u64 {
        0
    }

    fn pressure(&self) -> u64 {
        0
    }

    fn set_watermark(&self, _: RawFd, _: usize) -> bool {
        false
    }

    fn arm(&self, _: u64) -> Key {
        unreachable!("nothing is held back")
    }

    fn disarm(&self, _: Key) {}
}

/// A readiness queue, and what the kernel knows of the second descriptor.
struct Queue {
    registrations: Registrations,
    second: Mutex<Option<Token>>,
}

impl Queue {
    fn deliver(&self, token: Token) -> usize {
        let events = std::iter::once((token, Ready::READABLE));
        let mut wakers = WakeList::new();
        let arrive =
            |readiness: &Arc<Readiness>, ready| readiness.arrive(ready, &Bare, &mut wakers);
        self.registrations.deliver(events, arrive).0
    }
}

fn queue_with(first: &Arc<Readiness>) -> (Arc<Queue>, Token) {
    let queue = Queue {
        registrations: Registrations::new(),
        second: Mutex::new(None),
    };
    let token = queue.registrations.enter(first).expect("it is open");
    (Arc::new(queue), token)
}

/// Closes the first descriptor and registers the second, which gets the slot of the first.
fn owner(queue: &Arc<Queue>, first: Token, second: &Arc<Readiness>) -> Role<usize> {
    let (queue, second) = (Arc::clone(queue), Arc::clone(second));
    role(move || {
        queue.registrations.leave(first);
        let token = queue.registrations.enter(&second).expect("it is open");
        *queue.second.lock() = Some(token);
        0
    })
}

/// Two threads deliver: what a worker took before the end, and what a duplicate reports after it.
#[test]
fn late_events_of_a_closed_descriptor_reach_no_other() {
    model(|| {
        let [first, second] = [(); 2].map(|()| Arc::new(Readiness::new(Ready::EMPTY)));
        let (queue, token) = queue_with(&first);
        let deliverer = || {
            let queue = Arc::clone(&queue);
            role(move || queue.deliver(token))
        };
        let threads = [deliverer(), deliverer(), owner(&queue, token, &second)];
        roles(threads, move |_| {
            assert_eq!(second.look().ready(), Ready::EMPTY);
            assert_eq!(queue.registrations.len(), 1);
            assert!(!queue.registrations.is_empty());
        })
    });
}

/// An event is delivered to the descriptor that it names, or to none: the first one's may be lost,
/// which has been closed; the second one's is not.
#[test]
fn the_next_descriptor_in_a_slot_hears_of_its_own_events() {
    model(|| {
        let [first, second] = [(); 2].map(|()| Arc::new(Readiness::new(Ready::EMPTY)));
        let (queue, token) = queue_with(&first);
        let worker = Arc::clone(&queue);
        let worker = role(move || {
            worker.deliver(token);
            let registered = *worker.second.lock();
            registered.map_or(0, |token| worker.deliver(token))
        });
        let threads = [worker, owner(&queue, token, &second)];
        roles(threads, move |[delivered, _]| {
            let is_ready = second.look().ready() == Ready::READABLE;
            assert_eq!(is_ready, delivered == 1, "{delivered} events of its own");
        })
    });
}

/// Once a descriptor has left, nothing is under way to it: its owner may tidy up.
#[test]
fn nothing_is_being_delivered_to_a_descriptor_that_has_left() {
    model(|| {
        let first = Arc::new(Readiness::new(Ready::EMPTY));
        let (queue, token) = queue_with(&first);
        let worker = Arc::clone(&queue);
        let worker = role(move || worker.deliver(token));
        let leaver = Arc::clone(&first);
        let leaver = role(move || {
            queue.registrations.leave(token);
            leaver.look().ready().bits()
        });
        roles([worker, leaver], move |[_, at_the_end]| {
            assert_eq!(first.look().ready().bits(), at_the_end);
        })
    });
}
