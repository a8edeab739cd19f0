//! What the threads of one runtime share.
#![allow(
    unsafe_code,
    reason = "a task is queued as a pointer, and its home found by one"
)]

use std::cell::RefCell;
use std::ptr;
use std::time::Duration;

use crate::class::{Class, ClassError};
use crate::clock::Clock;
use crate::counters;
use crate::counters::accounts::{Accounts, Count};
use crate::counters::deliveries::DeliveryCounts;
use crate::io::driver::Driver;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex};
use crate::timer::timers::Timers;

use super::config::Config;
use super::context;
use super::desk::{Desk, Desks, Ended};
use super::dumps::Dumps;
use super::extensions::Extensions;
use super::heavy_pool::HeavyPool;
use super::hog::{Hog, HogReport, QUIET};
use super::idle::Idle;
use super::injection::InjectionQueue;
use super::kinds::Kinds;
use super::ledger::Ledger;
use super::live::Live;
use super::monitor::lookout::Lookout;
use super::parker::Parker;
use super::placement::Placement;
use super::run_queues::received;
use super::shares::{Limits, Term};
use super::stacks::{ServerId, Stacks};
use super::task::cell::{Header, Runnable, Schedule};
use super::task::registry::Registry;

/// How long a poll goes on before its worker counts as held up: no descriptor comes to it, and
/// other workers may take its next task, timers and events. Earlier they would take the task away
/// from a warm cache.
pub(super) const HELD_UP_AFTER: Duration = Duration::from_micros(50);

/// A worker's place: all that passes to the heir in a hand-off.
///
/// Aligned, so that its writes share no cache line with what others read.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Seat {
    /// Where the thread in the seat has its queues.
    desk: AtomicUsize,
    pub(crate) driver: Driver,
    pub(crate) timers: Timers,
    pub(crate) parker: Parker,
    pub(crate) accounts: Accounts,
    /// When the readiness queue was last checked, in cycles.
    pub(crate) checked_at: Count,
    /// When its holder last looked around and at its neighbours, in cycles.
    pub(crate) looked_at: Count,
}

impl Seat {
    fn new(desk: usize, classes: usize, events_max: usize, clock: Clock) -> std::io::Result<Self> {
        Ok(Self {
            desk: AtomicUsize::new(desk),
            driver: Driver::new(events_max, clock)?,
            timers: Timers::new(),
            parker: Parker::new(),
            accounts: Accounts::new(classes),
            checked_at: Count::new(),
            looked_at: Count::new(),
        })
    }

    /// Where the thread in the seat has its queues.
    #[inline]
    pub(crate) fn desk(&self) -> usize {
        // Acquire pairs with the Release in `set_desk`.
        self.desk.load(Ordering::Acquire)
    }

    /// For the heir that has claimed the seat.
    pub(crate) fn set_desk(&self, desk: usize) {
        // Release pairs with the Acquire in `desk`.
        let before = self.desk.swap(desk, Ordering::Release);
        debug_assert_ne!(before, desk, "an heir has a desk of its own");
    }
}

/// What the threads of one runtime share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) seats: Box<[Arc<Seat>]>,
    pub(crate) desks: Desks,
    pub(crate) injection_queues: Box<[InjectionQueue<Header>]>,
    pub(crate) idle: Idle,
    pub(crate) placement: Placement,
    pub(crate) ledger: Ledger,
    pub(crate) heavy_pool: HeavyPool,
    pub(crate) kinds: Kinds,
    pub(crate) monitor: Lookout,
    pub(crate) registry: Registry,
    pub(crate) dumps: Dumps,
    pub(crate) clock: Clock,
    pub(crate) config: Config,
    pub(crate) live: Arc<Live>,
    pub(crate) on_hog: OnHog,
    /// Starts a thread that makes names of stacks.
    pub(crate) on_stacks: fn(&Arc<Shared>, ServerId),
    pub(crate) stacks: Arc<Stacks>,
    pub(crate) extensions: Extensions,
    /// Deliveries by reads on threads without a desk.
    pub(crate) outside: Mutex<DeliveryCounts>,
    stopping: AtomicBool,
    /// The worker for the next timer or descriptor of a thread that is not a worker.
    next_home: AtomicUsize,
}

/// What becomes of reports of hogs.
#[derive(Debug)]
pub(crate) struct OnHog {
    /// Whether anybody would be given one.
    pub(crate) is_heard: fn(&Shared) -> bool,
    /// Delivers one. It must not block.
    pub(crate) deliver: fn(&Arc<Shared>, HogReport),
}

impl Shared {
    /// Fails if the system gives no readiness queue.
    pub(crate) fn new(
        config: Config,
        clock: Clock,
        on_hog: OnHog,
        on_stacks: fn(&Arc<Shared>, ServerId),
        extensions: Extensions,
    ) -> std::io::Result<Self> {
        let classes = config.classes.len();
        let heavy = config.heavy_threads + config.blocked_threads;
        let desks = Desks::new(config.workers + heavy, classes);
        let live = Live::new(config.hand_off_after, config.busy_wait, clock);
        let live = Arc::new(live);
        let in_pool = [config.heavy_threads, config.blocked_threads];
        let seats: Box<[Arc<Seat>]> = (0..config.workers)
            .map_while(|_| desks.take())
            .map(|desk| Seat::new(desk, classes, config.io_check_events, clock).map(Arc::new))
            .collect::<std::io::Result<_>>()?;
        Ok(Self {
            idle: Idle::new(seats.len()),
            placement: Placement::new(seats.len(), &clock),
            monitor: Lookout::default(),
            registry: Registry::new(seats.len() + 1),
            dumps: Dumps::default(),
            injection_queues: (0..classes).map(|_| InjectionQueue::new()).collect(),
            ledger: ledger(&config, &clock),
            heavy_pool: HeavyPool::new(clock, classes, seats.len(), in_pool, Arc::clone(&live)),
            kinds: Kinds::new(),
            seats,
            desks,
            clock,
            on_hog,
            on_stacks,
            stacks: Arc::new(Stacks::new(config.hog_stacks, clock)),
            extensions,
            outside: Mutex::new(DeliveryCounts::new()),
            config,
            live,
            stopping: AtomicBool::new(false),
            next_home: AtomicUsize::new(0),
        })
    }

    /// Panics if the class does not belong to this runtime.
    #[inline]
    #[track_caller]
    pub(crate) fn check_class(&self, class: Class) {
        let is_known = self.config.classes.has(class);
        assert!(is_known, "{}", ClassError::Unknown(class));
    }

    #[inline]
    pub(crate) fn desk_of(&self, seat: &Seat) -> &Desk {
        self.desks.get(seat.desk())
    }

    pub(crate) fn driver(&self, worker: usize) -> &Driver {
        &self.seats[worker].driver
    }

    /// The worker for a timer or descriptor of a thread that is not a worker.
    pub(crate) fn next_home(&self) -> usize {
        // Relaxed: any spread will do.
        self.next_home.fetch_add(1, Ordering::Relaxed) % self.seats.len()
    }

    /// The worker for a descriptor that is registered on a thread of the worker `here`, or outside
    /// the workers.
    pub(crate) fn home_of_descriptor(&self, here: Option<usize>) -> usize {
        let worker = here.unwrap_or_else(|| self.next_home());
        self.way_of_descriptor(worker, here).unwrap_or(worker)
    }

    /// Where a descriptor of the worker `from` goes instead, if it does. Its task runs on a thread
    /// of the worker `here`. It does not go to another worker that is held up, which would
    /// take its events late.
    pub(crate) fn way_of_descriptor(&self, from: usize, here: Option<usize>) -> Option<usize> {
        let way = self.placement.next(from, here);
        way.filter(|&to| Some(to) == here || !self.is_held_up(&self.seats[to], HELD_UP_AFTER))
    }

    /// Whether the worker in a seat has been in one poll for so long.
    pub(crate) fn is_held_up(&self, seat: &Seat, after: Duration) -> bool {
        let since = self.desk_of(seat).tenure().polling_since();
        let limit = self.clock.cycles_of(after);
        since != 0 && self.clock.cycles().saturating_sub(since) >= limit
    }

    #[inline]
    pub(crate) fn injection_queue(&self, class: Class) -> &InjectionQueue<Header> {
        &self.injection_queues[class.index()]
    }

    /// Whether an injection queue has an entry. For a worker about to park, behind a fence.
    pub(crate) fn has_injected(&self) -> bool {
        self.injection_queues.iter().any(|queue| !queue.is_empty())
    }

    /// How many tasks wait in the injection queues.
    #[cfg(feature = "drop-in")]
    pub(crate) fn injected(&self) -> usize {
        let queues = self.injection_queues.iter();
        queues.map(|queue| queue.len(usize::MAX)).sum()
    }

    /// Counts a delivery by a read on this thread.
    #[inline]
    pub(crate) fn count_delivery(&self, count: impl FnOnce(&DeliveryCounts)) {
        if !counters::KEPT {
            return;
        }
        context::with_worker(|worker| match worker {
            Some(worker) if ptr::eq(Arc::as_ptr(worker.shared()), self) => {
                count(&worker.desk().deliveries.0);
            }
            _ => count(&self.outside.lock()),
        });
    }

    /// Puts a task into the injection queue of its class, and wakes a worker if none would see the
    /// task. If the runtime has shut down, the task is cancelled.
    pub(crate) fn push_outside(self: &Arc<Self>, task: Runnable) {
        task.header().since.put(self.clock.cycles());
        self.settle_class(task.header());
        match post(self.injection_queue(task.header().class()), task) {
            Ok(()) => self.wake_one(),
            Err(back) => cancel_refused(self, back),
        }
    }

    /// Puts a task into the class that others want it to be in, if they do. Returns whether that
    /// has changed its class. For who has the right to run the task.
    #[inline]
    pub(crate) fn settle_class(&self, task: &Header) -> bool {
        task.is_wanted() && self.take_over_class(task)
    }

    #[cold]
    fn take_over_class(&self, task: &Header) -> bool {
        let before = task.class();
        // Once, unless others change their minds meanwhile.
        while let Some(wanted) = task.take_wanted() {
            if self.config.classes.has(wanted) {
                self.registry.change_class(task, wanted);
            }
        }
        task.class() != before
    }

    /// Drops a task's future and completes it as cancelled.
    pub(crate) fn cancel(&self, task: Runnable) {
        dropping(|| task.cancel(|header| self.registry.remove(header)));
    }

    /// Hands a task that is known to hog to the heavy pool.
    pub(crate) fn push_heavy(&self, task: Runnable) {
        self.settle_class(task.header());
        let rouses = match self.heavy_pool.push(&self.ledger, task) {
            Ok(rouses) => rouses,
            Err(task) => match post(&self.heavy_pool.arrivals, task) {
                Ok(()) => true,
                Err(back) => return self.cancel(back),
            },
        };
        if rouses {
            self.monitor.rouse();
        }
    }

    /// Counts a hog, teaches its kind, and reports it unless its kind was reported lately.
    pub(crate) fn note_hog(self: &Arc<Self>, hog: Hog) {
        let quiet = self.clock.cycles_of(QUIET);
        let row = self.kinds.hogged(&hog.kind, self.clock.cycles(), quiet);
        if hog.fresh {
            self.kinds.judge(&hog.kind, hog.verdict());
        }
        if let Some(row) = row {
            let report = hog.report(&row, &self.clock);
            // A name that nobody would hear need not be made.
            let unnamed = match (self.on_hog.is_heard)(self) {
                true => self.stacks.keep_report(hog.poll, report),
                false => Some(report),
            };
            match unnamed {
                // The monitor has it served.
                None => self.monitor.rouse(),
                Some(report) => (self.on_hog.deliver)(self, report),
            }
        }
    }

    /// The poll of a hog is over. Notes it unless it has been noted.
    pub(crate) fn end_hog(self: &Arc<Self>, hog: Hog, noted: bool) {
        if !noted {
            self.note_hog(hog);
        }
        self.kinds.ended(&hog.kind, hog.length, hog.blocked);
        let desk = self.desks.get(hog.poll.desk);
        let end = Ended {
            poll: hog.poll,
            class: hog.kind.class,
            length: hog.length,
            blocked: hog.blocked,
        };
        if self.stacks.ended(desk, end) {
            self.monitor.rouse();
        }
    }

    /// Has names made of the stacks that were taken, if nobody is at it. For the monitor, as it
    /// takes a while to start a thread.
    pub(crate) fn serve_stacks(self: &Arc<Self>) {
        if let Some(server) = self.stacks.wants_server() {
            (self.on_stacks)(self, server);
        }
    }

    /// Somebody asks what hogs were doing.
    pub(crate) fn ask_for_names(&self) {
        if self.stacks.ask_for() {
            self.monitor.rouse();
        }
    }

    /// Wakes one parked worker, if there is one and none searches.
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

    /// Nobody but the worker can run, as far as a clock that can be paused knows. Its runtime has
    /// one worker, which looks whether all wait.
    pub(crate) fn look_for_lull(&self) {
        self.unpark(0);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        // Acquire pairs with the Release in `stop`.
        self.stopping.load(Ordering::Acquire)
    }

    /// Refuses new tasks and stops every worker. Returns false if that was done before.
    pub(crate) fn stop(self: &Arc<Self>) -> bool {
        // AcqRel: Release pairs with `is_stopping`.
        if self.stopping.swap(true, Ordering::AcqRel) {
            return false;
        }
        self.registry.close();
        self.injection_queues.iter().for_each(InjectionQueue::close);
        (0..self.seats.len()).for_each(|worker| self.unpark(worker));
        self.monitor.rouse();
        let reports = self.stacks.close();
        reports
            .into_iter()
            .for_each(|report| (self.on_hog.deliver)(self, report));
        let waiting = self.heavy_pool.close();
        waiting.into_iter().for_each(|task| self.cancel(task));
        true
    }
}

/// Puts a task into an injection queue. Gives it back if that is closed.
fn post(queue: &InjectionQueue<Header>, task: Runnable) -> Result<(), Runnable> {
    // SAFETY: a task with a `Runnable` lives until it runs, is in one queue at a time, and may be
    // run by any thread.
    unsafe { queue.push(task.into_raw()) }.map_err(received)
}

/// How deep cancellations may nest when drops of tasks spawn or abort others. Each level takes some
/// kilobytes of stack, and no ordinary program needs more than a few.
const NESTED_MAX: usize = 16;

/// The tasks that this thread is cancelling because their runtimes have shut down.
struct Cancelling {
    nested: usize,
    /// Tasks that wait until the outermost cancellation is done.
    waiting: Vec<(Arc<Shared>, Runnable)>,
}

thread_local! {
    static CANCELLING: RefCell<Cancelling> = const {
        RefCell::new(Cancelling { nested: 0, waiting: Vec::new() })
    };
}

/// Cancels a task whose runtime has shut down, on the thread that has woken the task. The task's
/// drop may use the runtime there as on a worker.
///
/// If that was woken by the drop of another task, it is put off until that drop is over: a chain of
/// tasks that wait for each other may be longer than any stack, and the drop may hold a lock that
/// the next one takes, as those of h2's connections do.
///
/// A task that was just spawned or aborted is cancelled at once, as the drop that did so may wait
/// for its end. It is put off only if cancellations are nested too deep.
fn cancel_refused(shared: &Arc<Shared>, task: Runnable) {
    let at_once = !task.header().has_waited() || task.is_aborted();
    let nested_max = if at_once { NESTED_MAX } else { 1 };
    let mut next = Some((Arc::clone(shared), task));
    // A thread whose locals are gone cancels at once.
    let _ = CANCELLING.try_with(|this| {
        let this = &mut *this.borrow_mut();
        if this.nested >= nested_max {
            this.waiting.extend(next.take());
        }
    });
    if let Some((shared, task)) = next {
        let _entered = context::enter(Arc::clone(&shared));
        shared.cancel(task);
    }
}

/// Does what drops futures of a runtime that shuts down; then cancels the tasks that were put off
/// meanwhile, one after the other.
pub(crate) fn dropping(work: impl FnOnce()) {
    let nested = CANCELLING.try_with(|this| {
        let this = &mut *this.borrow_mut();
        this.nested += 1;
        this.nested
    });
    work();
    let is_outermost = nested == Ok(1);
    let waiting = || CANCELLING.try_with(|this| this.borrow_mut().waiting.pop());
    while is_outermost && let Ok(Some((shared, task))) = waiting() {
        let _entered = context::enter(Arc::clone(&shared));
        task.cancel(|header| shared.registry.remove(header));
    }
    let _ = CANCELLING.try_with(|this| {
        let this = &mut *this.borrow_mut();
        this.nested -= 1;
        if is_outermost {
            debug_assert_eq!(this.nested, 0);
            this.waiting = Vec::new();
        }
    });
}

fn ledger(config: &Config, clock: &Clock) -> Ledger {
    let cycles = |duration| clock.cycles_of(duration);
    let limits = Limits {
        credit: cycles(Duration::from_micros(100)),
        lead_max: cycles(Duration::from_millis(250)),
        lag_max: cycles(Duration::from_millis(100)),
        // Of two classes at 1:1000 the larger is never owed more than half a millisecond, because
        // the other is never further ahead.
        lend: cycles(Duration::from_micros(100)),
        workers: config.workers as u64,
    };
    let terms: Vec<Term> = config
        .classes
        .iter()
        .map(|(_, row)| Term {
            share: row.terms.share,
            target: cycles(row.terms.target),
        })
        .collect();
    Ledger::new(limits, &terms)
}

/// How a task finds its runtime. It counts no reference, so that spawning does not make all workers
/// write one counter.
///
/// **Invariant:** a runtime outlives each of its tasks until the task completes. Shutdown completes
/// all tasks before it gives up the runtime, and keeps the runtime for good if a task cannot be
/// completed (`runtime::shutdown`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home(*const Shared);

// SAFETY: `Shared` is `Send + Sync`; the pointer gives access to it and to nothing else.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

impl Home {
    /// Made from the `Arc`, as the pointer has to reach the reference counts as well.
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
                // Once the task is pushed, it may complete and the runtime be dropped, so this
                // thread holds a reference. SAFETY: `task` has not completed, so by the invariant
                // its runtime lives; it was made by `Arc::new` in `runtime::builder`.
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
