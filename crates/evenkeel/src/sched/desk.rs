//! A thread's desk: the queues it fills while it polls, and what others see of that poll.
//!
//! A worker's *seat* (readiness queue, timers, accounts) can be taken from its thread in the middle
//! of a poll; the *desk* cannot, so what a poll does to the queues needs no agreement with anybody.
//! The thread that takes the seat has a desk of its own and empties the one that was left behind.
//! The thread that lost its seat puts nothing there once it knows.
#![allow(unsafe_code, reason = "what is polled is published as a pointer")]

use std::panic::Location;
use std::ptr::{self, NonNull};

use crate::class::Class;
use crate::counters::deliveries::DeliveryCounts;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, OnceLock};
use crate::sys::thread::{self, REAL_TIME_WORKER, ThreadId};

use super::ring::Apart;
use super::run_queues::{RunQueues, received};
use super::task::cell::{Header, Runnable};
use super::task::kind::{FutureType, Kind};
use super::tenure::{Fences, Tenure};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) run_queues: RunQueues,
    /// The name of the task that is being polled; stale while `is_named` says that it has none.
    name: Mutex<Option<&'static str>>,
    /// Who sits here.
    thread: Mutex<Option<ThreadId>>,
    /// That thread has real-time priority. Changed under the lock of `thread`, together with what
    /// the kernel knows.
    real_time: AtomicBool,
    /// The task to run next, ahead of the run queues; anybody may take it.
    next: Apart<AtomicPtr<Header>>,
    at_poll: Apart<AtPoll>,
    /// What reads on this thread brought.
    pub(crate) deliveries: Apart<DeliveryCounts>,
}

/// What the thread writes at each poll: apart from what thieves look at.
#[derive(Debug)]
struct AtPoll {
    tenure: Tenure,
    /// Where the task that is being polled was spawned; stale between polls.
    running: AtomicPtr<Location<'static>>,
    /// The type of its future; likewise.
    future: AtomicPtr<FutureType>,
    is_named: AtomicBool,
    /// The poll is on guard: the monitor notices it sooner than others if it lasts.
    on_guard: AtomicBool,
    /// The task has had a long poll before.
    relapses: AtomicBool,
    /// When the last poll began that was found stuck and kept its seat, as nobody could take it, in
    /// cycles; and whether it was blocked.
    kept: AtomicU64,
    kept_blocked: AtomicBool,
}

impl Desk {
    fn new(classes: usize, fences: Fences) -> Self {
        Self {
            run_queues: RunQueues::new(classes),
            name: Mutex::new(None),
            thread: Mutex::new(None),
            real_time: AtomicBool::new(false),
            next: Apart(AtomicPtr::new(ptr::null_mut())),
            at_poll: Apart(AtPoll {
                tenure: Tenure::new(fences),
                running: AtomicPtr::new(ptr::null_mut()),
                future: AtomicPtr::new(ptr::null_mut()),
                is_named: AtomicBool::new(false),
                on_guard: AtomicBool::new(false),
                relapses: AtomicBool::new(false),
                kept: AtomicU64::new(0),
                kept_blocked: AtomicBool::new(false),
            }),
            deliveries: Apart(DeliveryCounts::new()),
        }
    }

    /// The thread's hold on its seat.
    #[inline]
    pub(crate) fn tenure(&self) -> &Tenure {
        &self.at_poll.0.tenure
    }

    /// The calling thread sits down.
    pub(crate) fn sit(&self) {
        *self.thread.lock() = Some(thread::current());
    }

    /// The thread gets up, and is asked about no more.
    pub(crate) fn rise(&self) {
        *self.thread.lock() = None;
    }

    /// Asks something about the thread that sits here. The thread does not end meanwhile.
    pub(crate) fn ask_thread<R>(&self, ask: impl FnOnce(ThreadId) -> R) -> Option<R> {
        let thread = self.thread.lock();
        thread.map(ask)
    }

    /// Whether the thread that sits here has real-time priority: for itself, else a hint.
    #[inline]
    pub(crate) fn is_real_time(&self) -> bool {
        // Relaxed: changed under the lock.
        self.real_time.load(Ordering::Relaxed)
    }

    /// Gives the calling thread, which sits here, real-time priority or takes it away. Where the
    /// system refuses, nothing changes.
    #[cold]
    pub(crate) fn set_real_time(&self, wanted: bool) {
        let _thread = self.thread.lock();
        let changed = if wanted {
            thread::set_real_time(REAL_TIME_WORKER, false)
        } else {
            thread::set_ordinary()
        };
        if changed.is_ok() {
            // Relaxed: under the lock.
            self.real_time.store(wanted, Ordering::Relaxed);
        }
    }

    /// Takes real-time priority from the thread that sits here, if it has it. For others.
    pub(crate) fn demote(&self) {
        let thread = self.thread.lock();
        if self.is_real_time()
            && let Some(thread) = *thread
            && thread::demote(thread).is_ok()
        {
            // Relaxed: under the lock.
            self.real_time.store(false, Ordering::Relaxed);
        }
    }

    /// Puts a task into the next-task slot. Returns the one it displaces.
    #[inline]
    pub(crate) fn put_next(&self, task: Runnable) -> Option<Runnable> {
        // AcqRel: Release hands the task to whoever takes it; Acquire receives the displaced one.
        let before = self.next.0.swap(task.into_raw().as_ptr(), Ordering::AcqRel);
        NonNull::new(before).map(received)
    }

    /// Whether there is a task in the next-task slot: a hint.
    pub(crate) fn has_next(&self) -> bool {
        // Relaxed: a hint.
        !self.next.0.load(Ordering::Relaxed).is_null()
    }

    /// Takes the task from the next-task slot.
    #[inline]
    pub(crate) fn take_next(&self) -> Option<Runnable> {
        // Relaxed: a look that saves the swap; the slot is mostly empty.
        if self.next.0.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Acquire pairs with the Release in `put_next`.
        NonNull::new(self.next.0.swap(ptr::null_mut(), Ordering::Acquire)).map(received)
    }

    /// Takes some task, for anybody, in whatever order.
    pub(crate) fn take_any(&self) -> Option<Runnable> {
        self.take_next().or_else(|| self.run_queues.take_any())
    }

    /// Whether nothing waits here; a hint.
    pub(crate) fn is_clear(&self) -> bool {
        // Relaxed: whoever acts on it goes through `take_next`.
        self.next.0.load(Ordering::Relaxed).is_null() && self.run_queues.is_empty()
    }

    /// Says what is being polled from now on.
    #[inline]
    pub(crate) fn begin_poll(&self, task: &Header, now: u64) {
        // Relaxed: a report for others, with a pointer to a constant.
        self.at_poll.0.running.store(
            ptr::from_ref(task.spawned_at()).cast_mut(),
            Ordering::Relaxed,
        );
        // Relaxed: as above.
        let future = ptr::from_ref(task.future()).cast_mut();
        self.at_poll.0.future.store(future, Ordering::Relaxed);
        // Relaxed: as above. Few tasks have names.
        if task.name().is_some() || self.at_poll.0.is_named.load(Ordering::Relaxed) {
            self.note_name(task.name());
        }
        self.tenure().begin_poll(now);
    }

    #[cold]
    fn note_name(&self, name: Option<&'static str>) {
        *self.name.lock() = name;
        // Relaxed: as in `begin_poll`.
        self.at_poll
            .0
            .is_named
            .store(name.is_some(), Ordering::Relaxed);
    }

    /// Says what is special about the next poll: whether it is on guard, and whether its task has
    /// been caught at a long one before. To be taken back when it is over.
    pub(crate) fn mark_poll(&self, on_guard: bool, relapses: bool) {
        // Relaxed, both: hints for the monitor and an heir.
        self.at_poll.0.on_guard.store(on_guard, Ordering::Relaxed);
        self.at_poll.0.relapses.store(relapses, Ordering::Relaxed);
    }

    /// Whether the task that is being polled has been caught at a long poll before: a hint.
    pub(crate) fn relapses(&self) -> bool {
        // Relaxed: a hint.
        self.at_poll.0.relapses.load(Ordering::Relaxed)
    }

    /// Whether the poll that is under way is on guard: a hint.
    #[inline]
    pub(crate) fn is_on_guard(&self) -> bool {
        // Relaxed: a hint.
        self.at_poll.0.on_guard.load(Ordering::Relaxed)
    }

    /// The poll that began at `since` is stuck and keeps its seat, as no thread can take it.
    pub(crate) fn keep(&self, since: u64, blocked: bool) {
        // Relaxed, both: a poll is never found stuck once only, and `kept_blocked` is for reports.
        self.at_poll
            .0
            .kept_blocked
            .store(blocked, Ordering::Relaxed);
        self.at_poll.0.kept.store(since, Ordering::Relaxed);
    }

    /// Whether the poll that began then was found stuck and kept its seat, and then whether it was
    /// blocked.
    #[inline]
    pub(crate) fn was_kept(&self, since: u64) -> Option<bool> {
        // Relaxed, both: as in `keep`.
        (self.at_poll.0.kept.load(Ordering::Relaxed) == since)
            .then(|| self.at_poll.0.kept_blocked.load(Ordering::Relaxed))
    }

    /// The kind of the task that is being polled, whose class is this one. It may mix two tasks.
    /// The caller finds out afterwards whether the poll was still the same.
    pub(crate) fn running_kind(&self, class: Class) -> Option<Kind> {
        // Relaxed: as in `begin_poll`.
        let future = self.at_poll.0.future.load(Ordering::Relaxed);
        Some(Kind {
            spawned_at: self.last_running()?,
            // SAFETY: `begin_poll` stores pointers to `'static` types only.
            future: unsafe { future.as_ref() }?,
            name: *self.name.lock(),
            class,
        })
    }

    /// Where the task that was polled last was spawned; for the thread that sits here.
    pub(crate) fn last_running(&self) -> Option<&'static Location<'static>> {
        // Relaxed: as in `begin_poll`.
        let location = self.at_poll.0.running.load(Ordering::Relaxed);
        // SAFETY: `begin_poll` stores pointers to `'static` locations only.
        unsafe { location.as_ref() }
    }

    /// Where the task that is being polled was spawned.
    pub(crate) fn running(&self) -> Option<&'static Location<'static>> {
        if self.tenure().polling_since() == 0 {
            return None;
        }
        self.last_running()
    }
}

/// The desks of a runtime: one for each worker and for each thread that the heavy pool may have.
#[derive(Debug)]
pub(crate) struct Desks {
    /// Made when first used; a heavy pool that is never needed has none.
    desks: Box<[OnceLock<Arc<Desk>>]>,
    free: Mutex<Vec<usize>>,
    classes: usize,
    fences: Fences,
}

impl Desks {
    pub(crate) fn new(count: usize, classes: usize) -> Self {
        Self {
            desks: (0..count).map(|_| OnceLock::new()).collect(),
            free: Mutex::new((0..count).rev().collect()),
            classes,
            fences: Fences::of_system(),
        }
    }

    /// A free desk, lowest first.
    pub(crate) fn take(&self) -> Option<usize> {
        self.free.lock().pop()
    }

    /// Gives a desk back that is clear and at which nobody sits.
    pub(crate) fn give_back(&self, index: usize) {
        self.free.lock().push(index);
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &Arc<Desk> {
        self.desks[index].get_or_init(|| Arc::new(Desk::new(self.classes, self.fences)))
    }

    /// All desks that were ever used, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Arc<Desk>)> {
        let desks = self.desks.iter().enumerate();
        desks.filter_map(|(index, desk)| Some((index, desk.get()?)))
    }
}
