//! The queue for tasks that are woken outside the workers: unbounded, and pushing neither locks nor
//! allocates.
//!
//! # Contract
//!
//! - Entries carry their own link ([`Link`]), which belongs to the queue while they are in it.
//! - Pushers put entries on a stack with one compare-and-swap. Takers, who hold the backlog's lock,
//!   swap the whole stack out, reverse it, and hand it out in the order of pushing. Single entries
//!   are never taken off the stack, so there is no ABA.
//! - After [`close`](InjectionQueue::close) every push gives its entry back. Earlier entries are
//!   still handed out.
//! - It is no longer than there are tasks, each of which is in it at most once.
//! - A push releases the stack, and `unstack` and `close` acquire it: the links and entries are
//!   visible. (Each push is a read-modify-write, so all pushes are one release sequence.) Links and
//!   the backlog's length are Relaxed, as the stack or the backlog's lock orders them.
#![allow(unsafe_code, reason = "entries are linked by pointers in themselves")]

use std::ptr::{self, NonNull};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use super::bounded_queue::Apart;
use super::task::link::Link;

/// An unbounded first-in-first-out queue with any number of pushers and takers.
#[derive(Debug)]
pub(crate) struct InjectionQueue<T> {
    front: Apart<Front<T>>,
    /// The backlog's length; written under its lock, read without.
    backlog_len: AtomicUsize,
    backlog: Mutex<Backlog<T>>,
}

/// What pushers and takers contend for, in one cache line.
#[derive(Debug)]
struct Front<T> {
    /// The newest entry, linked to older ones; null when empty, [`closed`] once closed.
    stack: AtomicPtr<T>,
    /// Since when the oldest entry of the stack is ready: that of the entry which was pushed when
    /// the stack was empty, or of one that was about to be. A statistic.
    since: AtomicU64,
}

/// Entries taken off the stack and not handed out yet, oldest first.
#[derive(Debug)]
struct Backlog<T> {
    first: *mut T,
    last: *mut T,
}

// SAFETY: the entries in a backlog belong to the queue, as `push` says, and are touched under the
// backlog's lock. They may change threads because `push` requires it.
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
                since: AtomicU64::new(0),
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
        // Relaxed, both: a hint. Before parking, the caller's SeqCst fence pairs with the one that
        // pushers run before they look for a parked worker.
        let stack = self.front.0.stack.load(Ordering::Relaxed);
        (stack.is_null() || stack == closed()) && self.backlog_len.load(Ordering::Relaxed) == 0
    }

    /// Appends an entry, or gives it back if the injection queue is closed.
    ///
    /// # Safety
    ///
    /// The entry must stay valid, and be in no other injection queue, until it is handed out; the
    /// thread that receives it must be allowed to.
    #[inline]
    pub(crate) unsafe fn push(&self, entry: NonNull<T>) -> Result<(), NonNull<T>> {
        // Relaxed: pushers compare and store the value and never follow it.
        let mut newest = self.front.0.stack.load(Ordering::Relaxed);
        loop {
            if newest == closed() {
                return Err(entry);
            }
            // SAFETY: the caller vouches for the entry's validity until it is received.
            let (link, since) = unsafe { (entry.as_ref().link(), entry.as_ref().since()) };
            // Relaxed and Release: see the contract.
            link.store(newest, Ordering::Relaxed);
            if newest.is_null() {
                // Relaxed: published by the push.
                self.front.0.since.store(since, Ordering::Relaxed);
            }
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

    /// How many entries wait; of those that came since the last were taken, at most `limit` are
    /// counted, as takers wait meanwhile. Takes nothing: a worker about to park must not see a
    /// stack that is empty for a moment.
    pub(crate) fn len(&self, limit: usize) -> usize {
        let _backlog = self.backlog.lock();
        // Relaxed: written under the lock that is held.
        let mut count = self.backlog_len.load(Ordering::Relaxed);
        // Acquire pairs with the Release of every push.
        let mut next = self.front.0.stack.load(Ordering::Acquire);
        let last = count.saturating_add(limit);
        while next != closed()
            && count < last
            && let Some(entry) = NonNull::new(next)
        {
            // SAFETY: entries are taken off the stack under the lock that is held, and are valid
            // until then, by `push`.
            let link = unsafe { entry.as_ref() }.link();
            // Relaxed: published by the push.
            next = link.load(Ordering::Relaxed);
            count += 1;
        }
        count
    }

    /// Since when the entry that came first is ready, in cycles; `None` if there is none.
    pub(crate) fn oldest(&self) -> Option<u64> {
        let backlog = self.backlog.lock();
        if let Some(first) = NonNull::new(backlog.first) {
            // SAFETY: entries in the backlog are valid until received, which needs the lock.
            return Some(unsafe { first.as_ref() }.since());
        }
        // Acquire pairs with the Release of every push, or an entry would be taken for as old as
        // one that was here long ago. Relaxed: published by the push.
        let newest = self.front.0.stack.load(Ordering::Acquire);
        let is_empty = newest.is_null() || newest == closed();
        (!is_empty).then(|| self.front.0.since.load(Ordering::Relaxed))
    }

    /// Hands out at most `limit` entries, oldest first. Returns how many. `receive` runs under a
    /// lock, and must not run code of the user's.
    pub(crate) fn take(&self, limit: usize, mut receive: impl FnMut(NonNull<T>)) -> usize {
        let mut backlog = self.backlog.lock();
        // Relaxed, here and below: see the contract.
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
            backlog.first = link.load(Ordering::Relaxed);
            receive(entry);
        }
        debug_assert_eq!(backlog.first.is_null(), len == count, "its length is known");
        if backlog.first.is_null() {
            backlog.last = ptr::null_mut();
        }
        self.backlog_len.store(len - count, Ordering::Relaxed);
        count
    }

    /// Moves the stack to the end of the backlog, in the order of pushing. Returns how many.
    fn unstack(&self, backlog: &mut Backlog<T>) -> usize {
        // Relaxed: `close` needs the lock that is held here, so the stack is not closed meanwhile.
        let newest = self.front.0.stack.load(Ordering::Relaxed);
        if newest.is_null() || newest == closed() {
            return 0;
        }
        // Acquire: see the contract.
        let newest = self.front.0.stack.swap(ptr::null_mut(), Ordering::Acquire);
        self.append(backlog, newest)
    }

    /// Reverses a chain that begins with the newest entry, and appends it to the backlog. Returns
    /// its length.
    fn append(&self, backlog: &mut Backlog<T>, newest: *mut T) -> usize {
        debug_assert_eq!(backlog.first.is_null(), backlog.last.is_null());
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
                // SAFETY: as above; `last` is in the backlog.
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

    /// Refuses all entries from now on. Earlier ones are still handed out by `take`.
    pub(crate) fn close(&self) {
        let mut backlog = self.backlog.lock();
        // Acquire, and Relaxed below: see the contract.
        let newest = self.front.0.stack.swap(closed(), Ordering::Acquire);
        if newest == closed() {
            return;
        }
        let len = self.backlog_len.load(Ordering::Relaxed);
        let more = self.append(&mut backlog, newest);
        self.backlog_len.store(len + more, Ordering::Relaxed);
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models;
