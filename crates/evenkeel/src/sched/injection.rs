//! The way into a runtime from outside its workers: an unbounded queue on which pushing never
//! locks and never allocates.
//!
//! # Contract
//!
//! - Entries carry their own link ([`Link`]), which belongs to the injection queue while they are
//!   in it.
//! - Pushers put entries on a stack with one compare-and-swap. Takers, who hold the backlog's
//!   lock, swap the whole stack out, turn it around, and hand it out in the order of pushing.
//!   Nobody takes single entries off the stack, so there is no ABA.
//! - After [`close`](InjectionQueue::close) every push gives its entry back. What was pushed before
//!   is still handed out.
//! - It grows with the number of tasks, each of which is in it at most once; it allocates nothing.
#![allow(unsafe_code, reason = "entries are linked by pointers in themselves")]

use std::ptr::{self, NonNull};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::ring::Apart;
use super::task::cell::Link;

/// An unbounded first-in-first-out queue with any number of pushers and takers.
#[derive(Debug)]
pub(crate) struct InjectionQueue<T> {
    front: Apart<Front<T>>,
    /// How many entries the backlog has; written under its lock, read without.
    backlog_len: AtomicUsize,
    backlog: Mutex<Backlog<T>>,
}

/// What pushers and takers fight for, in one cache line.
#[derive(Debug)]
struct Front<T> {
    /// The newest entry, linked to older ones; null when empty, [`closed`] for good at the end.
    stack: AtomicPtr<T>,
}

/// Entries taken off the stack and not yet handed out, oldest first, as links.
#[derive(Debug)]
struct Backlog<T> {
    first: *mut T,
    last: *mut T,
}

// SAFETY: the pointers in a backlog are entries that the injection queue owns, as `push` says;
// access to them goes through the backlog's lock. Entries may change threads because `push`
// requires it.
unsafe impl<T: Send> Send for Backlog<T> {}

/// The stack's value after closing: an address that no entry has, as entries are aligned.
fn closed<T>() -> *mut T {
    ptr::without_provenance_mut(1)
}

impl<T: Link> InjectionQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            front: Apart(Front {
                stack: AtomicPtr::new(ptr::null_mut()),
            }),
            backlog_len: AtomicUsize::new(0),
            backlog: Mutex::new(Backlog {
                first: ptr::null_mut(),
                last: ptr::null_mut(),
            }),
        }
    }

    /// Whether there is nothing to take. Callers that park on it put a fence before.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed, both: a hint on the hot path; before parking, the caller's SeqCst fence pairs
        // with the one that pushers run before they look for a parked worker.
        let stack = self.front.0.stack.load(Ordering::Relaxed);
        (stack.is_null() || stack == closed()) && self.backlog_len.load(Ordering::Relaxed) == 0
    }

    /// Appends an entry, or gives it back if the injection queue is closed.
    ///
    /// # Safety
    ///
    /// The entry must stay valid, and be in no other injection queue, until a taker has received
    /// it; the taker must be allowed to receive it on another thread.
    #[inline]
    pub(crate) unsafe fn push(&self, entry: NonNull<T>) -> Result<(), NonNull<T>> {
        // Relaxed: the value is only compared and stored, never followed, by pushers.
        let mut newest = self.front.0.stack.load(Ordering::Relaxed);
        loop {
            if newest == closed() {
                return Err(entry);
            }
            // SAFETY: the caller vouches for the entry's validity until it is received.
            let link = unsafe { entry.as_ref() }.link();
            // Relaxed: published by the swap below.
            link.store(newest, Ordering::Relaxed);
            // Release pairs with the takers' Acquire swap: they see the link and the entry.
            match self.front.0.stack.compare_exchange_weak(
                newest,
                entry.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => newest = now,
            }
        }
    }

    /// How many entries wait.
    #[cfg(feature = "drop-in")]
    pub(crate) fn len(&self) -> usize {
        let mut backlog = self.backlog.lock();
        // Relaxed, both: written under the lock alone.
        let len = self.backlog_len.load(Ordering::Relaxed) + self.unstack(&mut backlog);
        self.backlog_len.store(len, Ordering::Relaxed);
        len
    }

    /// Hands out at most `limit` entries, oldest first. Returns how many. `receive` runs under a
    /// lock, and must not run code of the user's.
    pub(crate) fn take(&self, limit: usize, mut receive: impl FnMut(NonNull<T>)) -> usize {
        let mut backlog = self.backlog.lock();
        // Relaxed, here and below: written under the lock alone.
        let mut len = self.backlog_len.load(Ordering::Relaxed);
        if len < limit {
            len += self.unstack(&mut backlog);
        }
        let count = len.min(limit);
        for _ in 0..count {
            let Some(entry) = NonNull::new(backlog.first) else {
                break;
            };
            // SAFETY: entries in the backlog are valid until received, by `push`.
            let link = unsafe { entry.as_ref() }.link();
            // Relaxed: written under the lock that is held.
            backlog.first = link.load(Ordering::Relaxed);
            receive(entry);
        }
        if backlog.first.is_null() {
            backlog.last = ptr::null_mut();
        }
        self.backlog_len.store(len - count, Ordering::Relaxed);
        count
    }

    /// Moves the stack to the end of the backlog, in the order of pushing. Returns how many.
    fn unstack(&self, backlog: &mut Backlog<T>) -> usize {
        // Relaxed: `close` holds the lock that is held here, so a closed stack is seen as such.
        let newest = self.front.0.stack.load(Ordering::Relaxed);
        if newest.is_null() || newest == closed() {
            return 0;
        }
        // Acquire pairs with the Release of every push whose entry is received here (a release
        // sequence: each push is a read-modify-write of the same location).
        let newest = self.front.0.stack.swap(ptr::null_mut(), Ordering::Acquire);
        self.append(backlog, newest)
    }

    /// Turns a chain from newest to oldest around and appends it to the backlog.
    fn append(&self, backlog: &mut Backlog<T>, newest: *mut T) -> usize {
        let mut count = 0;
        let mut first: *mut T = ptr::null_mut();
        let mut rest = newest;
        while let Some(entry) = NonNull::new(rest) {
            // SAFETY: entries on the stack are valid until received, by `push`.
            let link = unsafe { entry.as_ref() }.link();
            // Relaxed: the chain belongs to this thread since the swap.
            rest = link.load(Ordering::Relaxed);
            link.store(first, Ordering::Relaxed);
            first = entry.as_ptr();
            count += 1;
        }
        match NonNull::new(backlog.last) {
            None => backlog.first = first,
            Some(last) => {
                // SAFETY: as above; `last` is in the backlog, not yet received.
                unsafe { last.as_ref() }
                    .link()
                    .store(first, Ordering::Relaxed);
            }
        }
        if count > 0 {
            backlog.last = newest;
        }
        count
    }

    /// Refuses all entries from now on. What is inside is still handed out by `take`.
    pub(crate) fn close(&self) {
        let mut backlog = self.backlog.lock();
        // Acquire: as in `unstack`.
        let newest = self.front.0.stack.swap(closed(), Ordering::Acquire);
        if newest == closed() {
            return;
        }
        // Relaxed: written under the lock alone.
        let len = self.backlog_len.load(Ordering::Relaxed);
        let more = self.append(&mut backlog, newest);
        self.backlog_len.store(len + more, Ordering::Relaxed);
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models;
