//! A lane: a bounded queue of blocking work and a bounded number of threads that do it.
//!
//! # How work meets threads
//!
//! All decisions are made under one lock. When work is queued, one thread is called: one that
//! spins, else the one that fell asleep last, whose memory is still in the caches, else a new one.
//! While a thread is on its way, no other is called. It takes its work and, if there is more, calls
//! the next. So a burst of short work is done by few threads, and long work soon gets as many as
//! are allowed.
//!
//! A thread that runs out of work spins for some microseconds before it sleeps, because a task that
//! gets its result often asks for more. One thread of each lane does so, while it has lately paid
//! off, and only while a worker sleeps, so that the processor is free.
//!
//! # Orderings
//!
//! All are `Relaxed`. `queued`, `spins_on` and `in_vain` are hints: whoever acts on them looks
//! again under the lock, or makes a wait that is bounded. A task's `key` is accessed under the
//! lock.

mod start;

use std::panic::Location;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use slab::Slab;

use crate::class::Class;
use crate::clock;
use crate::counters::histogram::Tallied;
use crate::sched::BusyWait;
use crate::sched::config::Config;
use crate::sched::context;
use crate::sched::presence::Busy;
use crate::sched::shared::Shared;
use crate::sched::shares::Term;
use crate::sched::spin::Spinner;
use crate::sched::task::cell::{Header, Ran, Runnable};
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::thread::{self, JoinHandle, Thread, ThreadId};
use crate::sync::{Arc, Condvar, Mutex, hint};
use crate::sys::cpus;

use super::LaneError;
use super::lane::LINGER;
use super::order::{Charge, Entitled, Limits, Order};

/// How far a class may be ahead of its share and still go first.
const LEAD: Duration = Duration::from_millis(20);
/// How long a thread spins at most. The worker that awaits the work sleeps meanwhile, and takes
/// about as long to wake and to ask for more.
const SPIN: Duration = Duration::from_micros(50);

/// Work that took less did not wait for a device, or only briefly.
const SHORT: Duration = Duration::from_millis(2);

/// After lingering was in vain, it is left out for this many pieces of work.
const LINGER_PAUSE: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: Arc<str>,
    /// The name of its threads, after the runtime's name.
    pub(crate) thread_suffix: Arc<str>,
    pub(crate) threads: usize,
    pub(crate) queue: usize,
    pub(crate) wait: Option<Duration>,
    pub(crate) keep_alive: Duration,
}

#[derive(Debug)]
pub(crate) struct Core {
    settings: Settings,
    spin: u64,
    /// A worker lingers for work that usually takes less than this.
    brief: u64,
    /// Work that takes less is short.
    short: u64,
    spins_on: AtomicUsize,
    /// How many times lingering is still to be left out.
    in_vain: AtomicUsize,
    quota: bool,
    level: BusyWait,
    state: Mutex<State>,
    /// The length of the queue, for threads that spin; written under the lock.
    queued: AtomicUsize,
    /// Notified when a thread has ended.
    ended: Condvar,
}

#[derive(Debug)]
struct Job {
    task: Runnable,
    /// Whether it is done even if the runtime shuts down before it has begun.
    kept: bool,
    /// Whether it is done however long it waits, and even if there is no thread for it.
    patient: bool,
    /// Dropped when it is done, and has woken whoever waits for it.
    busy: Busy,
}

#[derive(Debug)]
struct State {
    order: Order<Job>,
    threads: usize,
    /// Threads that were called and have not come yet.
    coming: usize,
    spinning: usize,
    /// A stack of sleeping threads: the last one fell asleep last.
    asleep: Vec<Thread>,
    /// The handles of the threads, and of some that have ended.
    handles: Vec<JoinHandle<()>>,
    closed: bool,
    /// Whether a timer is set that looks for work that has waited too long.
    armed: bool,
    running: Slab<Running>,
    /// A moving mean of how long work took.
    lately: u64,
    tally: Tally,
}

/// What has become of the work.
#[derive(Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) done: u64,
    pub(crate) refused: u64,
    pub(crate) expired: u64,
    pub(crate) waits: Tallied,
    pub(crate) runs: Tallied,
}

impl Tally {
    fn note_done(&mut self, took: u64) {
        self.done += 1;
        self.runs.add(took);
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) name: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) struct CoreStats {
    pub(crate) name: Arc<str>,
    pub(crate) threads: usize,
    pub(crate) threads_max: usize,
    pub(crate) idle: usize,
    pub(crate) busy: usize,
    pub(crate) queued: usize,
    pub(crate) tally: Tally,
}

enum Hand {
    Nobody,
    Asleep(Thread),
    New,
}

impl State {
    /// Calls a thread, if there is work and none is on its way.
    fn send_for_hand(&mut self, threads_max: usize) -> Hand {
        let (at_work, at_rest) = (self.running.len(), self.spinning + self.asleep.len());
        debug_assert!(
            self.coming + at_work + at_rest <= self.threads,
            "a thread is in two places"
        );
        debug_assert!(self.threads <= threads_max, "more threads than are allowed");
        if self.order.is_empty() || self.coming > 0 || self.spinning > 0 {
            return Hand::Nobody;
        }
        if let Some(thread) = self.asleep.pop() {
            self.coming += 1;
            return Hand::Asleep(thread);
        }
        if self.threads < threads_max {
            self.threads += 1;
            self.coming += 1;
            return Hand::New;
        }
        Hand::Nobody
    }

    /// Takes the work to be done next, by the current shares and targets of the classes.
    fn take(&mut self, shared: &Shared) -> Option<(u64, Job, Charge)> {
        if self.order.is_empty() {
            return None;
        }
        for (class, _) in shared.config.classes.iter() {
            let Term { share, target } = shared.ledger.term(class);
            self.order.entitle(class, Entitled { share, target });
        }
        self.order.pop()
    }

    fn forget_sleeper(&mut self, id: ThreadId) -> bool {
        let place = self.asleep.iter().position(|thread| thread.id() == id);
        place.map(|place| self.asleep.remove(place)).is_some()
    }
}

impl Core {
    pub(crate) fn new(settings: Settings, config: &Config, clock: clock::Clock) -> Self {
        let limits = Limits {
            queue: settings.queue,
            wait: settings.wait.map(|wait| clock.cycles_of(wait)),
            lead: clock.cycles_of(LEAD),
        };
        let entitled = config.classes.iter().map(|(_, row)| Entitled {
            share: row.terms.share,
            target: clock.cycles_of(row.terms.target),
        });
        let level = match config.busy_wait {
            BusyWait::None => BusyWait::None,
            _ => BusyWait::Adaptive,
        };
        Self {
            spin: clock.cycles_of(SPIN),
            // Twice, as the work may include a wake-up, which takes about as long.
            brief: clock.cycles_of(2 * LINGER),
            short: clock.cycles_of(SHORT),
            in_vain: AtomicUsize::new(0),
            spins_on: AtomicUsize::new(usize::MAX),
            quota: config.quota,
            level,
            state: Mutex::new(State {
                order: Order::new(limits, entitled),
                threads: 0,
                coming: 0,
                spinning: 0,
                asleep: Vec::new(),
                handles: Vec::new(),
                closed: false,
                armed: false,
                running: Slab::new(),
                lately: 0,
                tally: Tally {
                    done: 0,
                    refused: 0,
                    expired: 0,
                    waits: Tallied::new(),
                    runs: Tallied::new(),
                },
            }),
            settings,
            queued: AtomicUsize::new(0),
            ended: Condvar::new(),
        }
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.settings.name
    }

    pub(crate) fn thread_suffix(&self) -> &str {
        &self.settings.thread_suffix
    }

    /// Queues work. If the queue is full it is refused, and if the lane is closed it is cancelled,
    /// as its join handle reports. Work that is `kept` is done even if the lane closes before it
    /// has begun.
    ///
    /// Returns whether it is likely to be done within a moment: a thread spins, and work of its
    /// class was brief of late.
    pub(crate) fn submit(
        self: &Arc<Self>,
        shared: &Arc<Shared>,
        task: Runnable,
        kept: bool,
    ) -> bool {
        let class = class_here(shared, &task);
        let now = shared.clock.cycles();
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            task.cancel(|_| ());
            return false;
        }
        let job = Job {
            task,
            kept,
            patient: false,
            busy: Busy::new(shared),
        };
        note_ticket(&state.order, &job);
        if let Err(job) = state.order.push(now, class, job) {
            state.tally.refused += 1;
            drop(state);
            job.task.fail(self.queue_full().into_join());
            return false;
        }
        self.note_queued(&state);
        let brief = state.spinning > 0
            && state.order.usual(class) < self.brief
            && self.spins_elsewhere()
            && self.may_linger();
        let hand = state.send_for_hand(self.settings.threads);
        let arm = matches!(hand, Hand::Nobody) && self.settings.wait.is_some() && !state.armed;
        state.armed |= arm;
        drop(state);
        self.send(shared, hand);
        if arm && let Some(wait) = self.settings.wait {
            self.set_timer(shared, wait);
        }
        brief
    }

    /// Drops cancelled work at once if it is still queued, and frees its place: no thread may come
    /// for a long time.
    pub(super) fn cancel(&self, task: &Header) {
        let mut state = self.state.lock();
        // Relaxed: under the lock.
        let ticket = task.key.load(Ordering::Relaxed);
        let cancelled = state.order.cancel(ticket);
        self.note_queued(&state);
        drop(state);
        if let Some(job) = cancelled {
            job.task.cancel(|_| ());
        }
    }

    /// Queues work that is to be done in any case, such as closing a file or writing the rest of
    /// its bytes: even if the queue is full, and however long it waits. There is no more of it than
    /// there were files. If the lane is closed, it is done at once, on this thread.
    pub(crate) fn submit_anyway(self: &Arc<Self>, shared: &Arc<Shared>, task: Runnable) {
        let class = class_here(shared, &task);
        let now = shared.clock.cycles();
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            return run_here(task);
        }
        let job = Job {
            task,
            kept: true,
            patient: true,
            busy: Busy::new(shared),
        };
        state.order.push_anyway(now, class, job);
        self.note_queued(&state);
        let hand = state.send_for_hand(self.settings.threads);
        drop(state);
        self.send(shared, hand);
    }

    /// Whether the lane takes no more work, as the runtime ends.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Whether other work is running or queued here, and work was short of late.
    pub(crate) fn is_shared_by_short_work(&self) -> bool {
        let state = self.state.lock();
        let others = !state.running.is_empty() || !state.order.is_empty();
        others && state.lately < self.short
    }

    /// Records whether lingering for work of this lane has paid off.
    pub(crate) fn learn_of_lingering(&self, paid: bool) {
        if !paid {
            // Relaxed: a hint.
            self.in_vain.store(LINGER_PAUSE, Ordering::Relaxed);
        }
    }

    /// Whether the spinning thread is on another processor than the caller. If not, it needs the
    /// caller's.
    fn spins_elsewhere(&self) -> bool {
        // Relaxed: a hint.
        self.spins_on.load(Ordering::Relaxed) != cpus::current()
    }

    fn may_linger(&self) -> bool {
        // Relaxed: a hint.
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        if in_vain > 0 {
            self.in_vain.store(in_vain - 1, Ordering::Relaxed);
        }
        in_vain == 0
    }

    fn queue_full(&self) -> LaneError {
        LaneError::QueueFull {
            lane: Arc::clone(&self.settings.name),
            limit: self.settings.queue,
        }
    }

    fn note_queued(&self, state: &State) {
        // Relaxed: a hint.
        self.queued.store(state.order.len(), Ordering::Relaxed);
    }

    fn send(self: &Arc<Self>, shared: &Arc<Shared>, hand: Hand) {
        match hand {
            Hand::Nobody => {}
            Hand::Asleep(thread) => thread.unpark(),
            Hand::New => self.call_thread(shared),
        }
    }

    /// Does work until there has been none for the keep-alive time, or the lane closes.
    fn run_thread(self: &Arc<Self>, shared: &Arc<Shared>) {
        let clock = shared.clock;
        let mut spinner = Spinner::new(self.level, self.spin, self.quota);
        let mut state = self.state.lock();
        state.coming -= 1;
        drop(state);
        let mut idle_since = None;
        loop {
            // What counts is when the work came, not how long the wake-up took.
            if let (Some(came), Some(since)) = (self.work(shared), idle_since) {
                spinner.learn(came.saturating_sub(since));
            }
            idle_since = Some(clock.cycles());
            let began = clock::now();
            let limit = spinner.limit();
            let found = limit > 0 && self.spin(shared, limit);
            if !found && !self.sleep(began) {
                return;
            }
        }
    }

    /// Does all work in the queue. Returns when the first of it was queued.
    fn work(self: &Arc<Self>, shared: &Arc<Shared>) -> Option<u64> {
        let clock = &shared.clock;
        let mut first = None;
        let mut state = self.state.lock();
        while let Some((since, Job { task, busy, .. }, charge)) = state.take(shared) {
            first = first.or(Some(since));
            // Cancelled work is only dropped, which says nothing about how long work takes.
            let cancelled = task.is_aborted();
            let began = clock.cycles();
            if !cancelled {
                state.tally.waits.add(began.saturating_sub(since));
            }
            let running = state.running.insert(Running {
                spawned_at: task.header().spawned_at(),
                name: task.header().name(),
            });
            self.note_queued(&state);
            let hand = state.send_for_hand(self.settings.threads);
            drop(state);
            self.send(shared, hand);
            // The work is counted before its output is there.
            let mut took = 0;
            let account = |_: &Header| {
                took = clock.cycles().saturating_sub(began);
                if !cancelled {
                    self.state.lock().tally.note_done(took);
                }
            };
            // The work never waits, so it is complete after one run.
            let class = task.header().class();
            let ran = context::blocking_in(class, || task.run(|_| true, account));
            if let Ran::Again(task) = ran {
                task.cancel(|_| ());
            }
            drop(busy);
            state = self.state.lock();
            state.running.remove(running);
            if cancelled {
                state.order.undone(charge);
                continue;
            }
            state.order.done(charge, took);
            state.lately = state.lately - state.lately / 8 + took / 8;
        }
        first
    }

    /// Spins until there is work; one thread of a lane at a time. Returns whether there is some.
    fn spin(&self, shared: &Shared, limit: u64) -> bool {
        let mut state = self.state.lock();
        // The other threads of this lane may use all processors.
        let crowded = state.running.len() >= shared.seats.len() || !shared.idle.has_parked();
        if state.spinning > 0 || state.closed || crowded {
            return !state.order.is_empty();
        }
        state.spinning += 1;
        drop(state);
        // The task that was woken by the last result may be waiting for this processor.
        thread::yield_now();
        // Relaxed: a hint, for workers that may linger.
        self.spins_on.store(cpus::current(), Ordering::Relaxed);
        let began = shared.clock.cycles();
        // Relaxed: a hint; the queue is looked at under the lock below.
        while self.queued.load(Ordering::Relaxed) == 0
            && shared.idle.has_parked()
            && shared.clock.cycles().saturating_sub(began) < limit
        {
            for _ in 0..16 {
                hint::spin_loop();
            }
        }
        let mut state = self.state.lock();
        state.spinning -= 1;
        !state.order.is_empty()
    }

    /// Sleeps until there is work. Returns false if the thread is to end: its keep-alive time is
    /// over, or the lane has closed.
    fn sleep(&self, began: Instant) -> bool {
        let me = thread::current();
        let mut state = self.state.lock();
        if !state.order.is_empty() {
            return true;
        }
        if state.closed {
            return false;
        }
        state.asleep.push(me.clone());
        loop {
            drop(state);
            let idle = clock::now().saturating_duration_since(began);
            thread::park_timeout(self.settings.keep_alive.saturating_sub(idle));
            state = self.state.lock();
            if !state.asleep.iter().any(|thread| thread.id() == me.id()) {
                // This thread was called by the one that took it off the list.
                state.coming -= 1;
                return true;
            }
            let idle = clock::now().saturating_duration_since(began);
            let end = idle >= self.settings.keep_alive && state.order.is_empty();
            if end || state.closed {
                state.forget_sleeper(me.id());
                return !state.order.is_empty();
            }
            if !state.order.is_empty() {
                state.forget_sleeper(me.id());
                return true;
            }
        }
    }

    /// Sets a timer that looks for work that has waited too long.
    fn set_timer(self: &Arc<Self>, shared: &Arc<Shared>, after: Duration) {
        let worker = shared.next_home();
        let tick = shared.clock.tick_at(clock::now() + after);
        let sweep = Arc::new(Sweep {
            core: Arc::clone(self),
            shared: shared.clone(),
        });
        let (_, call) = shared.seats[worker].timers.insert(tick, Waker::from(sweep));
        if call {
            shared.unpark(worker);
        }
    }

    fn sweep(self: &Arc<Self>, shared: &Arc<Shared>) {
        let clock = &shared.clock;
        let now = clock.cycles();
        let mut state = self.state.lock();
        let expired = state.order.take_expired(now);
        state.tally.expired += expired.len() as u64;
        self.note_queued(&state);
        let next = state.order.next_expiry();
        state.armed = next.is_some() && !state.closed;
        let armed = state.armed;
        drop(state);
        for (since, job) in expired {
            job.task.fail(
                LaneError::WaitedTooLong {
                    lane: Arc::clone(&self.settings.name),
                    waited: clock.to_duration(now.saturating_sub(since)),
                    limit: self.settings.wait.unwrap_or_default(),
                }
                .into_join(),
            );
        }
        if let Some(next) = next.filter(|_| armed) {
            let after = clock.to_duration(next.saturating_sub(now));
            self.set_timer(shared, after);
        }
    }

    /// Refuses work from now on, and cancels queued work unless it is to be kept.
    pub(crate) fn close(self: &Arc<Self>, shared: &Arc<Shared>) {
        let mut state = self.state.lock();
        state.closed = true;
        let (kept, dropped): (Vec<Job>, Vec<Job>) =
            state.order.take_all().into_iter().partition(|job| job.kept);
        let now = shared.clock.cycles();
        for job in kept {
            state.order.push_anyway(now, Class::NORMAL, job);
        }
        self.note_queued(&state);
        let hand = state.send_for_hand(self.settings.threads);
        let asleep = state.asleep.clone();
        drop(state);
        self.send(shared, hand);
        asleep.iter().for_each(Thread::unpark);
        dropped.into_iter().for_each(|job| job.task.cancel(|_| ()));
    }

    /// Waits, after [`close`](Core::close), for the threads to end. Returns false if one has not
    /// ended by the deadline.
    pub(crate) fn wait(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while state.threads > 0 {
            let left = deadline.saturating_duration_since(clock::now());
            if left.is_zero() {
                return false;
            }
            state = self.ended.wait_timeout(state, left).0;
        }
        let ended = std::mem::take(&mut state.handles);
        drop(state);
        // All have counted themselves out, so a join takes no longer than a thread's end. After it,
        // the thread holds nothing of the runtime.
        ended.into_iter().for_each(|thread| drop(thread.join()));
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.threads == 0 && state.order.is_empty()
    }

    pub(crate) fn running(&self) -> Vec<Running> {
        let state = self.state.lock();
        state.running.iter().map(|(_, running)| *running).collect()
    }

    pub(crate) fn stats(&self) -> CoreStats {
        let state = self.state.lock();
        CoreStats {
            name: Arc::clone(&self.settings.name),
            threads: state.threads,
            threads_max: self.settings.threads,
            idle: state.asleep.len() + state.spinning,
            busy: state.running.len(),
            queued: state.order.len(),
            tally: state.tally.clone(),
        }
    }
}

/// Stores the ticket by which the job can be cancelled, once it is queued. Only jobs queued by
/// `submit` ever are.
fn note_ticket(order: &Order<Job>, job: &Job) {
    let ticket = order.next_ticket();
    // Relaxed: under the lane's lock.
    (job.task.header().key).store(ticket, Ordering::Relaxed);
}

fn run_here(task: Runnable) {
    if let Ran::Again(task) = task.run(|_| true, |_| ()) {
        task.cancel(|_| ());
    }
}

/// The class of a task. One that was defined in another runtime means nothing here.
fn class_here(shared: &Shared, task: &Runnable) -> Class {
    let known = |class: &Class| shared.config.classes.has(*class);
    Some(task.header().class())
        .filter(known)
        .unwrap_or_default()
}

struct Sweep {
    core: Arc<Core>,
    shared: Arc<Shared>,
}

impl Wake for Sweep {
    fn wake(self: Arc<Self>) {
        self.core.sweep(&self.shared);
    }
}

struct Leave<'a>(&'a Arc<Core>, &'a Arc<Shared>);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let Leave(core, shared) = self;
        if thread::panicking() {
            // The user's hook panicked, and would do so on the next thread as well.
            return core.give_up_thread(shared, std::io::ErrorKind::Other);
        }
        let mut state = core.state.lock();
        state.threads -= 1;
        // Work that came after this thread decided to leave may have found no room for another
        // thread. Then one takes this thread's place.
        let hand = state.send_for_hand(core.settings.threads);
        drop(state);
        core.ended.notify_all();
        core.send(shared, hand);
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
