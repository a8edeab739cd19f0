//! Who holds a seat: how one is taken from a thread that is stuck in a poll.
//!
//! # The protocol
//!
//! ```text
//!  thread, after a poll              its heir, for a poll that began at t
//!  1. since = 0                      1. contested = true          (holds the lock)
//!  2. light fence                    2. heavy fence
//!  3. contested?                     3. since == t?
//!     no: goes on in its seat           no: contested = false, the thread keeps its seat
//!     yes: asks under the lock          yes: the seat is lost     (releases the lock)
//! ```
//!
//! Of the two fences one comes first. If the thread's does, the heir sees in its step 3 that the
//! poll has ended, and withdraws. If the heir's does, the thread sees in its step 3 that its seat
//! is contested, and waits for the lock, after which the matter is decided. So a seat never has two
//! holders, and a thread pays a store, a load and a fence that costs nothing (below) for each poll.
//!
//! **Invariant:** what belongs to the seat's holder (its accounts, its checks, its parking) is
//! touched between polls only. What a poll touches (the next-task slot and the run queues, when a
//! task wakes others) belongs to the thread's desk, which it keeps when it loses the seat.
//!
//! # The fences
//!
//! Where the kernel can run a barrier on all of the process's threads (`membarrier(2)`), the heavy
//! fence is that, and the light one only keeps the compiler from moving the load before the store.
//! Elsewhere both are ordinary fences. Models use the latter.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};

#[cfg(not(evenkeel_loom))]
use crate::sync::atomic::compiler_fence;
#[cfg(not(evenkeel_loom))]
use crate::sys::thread::barrier_everywhere;

/// How the two sides of the protocol are ordered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fences {
    /// The kernel runs a barrier on all threads.
    by_kernel: bool,
}

impl Fences {
    /// What this system offers.
    #[cfg(not(evenkeel_loom))]
    pub(crate) fn of_system() -> Self {
        Self {
            by_kernel: crate::sys::thread::register_barrier(),
        }
    }

    #[cfg(evenkeel_loom)]
    pub(crate) fn of_system() -> Self {
        Self { by_kernel: false }
    }

    #[inline]
    fn light(self) {
        #[cfg(not(evenkeel_loom))]
        if self.by_kernel {
            // Pairs with the barrier that `heavy` has the kernel run on this thread.
            return compiler_fence(Ordering::SeqCst);
        }
        // SeqCst pairs with the fence in `heavy`.
        fence(Ordering::SeqCst);
    }

    /// Returns false if it could not be had: the kernel offered its barrier at the start and
    /// refuses it now, as it does once the process has locked itself into a sandbox.
    #[must_use]
    fn heavy(self) -> bool {
        #[cfg(not(evenkeel_loom))]
        if self.by_kernel {
            // A fence in this thread alone would not help: `light` does not stop the other
            // processor from reordering.
            return barrier_everywhere();
        }
        // SeqCst pairs with the fence in `light`.
        fence(Ordering::SeqCst);
        true
    }
}

/// One thread's hold on its seat, and the poll it is at.
#[derive(Debug)]
pub(crate) struct Tenure {
    /// When the poll that is under way began, in cycles; 0 between polls.
    since: AtomicU64,
    /// Somebody wants the seat, or has it.
    contested: AtomicBool,
    /// The seat is lost. Decided under this lock.
    lost: Mutex<bool>,
    fences: Fences,
}

impl Tenure {
    pub(crate) fn new(fences: Fences) -> Self {
        Self {
            since: AtomicU64::new(0),
            contested: AtomicBool::new(false),
            lost: Mutex::new(false),
            fences,
        }
    }

    /// A thread takes a seat. For the thread alone, or before it starts.
    pub(crate) fn begin(&self) {
        *self.lost.lock() = false;
        // Relaxed, both: nobody contests a seat that nobody holds.
        self.contested.store(false, Ordering::Relaxed);
        self.since.store(0, Ordering::Relaxed);
    }

    /// The thread has no seat: it is one of the heavy pool's. For the thread alone.
    pub(crate) fn begin_without_seat(&self) {
        *self.lost.lock() = true;
        // Relaxed: nobody contests a seat that there is not.
        self.contested.store(true, Ordering::Relaxed);
    }

    /// A poll begins. For the thread alone.
    #[inline]
    pub(crate) fn begin_poll(&self, now: u64) {
        // Release pairs with the Acquire in `polling_since`: whoever takes the seat sees what its
        // holder did with it before.
        self.since.store(now, Ordering::Release);
    }

    /// A poll has ended. Returns whether the thread still has its seat. For the thread alone.
    #[inline]
    #[must_use]
    pub(crate) fn end_poll(&self) -> bool {
        // Relaxed, both: ordered by the fence between them.
        self.since.store(0, Ordering::Relaxed);
        self.fences.light();
        if self.contested.load(Ordering::Relaxed) {
            return self.resolve();
        }
        true
    }

    #[cold]
    fn resolve(&self) -> bool {
        !*self.lost.lock()
    }

    /// When the poll that is under way began; 0 between polls.
    #[inline]
    pub(crate) fn polling_since(&self) -> u64 {
        // Acquire pairs with the Release in `begin_poll`.
        self.since.load(Ordering::Acquire)
    }

    /// Whether the seat may be lost, or be about to be: what is woken should go elsewhere. A hint.
    #[inline]
    pub(crate) fn is_contested(&self) -> bool {
        // Relaxed: what is decided on it is where a task waits, and each place is looked at.
        self.contested.load(Ordering::Relaxed)
    }

    /// Whether the poll that is under way has cost the thread its seat. It may do so yet. While a
    /// claim is being decided, it waits for that. For the thread alone.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        // A claim for an earlier poll takes nothing, and says nothing of this one.
        self.is_contested() && !self.resolve()
    }

    /// Takes the seat from the thread, if it is still at the poll that began at `since`, nobody
    /// else has taken it, and the fence can be had. For a thread that is to take it over. As long
    /// as it holds the claim, the one that lost its seat does not come back from that poll.
    #[must_use]
    pub(crate) fn claim(&self, since: u64) -> Option<Claim<'_>> {
        let mut lost = self.lost.lock();
        if *lost {
            // Another heir was faster.
            return None;
        }
        // Relaxed, both: ordered by the fence between them.
        self.contested.store(true, Ordering::Relaxed);
        let ordered = self.fences.heavy();
        *lost = ordered && since != 0 && self.since.load(Ordering::Acquire) == since;
        if !*lost {
            self.contested.store(false, Ordering::Relaxed);
        }
        if *lost {
            Some(Claim { _lost: lost })
        } else {
            None
        }
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
impl Tenure {
    /// As a claim for a poll that is over, which takes as long as this.
    pub(crate) fn claim_in_vain(&self, meanwhile: impl FnOnce()) {
        let lost = self.lost.lock();
        self.contested.store(true, Ordering::SeqCst);
        meanwhile();
        self.contested.store(false, Ordering::SeqCst);
        drop(lost);
    }
}

/// A seat was taken from its thread, which learns of it when this is dropped.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    _lost: MutexGuard<'a, bool>,
}

#[cfg(all(test, evenkeel_loom))]
mod models;

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_lost_in_the_poll_it_was_claimed_for_and_in_no_other() {
        for fences in [Fences::of_system(), Fences { by_kernel: false }] {
            let tenure = Tenure::new(fences);
            tenure.begin_poll(10);
            assert!(tenure.claim(9).is_none());
            assert!(tenure.end_poll());
            assert!(tenure.claim(10).is_none());
            tenure.begin_poll(20);
            assert!(tenure.claim(20).is_some());
            assert!(tenure.is_contested());
            assert!(!tenure.end_poll());
            tenure.begin();
            tenure.begin_poll(30);
            assert!(tenure.end_poll());
        }
    }
}
