//! What the threads of one runtime share.

use std::panic::Location;
use std::ptr::{self, NonNull};

use crate::blocking::pool::Pool;
use crate::class::{CLASSES, Class};
use crate::clock::Clock;
use crate::io::driver::Driver;
use crate::runtime::config::Config;
use crate::runtime::context;
use crate::stats::accounts::{Accounts, Count};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use crate::task::cell::{Header, Runnable, Schedule};
use crate::task::registry::Registry;
use crate::time::timers::Timers;

use super::idle::Idle;
use super::inbox::Inbox;
use super::lines::{Lines, received};
use super::monitor::Monitor;
use super::parker::Parker;

/// A worker's place: all that passes on when another thread takes the worker over.
#[derive(Debug)]
pub(crate) struct Seat {
    /// The task to run next, ahead of the lines; anybody may take it.
    next: AtomicPtr<Header>,
    pub(crate) lines: Lines,
    pub(crate) driver: Driver,
    pub(crate) timers: Timers,
    pub(crate) parker: Parker,
    pub(crate) accounts: Accounts,
    /// When the poll that is under way began, in cycles; 0 between polls.
    pub(crate) polling_since: Count,
    /// When the readiness queue was last checked, in cycles.
    pub(crate) checked_at: Count,
    /// Where the task that is being polled was spawned; null between polls.
    running: AtomicPtr<Location<'static>>,
}

impl Seat {
    fn new() -> std::io::Result<Self> {
        Ok(Self {
            next: AtomicPtr::new(ptr::null_mut()),
            lines: Lines::new(),
            driver: Driver::new()?,
            timers: Timers::new(),
            parker: Parker::new(),
            accounts: Accounts::new(),
            polling_since: Count::new(),
            checked_at: Count::new(),
            running: AtomicPtr::new(ptr::null_mut()),
        })
    }

    /// Puts a task into the next-task slot. Returns the one it displaces.
    #[inline]
    pub(crate) fn put_next(&self, task: Runnable) -> Option<Runnable> {
        // AcqRel: Release hands the task to whoever takes it; Acquire receives the displaced one.
        let before = self.next.swap(task.into_raw().as_ptr(), Ordering::AcqRel);
        NonNull::new(before).map(received)
    }

    /// Takes the task from the next-task slot.
    #[inline]
    pub(crate) fn take_next(&self) -> Option<Runnable> {
        // Relaxed: a look that saves the swap; the slot is mostly empty.
        if self.next.load(Ordering::Relaxed).is_null() {
            return None;
        }
        // Acquire pairs with the Release in `put_next`.
        NonNull::new(self.next.swap(ptr::null_mut(), Ordering::Acquire)).map(received)
    }

    /// Whether there is a task in the next-task slot; a hint.
    pub(crate) fn has_next(&self) -> bool {
        // Relaxed: whoever acts on it goes through `take_next`.
        !self.next.load(Ordering::Relaxed).is_null()
    }

    /// Says what is being polled from now on.
    #[inline]
    pub(crate) fn begin_poll(&self, task: &Header, now: u64) {
        // Relaxed: a report for others, with a pointer to a constant.
        self.running.store(
            ptr::from_ref(task.spawned_at()).cast_mut(),
            Ordering::Relaxed,
        );
        self.polling_since.put(now);
    }

    #[inline]
    pub(crate) fn end_poll(&self) {
        self.polling_since.put(0);
    }

    /// Where the task that is being polled was spawned.
    pub(crate) fn running(&self) -> Option<&'static Location<'static>> {
        if self.polling_since.load() == 0 {
            return None;
        }
        // Relaxed: as in `begin_poll`.
        let location = self.running.load(Ordering::Relaxed);
        // SAFETY: `begin_poll` stores pointers to `'static` locations only.
        unsafe { location.as_ref() }
    }
}

/// What the threads of one runtime share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) seats: Box<[Seat]>,
    /// One for each class.
    pub(crate) inboxes: [Inbox<Header>; CLASSES],
    pub(crate) idle: Idle,
    pub(crate) monitor: Monitor,
    pub(crate) registry: Registry,
    pub(crate) clock: Clock,
    pub(crate) config: Config,
    pub(crate) pool: Pool,
    /// The runtime is shutting down.
    stopping: AtomicBool,
    /// Whose turn it is to host what threads without a worker wait for.
    next_home: AtomicUsize,
}

impl Shared {
    /// # Errors
    ///
    /// If the system gives no readiness queue.
    pub(crate) fn new(config: Config) -> std::io::Result<Self> {
        let seats: Box<[Seat]> = (0..config.workers)
            .map(|_| Seat::new())
            .collect::<std::io::Result<_>>()?;
        let clock = Clock::start();
        Ok(Self {
            idle: Idle::new(seats.len()),
            monitor: Monitor::default(),
            registry: Registry::new(seats.len() + 1),
            inboxes: std::array::from_fn(|_| Inbox::new()),
            seats,
            clock,
            pool: Pool::new(&config),
            config,
            stopping: AtomicBool::new(false),
            next_home: AtomicUsize::new(0),
        })
    }

    pub(crate) fn driver(&self, worker: usize) -> &Driver {
        &self.seats[worker].driver
    }

    /// A worker for what waits on a thread that is none.
    pub(crate) fn next_home(&self) -> usize {
        // Relaxed: any spread will do.
        self.next_home.fetch_add(1, Ordering::Relaxed) % self.seats.len()
    }

    #[inline]
    pub(crate) fn inbox(&self, class: Class) -> &Inbox<Header> {
        &self.inboxes[class.index()]
    }

    /// Whether an inbox has something, for a worker about to sleep.
    pub(crate) fn has_mail(&self) -> bool {
        self.inboxes.iter().any(|inbox| !inbox.is_empty())
    }

    /// Puts a task into the inbox of its class, and wakes a worker if none would see it.
    pub(crate) fn push_outside(&self, task: Runnable) {
        // Relaxed: a statistic.
        task.header()
            .queued_at
            .store(self.clock.cycles(), Ordering::Relaxed);
        if self.push_inbox(task) {
            self.wake_one();
        }
    }

    /// Puts a task into the inbox of its class. Returns false if the runtime has shut down; the
    /// task is cancelled then.
    pub(crate) fn push_inbox(&self, task: Runnable) -> bool {
        let inbox = self.inbox(task.header().class());
        // SAFETY: a task with a `Runnable` lives until it runs, lies in one queue at a time, and
        // may be run by any thread.
        match unsafe { inbox.push(task.into_raw()) } {
            Ok(()) => true,
            Err(back) => {
                self.cancel(received(back));
                false
            }
        }
    }

    /// Drops a task's future and completes it as cancelled.
    pub(crate) fn cancel(&self, task: Runnable) {
        task.cancel(|header| self.registry.remove(header));
    }

    /// Wakes one parked worker, if there is one and no other is looking for work.
    #[inline]
    pub(crate) fn wake_one(&self) {
        if let Some(worker) = self.idle.to_wake() {
            self.unpark(worker);
        }
    }

    /// Ends a worker's sleep, or its next one.
    pub(crate) fn unpark(&self, worker: usize) {
        let seat = &self.seats[worker];
        if seat.parker.unpark() {
            seat.driver.wake();
        }
    }

    pub(crate) fn is_stopping(&self) -> bool {
        // Acquire pairs with the Release in `stop`.
        self.stopping.load(Ordering::Acquire)
    }

    /// Refuses new tasks and has every worker stop. Returns false if that was done before.
    pub(crate) fn stop(&self) -> bool {
        // AcqRel: Release pairs with `is_stopping`.
        if self.stopping.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.registry.close();
        self.inboxes.iter().for_each(Inbox::close);
        (0..self.seats.len()).for_each(|worker| self.unpark(worker));
        self.monitor.rouse();
        true
    }
}

/// How a task finds its runtime. It counts no reference to it, so that spawning does not make all
/// workers write one counter.
///
/// **Invariant:** a runtime outlives every task of its own that has not completed. Shutdown
/// completes all tasks before it gives up the runtime, and keeps the runtime for good if a task
/// cannot be completed (`runtime::shutdown`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home(*const Shared);

// SAFETY: `Shared` is `Send + Sync`; the pointer gives access to it and to nothing else.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

impl Home {
    /// From the `Arc` and not from what it holds: the pointer has to reach the counts as well.
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        Self(Arc::as_ptr(shared))
    }
}

impl Schedule for Home {
    #[inline]
    fn schedule(&self, task: Runnable) {
        context::with_worker(|worker| match worker {
            Some(worker) if ptr::eq(Arc::as_ptr(worker.shared()), self.0) => worker.wake_here(task),
            _ => {
                // Once pushed, the task may complete and the runtime go away under our feet, so
                // this thread holds on to the runtime.
                // SAFETY: `task` has not completed, so by the invariant its runtime lives; it
                // was made by `Arc::new` in `runtime::builder`.
                let shared = unsafe {
                    Arc::increment_strong_count(self.0);
                    Arc::from_raw(self.0)
                };
                shared.push_outside(task);
            }
        });
    }

    fn woken_again(&self, task: &Header) {
        context::with_worker(|worker| {
            if let Some(worker) = worker.filter(|worker| worker.is_running(task)) {
                worker.give_way(false);
            }
        });
    }
}
