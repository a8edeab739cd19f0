//! The bounded part of a run queue: one thread pushes, and any thread may take.
//!
//! # Contract
//!
//! - Only the thread at the queue's desk calls [`push`](BoundedQueue::push), and only for it is the
//!   queue the destination of [`steal_into`](BoundedQueue::steal_into). All other functions are for
//!   any thread.
//! - `head` and `tail` count all entries ever taken and pushed. Entry `i` is in slot `i %
//!   CAPACITY`. 64 bits do not wrap within the life of a machine, so no index is seen twice, and
//!   there is no ABA.
//! - **Invariant:** the entry at `head` is stable until `head` moves. The pusher reuses a slot only
//!   after it saw `head` beyond the slot's entry. A thread that takes entries copies them first,
//!   and then moves `head` by compare-and-swap from the value it read. If a slot was overwritten
//!   meanwhile, `head` had moved, so the swap fails and the copy is discarded.
//! - Release and Acquire: `push` and `steal_into` release `tail`, and a taker acquires it: the
//!   slots are filled. `take` releases `head`, and the pusher acquires it: the slots were read.
//!   Slots are Relaxed, as `head` and `tail` order them.
//!
//! The slots are made for the first push, as a thread has a queue for each class, and most of them
//! are never used.
//!
//! - **Invariant:** the pointer to the slots is null or from a box, is set once, by the pusher, and
//!   the box is freed with the queue. A taker reads it after it has seen an entry by `tail`.
//!
//! Go's run queue (`runqgrab`) copies first and takes by one compare-and-swap as well; its indices
//! have 32 bits and wrap.
#![allow(unsafe_code, reason = "the slots are made later than the queue")]

use std::ptr::{self, NonNull};

use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// How many entries fit. The rest waits behind a lock, so this covers the bursts of one I/O check
/// (256 events). Models use a small queue that fills and wraps within few steps.
#[cfg(not(evenkeel_loom))]
pub(crate) const CAPACITY: usize = 256;
#[cfg(evenkeel_loom)]
pub(crate) const CAPACITY: usize = 4;

/// Keeps values that different threads write in different cache lines. 128 bytes because x86
/// prefetches lines in pairs.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Apart<T>(pub(crate) T);

/// A bounded first-in-first-out queue with one pusher and any number of takers.
#[derive(Debug)]
pub(crate) struct BoundedQueue<T> {
    /// Entries taken so far. Moved by takers, with compare-and-swap.
    head: Apart<AtomicU64>,
    /// Entries pushed so far. Written by the pusher alone.
    tail: Apart<AtomicU64>,
    slots: AtomicPtr<Slots<T>>,
}

type Slots<T> = [AtomicPtr<T>; CAPACITY];

impl<T> BoundedQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            head: Apart(AtomicU64::new(0)),
            tail: Apart(AtomicU64::new(0)),
            slots: AtomicPtr::new(ptr::null_mut()),
        }
    }

    #[inline]
    fn slots(&self) -> Option<&Slots<T>> {
        // Relaxed: ordered by `tail`, as the entries are.
        let slots = self.slots.load(Ordering::Relaxed);
        // SAFETY: null, or a box's that is freed with the queue, by the contract.
        unsafe { slots.as_ref() }
    }

    /// For the pusher, if there are none.
    #[cold]
    fn make_slots(&self) -> &Slots<T> {
        debug_assert!(self.slots().is_none(), "they are made once");
        let slots = std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        let slots = Box::into_raw(Box::new(slots));
        // Relaxed: as in `slots`.
        self.slots.store(slots, Ordering::Relaxed);
        // SAFETY: as in `slots`.
        unsafe { &*slots }
    }

    /// How many entries wait here; exact only for the pusher while nobody takes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a hint; `pop` and `steal_into` decide.
        let tail = self.tail.0.load(Ordering::Relaxed);
        let head = self.head.0.load(Ordering::Relaxed);
        tail.saturating_sub(head) as usize
    }

    /// Appends an entry, or gives it back when the queue is full. For the thread at the desk alone.
    #[inline]
    pub(crate) fn push(&self, entry: NonNull<T>) -> Result<(), NonNull<T>> {
        // Relaxed: only this thread writes `tail`.
        let tail = self.tail.0.load(Ordering::Relaxed);
        // Acquire, and all below: see the contract.
        let head = self.head.0.load(Ordering::Acquire);
        debug_assert!(tail - head <= CAPACITY as u64, "{head}..{tail}");
        if tail - head >= CAPACITY as u64 {
            return Err(entry);
        }
        let slots = self.slots().unwrap_or_else(|| self.make_slots());
        slot(slots, tail).store(entry.as_ptr(), Ordering::Relaxed);
        self.tail.0.store(tail + 1, Ordering::Release);
        Ok(())
    }

    #[inline]
    pub(crate) fn pop(&self) -> Option<NonNull<T>> {
        loop {
            // Acquire, both: see the contract. `head` first, so that `tail` is never behind it.
            let head = self.head.0.load(Ordering::Acquire);
            let tail = self.tail.0.load(Ordering::Acquire);
            if tail <= head {
                return None;
            }
            let entry = slot(self.slots()?, head).load(Ordering::Relaxed);
            if self.take(head, 1) {
                debug_assert!(!entry.is_null(), "a slot before `tail` is filled");
                return NonNull::new(entry);
            }
        }
    }

    /// The oldest entry: a hint, as others may take it at the same time. For the thread at the
    /// desk.
    #[inline]
    pub(crate) fn first(&self) -> *const T {
        // Relaxed, both: the pointer is not followed.
        let head = self.head.0.load(Ordering::Relaxed);
        let slots = self.slots();
        let entry = slots.map(|slots| slot(slots, head).load(Ordering::Relaxed));
        entry.unwrap_or(ptr::null_mut())
    }

    /// Moves half of the entries, rounded up, but at most `limit`, to `destination`, at whose desk
    /// the calling thread sits. Returns how many.
    pub(crate) fn steal_into(&self, destination: &BoundedQueue<T>, limit: usize) -> usize {
        debug_assert!(
            !ptr::eq(self, destination),
            "a thief does not steal from itself"
        );
        // Relaxed: the calling thread is the destination's only pusher. Acquire, and all below: see
        // the contract.
        let free_from = destination.tail.0.load(Ordering::Relaxed);
        let room = CAPACITY as u64 - (free_from - destination.head.0.load(Ordering::Acquire));
        loop {
            // As in `pop`.
            let head = self.head.0.load(Ordering::Acquire);
            let tail = self.tail.0.load(Ordering::Acquire);
            let waiting = tail.saturating_sub(head).min(CAPACITY as u64);
            let count = waiting.div_ceil(2).min(limit as u64).min(room);
            let slots = self.slots();
            let Some(slots) = slots.filter(|_| count > 0) else {
                return 0;
            };
            let free = destination.slots();
            let free = free.unwrap_or_else(|| destination.make_slots());
            // Relaxed, both: see the contract.
            for offset in 0..count {
                let entry = slot(slots, head + offset).load(Ordering::Relaxed);
                slot(free, free_from + offset).store(entry, Ordering::Relaxed);
            }
            if self.take(head, count) {
                // Release: see the contract.
                destination
                    .tail
                    .0
                    .store(free_from + count, Ordering::Release);
                return count as usize;
            }
        }
    }

    /// Takes the `count` entries from `head` on, unless another thread took any.
    #[inline]
    fn take(&self, head: u64, count: u64) -> bool {
        // AcqRel: Release as in the contract; Acquire orders successive takers. Relaxed on failure:
        // the caller starts over with an Acquire load.
        self.head
            .0
            .compare_exchange(head, head + count, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

#[inline]
fn slot<T>(slots: &Slots<T>, entry: u64) -> &AtomicPtr<T> {
    // CAPACITY is a power of two, so the index is in range.
    &slots[entry as usize & (CAPACITY - 1)]
}

impl<T> Drop for BoundedQueue<T> {
    fn drop(&mut self) {
        // Relaxed: nobody else has the queue.
        let slots = self.slots.load(Ordering::Relaxed);
        if !slots.is_null() {
            // SAFETY: from a box, by the contract, and not used any more.
            drop(unsafe { Box::from_raw(slots) });
        }
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models;
