//! The memory of a task: one allocation with a header, the future or its output, and the join
//! waker; and the handles by which the rest of the crate refers to it.
//!
//! # Who may touch what
//!
//! - `Header`: every thread; each field is constant or atomic.
//! - `stage`: the thread that set `RUNNING`; after `COMPLETE`, the join handle, or the completing
//!   thread if there is no handle (`state`, at `COMPLETE`).
//! - `join_waker`: see `state`, at `JOIN_WAKER`.
//!
//! # Handles
//!
//! - [`Runnable`]: the right to run the task, of which at most one exists. It counts no reference
//!   (see `state`).
//! - [`Reference`]: one counted reference.
//! - [`Join`]: the one right to the output.
//!
//! The `async-task` crate cannot express some of this: an abort handle apart from the join handle,
//! a link so that queues allocate nothing, a class, and a registry entry for those tasks only that
//! survive their first poll.
#![allow(
    unsafe_code,
    reason = "a task is one allocation, shared by a state word of its own"
)]

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe, Location};
use std::pin::Pin;
use std::ptr::{self, NonNull};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use crate::class::Class;
use crate::counters::accounts::Count;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use crate::sync::cell::UnsafeCell;

use super::counts::{Byte, Polls};
use super::error::JoinError;
use super::kind::{FutureType, Kind};
use super::link::Link;
use super::origin::Origin;
use super::place::Place;
use super::state::{Aborted, AfterPoll, Completed, DropJoin, Phase, Start, State, Take};
use super::trace::{self, Mark, Noted};
use waker::{TRACED_VTABLE, WAKER_VTABLE};

/// Where tasks go when they are woken: the runtime, or a test.
pub(crate) trait Schedule: Send + Sync + 'static {
    /// Queues a task. Called at most once between two runs.
    fn schedule(&self, task: Runnable);

    /// A task was woken that need not be queued: it is in a queue, runs, or has completed. If it
    /// runs on the calling thread, it has woken itself, and so yields.
    fn woken_again(&self, _task: &Header) {}

    /// A task was aborted that was in a queue, or about to be queued. It may have been taken out
    /// since, and even have completed; otherwise the thread that takes it out will drop it.
    fn aborted_in_queue(&self, _task: &Header) {}

    /// The lane that the task is work of, if it is.
    fn lane(&self) -> Option<Arc<str>> {
        None
    }
}

/// What the spawner says of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes {
    pub(crate) class: Class,
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) name: Option<&'static str>,
}

/// The part of a task that does not depend on the type of its future.
pub(crate) struct Header {
    state: State,
    link: AtomicPtr<Header>,
    vtable: &'static Vtable,
    origin: Origin,
    place: Place,
    /// Since when it is ready, runs or waits, in cycles: a statistic. Written by its runner, and by
    /// whoever queues it. A dump may have marked it: others read it by `dumps::since_of`.
    pub(crate) since: Count,
    pub(crate) polls: Polls,
    pub(crate) mark: Mark,
    /// The task's key in the runtime's registry, plus one, or in the queue of its lane; 0 if it is
    /// in neither. Relaxed: only the task's runner touches it, or a thread with the lane's lock.
    pub(crate) key: AtomicU64,
    /// What is known of the task's polls; see `sched::hog`.
    pub(crate) profile: Byte,
    /// How many polls in a row were alike, and of which sort; see `sched::hog`.
    pub(crate) streak: Byte,
    /// How many futures were cut short since one last made progress, in the last poll or the one
    /// before it, because the slice was used up.
    pub(crate) cut_short: Byte,
    /// The last surge in which the task was suspected; see `sched::kinds::surge`.
    pub(crate) suspected_in: Byte,
}

// SAFETY: `link` returns the same field each time, and nothing else in this module touches it.
unsafe impl Link for Header {
    #[inline]
    fn link(&self) -> &AtomicPtr<Header> {
        &self.link
    }
    fn since(&self) -> u64 {
        self.since.load()
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} task from {}", self.class(), self.spawned_at())
    }
}

struct Vtable {
    future: FutureType,
    /// Polls the future; true when it is finished and its output stored. Needs `RUNNING`.
    poll: unsafe fn(NonNull<Header>, &mut Context<'_>) -> bool,
    /// Drops the future and stores the error instead. Needs `RUNNING`.
    cancel: unsafe fn(NonNull<Header>, JoinError),
    /// Drops the output, if it is still there. Needs ownership of the output.
    drop_output: unsafe fn(NonNull<Header>),
    /// Moves the output to `*mut Option<Result<T, JoinError>>`. Needs ownership of the output.
    take_output: unsafe fn(NonNull<Header>, *mut ()),
    join_waker: unsafe fn(NonNull<Header>) -> NonNull<UnsafeCell<Option<Waker>>>,
    schedule: unsafe fn(NonNull<Header>, Runnable),
    woken_again: unsafe fn(NonNull<Header>),
    aborted_in_queue: unsafe fn(NonNull<Header>),
    lane: unsafe fn(NonNull<Header>) -> Option<Arc<str>>,
    /// Frees the memory. Needs the last reference.
    free: unsafe fn(NonNull<Header>),
}

enum Stage<F: Future> {
    Future(F),
    Output(Result<F::Output, JoinError>),
    Empty,
}

/// The allocation. `repr(C)`, with the header first, so that a pointer to the header is a pointer
/// to the cell.
#[repr(C)]
struct Cell<F: Future, S> {
    header: Header,
    scheduler: S,
    join_waker: UnsafeCell<Option<Waker>>,
    stage: UnsafeCell<Stage<F>>,
}

impl<F, S> Cell<F, S>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    S: Schedule,
{
    const VTABLE: Vtable = Vtable {
        future: FutureType::of::<F>(),
        poll: Self::poll_future,
        cancel: Self::cancel,
        drop_output: Self::drop_output,
        take_output: Self::take_output,
        join_waker: Self::join_waker,
        schedule: Self::schedule,
        woken_again: Self::woken_again,
        aborted_in_queue: Self::aborted_in_queue,
        lane: Self::lane,
        free: Self::free,
    };

    /// SAFETY (for callers, of this and of every function in the table): the header must be the
    /// first field of a live `Cell<F, S>`, and the caller must have what the table demands.
    unsafe fn stage<R>(header: NonNull<Header>, access: impl FnOnce(&mut Stage<F>) -> R) -> R {
        // SAFETY: the cell is live; `repr(C)` makes the cast sound.
        let cell = unsafe { header.cast::<Self>().as_ref() };
        // SAFETY: by the rules at the top of the file, the caller alone touches the stage now.
        cell.stage.with_mut(|stage| access(unsafe { &mut *stage }))
    }

    // Its name is how `stats::symbols` finds the end of a task's own stack.
    unsafe fn poll_future(header: NonNull<Header>, context: &mut Context<'_>) -> bool {
        // SAFETY: the runner has the stage to itself.
        let result = unsafe {
            Self::stage(header, |stage| {
                let Stage::Future(future) = stage else {
                    unreachable!("a task is polled only before it completes")
                };
                // SAFETY: the future lies in the heap cell until it is dropped in place there.
                let future = Pin::new_unchecked(future);
                panic::catch_unwind(AssertUnwindSafe(|| future.poll(context)))
            })
        };
        let output = match result {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => Err(JoinError::panic(payload)),
        };
        // SAFETY: as above.
        unsafe { Self::replace(header, Stage::Output(output)) };
        true
    }

    unsafe fn cancel(header: NonNull<Header>, error: JoinError) {
        // SAFETY: the caller has the stage to itself.
        unsafe { Self::replace(header, Stage::Output(Err(error))) }
    }

    /// Drops what the stage holds and stores `next`. A panic of the drop becomes the output, so
    /// that the join handle reports it, unless the future had panicked before.
    unsafe fn replace(header: NonNull<Header>, next: Stage<F>) {
        // SAFETY: the caller has the stage to itself. The old stage is dropped in place (a pinned
        // future must not move) and counts as moved out until the write below.
        unsafe {
            Self::stage(header, |stage| {
                let dropped = panic::catch_unwind(AssertUnwindSafe(|| ptr::drop_in_place(stage)));
                let next = match (dropped, next) {
                    (Err(payload), Stage::Output(Err(earlier))) if earlier.is_panic() => {
                        forget_payload(payload);
                        Stage::Output(Err(earlier))
                    }
                    (Err(payload), next) => {
                        // The output that this panic replaces may panic as well.
                        drop_quietly(next);
                        Stage::Output(Err(JoinError::panic(payload)))
                    }
                    (Ok(()), next) => next,
                };
                ptr::write(stage, next);
            });
        }
    }

    unsafe fn drop_output(header: NonNull<Header>) {
        // SAFETY: the caller owns the output.
        let output = unsafe { Self::stage(header, |stage| std::mem::replace(stage, Stage::Empty)) };
        // A panic of the output's drop has no join handle to go to; the panic hook has reported it.
        drop_quietly(output);
    }

    unsafe fn take_output(header: NonNull<Header>, destination: *mut ()) {
        // SAFETY: the caller owns the output.
        let stage = unsafe { Self::stage(header, |stage| std::mem::replace(stage, Stage::Empty)) };
        if let Stage::Output(output) = stage {
            // SAFETY: the join handle, which alone calls this, passes a pointer of this type.
            unsafe { *destination.cast::<Option<Result<F::Output, JoinError>>>() = Some(output) };
        }
    }

    unsafe fn join_waker(header: NonNull<Header>) -> NonNull<UnsafeCell<Option<Waker>>> {
        // SAFETY: the cell is live; `repr(C)` makes the cast sound.
        NonNull::from(unsafe { &header.cast::<Self>().as_ref().join_waker })
    }

    unsafe fn schedule(header: NonNull<Header>, task: Runnable) {
        // SAFETY: the cell is live: the caller holds a reference, or the right to run.
        unsafe { header.cast::<Self>().as_ref() }
            .scheduler
            .schedule(task);
    }

    unsafe fn woken_again(header: NonNull<Header>) {
        // SAFETY: the cell is live: the caller holds a reference.
        let cell = unsafe { header.cast::<Self>().as_ref() };
        cell.scheduler.woken_again(&cell.header);
    }

    unsafe fn aborted_in_queue(header: NonNull<Header>) {
        // SAFETY: the cell is live: the caller holds a reference.
        let cell = unsafe { header.cast::<Self>().as_ref() };
        cell.scheduler.aborted_in_queue(&cell.header);
    }

    unsafe fn lane(header: NonNull<Header>) -> Option<Arc<str>> {
        // SAFETY: the cell is live: the caller holds a reference.
        unsafe { header.cast::<Self>().as_ref() }.scheduler.lane()
    }

    unsafe fn free(header: NonNull<Header>) {
        // SAFETY: made by `Box::into_raw` in `new_task`; the last reference is gone. What the cell
        // still holds (an unread output, a join waker) may panic when it is dropped.
        let cell = unsafe { Box::from_raw(header.cast::<Self>().as_ptr()) };
        drop_quietly(cell);
    }
}

/// Drops a value of the user's and swallows a panic, which the panic hook has reported.
fn drop_quietly<T>(value: T) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| drop(value))) {
        forget_payload(payload);
    }
}

/// A panic's payload may itself panic when it is dropped; it is leaked rather than risked.
fn forget_payload(payload: Box<dyn Any + Send>) {
    std::mem::forget(payload);
}

/// Makes a task: the right to run it for the first time, and the right to its output.
pub(crate) fn new_task<F, S>(
    future: F,
    scheduler: S,
    attributes: Attributes,
) -> (Runnable, Join<F::Output>)
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
    S: Schedule,
{
    // Written in place: a value that is made first and then moved would be copied.
    let cell = Box::write(
        Box::new_uninit(),
        Cell {
            header: Header {
                state: State::new(),
                link: AtomicPtr::new(ptr::null_mut()),
                vtable: &Cell::<F, S>::VTABLE,
                origin: Origin::new(attributes.spawned_at, attributes.name),
                place: Place::new(attributes.class),
                since: Count::new(),
                polls: Polls::new(),
                mark: Mark::new(),
                key: AtomicU64::new(0),
                profile: Byte::new(0),
                streak: Byte::new(0),
                cut_short: Byte::new(0),
                suspected_in: Byte::new(0),
            },
            scheduler,
            join_waker: UnsafeCell::new(None),
            stage: UnsafeCell::new(Stage::Future(future)),
        },
    );
    // SAFETY: a box is not null.
    let header = unsafe { NonNull::new_unchecked(Box::into_raw(cell)) }.cast::<Header>();
    (
        Runnable(header),
        Join {
            task: Reference(header),
            output: PhantomData,
        },
    )
}

/// How a run ended.
#[must_use]
pub(crate) enum Ran {
    /// The task has completed; the runner must not touch it any more.
    Complete,
    /// The task waits to be woken.
    Waiting,
    /// The task was woken while it ran, and wants to run again.
    Again(Runnable),
}

/// The right to run a task: a queue's entry.
///
/// Dropping it would strand the task: it is consumed by running or cancelling.
#[must_use]
#[derive(Debug)]
pub(crate) struct Runnable(NonNull<Header>);

// SAFETY: a future is `Send` by `new_task`, and the right to run it is exclusive, so its holder may
// run it on any thread.
unsafe impl Send for Runnable {}

impl Runnable {
    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: a task with a `Runnable` has not completed, so its body's reference is there.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn into_raw(self) -> NonNull<Header> {
        self.0
    }

    /// # Safety
    ///
    /// The pointer must come from [`into_raw`](Runnable::into_raw), and be turned back once.
    #[inline]
    pub(crate) unsafe fn from_raw(header: NonNull<Header>) -> Self {
        Self(header)
    }

    /// Polls the task once. `before_wait` is called after a poll that returned pending, while the
    /// runner still has the task to itself; if it returns false, the task is cancelled.
    ///
    /// `before_complete` is called when the task is about to complete.
    #[inline]
    pub(crate) fn run(
        self,
        before_wait: impl FnOnce(&Runnable) -> bool,
        before_complete: impl FnOnce(&Header),
    ) -> Ran {
        let header = self.header();
        if header.state.start() == Start::Abort {
            self.end_started(JoinError::cancelled(), before_complete);
            return Ran::Complete;
        }
        let finished = if header.mark.is_set() {
            self.poll_traced()
        } else {
            self.poll_with(&WAKER_VTABLE)
        };
        if finished {
            before_complete(header);
            self.complete();
            return Ran::Complete;
        }
        if !before_wait(&self) {
            self.end_started(JoinError::cancelled(), before_complete);
            return Ran::Complete;
        }
        // After `Waiting` others may run and free the task: nothing here touches it.
        match header.state.idle() {
            AfterPoll::Waiting => Ran::Waiting,
            AfterPoll::Notified => Ran::Again(self),
        }
    }

    /// Polls the future; true if it is finished. For `run`, to which `start` gave the future.
    #[inline]
    fn poll_with(&self, vtable: &'static RawWakerVTable) -> bool {
        let waker = ManuallyDrop::new(self.borrow_waker(vtable));
        // SAFETY: `start` gave this thread the future to itself.
        unsafe { (self.header().vtable.poll)(self.0, &mut Context::from_waker(&waker)) }
    }

    #[cold]
    fn poll_traced(&self) -> bool {
        self.header().mark.begin();
        trace::during(|| self.poll_with(&TRACED_VTABLE))
    }

    /// Whether the future is to be dropped instead of polled. That may change at any time.
    pub(crate) fn is_aborted(&self) -> bool {
        self.header().state.is_aborted()
    }

    /// Drops the future without polling it and completes the task as cancelled.
    pub(crate) fn cancel(self, before_complete: impl FnOnce(&Header)) {
        // The task ends, whether it was aborted before or not.
        let (Start::Poll | Start::Abort) = self.header().state.start();
        self.end_started(JoinError::cancelled(), before_complete);
    }

    /// Drops the future without polling it and completes the task with an error.
    pub(crate) fn fail(self, error: JoinError) {
        let (Start::Poll | Start::Abort) = self.header().state.start();
        self.end_started(error, |_| ());
    }

    fn end_started(self, error: JoinError, before_complete: impl FnOnce(&Header)) {
        let header = self.header();
        // SAFETY: `start` or `take` gave this thread the future to itself.
        unsafe { (header.vtable.cancel)(self.0, error) };
        before_complete(header);
        self.complete();
    }

    /// Completes a task whose output is stored: wakes the join handle, and gives up the body's
    /// reference.
    fn complete(self) {
        let header = self.header();
        let Completed { joined, waker } = header.state.complete();
        if !joined {
            // SAFETY: without a join handle, the output is the completing thread's.
            unsafe { (header.vtable.drop_output)(self.0) };
        } else if waker {
            // SAFETY: the slot was filled when `COMPLETE` was set, so it is this thread's.
            // The waker is taken out, as it may own a reference to the task.
            let waker = unsafe { take_join_waker(self.0) };
            drop_quietly(panic::catch_unwind(AssertUnwindSafe(|| {
                waker.map(Waker::wake)
            })));
        }
        drop(Reference(self.0));
    }

    /// A waker that counts no reference, for the time of one poll.
    #[inline]
    fn borrow_waker(&self, vtable: &'static RawWakerVTable) -> Waker {
        // SAFETY: the functions of both vtables keep the contract of `RawWakerVTable`. The caller
        // does not drop this waker, and each clone counts a reference.
        unsafe { Waker::from_raw(RawWaker::new(self.0.as_ptr().cast(), vtable)) }
    }
}

impl Header {
    #[inline]
    pub(crate) fn class(&self) -> Class {
        self.place.class()
    }

    /// Puts the task into another class. For the registry, and so for who has the right to run the
    /// task.
    pub(super) fn change_class(&self, class: Class) {
        self.place.change(class);
    }

    /// Whether others may want another class. For who has the right to run the task.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.state.is_wanted()
    }

    /// The class that others have wanted since it was last asked, if they have. For who has the
    /// right to run the task.
    pub(crate) fn take_wanted(&self) -> Option<Class> {
        self.state.take_wanted().then(|| self.place.wanted())
    }

    #[inline]
    pub(crate) fn name(&self) -> Option<&'static str> {
        self.origin.name()
    }

    #[inline]
    pub(crate) fn spawned_at(&self) -> &'static Location<'static> {
        self.origin.spawned_at()
    }

    #[inline]
    pub(crate) fn future(&self) -> &'static FutureType {
        &self.vtable.future
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.phase()
    }

    /// What it has in common with alike tasks.
    pub(crate) fn kind(&self) -> Kind {
        Kind {
            spawned_at: self.spawned_at(),
            future: self.future(),
            name: self.name(),
            class: self.class(),
        }
    }

    /// Whether a poll has returned pending. For the task's runner.
    pub(crate) fn has_waited(&self) -> bool {
        // Relaxed: the runner alone touches it.
        self.key.load(Ordering::Relaxed) != 0
    }

    /// Whether nothing is known of the task: no poll has returned pending, and it got no profile
    /// from its kind. For the task's runner.
    #[inline]
    pub(crate) fn is_unseen(&self) -> bool {
        !self.has_waited() && self.profile.load() == 0
    }

    /// Whether the task was aborted and no poll has returned pending: it has not been polled,
    /// unless it was aborted in its first poll. For the task's runner.
    pub(crate) fn is_aborted_unseen(&self) -> bool {
        self.state.is_aborted() && !self.has_waited()
    }
}

/// One counted reference to a task.
#[derive(Debug)]
pub(crate) struct Reference(NonNull<Header>);

// SAFETY: a reference gives access to the header, whose fields are constant or atomic, and to the
// output and join waker by the protocol of `state`; futures and outputs are `Send` by `new_task`.
unsafe impl Send for Reference {}
// SAFETY: as above; a shared reference gives no access outside the protocol.
unsafe impl Sync for Reference {}

impl Clone for Reference {
    fn clone(&self) -> Self {
        self.header().state.add_reference();
        Self(self.0)
    }
}

impl Drop for Reference {
    #[inline]
    fn drop(&mut self) {
        let header = self.header();
        let free = header.vtable.free;
        if header.state.drop_reference() {
            // SAFETY: that was the last reference.
            unsafe { free(self.0) };
        }
    }
}

impl Reference {
    #[inline]
    pub(crate) fn header(&self) -> &Header {
        // SAFETY: a counted reference keeps the cell alive.
        unsafe { self.0.as_ref() }
    }

    /// A new reference to the task that the caller runs.
    pub(crate) fn of_running(task: &Runnable) -> Self {
        // A task with a `Runnable` has its body's reference. The pointer is copied and not made
        // from `&Header`, since the thread that drops the last reference frees the whole cell
        // through it.
        task.header().state.add_reference();
        Self(task.0)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.header().state.is_complete()
    }

    /// Marks the task as aborted, and queues it if it waits, so that its future is dropped.
    pub(crate) fn abort(&self) {
        match self.header().state.abort() {
            Aborted::Runnable => self.schedule(),
            // SAFETY: this reference keeps the cell alive.
            Aborted::InQueue => unsafe { (self.header().vtable.aborted_in_queue)(self.0) },
            Aborted::Noted => {}
        }
    }

    pub(crate) fn wake(&self) {
        if self.header().state.notify() {
            self.schedule();
        } else {
            // SAFETY: this reference keeps the cell alive.
            unsafe { (self.header().vtable.woken_again)(self.0) };
        }
    }

    /// Has the task put into another class by whoever has the right to run it. It is woken for
    /// that: one that waits is in no queue, and the lists are for its runner to change.
    pub(crate) fn want_class(&self, class: Class) {
        self.header().place.want(class);
        if self.header().state.notify_wanted() {
            self.schedule();
        }
    }

    fn schedule(&self) {
        // SAFETY: `notify` or `abort` gave this thread the right to run the task.
        unsafe { (self.header().vtable.schedule)(self.0, Runnable(self.0)) };
    }

    /// For shutdown: cancels the task if it waits, and otherwise marks it, so that its runner does.
    pub(crate) fn cancel_waiting(&self, before_complete: impl FnOnce(&Header)) {
        if self.header().state.take() == Take::Taken {
            Runnable(self.0).end_started(JoinError::cancelled(), before_complete);
        }
    }
}

/// The right to a task's output. Each task has one, which `new_task` makes; `T` is the type of the
/// output.
#[derive(Debug)]
pub(crate) struct Join<T> {
    task: Reference,
    output: PhantomData<fn() -> T>,
}

impl<T> Join<T> {
    pub(crate) fn task(&self) -> &Reference {
        &self.task
    }

    /// Aborts the task for a handle that is about to be dropped.
    pub(crate) fn call_off(&mut self) {
        if self.task.is_complete() {
            return;
        }
        let state = &self.task.header().state;
        // The caller's own abort must not wake it. It may be woken if the task completes meanwhile.
        if state.has_join_waker() && state.empty_join_waker() {
            // SAFETY: the flag is clear, so the slot belongs to the one join handle.
            drop_quietly(unsafe { take_join_waker(self.task.0) });
        }
        self.task.abort();
    }

    /// The output, or a promise to wake `waker` when it is there. `None` if it was taken before.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Option<Result<T, JoinError>>> {
        let task = &self.task;
        if !task.is_complete() && self.store_waker(waker) {
            trace::note(|| self.noted());
            return Poll::Pending;
        }
        let mut output: Option<Result<T, JoinError>> = None;
        // SAFETY: the task is complete, so the output is this handle's, and of this type.
        unsafe { (task.header().vtable.take_output)(task.0, (&raw mut output).cast()) };
        Poll::Ready(output)
    }

    fn noted(&self) -> Noted {
        let (task, header) = (&self.task, self.task.header());
        // SAFETY: the handle holds a reference.
        match unsafe { (header.vtable.lane)(task.0) } {
            Some(lane) => Noted::Lane(lane),
            None => Noted::Task(header.into(), header.spawned_at()),
        }
    }

    /// Promises to wake `waker` when the output is there. Returns false if it is there now.
    #[cfg(feature = "drop-in")]
    pub(crate) fn watch(&mut self, waker: &Waker) -> bool {
        !self.task.is_complete() && self.store_waker(waker)
    }

    /// Returns false if the task completed meanwhile.
    fn store_waker(&self, waker: &Waker) -> bool {
        let state = &self.task.header().state;
        if state.has_join_waker() && !state.empty_join_waker() {
            return false;
        }
        // SAFETY: the cell is live: this handle holds a reference.
        let slot = unsafe { (self.task.header().vtable.join_waker)(self.task.0).as_ref() };
        // SAFETY: the flag is clear, so the slot is the join handle's, here and below.
        let stored = slot.with(|slot| unsafe { (*slot).as_ref() }.map(|old| old.will_wake(waker)));
        if stored != Some(true) {
            // A drop and a clone may run any code, so neither is done while the slot is borrowed.
            // If the clone panics, the slot is empty, as the flag says.
            // SAFETY: as above.
            drop_quietly(unsafe { take_join_waker(self.task.0) });
            let new = waker.clone();
            // SAFETY: as above.
            slot.with_mut(|slot| unsafe { *slot = Some(new) });
        }
        if state.fill_join_waker() {
            return true;
        }
        // SAFETY: as above; the task completed and did not touch the slot.
        drop_quietly(unsafe { take_join_waker(self.task.0) });
        false
    }
}

impl<T> Drop for Join<T> {
    fn drop(&mut self) {
        let task = &self.task;
        match task.header().state.drop_join_handle() {
            // SAFETY: the flag was cleared together with the interest, so the slot is ours.
            DropJoin::Detached { waker: true } => unsafe {
                drop_quietly(take_join_waker(task.0));
            },
            DropJoin::Detached { waker: false } => {}
            // SAFETY: the task is complete with the interest set: the output is the handle's.
            DropJoin::Complete => unsafe { (task.header().vtable.drop_output)(task.0) },
        }
    }
}

/// Empties the join waker's slot.
///
/// # Safety
///
/// The cell must be live, and the slot must belong to the caller (`state`, at `JOIN_WAKER`).
unsafe fn take_join_waker(task: NonNull<Header>) -> Option<Waker> {
    // SAFETY: the cell is live.
    let slot = unsafe { (task.as_ref().vtable.join_waker)(task).as_ref() };
    // SAFETY: nobody else touches the slot.
    slot.with_mut(|slot| unsafe { (*slot).take() })
}

/// A program may have a million tasks.
#[cfg(not(any(evenkeel_loom, evenkeel_preempt, evenkeel_tsan)))]
const _: () = assert!(size_of::<Header>() <= 80);

mod waker;

#[cfg(all(test, evenkeel_loom))]
mod models;
