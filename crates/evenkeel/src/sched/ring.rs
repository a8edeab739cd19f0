//! The bounded part of a run queue: a ring that one thread fills and any thread may take from.
//!
//! # Contract
//!
//! - Only the thread at the ring's desk calls [`push`](Ring::push), and only it is the
//!   destination of [`steal_into`](Ring::steal_into). Everything else is for any thread.
//! - `head` and `tail` count all entries ever taken and pushed. Entry `i` lies in slot
//!   `i % CAPACITY`. 64 bits do not wrap within the life of a machine, so an index is never seen
//!   twice and there is no ABA.
//! - **Invariant:** the entry at `head` is stable until `head` moves. The pusher reuses a slot
//!   only after it saw `head` beyond the slot's entry, and whoever takes entries first copies
//!   them and then moves `head` by compare-and-swap from the value it read. If a slot was
//!   overwritten meanwhile, `head` had moved, so the swap fails and the copy is thrown away.
//!
//! The idea of copying first and claiming by one compare-and-swap is the one of Go's run queue
//! (`runqgrab`); its indices are 32 bits and wrap.

use std::ptr::{self, NonNull};

use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// How many entries a ring holds. What does not fit waits behind a lock, so this covers the bursts
/// of one I/O check (256 events). Models use a small ring so that it fills and wraps within few
/// steps.
#[cfg(not(evenkeel_loom))]
pub(crate) const CAPACITY: usize = 256;
#[cfg(evenkeel_loom)]
pub(crate) const CAPACITY: usize = 4;

/// Keeps what different threads write apart, so that they do not fight for one cache line.
/// 128 bytes because x86 prefetches lines in pairs.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Apart<T>(pub(crate) T);

/// A bounded first-in-first-out queue with one pusher and any number of takers.
#[derive(Debug)]
pub(crate) struct Ring<T> {
    /// Entries taken so far. Moved by whoever takes, with compare-and-swap.
    head: Apart<AtomicU64>,
    /// Entries pushed so far. Written by the pusher alone.
    tail: Apart<AtomicU64>,
    slots: Box<[AtomicPtr<T>]>,
}

impl<T> Ring<T> {
    pub(crate) fn new() -> Self {
        Self {
            head: Apart(AtomicU64::new(0)),
            tail: Apart(AtomicU64::new(0)),
            slots: (0..CAPACITY)
                .map(|_| AtomicPtr::new(ptr::null_mut()))
                .collect(),
        }
    }

    #[inline]
    fn slot(&self, entry: u64) -> &AtomicPtr<T> {
        // CAPACITY is a power of two and `slots` has exactly that many, so the index is in range.
        &self.slots[entry as usize & (CAPACITY - 1)]
    }

    /// How many entries wait here; exact only for the pusher while nobody takes.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // Relaxed: a hint; whoever acts on it goes through `pop` or `steal_into`.
        let tail = self.tail.0.load(Ordering::Relaxed);
        let head = self.head.0.load(Ordering::Relaxed);
        tail.saturating_sub(head) as usize
    }

    /// Appends an entry, or gives it back when the ring is full. For the seat's holder alone.
    #[inline]
    pub(crate) fn push(&self, entry: NonNull<T>) -> Result<(), NonNull<T>> {
        // Relaxed: only this thread writes `tail`.
        let tail = self.tail.0.load(Ordering::Relaxed);
        // Acquire pairs with the takers' Release in `claim`: they are done with the slot.
        let head = self.head.0.load(Ordering::Acquire);
        if tail - head >= CAPACITY as u64 {
            return Err(entry);
        }
        // Relaxed: published by the store to `tail`.
        self.slot(tail).store(entry.as_ptr(), Ordering::Relaxed);
        // Release pairs with the takers' Acquire of `tail`: the slot is filled.
        self.tail.0.store(tail + 1, Ordering::Release);
        Ok(())
    }

    /// Takes the oldest entry.
    #[inline]
    pub(crate) fn pop(&self) -> Option<NonNull<T>> {
        loop {
            // Acquire, both: pairs with `claim` and with `push`. `head` first, so that the `tail`
            // that follows is never behind it.
            let head = self.head.0.load(Ordering::Acquire);
            let tail = self.tail.0.load(Ordering::Acquire);
            if tail <= head {
                return None;
            }
            // Relaxed: ordered by the Acquire of `tail`, validated by `claim`.
            let entry = self.slot(head).load(Ordering::Relaxed);
            if self.claim(head, 1) {
                return NonNull::new(entry);
            }
        }
    }

    /// The oldest entry: a hint, which others may take at the same time.
    #[inline]
    pub(crate) fn first(&self) -> *const T {
        // Relaxed, both: nobody looks at what it points to.
        let head = self.head.0.load(Ordering::Relaxed);
        self.slot(head).load(Ordering::Relaxed)
    }

    /// Moves half of the entries, rounded up, but at most `limit`, to `destination`, whose seat
    /// the calling thread holds. Returns how many.
    pub(crate) fn steal_into(&self, destination: &Ring<T>, limit: usize) -> usize {
        // Relaxed: the calling thread is the destination's only pusher.
        let free_from = destination.tail.0.load(Ordering::Relaxed);
        // Acquire pairs with `claim` by takers of the destination: they are done with the slots.
        let room = CAPACITY as u64 - (free_from - destination.head.0.load(Ordering::Acquire));
        loop {
            // As in `pop`.
            let head = self.head.0.load(Ordering::Acquire);
            let tail = self.tail.0.load(Ordering::Acquire);
            let waiting = tail.saturating_sub(head).min(CAPACITY as u64);
            let count = waiting.div_ceil(2).min(limit as u64).min(room);
            if count == 0 {
                return 0;
            }
            for offset in 0..count {
                // Relaxed: as in `pop`; the destination's slots are free until its `tail` moves.
                let entry = self.slot(head + offset).load(Ordering::Relaxed);
                destination
                    .slot(free_from + offset)
                    .store(entry, Ordering::Relaxed);
            }
            if self.claim(head, count) {
                // Release pairs with the Acquire of `tail` by takers of the destination.
                destination
                    .tail
                    .0
                    .store(free_from + count, Ordering::Release);
                return count as usize;
            }
        }
    }

    /// Takes possession of the `count` entries from `head` on, if nobody else took any.
    #[inline]
    fn claim(&self, head: u64, count: u64) -> bool {
        // AcqRel: Release tells the pusher that the slots were read; Acquire orders successive
        // takers. Relaxed on failure: the caller starts over with an Acquire load.
        self.head
            .0
            .compare_exchange(head, head + count, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models;
