//! The state of a task: one word of flags and references, and the transitions on it.
//!
//! ```text
//!                 start (1)                    complete (3)
//!   NOTIFIED ─────────────────▶ RUNNING ─────────────────────▶ COMPLETE
//!      ▲  ▲                      │   ▲
//!      │  │        idle (2)      │   │ take (5): shutdown only
//!      │  └──────── while ───────┤   │
//!      │         NOTIFIED again  ▼   │
//!      └──────────────────────  idle ┘
//!          notify / abort (4)
//! ```
//!
//! The numbered arrows are the functions below. The flags:
//!
//! - `NOTIFIED`: the task is in a queue, or the thread that set the flag is about to queue it; with
//!   `RUNNING`, its runner will queue it. Set by `notify`, `abort` and at birth; cleared by
//!   `start`. The thread that sets it on a task that is not running holds the one *right to run*
//!   the task.
//! - `RUNNING`: one thread, the *runner*, has the future to itself. Set by `start` and `take`;
//!   cleared by `idle` and `complete`.
//! - `COMPLETE`: the future is dropped, and the output is final. Never cleared. From then on the
//!   output belongs to the join handle if `JOIN_INTEREST` was set at that moment, and otherwise to
//!   the completing thread.
//! - `ABORTED`: the future is to be dropped instead of polled. Never cleared.
//! - `JOIN_INTEREST`: a join handle exists. Set at birth; cleared when the handle is dropped,
//!   unless the task was complete before.
//! - `JOIN_WAKER`: the join waker's slot is filled. While the flag is clear, the slot belongs to
//!   the join handle, which leaves it empty. While it is set, nobody touches the slot before
//!   `COMPLETE`; then it belongs to the completing thread, which takes the waker out, as the waker
//!   may own a reference to the task. Set and cleared by the handle, and only before `COMPLETE`.
//! - `WANTED`: others want the task to be in another class (`place`). Set by `notify_wanted`, at
//!   any time; cleared by whoever has the right to run the task (`take_wanted`). After `COMPLETE`
//!   nobody has, and it stays, without effect.
//! - The rest counts references: one for the task's body, given up on completion, and one for each
//!   join handle, abort handle and waker. A queue entry needs none: a task in a queue has not
//!   completed, so its body's reference exists.

use crate::sync::atomic::{AtomicUsize, Ordering};

const NOTIFIED: usize = 1;
const RUNNING: usize = 1 << 1;
const COMPLETE: usize = 1 << 2;
const ABORTED: usize = 1 << 3;
const JOIN_INTEREST: usize = 1 << 4;
const JOIN_WAKER: usize = 1 << 5;
const WANTED: usize = 1 << 6;
const REFERENCE: usize = 1 << 7;

/// A task at birth: on its way into a queue, with a body and a join handle.
const BORN: usize = NOTIFIED | JOIN_INTEREST | (2 * REFERENCE);

#[derive(Debug)]
pub(crate) struct State(AtomicUsize);

#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Poll,
    Abort,
}

#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AfterPoll {
    /// The task waits. From now on others may run it, and even free it.
    Waiting,
    /// The task was woken or aborted while it ran; the caller holds the right to run it.
    Notified,
}

#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Aborted {
    /// The task was waiting: the caller has the right to run it, and must queue it.
    Runnable,
    /// The task is in a queue, or about to be queued, and was not aborted before.
    InQueue,
    /// The task is being polled, or was aborted before, or has completed.
    Noted,
}

#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Completed {
    /// A join handle exists, and the output belongs to it.
    pub(crate) joined: bool,
    /// The join waker's slot is filled.
    pub(crate) waker: bool,
}

#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Take {
    /// The task was waiting: the caller is its runner, and must cancel it.
    Taken,
    /// The task runs or is queued; its runner will see that it is aborted.
    Busy,
    Complete,
}

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

/// What a task does just now, for the statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Waiting,
    Ready,
    Running {
        /// It was woken meanwhile, perhaps by itself.
        woken: bool,
    },
    Complete,
}

impl State {
    pub(crate) fn new() -> Self {
        Self(AtomicUsize::new(BORN))
    }

    /// (1) The holder of the right to run the task begins to run it.
    #[inline]
    pub(crate) fn start(&self) -> Start {
        // Both flags are known, so one exclusive-or flips them. Acquire pairs with the Release of
        // `notify`, `abort` and of the previous runner's `idle`.
        let before = self.0.fetch_xor(NOTIFIED | RUNNING, Ordering::Acquire);
        check(before, NOTIFIED, RUNNING | COMPLETE);
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
        check(before, RUNNING, COMPLETE);
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
        check(before, RUNNING, COMPLETE);
        let (joined, waker) = (before & JOIN_INTEREST != 0, before & JOIN_WAKER != 0);
        debug_assert!(joined || !waker, "a handle that goes takes its waker along");
        Completed { joined, waker }
    }

    /// (4) The task is woken. Returns whether the caller has the right to run it, and must queue
    /// it.
    #[must_use]
    #[inline]
    pub(crate) fn notify(&self) -> bool {
        // A read-modify-write even if the flag is set: the coming `start` has to acquire this
        // Release, so that the poll sees what the waking thread did before.
        let before = self.0.fetch_or(NOTIFIED, Ordering::AcqRel);
        before & (NOTIFIED | RUNNING | COMPLETE) == 0
    }

    /// (4) The task is woken for the sake of a class that others want it to be in. As `notify`.
    #[must_use]
    pub(crate) fn notify_wanted(&self) -> bool {
        // AcqRel: as in `notify`; Release is for `take_wanted` as well.
        let before = self.0.fetch_or(NOTIFIED | WANTED, Ordering::AcqRel);
        before & (NOTIFIED | RUNNING | COMPLETE) == 0
    }

    /// Whether others may want another class. For who has the right to run the task.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        // Relaxed: what is set before the caller's `start`, which acquires it, is seen after that.
        // A look before `start` that misses it is followed by the one at the end of the poll.
        self.0.load(Ordering::Relaxed) & WANTED != 0
    }

    /// Clears the flag, and returns whether it was set. For who has the right to run the task.
    pub(crate) fn take_wanted(&self) -> bool {
        // Acquire pairs with the Release of `notify_wanted`: the caller sees what is wanted.
        self.0.fetch_and(!WANTED, Ordering::Acquire) & WANTED != 0
    }

    /// (4) The future is to be dropped.
    pub(crate) fn abort(&self) -> Aborted {
        // AcqRel: as in `notify`.
        let before = self.0.fetch_or(NOTIFIED | ABORTED, Ordering::AcqRel);
        match before & (NOTIFIED | RUNNING | COMPLETE) {
            0 => Aborted::Runnable,
            NOTIFIED if before & ABORTED == 0 => Aborted::InQueue,
            _ => Aborted::Noted,
        }
    }

    /// (5) Shutdown drops the future itself if the task waits, and otherwise leaves it to the
    /// runner.
    pub(crate) fn take(&self) -> Take {
        // Acquire, also on failure: as in `start`. Release publishes the flag.
        let mut now = self.0.load(Ordering::Acquire);
        loop {
            let (next, outcome) = if now & COMPLETE != 0 {
                return Take::Complete;
            } else if now & (NOTIFIED | RUNNING) != 0 {
                (now | NOTIFIED | ABORTED, Take::Busy)
            } else {
                (now | RUNNING | ABORTED, Take::Taken)
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

    pub(crate) fn phase(&self) -> Phase {
        // Acquire pairs with the Release of `idle`: of a task that waits, the last poll is counted.
        match self.0.load(Ordering::Acquire) {
            now if now & COMPLETE != 0 => Phase::Complete,
            now if now & RUNNING != 0 => Phase::Running {
                woken: now & NOTIFIED != 0,
            },
            now if now & NOTIFIED != 0 => Phase::Ready,
            _ => Phase::Waiting,
        }
    }

    pub(crate) fn is_aborted(&self) -> bool {
        // Relaxed: a hint; `start` decides.
        self.0.load(Ordering::Relaxed) & ABORTED != 0
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        // Acquire pairs with the Release of `complete`.
        self.0.load(Ordering::Acquire) & COMPLETE != 0
    }

    /// The join handle has filled the waker's slot. Returns false if the task completed meanwhile;
    /// the slot then still belongs to the handle.
    #[must_use]
    pub(crate) fn fill_join_waker(&self) -> bool {
        self.change_join_waker(|now| {
            check(now, JOIN_INTEREST, JOIN_WAKER);
            now | JOIN_WAKER
        })
    }

    /// The join handle takes back the waker's slot. Returns false if the task completed meanwhile.
    #[must_use]
    pub(crate) fn empty_join_waker(&self) -> bool {
        self.change_join_waker(|now| {
            check(now, JOIN_INTEREST | JOIN_WAKER, 0);
            now & !JOIN_WAKER
        })
    }

    fn change_join_waker(&self, change: impl Fn(usize) -> usize) -> bool {
        // AcqRel: Release publishes the slot to `complete`; Acquire, also on failure, pairs with
        // the Release there, as the caller takes the output next.
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
                (now & COMPLETE == 0).then(|| change(now))
            })
            .is_ok()
    }

    /// Whether the join waker's slot is filled; for the join handle.
    pub(crate) fn has_join_waker(&self) -> bool {
        // Relaxed: only the caller changes the flag.
        self.0.load(Ordering::Relaxed) & JOIN_WAKER != 0
    }

    /// The join handle is dropped.
    pub(crate) fn drop_join_handle(&self) -> DropJoin {
        // Acquire pairs with `complete`: the output is the caller's. AcqRel: as above.
        let change = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
                (now & COMPLETE == 0).then_some(now & !(JOIN_INTEREST | JOIN_WAKER))
            });
        match change {
            Ok(before) => {
                check(before, JOIN_INTEREST, 0);
                let waker = before & JOIN_WAKER != 0;
                DropJoin::Detached { waker }
            }
            Err(_) => DropJoin::Complete,
        }
    }

    #[inline]
    pub(crate) fn add_reference(&self) {
        // Relaxed: made from an existing reference, which keeps the task alive.
        let before = self.0.fetch_add(REFERENCE, Ordering::Relaxed);
        // So many references do not fit into memory: they were leaked, and the count would wrap.
        assert!(before < usize::MAX / 2, "too many references to one task");
        debug_assert!(before >= REFERENCE, "{before:#b}");
    }

    /// Counts one reference less. Returns whether it was the last.
    #[must_use]
    #[inline]
    pub(crate) fn drop_reference(&self) -> bool {
        // AcqRel: Release orders all use of the task before its end; Acquire makes it visible to
        // the thread that ends the task.
        let before = self.0.fetch_sub(REFERENCE, Ordering::AcqRel);
        debug_assert!(before >= REFERENCE, "{before:#b}");
        before / REFERENCE == 1
    }
}

/// In debug builds, panics unless a transition begins with these flags set and clear.
#[inline]
fn check(before: usize, set: usize, clear: usize) {
    debug_assert!(before & (set | clear) == set, "{before:#b}");
}
