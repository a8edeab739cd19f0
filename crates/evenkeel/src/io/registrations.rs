//! The descriptors that are registered with one readiness queue, and how events reach them.
//!
//! # Leaving without the kernel
//!
//! A descriptor that is closed leaves the kernel's queue by itself, when its last duplicate is
//! closed. So a socket that nobody has duplicated only gives up its slot here, and is then closed:
//! the kernel need not be told. Its last events may be on their way meanwhile, taken from the queue
//! by a thread that has not delivered them yet. They name a slot and a generation (`slots`), and
//! the slot's generation has advanced: they resolve to nothing, although the next descriptor may
//! have the same slot and even the same number.
//!
//! Slots are resolved, and events delivered, under the lock under which slots are taken and given
//! up. So once a descriptor has left, no thread is still delivering to it.
//!
//! `count` is Relaxed, as it tells only whether a check is worth it. `closed` is accessed under the
//! lock, and Relaxed for that reason.

use crate::io::interest::Ready;
use crate::io::readiness::{Readiness, WakeList};
use crate::io::slots::{Slots, Token};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex};
use crate::sys::prefetch::prefetch;

/// How many cache lines an event touches of its descriptor's readiness.
const READINESS_LINES: usize = 2;

#[derive(Debug)]
pub(crate) struct Registrations {
    slots: Mutex<Slots<Arc<Readiness>>>,
    /// How many there are, to be read without the lock.
    count: AtomicUsize,
    closed: AtomicBool,
}

impl Registrations {
    pub(crate) fn new() -> Self {
        Self {
            slots: Mutex::new(Slots::new()),
            count: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Whether there is none: a hint.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: see the module.
        self.count.load(Ordering::Relaxed) == 0
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.lock().len()
    }

    /// Takes a slot, whose token the kernel is to be given. `None` after [`close`](Self::close).
    pub(crate) fn enter(&self, readiness: &Arc<Readiness>) -> Option<Token> {
        let mut slots = self.slots.lock();
        // Relaxed: under the lock.
        if self.closed.load(Ordering::Relaxed) {
            return None;
        }
        // Relaxed: see the module.
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(slots.insert(Arc::clone(readiness)))
    }

    /// Gives up the slot. Events that come later reach nobody, and none is being delivered.
    pub(crate) fn leave(&self, token: Token) {
        let left = self.slots.lock().remove(token);
        debug_assert!(left.is_some(), "a token is given up once");
        if left.is_some() {
            // Relaxed: see the module.
            let before = self.count.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "more descriptors left than were registered");
        }
    }

    /// Passes events to `arrive`, each with the readiness of its descriptor. It returns how many
    /// readers it wakes. Returns how many events reached a descriptor, and how many readers all of
    /// them wake.
    pub(crate) fn deliver(
        &self,
        events: impl Iterator<Item = (Token, Ready)> + Clone,
        mut arrive: impl FnMut(&Arc<Readiness>, Ready) -> usize,
    ) -> (usize, usize) {
        let slots = self.slots.lock();
        for (token, _) in events.clone() {
            if let Some(readiness) = slots.resolve(token) {
                prefetch(Arc::as_ptr(readiness), READINESS_LINES);
            }
        }
        let (mut reached, mut deliveries) = (0, 0);
        for (token, ready) in events {
            // A stale token resolves to nothing, and so does that of a wake-up.
            if let Some(readiness) = slots.resolve(token) {
                reached += 1;
                deliveries += arrive(readiness, ready);
            }
        }
        (reached, deliveries)
    }

    /// Refuses new ones, and tells those that are there that no more events come.
    pub(crate) fn close(&self, wakers: &mut WakeList) {
        let slots = self.slots.lock();
        // Relaxed: under the lock.
        self.closed.store(true, Ordering::Relaxed);
        for readiness in slots.iter() {
            readiness.set(Ready::SHUTDOWN, wakers);
        }
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models;
