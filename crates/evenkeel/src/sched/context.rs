//! Which runtime a thread belongs to.
#![allow(unsafe_code, reason = "a thread's worker is kept as a pointer")]

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr::NonNull;
use std::time::Instant;

use crate::class::Class;
use crate::sync::Arc;
use crate::timer::timers::Timers;

use super::shared::Shared;
use super::worker::Worker;

thread_local! {
    /// The worker that runs on this thread, if any.
    static WORKER: Cell<Option<NonNull<Worker>>> = const { Cell::new(None) };
    /// The runtime that a thread without a worker has entered: in `block_on`, or in blocking work.
    static ENTERED: RefCell<Option<Arc<Shared>>> = const { RefCell::new(None) };
    /// The runtime that started this thread, as an address that is only compared. It has no
    /// destructor, so the destructors of other locals can read it.
    static OWNER: Cell<usize> = const { Cell::new(0) };
    /// The class of the blocking work that runs on this thread, which is no worker's.
    static BLOCKING_CLASS: Cell<Option<Class>> = const { Cell::new(None) };
}

/// Marks this thread as started by a runtime.
pub(crate) fn own_thread(shared: &Arc<Shared>) {
    OWNER.set(Arc::as_ptr(shared).addr());
}

/// Runs blocking work of a class on this thread. The work does not unwind.
pub(crate) fn blocking_in<R>(class: Class, work: impl FnOnce() -> R) -> R {
    BLOCKING_CLASS.set(Some(class));
    let done = work();
    BLOCKING_CLASS.set(None);
    done
}

/// The class of the blocking work that runs on this thread, if any does.
pub(crate) fn blocking_class() -> Option<Class> {
    BLOCKING_CLASS.get()
}

/// Whether the runtime has started this thread. True in hooks and destructors of thread locals as
/// well. Such a thread must not wait for its own end.
pub(crate) fn is_own_thread(shared: &Arc<Shared>) -> bool {
    OWNER.get() == Arc::as_ptr(shared).addr()
}

/// Calls `access` with the worker that runs on this thread, if any.
#[inline]
pub(crate) fn with_worker<R>(access: impl FnOnce(Option<&Worker>) -> R) -> R {
    // A thread whose locals are gone is about to end.
    let worker = WORKER.try_with(Cell::get).unwrap_or(None);
    // SAFETY: `run_worker` sets the pointer to a worker on its own stack frame and resets it before
    // the frame ends; the reference does not leave this function, which is called within that
    // frame.
    access(worker.map(|worker| unsafe { worker.as_ref() }))
}

/// Runs a worker on this thread until its runtime stops.
pub(crate) fn run_worker(worker: &Worker) {
    struct Reset;

    impl Drop for Reset {
        fn drop(&mut self) {
            WORKER.set(None);
        }
    }

    debug_assert!(WORKER.get().is_none(), "a thread runs one worker");
    WORKER.set(Some(NonNull::from(worker)));
    let _reset = Reset;
    worker.run();
}

/// The seat of this thread's worker, if it belongs to this runtime.
pub(crate) fn worker_index(shared: &Arc<Shared>) -> Option<usize> {
    with_worker(|worker| {
        let own = worker.filter(|worker| Arc::ptr_eq(worker.shared(), shared));
        own.map(Worker::index)
    })
}

pub(crate) fn current() -> Result<Arc<Shared>, NoRuntime> {
    let own = with_worker(|worker| worker.map(|worker| Arc::clone(worker.shared())));
    let entered = || ENTERED.try_with(|entered| entered.borrow().clone());
    own.or_else(|| entered().unwrap_or(None))
        .ok_or(NoRuntime(()))
}

/// The time of this thread's runtime, if its clock can be paused.
#[cold]
pub(crate) fn pausable_now() -> Option<Instant> {
    let shared = current().ok()?;
    shared.clock.pausable()?;
    Some(shared.clock.instant())
}

/// Makes this thread belong to a runtime until the guard is dropped.
pub(crate) fn enter(shared: Arc<Shared>) -> Entered {
    Entered {
        // A thread whose locals are gone can enter nothing, but may still end a runtime.
        before: ENTERED
            .try_with(|entered| entered.replace(Some(shared)))
            .unwrap_or(None),
    }
}

pub(crate) struct Entered {
    before: Option<Arc<Shared>>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        // A thread whose locals are gone has nothing to restore.
        let _ = ENTERED.try_with(|entered| drop(entered.replace(before)));
    }
}

/// There is no runtime on this thread.
///
/// What needs one (spawning, sockets, timers, signals) has to be used inside
/// [`Runtime::block_on`](crate::runtime::Runtime::block_on), in a spawned task, or in blocking
/// work that a runtime started.
#[derive(Clone)]
pub struct NoRuntime(());

impl fmt::Display for NoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "there is no evenkeel runtime on this thread; call this inside `Runtime::block_on`, \
             in a spawned task, or through a `Handle`",
        )
    }
}

/// `main` shows its error by `Debug`, so the message is part of it.
impl fmt::Debug for NoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NoRuntime({self})")
    }
}

impl std::error::Error for NoRuntime {}

/// The timers of one worker. A timer stays with them once it is set.
#[derive(Clone, Debug)]
pub(crate) struct TimerHome {
    shared: Arc<Shared>,
    worker: usize,
}

/// The timers of this thread's worker, or of any worker if the thread has none.
pub(crate) fn timers_here() -> Result<TimerHome, NoRuntime> {
    current().map(|shared| TimerHome::of(&shared))
}

impl TimerHome {
    /// That of this thread's worker, if it is one of this runtime's, or of some worker.
    pub(crate) fn of(shared: &Arc<Shared>) -> Self {
        let worker = worker_index(shared).unwrap_or_else(|| shared.next_home());
        Self {
            shared: Arc::clone(shared),
            worker,
        }
    }

    pub(crate) fn timers(&self) -> &Timers {
        &self.shared.seats[self.worker].timers
    }

    /// The first tick that is not before `instant`.
    pub(crate) fn tick_at(&self, instant: Instant) -> u64 {
        self.shared.clock.tick_at(instant)
    }

    /// Makes the worker look at its timers again.
    pub(crate) fn unpark(&self) {
        self.shared.unpark(self.worker);
    }
}
