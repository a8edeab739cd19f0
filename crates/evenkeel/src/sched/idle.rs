//! Who is asleep, who is looking for work, and whom to wake.
//!
//! # The protocol
//!
//! A worker that runs out of work first *searches* (injection queues, other workers' run queues),
//! then *parks*. A thread that has pushed an entry from outside the workers calls
//! [`Idle::to_wake`].
//!
//! ```text
//!  pusher                              worker about to park
//!  1. push to the injection queue      1. enlist as parked (and stop searching)
//!  2. fence(SeqCst)                    2. fence(SeqCst)
//!  3. anyone searching? parked?        3. anything in the injection queues?
//! ```
//!
//! Of two SeqCst fences one comes first. If the pusher's does, the worker sees the entry in its
//! step 3 and does not sleep. If the worker's does, the pusher sees it as parked and no longer
//! searching, and wakes it. So no wake-up is lost: an entry never waits while all workers sleep.
//! The counts are Relaxed throughout, as the fences and the lock of `parked` order them.
//!
//! While a worker searches, pushers wake no other: the searching worker will find the entry, or see
//! it in its step 3. So at most one worker is woken until it has found work or parked again, and a
//! burst of pushes does not wake all workers.

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, MutexGuard};

/// The set of parked workers and the number of searching ones.
///
/// Aligned, so that its writes share no cache line with what others read.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Idle {
    /// How many workers search, or were woken to do so.
    searching: AtomicUsize,
    /// The length of `parked`, for a look without the lock.
    parked_len: AtomicUsize,
    /// Parked workers; the last one parked is woken first, as its caches are warmest.
    parked: Mutex<Vec<usize>>,
    /// The monitor sleeps until a worker wakes.
    monitor_sleeps: AtomicBool,
    workers: usize,
}

impl Idle {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            searching: AtomicUsize::new(0),
            parked_len: AtomicUsize::new(0),
            parked: Mutex::new(Vec::with_capacity(workers)),
            monitor_sleeps: AtomicBool::new(false),
            workers,
        }
    }

    /// Starts to search, unless half of the workers do: more would get in each other's way.
    pub(crate) fn start_search(&self) -> bool {
        // Relaxed, both: a race may overshoot the limit for a moment, and every searching worker
        // runs the fence of `park` or `stop_search` afterwards.
        if 2 * self.searching.load(Ordering::Relaxed) >= self.workers {
            return false;
        }
        self.count_searching();
        true
    }

    /// Stops searching because work was found. Returns whether no worker searches any more: pushers
    /// relied on the caller, which has to look whether there is more work than it can do.
    #[must_use]
    pub(crate) fn stop_search(&self) -> bool {
        let last = self.discount_searching();
        // SeqCst pairs with the fence in `to_wake`: either the pusher sees that no worker searches,
        // or the caller sees the entry that was pushed.
        fence(Ordering::SeqCst);
        last
    }

    /// Lists the worker as parked. The caller then looks at all queues once more, and calls
    /// [`unpark`](Idle::unpark) if it finds a task.
    pub(crate) fn park(&self, worker: usize, searching: bool) {
        let mut parked = self.lock_parked();
        debug_assert!(parked.len() < self.workers, "each worker parks once");
        parked.push(worker);
        self.note_parked(&parked);
        drop(parked);
        if searching {
            self.discount_searching();
        }
        // SeqCst pairs with the fence in `to_wake`; see the module's documentation.
        fence(Ordering::SeqCst);
    }

    /// Takes the worker off the list. Returns whether another thread had done so: then the worker
    /// was woken to search, and counts as searching.
    #[must_use]
    pub(crate) fn unpark(&self, worker: usize) -> bool {
        let mut parked = self.lock_parked();
        match parked.iter().rposition(|&other| other == worker) {
            Some(position) => {
                parked.remove(position);
                self.note_parked(&parked);
                false
            }
            None => true,
        }
    }

    /// For the monitor: whether it may sleep until it is roused, as all workers are parked.
    #[must_use]
    pub(crate) fn monitor_may_sleep(&self) -> bool {
        // Relaxed, both: ordered by the fence.
        self.monitor_sleeps.store(true, Ordering::Relaxed);
        // SeqCst pairs with the fence in `rouses_monitor`: either that worker sees that the monitor
        // sleeps, or the monitor sees here that the worker is not parked.
        fence(Ordering::SeqCst);
        let may_sleep = self.parked_len.load(Ordering::Relaxed) == self.workers;
        if !may_sleep {
            self.monitor_sleeps.store(false, Ordering::Relaxed);
        }
        may_sleep
    }

    /// For a worker that is no longer parked: whether it has to rouse the monitor.
    #[must_use]
    #[inline]
    pub(crate) fn rouses_monitor(&self) -> bool {
        // SeqCst pairs with the fence in `monitor_may_sleep`.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence. The swap, so that only one of several workers rouses it.
        self.monitor_sleeps.load(Ordering::Relaxed)
            && self.monitor_sleeps.swap(false, Ordering::Relaxed)
    }

    /// Whether a worker is parked, so that its processor may be free: a hint.
    #[inline]
    pub(crate) fn has_parked(&self) -> bool {
        // Relaxed: a hint.
        self.parked_len.load(Ordering::Relaxed) > 0
    }

    /// Whether a worker is parked and none searches: a hint. For workers with more work than they
    /// can do soon, which do not depend on it.
    #[inline]
    pub(crate) fn has_help(&self) -> bool {
        // Relaxed: a hint.
        self.has_parked() && self.searching.load(Ordering::Relaxed) == 0
    }

    /// The worker to wake after a push from outside the workers, if one has to be woken. It counts
    /// as searching from now on.
    #[inline]
    pub(crate) fn to_wake(&self) -> Option<usize> {
        // SeqCst pairs with the fences in `park` and `stop_search`.
        fence(Ordering::SeqCst);
        if self.has_help() {
            self.enlist_searcher()
        } else {
            None
        }
    }

    #[cold]
    fn enlist_searcher(&self) -> Option<usize> {
        let mut parked = self.lock_parked();
        // Relaxed: a worker that begins to search meanwhile only makes this wake-up unnecessary.
        if self.searching.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let worker = parked.pop()?;
        self.note_parked(&parked);
        self.count_searching();
        Some(worker)
    }

    fn lock_parked(&self) -> MutexGuard<'_, Vec<usize>> {
        let parked = self.parked.lock();
        // Relaxed: written under the lock.
        debug_assert_eq!(self.parked_len.load(Ordering::Relaxed), parked.len());
        parked
    }

    fn note_parked(&self, parked: &[usize]) {
        // Relaxed: see the module's documentation.
        self.parked_len.store(parked.len(), Ordering::Relaxed);
    }

    fn count_searching(&self) {
        // Relaxed: see the module's documentation.
        let before = self.searching.fetch_add(1, Ordering::Relaxed);
        debug_assert!(before < self.workers, "each worker counts once");
    }

    /// Returns whether no worker searches any more.
    fn discount_searching(&self) -> bool {
        // Relaxed: see the module's documentation.
        let before = self.searching.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "the caller counted as searching");
        before == 1
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models;
