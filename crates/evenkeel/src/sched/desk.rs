//! A thread's desk: the queues that it fills while it polls, and what other threads see of that
//! poll.
//!
//! A worker's *seat* (readiness queue, timers, accounts) can be taken from its thread in the middle
//! of a poll; the *desk* cannot, so a poll may use the queues without any agreement. The thread
//! that takes over the seat has a desk of its own and empties the other one. The thread that lost
//! its seat queues nothing there once it knows.
#![allow(unsafe_code, reason = "what is polled is published as a pointer")]

use std::panic::Location;
use std::ptr::{self, NonNull};

use crate::class::{CLASSES_MAX, Class};
use crate::counters::deliveries::DeliveryCounts;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, OnceLock};
use crate::sys::stack::Ends;
use crate::sys::thread::{self, REAL_TIME_WORKER, ThreadId};

use super::bounded_queue::Apart;
use super::observed::Observed;
use super::run_queues::{RunQueues, received};
use super::stacks::PollId;
use super::task::cell::{Header, Runnable};
use super::task::kind::{FutureType, Kind};
use super::tenure::{Fences, Tenure};
use super::within::Within;

#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) run_queues: RunQueues,
    /// The name of the task that is being polled; stale unless `is_named`.
    name: Mutex<Option<&'static str>>,
    /// The thread that sits here, and its name.
    thread: Mutex<Option<(ThreadId, String)>>,
    /// The spans that it has entered.
    spans: Within,
    /// That thread has real-time priority. Taken, and taken away by others, under the lock of
    /// `thread`, together with the priority; given up by the thread itself without it.
    real_time: AtomicBool,
    /// Others took it away, and the thread has not become an ordinary one since.
    demoted: AtomicBool,
    /// The task to run next, ahead of the run queues. Any thread may take it.
    next: Apart<AtomicPtr<Header>>,
    at_poll: Apart<AtPoll>,
    pub(super) missed_end: MissedEnd,
    /// What other workers see of a poll that lasts.
    pub(super) observed: Observed,
    /// Deliveries by reads on this thread.
    pub(crate) deliveries: Apart<DeliveryCounts>,
}

/// The end of a hog's poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) poll: PollId,
    pub(crate) class: Class,
    /// In cycles.
    pub(crate) length: u64,
    pub(crate) blocked: bool,
}

/// The end of a hog's poll that could not be told, as a lock was taken (`sched::stacks`). The
/// thread that sits here puts it, and whoever holds that lock takes it.
#[derive(Debug)]
pub(super) struct MissedEnd {
    /// When the poll began, in cycles; 0 if there is none. Written last.
    since: AtomicU64,
    /// Its length, its class in six bits, and a bit that says whether it was blocked.
    length: AtomicU64,
}

/// The bits of a class in [`MissedEnd`].
const CLASS_BITS: u32 = 6;

impl MissedEnd {
    fn new() -> Self {
        Self {
            since: AtomicU64::new(0),
            length: AtomicU64::new(0),
        }
    }

    /// For the thread that sits here. Returns false if there is another.
    #[must_use]
    pub(super) fn put(&self, end: Ended) -> bool {
        const { assert!(CLASSES_MAX <= 1 << CLASS_BITS, "a class has these bits") };
        // Acquire pairs with the Release in `take`, which has read the length before.
        if self.since.load(Ordering::Acquire) != 0 {
            return false;
        }
        let class = end.class.index() as u64;
        let length = end.length << (CLASS_BITS + 1) | class << 1 | u64::from(end.blocked);
        // Relaxed: ordered by the store below.
        self.length.store(length, Ordering::Relaxed);
        // Release pairs with the Acquire in `take`.
        self.since.store(end.poll.since, Ordering::Release);
        true
    }

    /// Takes out what is here, which is the desk `index`.
    pub(super) fn take(&self, index: usize) -> Option<Ended> {
        // Acquire pairs with the Release in `put`.
        let since = self.since.load(Ordering::Acquire);
        if since == 0 {
            return None;
        }
        // Relaxed: see above.
        let length = self.length.load(Ordering::Relaxed);
        // Release pairs with the Acquire in `put`.
        self.since.store(0, Ordering::Release);
        Some(Ended {
            poll: PollId { desk: index, since },
            class: Class::at((length >> 1 & ((1 << CLASS_BITS) - 1)) as usize),
            length: length >> (CLASS_BITS + 1),
            blocked: length & 1 == 1,
        })
    }
}

/// What the thread writes at each poll, apart from what thieves look at. Relaxed throughout: these
/// are reports and hints for others, and the pointers are to constants.
#[derive(Debug)]
struct AtPoll {
    tenure: Tenure,
    /// Where the task that is being polled was spawned; stale between polls.
    running: AtomicPtr<Location<'static>>,
    /// The type of its future; likewise.
    future: AtomicPtr<FutureType>,
    /// Its class when the poll began.
    class: AtomicU8,
    is_named: AtomicBool,
    /// The poll is on guard: the monitor notices sooner if it is long.
    on_guard: AtomicBool,
    /// The task has had a long poll before.
    relapses: AtomicBool,
    /// When the last poll began that was found stuck and kept its seat, as no thread could take it
    /// over; in cycles. And whether it was blocked.
    kept: AtomicU64,
    kept_blocked: AtomicBool,
    /// When the poll began that gives up its seat (`worker::in_place`), in cycles; 0 otherwise.
    gives_up: AtomicU64,
}

impl Desk {
    fn new(classes: usize, fences: Fences) -> Self {
        Self {
            run_queues: RunQueues::new(classes),
            name: Mutex::new(None),
            thread: Mutex::new(None),
            spans: Within::new(),
            real_time: AtomicBool::new(false),
            demoted: AtomicBool::new(false),
            next: Apart(AtomicPtr::new(ptr::null_mut())),
            missed_end: MissedEnd::new(),
            observed: Observed::new(),
            at_poll: Apart(AtPoll {
                tenure: Tenure::new(fences),
                running: AtomicPtr::new(ptr::null_mut()),
                future: AtomicPtr::new(ptr::null_mut()),
                class: AtomicU8::new(0),
                is_named: AtomicBool::new(false),
                on_guard: AtomicBool::new(false),
                relapses: AtomicBool::new(false),
                kept: AtomicU64::new(0),
                kept_blocked: AtomicBool::new(false),
                gives_up: AtomicU64::new(0),
            }),
            deliveries: Apart(DeliveryCounts::new()),
        }
    }

    #[inline]
    pub(crate) fn tenure(&self) -> &Tenure {
        &self.at_poll.0.tenure
    }

    pub(crate) fn sit(&self) {
        let name = crate::sync::thread::current().name().map(str::to_owned);
        *self.thread.lock() = Some((thread::current(), name.unwrap_or_default()));
    }

    /// The thread leaves the desk.
    pub(crate) fn rise(&self) {
        let before = self.thread.lock().take();
        debug_assert!(before.is_some(), "nobody sits here");
        self.spans.clear();
    }

    pub(super) fn spans(&self) -> &Within {
        &self.spans
    }

    /// The spans of `tracing` that are entered on the thread that sits here, outermost first: text
    /// such as `request{method=GET uri=/}:query`, of at most 256 bytes. For other threads. `None`
    /// if there are none, no layer tells (`within`), or one is entered or left at this moment.
    pub(crate) fn within(&self) -> Option<String> {
        self.spans.seen_from_outside()
    }

    /// The name of the thread that sits here, which is the one that it was started with.
    pub(crate) fn thread_name(&self) -> Option<String> {
        self.thread.lock().as_ref().map(|(_, name)| name.clone())
    }

    /// Asks something about the thread that sits here, which does not end meanwhile.
    pub(crate) fn ask_thread<R>(&self, ask: impl FnOnce(ThreadId) -> R) -> Option<R> {
        let thread = self.thread.lock();
        thread.as_ref().map(|&(thread, _)| ask(thread))
    }

    /// The same for who does not wait, as the lock's holder may not be scheduled. `None` if it is
    /// taken, too.
    pub(crate) fn try_ask_thread<R>(&self, ask: impl FnOnce(ThreadId) -> R) -> Option<R> {
        let thread = self.thread.try_lock()?;
        thread.as_ref().map(|&(thread, _)| ask(thread))
    }

    /// Whether the thread that sits here has real-time priority: a hint for other threads.
    #[inline]
    pub(crate) fn is_real_time(&self) -> bool {
        // Relaxed: a hint; what follows from it is done under the lock, or by the thread itself.
        self.real_time.load(Ordering::Relaxed)
    }

    /// Gives real-time priority to the calling thread, which sits here, or takes it away. If the
    /// system refuses, nothing changes.
    #[cold]
    pub(crate) fn set_real_time(&self, wanted: bool) {
        if !wanted {
            return self.become_ordinary();
        }
        let _thread = self.thread.lock();
        if thread::set_real_time(REAL_TIME_WORKER, false).is_ok() {
            // Relaxed: under the lock.
            self.real_time.store(true, Ordering::Relaxed);
            self.demoted.store(false, Ordering::Relaxed);
        }
    }

    /// Without the lock, for which the monitor may wait: the kernel may take the processor away at
    /// once. If `demote` comes between, that is noted, and mended the next time.
    fn become_ordinary(&self) {
        // Relaxed: a hint until the call is made, which this thread makes itself.
        self.demoted.store(false, Ordering::Relaxed);
        let before = self.real_time.swap(false, Ordering::Relaxed);
        if thread::set_ordinary().is_err() {
            self.real_time.store(before, Ordering::Relaxed);
        }
    }

    /// Whether the priority was taken by others, which leaves the policy `SCHED_BATCH`.
    #[inline]
    pub(crate) fn is_demoted(&self) -> bool {
        // Relaxed: the worker that asks may see it at its next sleep.
        self.demoted.load(Ordering::Relaxed)
    }

    /// Takes real-time priority from the thread that sits here. For other threads.
    pub(crate) fn demote(&self) {
        let thread = self.thread.lock();
        if self.is_real_time()
            && let Some((thread, _)) = *thread
            && thread::demote(thread).is_ok()
        {
            // Relaxed: under the lock.
            self.real_time.store(false, Ordering::Relaxed);
            self.demoted.store(true, Ordering::Relaxed);
        }
    }

    /// Puts a task into the next-task slot. Returns the one it displaces.
    #[inline]
    pub(crate) fn put_next(&self, task: Runnable) -> Option<Runnable> {
        // AcqRel: Release pairs with the Acquire in `take_next`; Acquire, as there, receives the
        // displaced task.
        let before = self.next.0.swap(task.into_raw().as_ptr(), Ordering::AcqRel);
        NonNull::new(before).map(received)
    }

    /// Whether there is a task in the next-task slot: a hint.
    pub(crate) fn has_next(&self) -> bool {
        // Relaxed: a hint.
        !self.next.0.load(Ordering::Relaxed).is_null()
    }

    #[inline]
    pub(crate) fn take_next(&self) -> Option<Runnable> {
        // Relaxed: the look saves a swap, as the slot is mostly empty.
        if self.next.0.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Acquire pairs with the Release in `put_next`.
        NonNull::new(self.next.0.swap(ptr::null_mut(), Ordering::Acquire)).map(received)
    }

    /// Takes a task, in any order. For any thread.
    pub(crate) fn take_any(&self) -> Option<Runnable> {
        self.take_next().or_else(|| self.run_queues.take_any())
    }

    /// Whether no task waits here: a hint.
    pub(crate) fn is_clear(&self) -> bool {
        !self.has_next() && self.run_queues.is_empty()
    }

    #[inline]
    pub(crate) fn begin_poll(&self, task: &Header, now: u64) {
        let at_poll = &self.at_poll.0;
        let running = ptr::from_ref(task.spawned_at()).cast_mut();
        let future = ptr::from_ref(task.future()).cast_mut();
        // Relaxed, all: see `AtPoll`.
        at_poll.running.store(running, Ordering::Relaxed);
        at_poll.future.store(future, Ordering::Relaxed);
        let class = task.class().index() as u8;
        at_poll.class.store(class, Ordering::Relaxed);
        // Few tasks have names.
        if task.name().is_some() || at_poll.is_named.load(Ordering::Relaxed) {
            self.note_name(task.name());
        }
        at_poll.tenure.begin_poll(now);
    }

    #[cold]
    fn note_name(&self, name: Option<&'static str>) {
        *self.name.lock() = name;
        let is_named = &self.at_poll.0.is_named;
        // Relaxed: see `AtPoll`.
        is_named.store(name.is_some(), Ordering::Relaxed);
    }

    /// The name of the task that is being polled. For the thread that sits here.
    pub(crate) fn running_name(&self) -> Option<&'static str> {
        // Relaxed: see `AtPoll`.
        let is_named = self.at_poll.0.is_named.load(Ordering::Relaxed);
        is_named.then(|| *self.name.lock()).flatten()
    }

    /// Marks the next poll: whether it is on guard, and whether its task has had a long poll
    /// before. To be taken back when the poll is over.
    pub(crate) fn mark_poll(&self, on_guard: bool, relapses: bool) {
        // Relaxed, here and below: see `AtPoll`.
        self.at_poll.0.on_guard.store(on_guard, Ordering::Relaxed);
        self.at_poll.0.relapses.store(relapses, Ordering::Relaxed);
    }

    /// Whether the task that is being polled has had a long poll before: a hint.
    pub(crate) fn relapses(&self) -> bool {
        // Relaxed: see `AtPoll`.
        self.at_poll.0.relapses.load(Ordering::Relaxed)
    }

    /// Whether the poll that is under way is on guard: a hint.
    #[inline]
    pub(crate) fn is_on_guard(&self) -> bool {
        // Relaxed: see `AtPoll`.
        self.at_poll.0.on_guard.load(Ordering::Relaxed)
    }

    /// The poll that began at `since` is stuck and keeps its seat, as no thread can take it over.
    pub(crate) fn keep(&self, since: u64, blocked: bool) {
        let at_poll = &self.at_poll.0;
        // Relaxed, both: a poll is not found stuck once only, and `kept_blocked` is for reports.
        at_poll.kept_blocked.store(blocked, Ordering::Relaxed);
        at_poll.kept.store(since, Ordering::Relaxed);
    }

    /// Whether the poll that began at `since` was found stuck and kept its seat, and if so, whether
    /// it was blocked.
    #[inline]
    pub(crate) fn was_kept(&self, since: u64) -> Option<bool> {
        let at_poll = &self.at_poll.0;
        // Relaxed, both: as in `keep`.
        let was_kept = at_poll.kept.load(Ordering::Relaxed) == since;
        was_kept.then(|| at_poll.kept_blocked.load(Ordering::Relaxed))
    }

    /// The poll that began at `since` gives up its seat; 0 takes that back.
    pub(crate) fn give_up(&self, since: u64) {
        // Relaxed: see `AtPoll`. The heir is started after this.
        self.at_poll.0.gives_up.store(since, Ordering::Relaxed);
    }

    /// Whether the poll that began at `since` gives up its seat: a hint.
    pub(crate) fn gives_up(&self, since: u64) -> bool {
        // Relaxed: see `AtPoll`.
        self.at_poll.0.gives_up.load(Ordering::Relaxed) == since
    }

    /// The class of the task that was polled last: a hint.
    pub(crate) fn last_class(&self) -> Class {
        // Relaxed: see `AtPoll`.
        Class::at(self.at_poll.0.class.load(Ordering::Relaxed).into())
    }

    /// The kind of the task that is being polled. It may mix two tasks; the caller finds out
    /// afterwards whether the poll was still the same.
    pub(crate) fn running_kind(&self) -> Option<Kind> {
        // Relaxed, both: see `AtPoll`.
        let future = self.at_poll.0.future.load(Ordering::Relaxed);
        let class = self.at_poll.0.class.load(Ordering::Relaxed);
        Some(Kind {
            spawned_at: self.last_running()?,
            // SAFETY: `begin_poll` stores pointers to `'static` types only.
            future: unsafe { future.as_ref() }?,
            name: *self.name.lock(),
            class: Class::at(class.into()),
        })
    }

    /// The spawn site of the task that was polled last. For the thread that sits here.
    pub(crate) fn last_running(&self) -> Option<&'static Location<'static>> {
        // Relaxed: see `AtPoll`.
        let location = self.at_poll.0.running.load(Ordering::Relaxed);
        // SAFETY: `begin_poll` stores pointers to `'static` locations only.
        unsafe { location.as_ref() }
    }

    /// The spawn site of the task that is being polled.
    pub(crate) fn running(&self) -> Option<&'static Location<'static>> {
        if self.tenure().polling_since() == 0 {
            return None;
        }
        self.last_running()
    }
}

impl Ends for Desk {
    fn number(&self) -> &AtomicU64 {
        self.tenure().since()
    }
}

/// The desks of a runtime: one for each worker and for each thread that the heavy pool may have.
#[derive(Debug)]
pub(crate) struct Desks {
    /// Made when first used: a heavy pool that is never needed has none.
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

    /// Gives back a desk at which nobody sits.
    pub(crate) fn give_back(&self, index: usize) {
        let mut free = self.free.lock();
        debug_assert!(free.len() < self.desks.len(), "each desk is free once");
        free.push(index);
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> &Arc<Desk> {
        self.desks[index].get_or_init(|| Arc::new(Desk::new(self.classes, self.fences)))
    }

    /// All desks that were ever used, with their numbers.
    pub(super) fn used(&self) -> impl Iterator<Item = (usize, &Arc<Desk>)> {
        let desks = self.desks.iter().enumerate();
        desks.filter_map(|(index, desk)| Some((index, desk.get()?)))
    }

    /// All desks that were ever used.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<Desk>> {
        self.desks.iter().filter_map(OnceLock::get)
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_was_missed_is_taken_once_and_whole() {
        let slot = MissedEnd::new();
        assert_eq!(slot.take(3), None);
        let end = |since, class, blocked| Ended {
            poll: PollId { desk: 3, since },
            class,
            length: 1 << 50 | since,
            blocked,
        };
        let first = end(7, Class::BULK, true);
        assert!(slot.put(first));
        assert!(!slot.put(end(8, Class::NORMAL, false)), "it is full");
        assert_eq!(slot.take(3), Some(first));
        assert_eq!(slot.take(3), None);
        let last = end(9, Class::at(CLASSES_MAX - 1), false);
        assert!(slot.put(last));
        assert_eq!(slot.take(3), Some(last));
    }
}
