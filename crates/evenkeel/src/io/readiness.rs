//! A descriptor's readiness, and the tasks that wait for it.
//!
//! # The protocol
//!
//! Events are edge-triggered: the kernel reports a change once. The word below keeps its report
//! until an operation finds that it would block.
//!
//! ```text
//!  task                                      whoever checks the readiness queue
//!  1. look: ready? then try the operation    a. set the flags, and advance the tick
//!  2. it would block: clear, if the tick     b. lock the waiters, take those concerned, unlock
//!     is still the one of step 1; have       c. wake them
//!     the direction watched
//!  3. lock the waiters; ready by now?
//!     then unlock and go to 1
//!  4. enlist, unlock, wait
//! ```
//!
//! An event between 1 and 2 advances the tick, so it is not cleared. An event between 2 and 4
//! either comes before the look in step 3, or takes the lock after step 4 and finds the waiter. So
//! no event is lost. The kernel reports a direction from the moment on in which it is watched, and
//! what was ready by then ([`watched`](super::watched)): what comes before step 2 ends is an event
//! after it.
//!
//! `set` advances the word with Release and `look` loads it with Acquire, so that a task that sees
//! an event also sees the writes before it. Updates of the word need no more than that: a failed
//! exchange is only tried again with the word that it found.
//!
//! | bits of the word | content |
//! |---|---|
//! | 0..6 | [`Ready`] |
//! | 6    | paced: wake-ups of the reader may be held back, see [`held`] |
//! | 8..  | tick: events so far, wrapping |

mod held;

use std::panic::{self, AssertUnwindSafe};
use std::task::Waker;

use slab::Slab;

use crate::io::interest::{Direction, Interest, Ready};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sys::prefetch::prefetch;

pub(crate) use held::Ground;

const PACED: usize = 1 << 6;
const TICK: usize = 1 << 8;
const FLAGS: usize = TICK - 1;
const _: () = assert!((Ready::ALL as usize) < PACED && PACED < TICK);

/// A value of the word, as [`look`](Readiness::look) found it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    word: usize,
}

impl Seen {
    #[inline]
    pub(crate) fn ready(self) -> Ready {
        Ready::from_bits(self.word)
    }

    /// How many events had come, wrapping.
    #[cfg(feature = "drop-in")]
    pub(crate) fn tick(self) -> usize {
        self.word / TICK
    }

    #[inline]
    pub(crate) fn is_paced(self) -> bool {
        self.word & PACED != 0
    }
}

#[derive(Debug)]
pub(crate) struct Readiness {
    word: AtomicUsize,
    waiters: Mutex<Waiters>,
    held: Mutex<Option<Box<held::Held>>>,
}

#[derive(Debug, Default)]
struct Waiters {
    /// The latest waker of a poll function, one for each direction.
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// The tasks that wait in an async function, any number of them.
    others: Slab<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    interest: Interest,
    waker: Option<Waker>,
}

/// How many cache lines of a task a wake-up touches.
const HEADER_LINES: usize = 2;

/// Collects the wakers of an event, which the caller wakes without holding a lock.
pub(crate) type WakeList = Vec<Waker>;

/// Wakes all tasks on the list, in its order. A waker may be the user's; if it panics, which the
/// panic hook reports, the rest are woken all the same.
pub(crate) fn wake_all(wakers: &mut WakeList) {
    // The data of our own wakers points to the task's header.
    (wakers.iter()).for_each(|waker| prefetch(waker.data(), HEADER_LINES));
    for waker in wakers.drain(..) {
        if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| waker.wake())) {
            // Its drop may panic too, so it is leaked.
            std::mem::forget(payload);
        }
    }
}

impl Readiness {
    /// Starts with `ready`: the directions to try before any event has come.
    pub(crate) fn new(ready: Ready) -> Self {
        Self {
            word: AtomicUsize::new(ready.bits()),
            waiters: Mutex::new(Waiters::default()),
            held: Mutex::default(),
        }
    }

    /// (1) What the descriptor is ready for.
    #[inline]
    pub(crate) fn look(&self) -> Seen {
        // Acquire pairs with the Release in `set`.
        Seen {
            word: self.word.load(Ordering::Acquire),
        }
    }

    /// (2) An operation would have blocked. Does nothing if an event came since `seen`.
    pub(crate) fn clear(&self, seen: Seen, direction: Direction) {
        let flag = Ready::of_direction(direction).bits();
        // A loop, as the other direction's flag may change meanwhile without a new tick. Orderings:
        // see the module.
        let _ = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |now| {
                (now & !FLAGS == seen.word & !FLAGS).then_some(now & !flag)
            });
    }

    /// (2) As [`clear`](Self::clear), after `WouldBlock`. It shows that there is no error and the
    /// side is not closed, whatever earlier events said.
    pub(crate) fn clear_blocked(&self, seen: Seen, direction: Direction) {
        let side = seen.ready().for_interest(direction.into()).bits() & !Ready::SHUTDOWN.bits();
        // Orderings: see the module.
        let _ = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |now| {
                (now & !FLAGS == seen.word & !FLAGS).then_some(now & !side)
            });
    }

    /// (2) As [`clear`](Self::clear), for any flags.
    #[cfg(not(evenkeel_loom))]
    pub(crate) fn clear_flags(&self, seen: Seen, ready: Ready) {
        let flags = ready.bits() & !Ready::SHUTDOWN.bits();
        // Orderings: see the module.
        let _ = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |now| {
                let is_same = now & !FLAGS == seen.word & !FLAGS;
                is_same.then_some(now & !flags)
            });
    }

    /// (2) As [`clear`](Self::clear), for callers that keep only some bits of the tick. Closed
    /// sides stay.
    #[cfg(feature = "drop-in")]
    pub(crate) fn clear_since(&self, tick: u16, ready: Ready) {
        let lasting = Ready::READ_CLOSED | Ready::WRITE_CLOSED | Ready::SHUTDOWN;
        let flags = ready.bits() & !lasting.bits();
        // Orderings: see the module.
        let _ = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |now| {
                ((now / TICK) as u16 == tick).then_some(now & !flags)
            });
    }

    /// (3, 4) Enlists the one waiter of a direction, unless the descriptor is ready by now.
    pub(crate) fn enlist(&self, direction: Direction, waker: &Waker) -> bool {
        // A waker's clone and drop may run any code, so both happen outside the lock; these two are
        // dropped after it. Usually the event before has taken the stored waker.
        let fresh = waker.clone();
        let _displaced;
        let mut waiters = self.waiters.lock();
        if !self
            .look()
            .ready()
            .for_interest(direction.into())
            .is_empty()
        {
            return false;
        }
        let slot = match direction {
            Direction::Read => &mut waiters.reader,
            Direction::Write => &mut waiters.writer,
        };
        if !slot.as_ref().is_some_and(|stored| stored.will_wake(waker)) {
            _displaced = slot.replace(fresh);
        }
        true
    }

    /// (3, 4) Enlists one of many waiters, under its earlier key or a new one. Returns false, and
    /// removes it, if the descriptor is ready by now.
    pub(crate) fn enlist_among(
        &self,
        key: &mut Option<usize>,
        interest: Interest,
        waker: &Waker,
    ) -> bool {
        // Cloned and dropped outside the lock, as in `enlist`.
        let mut spare = Some(waker.clone());
        let _struck_off;
        let mut waiters = self.waiters.lock();
        if !self.look().ready().for_interest(interest).is_empty() {
            _struck_off = key.take().and_then(|key| waiters.others.try_remove(key));
            return false;
        }
        match key.and_then(|key| waiters.others.get_mut(key)) {
            Some(waiter) => std::mem::swap(&mut waiter.waker, &mut spare),
            None => {
                let waiter = Waiter {
                    interest,
                    waker: spare.take(),
                };
                *key = Some(waiters.others.insert(waiter));
            }
        }
        true
    }

    /// Whether an event has woken one of many waiters since it was enlisted.
    pub(crate) fn has_woken(&self, key: usize) -> bool {
        let waiters = self.waiters.lock();
        waiters
            .others
            .get(key)
            .is_some_and(|waiter| waiter.waker.is_none())
    }

    pub(crate) fn strike_off(&self, key: usize) {
        let waiter = self.waiters.lock().others.try_remove(key);
        // Dropped outside the lock, as a waker's drop may run any code.
        drop(waiter);
    }

    /// (a, b) An event came. Returns how many readers it wakes.
    pub(crate) fn set(&self, ready: Ready, wakers: &mut WakeList) -> usize {
        // Release pairs with the Acquire in `look`. Never fails.
        let _ = self
            .word
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |now| {
                Some((now | ready.bits()).wrapping_add(TICK))
            });
        let mut waiters = self.waiters.lock();
        let before = wakers.len();
        if !ready.for_interest(Interest::READABLE).is_empty() {
            wakers.extend(waiters.reader.take());
        }
        let mut readers = wakers.len() - before;
        if !ready.for_interest(Interest::WRITABLE).is_empty() {
            wakers.extend(waiters.writer.take());
        }
        if !waiters.others.is_empty() {
            for (_, waiter) in &mut waiters.others {
                if !ready.for_interest(waiter.interest).is_empty()
                    && let Some(waker) = waiter.waker.take()
                {
                    readers += usize::from(waiter.interest.is_readable());
                    wakers.push(waker);
                }
            }
        }
        readers
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models;
