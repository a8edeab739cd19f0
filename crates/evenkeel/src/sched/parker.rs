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
//! However many threads call [`unpark`](Parker::unpark), only one of them sees PARKED. So a sleep
//! costs at most one write to the kernel's event descriptor, and each other call one atomic swap.

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

    /// The worker is about to block in the kernel. Returns false if it was notified since its last
    /// sleep, and must not block. For the worker alone.
    #[must_use]
    pub(crate) fn prepare(&self) -> bool {
        // AcqRel: Acquire pairs with the Release in `unpark`, so that the worker sees why it was
        // notified. Release orders a notifier that sees PARKED after the preparation.
        match self
            .state
            .compare_exchange(EMPTY, PARKED, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => true,
            Err(state) => {
                debug_assert_eq!(state, NOTIFIED, "the worker is not parked");
                // A read-modify-write and not a store, to read from the latest `unpark`.
                self.state.swap(EMPTY, Ordering::AcqRel);
                false
            }
        }
    }

    /// The worker is awake again. Returns whether it was notified.
    pub(crate) fn finish(&self) -> bool {
        // AcqRel: as in `prepare`.
        let before = self.state.swap(EMPTY, Ordering::AcqRel);
        debug_assert_ne!(before, EMPTY, "the worker had prepared");
        before == NOTIFIED
    }

    /// Takes a notification, if there is one. The worker then has to look for work. A notification
    /// that stayed would end every later busy-wait at once, so that the worker would neither find
    /// work nor sleep. For the worker alone, while it busy-waits.
    #[must_use]
    pub(crate) fn take_notification(&self) -> bool {
        // Relaxed: a hint. A swap each time would take the cache line from the notifiers. AcqRel:
        // as in `prepare`.
        self.state.load(Ordering::Relaxed) == NOTIFIED
            && self.state.swap(EMPTY, Ordering::AcqRel) == NOTIFIED
    }

    /// Whether there is a notification.
    #[cfg(all(test, evenkeel_loom))]
    pub(crate) fn is_notified(&self) -> bool {
        // Acquire pairs with the Release in `unpark`.
        self.state.load(Ordering::Acquire) == NOTIFIED
    }

    /// Notifies the worker. Returns true if it is blocked in the kernel, or about to be, so that
    /// the caller has to make an event in its readiness queue.
    #[must_use]
    pub(crate) fn unpark(&self) -> bool {
        // AcqRel: Release publishes the reason; Acquire pairs with `prepare`'s Release.
        self.state.swap(NOTIFIED, Ordering::AcqRel) == PARKED
    }
}

#[cfg(all(test, evenkeel_loom))]
pub(super) mod models;
