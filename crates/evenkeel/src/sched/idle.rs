//! Who is asleep, who is looking for work, and whom to wake.
//!
//! # The protocol
//!
//! A worker that runs out of work first *searches* (injection queues, other workers' rings), then
//! *parks*. Whoever makes work available from outside the workers calls [`Idle::to_wake`] after it
//! pushed.
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
//! searching, and wakes it. So an entry never waits while all workers sleep.
//!
//! A searching worker holds wake-ups back: it will find the entry, or see it in its step 3. At
//! most one worker is woken until that worker has found work or gone back to sleep, which is what
//! keeps a burst of pushes from waking everybody.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// The set of parked workers and the number of searching ones.
///
/// Aligned so that what it writes often shares no cache line with what others read.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Idle {
    /// Workers that look for work: awake, not running a task.
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

    /// Starts to search, unless half of the workers do so already: more would only get in each
    /// other's way.
    pub(crate) fn start_search(&self) -> bool {
        // Relaxed: a limit that may be overshot by a moment's race.
        if 2 * self.searching.load(Ordering::Relaxed) >= self.workers {
            return false;
        }
        // Relaxed: being seen as searching only holds back a wake-up, and every searcher runs
        // the fence of `park` or the one of `stop_search` afterwards.
        self.searching.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Stops to search because work was found. Returns whether this was the last searcher, who
    /// has to look whether there is more work than it can do: pushers relied on it.
    #[must_use]
    pub(crate) fn stop_search(&self) -> bool {
        // Relaxed: ordered by the fence that follows.
        let last = self.searching.fetch_sub(1, Ordering::Relaxed) == 1;
        // SeqCst pairs with the fence in `to_wake`: either the pusher sees that nobody searches
        // any more, or the caller sees what was pushed.
        fence(Ordering::SeqCst);
        last
    }

    /// Enlists the worker as parked. The caller then looks at all queues once more, and calls
    /// [`unpark`](Idle::unpark) if it found something.
    pub(crate) fn park(&self, worker: usize, searching: bool) {
        let mut parked = self.parked.lock();
        parked.push(worker);
        // Relaxed, both: ordered by the fence below.
        self.parked_len.store(parked.len(), Ordering::Relaxed);
        drop(parked);
        if searching {
            self.searching.fetch_sub(1, Ordering::Relaxed);
        }
        // SeqCst pairs with the fence in `to_wake`; see the module's documentation.
        fence(Ordering::SeqCst);
    }

    /// Strikes the worker off the list. Returns whether somebody else had done so: then it was
    /// woken in order to search, and counts as searching.
    #[must_use]
    pub(crate) fn unpark(&self, worker: usize) -> bool {
        let mut parked = self.parked.lock();
        match parked.iter().rposition(|&other| other == worker) {
            Some(position) => {
                parked.remove(position);
                // Relaxed: written under the lock; readers without it take it as a hint, and
                // a worker that is awake again looks into the queues by itself.
                self.parked_len.store(parked.len(), Ordering::Relaxed);
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
        // sleeps, or it is seen here to be parked no more.
        fence(Ordering::SeqCst);
        let may_sleep = self.parked_len.load(Ordering::Relaxed) == self.workers;
        if !may_sleep {
            self.monitor_sleeps.store(false, Ordering::Relaxed);
        }
        may_sleep
    }

    /// For a worker that is parked no more: whether it has to rouse the monitor.
    #[must_use]
    #[inline]
    pub(crate) fn rouses_monitor(&self) -> bool {
        // SeqCst pairs with the fence in `monitor_may_sleep`.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence. The swap, so that one of several workers does it.
        self.monitor_sleeps.load(Ordering::Relaxed)
            && self.monitor_sleeps.swap(false, Ordering::Relaxed)
    }

    /// Whether a worker is parked, so that its processor may be had: a hint.
    #[inline]
    pub(crate) fn has_parked(&self) -> bool {
        // Relaxed: a hint.
        self.parked_len.load(Ordering::Relaxed) > 0
    }

    /// Whether a worker is parked while none searches: a hint, for workers with more work than
    /// they can do soon.
    #[inline]
    pub(crate) fn has_help(&self) -> bool {
        // Relaxed: a hint. A worker with work of its own never depends on being helped.
        self.parked_len.load(Ordering::Relaxed) > 0 && self.searching.load(Ordering::Relaxed) == 0
    }

    /// Chooses the worker to wake after something was pushed from outside the workers, if one has
    /// to be woken. The chosen worker counts as searching from now on.
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
        let mut parked = self.parked.lock();
        // Relaxed, all: under the lock, which every change from zero searchers takes part in
        // that matters here; a searcher that appears meanwhile only makes this wake-up spare.
        if self.searching.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let worker = parked.pop()?;
        self.parked_len.store(parked.len(), Ordering::Relaxed);
        self.searching.fetch_add(1, Ordering::Relaxed);
        Some(worker)
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models;
