//! The state of a task: one word of flags and references, and the transitions on it.
//!
//! ```text
//!                 start (1)                    complete (3)
//!   NOTIFIED ─────────────────▶ RUNNING ─────────────────────▶ COMPLETE
//!      ▲  ▲                      │   ▲
//!      │  │        idle (2)      │   │ claim (5): shutdown only
//!      │  └──────── while ───────┤   │
//!      │         NOTIFIED again  ▼   │
//!      └──────────────────────  idle ┘
//!          notify / abort (4)
//! ```
//!
//! Numbered arrows are the functions below. The flags:
//!
//! - `NOTIFIED`: the task lies in a queue, or whoever set the flag is about to put it there, or,
//!   with `RUNNING`, its runner will. Set by `notify`, `abort` and at birth; cleared by `start`.
//!   Whoever sets it first on a task that does not run holds the one *right to run* it.
//! - `RUNNING`: one thread has the future to itself. Set by `start` and `claim`; cleared by `idle`
//!   and `complete`.
//! - `COMPLETE`: the future is gone, and the output is final. Never unset. From then on the
//!   output belongs to the join handle if `JOIN_INTEREST` was set at that moment, and to the
//!   completing thread if not.
//! - `ABORTED`: the future is to be dropped instead of polled. Never unset.
//! - `JOIN_INTEREST`: a join handle exists. Set at birth; unset by the handle's drop, unless the
//!   task was complete before.
//! - `JOIN_WAKER`: the join waker's slot is filled. While unset, the slot belongs to the join
//!   handle, which leaves it empty. While set, nobody touches it before `COMPLETE`; then it belongs
//!   to the completing thread, which takes the waker out, as that may own what keeps the task's
//!   memory. Set and unset by the handle, and only before `COMPLETE`.
//! - The rest counts references: one for the task's body, given up when it completes; one for each
//!   join handle, abort handle and waker. A queue entry needs none: a task in a queue has not
//!   completed, so its body's reference is there.

use crate::sync::atomic::{AtomicUsize, Ordering};

const NOTIFIED: usize = 1;
const RUNNING: usize = 1 << 1;
const COMPLETE: usize = 1 << 2;
const ABORTED: usize = 1 << 3;
const JOIN_INTEREST: usize = 1 << 4;
const JOIN_WAKER: usize = 1 << 5;
const REFERENCE: usize = 1 << 6;

/// A task at birth: on its way into a queue, with a body and a join handle.
const BORN: usize = NOTIFIED | JOIN_INTEREST | (2 * REFERENCE);

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct State(AtomicUsize);

/// What [`State::start`] found.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Poll the future.
    Poll,
    /// Drop the future and complete the task.
    Abort,
}

/// What [`State::idle`] found.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterPoll {
    /// The task waits; others may run it, and even free it, from now on.
    Waiting,
    /// The task was woken or aborted while it ran; the caller holds the right to run it.
    Notified,
}

/// What [`State::abort`] found.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Aborted {
    /// The task waits: the caller got the right to run it, and has to put it into a queue.
    Runnable,
    /// The task is in a queue, or on its way to one, and was not aborted before.
    InQueue,
    /// The task is being polled, or was aborted before, or has completed.
    Noted,
}

/// What [`State::complete`] found.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Completed {
    /// A join handle exists, and the output is its own.
    pub(crate) joined: bool,
    /// The join waker's slot is filled.
    pub(crate) waker: bool,
}

/// What [`State::claim`] found.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The task is the caller's to cancel, as if it had started it.
    Claimed,
    /// The task runs or is queued; its runner will see that it is aborted.
    Busy,
    /// The task has completed.
    Complete,
}

/// What [`State::drop_join_handle`] found.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum DropJoin {
    /// The task goes on without a handle; the handle's reference is still to be dropped.
    Detached {
        /// The join waker's slot was filled, and is the caller's to empty.
        waker: bool,
    },
    /// The task had completed: the output is the caller's to drop.
    Complete,
}

impl State {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(BORN))
    }

    /// (1) The holder of the right to run the task begins to do so.
    #[inline]
    pub(crate) fn start(&self) -> Start {
        // Both flags are known, so one addition-like operation flips them. Acquire pairs with the
        // Release of `notify`, `abort` and of the previous runner's `idle`.
        let before = self.0.fetch_xor(NOTIFIED | RUNNING, Ordering::Acquire);
        debug_assert!(
            before & (NOTIFIED | RUNNING | COMPLETE) == NOTIFIED,
            "{before:#b}"
        );
        if before & ABORTED != 0 {
            Start::Abort
        } else {
            Start::Poll
        }
    }

    /// (2) The runner's poll returned pending.
    #[inline]
    pub(crate) fn idle(&self) -> AfterPoll {
        // AcqRel: Release hands the future to the next runner; Acquire pairs with `notify`, whose
        // notification the caller now acts on.
        let before = self.0.fetch_and(!RUNNING, Ordering::AcqRel);
        debug_assert!(
            before & RUNNING != 0 && before & COMPLETE == 0,
            "{before:#b}"
        );
        if before & NOTIFIED != 0 {
            AfterPoll::Notified
        } else {
            AfterPoll::Waiting
        }
    }

    /// (3) The runner has stored the output, or dropped the future.
    #[inline]
    pub(crate) fn complete(&self) -> Completed {
        // AcqRel: Release publishes the output to the join handle; Acquire pairs with
        // `fill_join_waker`, so that the waker can be taken.
        let before = self.0.fetch_xor(RUNNING | COMPLETE, Ordering::AcqRel);
        debug_assert!(
            before & RUNNING != 0 && before & COMPLETE == 0,
            "{before:#b}"
        );
        Completed {
            joined: before & JOIN_INTEREST != 0,
            waker: before & JOIN_WAKER != 0,
        }
    }

    /// (4) Someone woke the task. Returns whether the caller got the right to run it, and has to
    /// put it into a queue.
    #[must_use]
    #[inline]
    pub(crate) fn notify(&self) -> bool {
        // A read-modify-write even if the flag is set already: its Release has to be part of what
        // the coming `start` acquires, so that the poll sees what the waker did before.
        let before = self.0.fetch_or(NOTIFIED, Ordering::AcqRel);
        before & (NOTIFIED | RUNNING | COMPLETE) == 0
    }

    /// (4) Someone wants the future dropped.
    pub(crate) fn abort(&self) -> Aborted {
        // AcqRel: as in `notify`.
        let before = self.0.fetch_or(NOTIFIED | ABORTED, Ordering::AcqRel);
        match before & (NOTIFIED | RUNNING | COMPLETE) {
            0 => Aborted::Runnable,
            NOTIFIED if before & ABORTED == 0 => Aborted::InQueue,
            _ => Aborted::Noted,
        }
    }

    /// (5) Shutdown wants the future dropped, and does it itself if the task waits.
    pub(crate) fn claim(&self) -> Claim {
        // Acquire, also on failure: as in `start`. The flag is published by Release.
        let mut now = self.0.load(Ordering::Acquire);
        loop {
            let (next, outcome) = if now & COMPLETE != 0 {
                return Claim::Complete;
            } else if now & (NOTIFIED | RUNNING) != 0 {
                (now | NOTIFIED | ABORTED, Claim::Busy)
            } else {
                (now | RUNNING | ABORTED, Claim::Claimed)
            };
            match self
                .0
                .compare_exchange(now, next, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => return outcome,
                Err(actual) => now = actual,
            }
        }
    }

    /// Whether the future is to be dropped.
    pub(crate) fn is_aborted(&self) -> bool {
        // Relaxed: a hint; `start` decides.
        self.0.load(Ordering::Relaxed) & ABORTED != 0
    }

    /// Whether the output is final.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        // Acquire pairs with the Release of `complete`.
        self.0.load(Ordering::Acquire) & COMPLETE != 0
    }

    /// The join handle has written the waker's slot, which was empty. Returns false, and leaves
    /// the slot to the handle, if the task completed meanwhile.
    #[must_use]
    pub(crate) fn fill_join_waker(&self) -> bool {
        self.change_join_waker(|now| now | JOIN_WAKER)
    }

    /// The join handle wants to write the waker's slot, which is filled. Returns false if the
    /// task completed meanwhile.
    #[must_use]
    pub(crate) fn empty_join_waker(&self) -> bool {
        self.change_join_waker(|now| now & !JOIN_WAKER)
    }

    fn change_join_waker(&self, change: impl Fn(usize) -> usize) -> bool {
        // AcqRel: Release publishes the slot to `complete`; Acquire, also on failure, pairs with
        // its Release, as the caller takes the output next.
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
                (now & COMPLETE == 0).then(|| change(now))
            })
            .is_ok()
    }

    /// Whether the join waker's slot is filled; for the join handle.
    pub(crate) fn has_join_waker(&self) -> bool {
        // Relaxed: the flag changes by the caller's own hand only.
        self.0.load(Ordering::Relaxed) & JOIN_WAKER != 0
    }

    /// The join handle goes away.
    pub(crate) fn drop_join_handle(&self) -> DropJoin {
        // Acquire pairs with `complete`: the output is the caller's. AcqRel: as above.
        let change = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
                (now & COMPLETE == 0).then_some(now & !(JOIN_INTEREST | JOIN_WAKER))
            });
        match change {
            Ok(before) => DropJoin::Detached {
                waker: before & JOIN_WAKER != 0,
            },
            Err(_) => DropJoin::Complete,
        }
    }

    /// Counts one more reference.
    #[inline]
    pub(crate) fn add_reference(&self) {
        // Relaxed: made from an existing reference, which keeps the task alive.
        let before = self.0.fetch_add(REFERENCE, Ordering::Relaxed);
        // So many references cannot be had in memory; they were leaked, and would wrap.
        assert!(before < usize::MAX / 2, "too many references to one task");
    }

    /// Counts one reference less. Returns whether it was the last.
    #[must_use]
    #[inline]
    pub(crate) fn drop_reference(&self) -> bool {
        // AcqRel: Release so that all use of the task comes before its end; Acquire so that
        // whoever ends it sees all use.
        let before = self.0.fetch_sub(REFERENCE, Ordering::AcqRel);
        debug_assert!(before >= REFERENCE, "{before:#b}");
        before / REFERENCE == 1
    }
}
