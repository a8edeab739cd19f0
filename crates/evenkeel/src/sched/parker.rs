//! One worker's sleep: whether a wake-up has to go through the kernel.
//!
//! ```text
//!            prepare (1)                 unpark (3): notify the kernel queue
//!  EMPTY ───────────────▶ PARKED ─────────────────────────────────▶ NOTIFIED
//!    ▲ ▲                    │ finish (2)                                │
//!    │ └────────────────────┘                                           │
//!    └────────── prepare / finish / take_notification (2) ◀── unpark (4)┘
//! ```
//!
//! However many threads call [`unpark`](Parker::unpark), one of them sees PARKED, so that a sleep
//! costs at most one write to the kernel's event descriptor; the others cost one atomic swap.

use crate::sync::atomic::{AtomicUsize, Ordering};

const EMPTY: usize = 0;
const PARKED: usize = 1;
const NOTIFIED: usize = 2;

/// The sleeping state of one worker.
#[derive(Debug)]
pub(crate) struct Parker {
    state: AtomicUsize,
}

impl Parker {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicUsize::new(EMPTY),
        }
    }

    /// Says that the worker is about to block in the kernel. Returns false if it was notified
    /// since its last sleep, and must not block. For the worker alone.
    #[must_use]
    pub(crate) fn prepare(&self) -> bool {
        // AcqRel: Acquire pairs with the Release in `unpark`, so that the worker sees what it was
        // notified of; Release so that a notifier that sees PARKED comes after the preparation.
        match self
            .state
            .compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => true,
            Err(_) => {
                // A read-modify-write, not a store, so as to read from the latest `unpark`.
                self.state.swap(EMPTY, Ordering::AcqRel);
                false
            }
        }
    }

    /// Says that the worker is awake again. Returns whether it was notified.
    pub(crate) fn finish(&self) -> bool {
        // AcqRel: as in `prepare`.
        self.state.swap(EMPTY, Ordering::AcqRel) == NOTIFIED
    }

    /// Takes a notification, if one waits: for the worker alone, while it busy-waits. It has to
    /// look for work then. A notification that stayed would end every busy-wait from now on at
    /// once, so that the worker would neither find work nor sleep.
    #[must_use]
    pub(crate) fn take_notification(&self) -> bool {
        // Relaxed: a hint that there is one. A swap each time would take the cache line from those
        // who notify. AcqRel: as in `prepare`.
        self.state.load(Ordering::Relaxed) == NOTIFIED
            && self.state.swap(EMPTY, Ordering::AcqRel) == NOTIFIED
    }

    /// Whether a notification waits.
    #[cfg(all(test, evenkeel_loom))]
    pub(crate) fn is_notified(&self) -> bool {
        // Acquire pairs with the Release in `unpark`.
        self.state.load(Ordering::Acquire) == NOTIFIED
    }

    /// Notifies the worker. Returns true if it is blocked in the kernel, or about to be, and the
    /// caller therefore has to make an event in its readiness queue.
    #[must_use]
    pub(crate) fn unpark(&self) -> bool {
        // AcqRel: Release publishes the reason; Acquire pairs with `prepare`'s Release.
        self.state.swap(NOTIFIED, Ordering::AcqRel) == PARKED
    }
}

#[cfg(all(test, evenkeel_loom))]
pub(super) mod models;
