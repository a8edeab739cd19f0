//! Who holds a seat, and how it is taken from a thread that is stuck in a poll.
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
//! is contested, and waits for the lock, which is released when the matter is decided. So a seat
//! never has two holders. Each poll costs the thread a store, a load and a fence that is free
//! (below).
//!
//! **Invariant:** the seat's holder touches the seat (accounts, checks, parking) only between
//! polls. A poll touches only the thread's desk (the next-task slot and the run queues, when a task
//! wakes others), which the thread keeps when it loses the seat.
//!
//! # The fences
//!
//! Where the kernel can run a barrier on all of the process's threads (`membarrier(2)`), the heavy
//! fence is that barrier, and the light one only keeps the compiler from moving the load before the
//! store. Elsewhere both are ordinary fences, as in the models. `since` and `contested` are Relaxed
//! where a fence or the lock orders them.

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};

#[cfg(not(evenkeel_loom))]
use crate::sync::atomic::compiler_fence;
#[cfg(not(evenkeel_loom))]
use crate::sys::thread::barrier_everywhere;

/// The fences of the two sides of the protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fences {
    /// The kernel runs a barrier on all threads.
    by_kernel: bool,
}

impl Fences {
    /// The fences that this system offers.
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

    /// Returns false if there was no barrier: the kernel offered it at the start and refuses it
    /// now, as it does when the process has locked itself into a sandbox.
    #[must_use]
    fn heavy(self) -> bool {
        #[cfg(not(evenkeel_loom))]
        if self.by_kernel {
            // A fence in this thread alone would not do: `light` does not keep the other processor
            // from reordering.
            return barrier_everywhere();
        }
        // SeqCst pairs with the fence in `light`.
        fence(Ordering::SeqCst);
        true
    }
}

/// A thread's hold on its seat, and the poll that it runs.
#[derive(Debug)]
pub(crate) struct Tenure {
    /// When the poll that is under way began, in cycles; 0 between polls.
    since: AtomicU64,
    /// An heir claims the seat, or has taken it.
    contested: AtomicBool,
    /// The seat is lost. Decided under this lock.
    lost: Mutex<bool>,
    /// The thread has dealt with the loss of its seat, or began without one. Set by the thread;
    /// cleared when it takes a seat.
    has_told: AtomicBool,
    /// When the last poll began of which the thread told while it still had its seat; in cycles.
    /// Stored under the lock.
    told_early: AtomicU64,
    fences: Fences,
}

impl Tenure {
    pub(crate) fn new(fences: Fences) -> Self {
        Self {
            since: AtomicU64::new(0),
            contested: AtomicBool::new(false),
            lost: Mutex::new(false),
            has_told: AtomicBool::new(false),
            told_early: AtomicU64::new(0),
            fences,
        }
    }

    /// The thread takes a seat. For the thread alone, or before it starts.
    pub(crate) fn begin(&self) {
        *self.lost.lock() = false;
        // Relaxed, all: nobody contests a seat that nobody holds.
        self.has_told.store(false, Ordering::Relaxed);
        self.contested.store(false, Ordering::Relaxed);
        let before = self.since.swap(0, Ordering::Relaxed);
        debug_assert_eq!(before, 0, "a poll is under way");
    }

    /// The thread has no seat: it belongs to the heavy pool. For the thread alone.
    pub(crate) fn begin_without_seat(&self) {
        *self.lost.lock() = true;
        // Relaxed: as in `begin`.
        self.contested.store(true, Ordering::Relaxed);
        self.tell();
    }

    /// The thread is about to tell of the poll that began at `since`, which is as good as over.
    /// Returns false if the poll has cost it the seat: then it tells afterwards. For the thread
    /// alone.
    pub(crate) fn tell_early(&self, since: u64) -> bool {
        let lost = self.lost.lock();
        if !*lost {
            // Relaxed, here and below: under the lock, or by this thread.
            self.told_early.store(since, Ordering::Relaxed);
        }
        !*lost
    }

    /// Whether the thread told early of the poll that began at `since`. For the thread, and for an
    /// heir with a claim.
    pub(crate) fn has_told_early(&self, since: u64) -> bool {
        self.told_early.load(Ordering::Relaxed) == since
    }

    /// The thread has told of the poll that cost it its seat, which it does after that poll's end.
    /// Of all other polls it tells before they end. For the thread alone.
    pub(crate) fn tell(&self) {
        // Release pairs with the Acquire in `is_about_to_tell`: whoever sees it sees what was told.
        self.has_told.store(true, Ordering::Release);
    }

    /// Whether the thread, which is between polls, may still tell of the poll that is over.
    pub(crate) fn is_about_to_tell(&self) -> bool {
        // Acquire pairs with the Release in `tell`.
        self.is_contested() && !self.has_told.load(Ordering::Acquire)
    }

    /// A poll begins. For the thread alone.
    #[inline]
    pub(crate) fn begin_poll(&self, now: u64) {
        // Release pairs with the Acquire in `polling_since`: the heir sees what the holder did with
        // the seat before. Relaxed: only this thread stores.
        debug_assert_eq!(self.since.load(Ordering::Relaxed), 0, "one poll at a time");
        self.since.store(now, Ordering::Release);
    }

    /// A poll has ended. Returns whether the thread still has its seat. For the thread alone.
    #[inline]
    #[must_use]
    pub(crate) fn end_poll(&self) -> bool {
        // Relaxed, all: ordered by the fence between them.
        debug_assert_ne!(
            self.since.load(Ordering::Relaxed),
            0,
            "no poll is under way"
        );
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

    /// Where [`polling_since`](Tenure::polling_since) is. Only the thread itself stores it.
    #[cfg(not(evenkeel_loom))]
    pub(crate) fn since(&self) -> &AtomicU64 {
        &self.since
    }

    /// Whether the seat may be lost or about to be: tasks that are woken should go elsewhere. A
    /// hint.
    #[inline]
    pub(crate) fn is_contested(&self) -> bool {
        // Relaxed: it only decides where a task waits, and all those places are searched.
        self.contested.load(Ordering::Relaxed)
    }

    /// Whether the poll that is under way has cost the thread its seat; it may still do so later.
    /// Waits while a claim is being decided. For the thread alone.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        // A claim for an earlier poll takes nothing, and says nothing about this one.
        self.is_contested() && !self.resolve()
    }

    /// For an heir: takes the seat from the thread, if the thread is still in the poll that began
    /// at `since`, no other heir has taken the seat, and the fence works. While the heir holds the
    /// claim, the thread that lost its seat cannot leave that poll.
    #[must_use]
    pub(crate) fn claim(&self, since: u64) -> Option<Claim<'_>> {
        let mut lost = self.lost.lock();
        if *lost {
            // Another heir was faster.
            return None;
        }
        // Relaxed, all: ordered by the fence and the lock.
        debug_assert!(!self.is_contested(), "an heir holds the lock");
        self.contested.store(true, Ordering::Relaxed);
        let ordered = self.fences.heavy();
        *lost = ordered && since != 0 && self.since.load(Ordering::Acquire) == since;
        if !*lost {
            self.contested.store(false, Ordering::Relaxed);
            return None;
        }
        Some(Claim { _lost: lost })
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
impl Tenure {
    /// A claim for a poll that is over, which lasts as long as `meanwhile`.
    pub(crate) fn claim_in_vain(&self, meanwhile: impl FnOnce()) {
        let lost = self.lost.lock();
        self.contested.store(true, Ordering::SeqCst);
        meanwhile();
        self.contested.store(false, Ordering::SeqCst);
        drop(lost);
    }
}

/// A claim that took a seat. The thread that lost the seat finds out when this is dropped.
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
