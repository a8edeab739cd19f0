//! A lane: a bounded queue of blocking work and the bounded threads that do it.
//!
//! # How work meets threads
//!
//! All is decided under one lock. When work is queued, one thread is sent for: one that spins, else
//! the one that fell asleep last, whose memory is still in the caches, else a new one. While a
//! thread is on its way, no other is sent for. It takes its work and, if there is more, sends for
//! the next. So a burst of short work is done by few threads, and long work gets as many as there
//! may be, one shortly after the other.
//!
//! A thread that ran out of work spins for some microseconds before it sleeps, because a task that
//! gets its result often asks for more. One thread of each lane does so, while it has lately paid,
//! and only while a worker sleeps, so that the processor is free.

use std::panic::Location;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use slab::Slab;

use crate::class::Class;
use crate::clock;
use crate::counters::accounts::{BUCKETS, bucket_of};
use crate::sched::BusyWait;
use crate::sched::config::{Config, Hook};
use crate::sched::context;
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
/// The longest a thread spins. The worker that awaits the work sleeps meanwhile, and takes about as
/// long to wake and to ask for more.
const SPIN: Duration = Duration::from_micros(50);

/// Work that took less than this did not wait for a device, or only briefly.
const SHORT: Duration = Duration::from_millis(2);

/// For how many pieces of work waiting awake is not tried again after it was in vain.
const LINGER_PAUSE: usize = 16;

/// What a lane is told to be.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: Arc<str>,
    /// What its threads are called, after the runtime's name.
    pub(crate) thread_suffix: Arc<str>,
    pub(crate) threads: usize,
    pub(crate) queue: usize,
    pub(crate) wait: Option<Duration>,
    pub(crate) keep_alive: Duration,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Core {
    settings: Settings,
    spin: u64,
    /// What is done within this time is waited for awake.
    brief: u64,
    /// What takes less is short.
    short: u64,
    /// The processor on which a thread spins.
    spins_on: AtomicUsize,
    /// How often waiting awake is still to be left out, as it was in vain.
    in_vain: AtomicUsize,
    quota: bool,
    level: BusyWait,
    state: Mutex<State>,
    /// How much waits, for those who spin; written under the lock.
    queued: AtomicUsize,
    /// A thread has ended.
    ended: Condvar,
}

#[derive(Debug)]
struct Job {
    task: Runnable,
    /// It is done even if the runtime shuts down before it was begun.
    kept: bool,
    /// It is done even if it has to wait for long, or there is no thread for it.
    patient: bool,
}

#[derive(Debug)]
struct State {
    order: Order<Job>,
    threads: usize,
    /// Threads that were sent for and have not come yet.
    coming: usize,
    spinning: usize,
    /// Threads that sleep; the last one fell asleep last.
    asleep: Vec<Thread>,
    /// Those of the threads, and of some that have ended since.
    handles: Vec<JoinHandle<()>>,
    closed: bool,
    /// A timer is set that looks for what has waited too long.
    armed: bool,
    running: Slab<Running>,
    /// How long work lately took.
    lately: u64,
    accounts: Tally,
}

#[derive(Clone, Debug)]
struct Tally {
    done: u64,
    refused: u64,
    expired: u64,
    waits: [u64; BUCKETS],
    runs: [u64; BUCKETS],
}

impl Tally {
    fn note_done(&mut self, took: u64) {
        self.done += 1;
        count(&mut self.runs, took);
    }
}

/// Work that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Running {
    pub(crate) spawned_at: &'static Location<'static>,
    pub(crate) name: Option<&'static str>,
}

/// What a lane looks like at a moment, and what it did so far.
#[derive(Clone, Debug)]
pub(crate) struct CoreStats {
    pub(crate) name: Arc<str>,
    pub(crate) threads: usize,
    pub(crate) threads_max: usize,
    pub(crate) idle: usize,
    pub(crate) busy: usize,
    pub(crate) queued: usize,
    pub(crate) done: u64,
    pub(crate) refused: u64,
    pub(crate) expired: u64,
    pub(crate) waits: [u64; BUCKETS],
    pub(crate) runs: [u64; BUCKETS],
}

/// Which thread to send for.
enum Hand {
    Nobody,
    Asleep(Thread),
    New,
}

impl State {
    /// Sends for a thread, if there is work and none is on its way to it.
    fn send_for_hand(&mut self, threads_max: usize) -> Hand {
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

    /// Takes what is to be done next, by what the classes are entitled to at the moment.
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
            // A wake-up, which may be a part of the work, takes about as long again.
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
                accounts: Tally {
                    done: 0,
                    refused: 0,
                    expired: 0,
                    waits: [0; BUCKETS],
                    runs: [0; BUCKETS],
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

    /// Queues work. If the queue is full or the lane closed, it is refused or cancelled, which its
    /// join handle says. Work that is `kept` is done even if the lane closes before it was begun.
    ///
    /// Returns whether it is likely to be done within a moment: a thread waits for it awake, and
    /// work of its class was brief of late.
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
        };
        note_ticket(&state.order, &job);
        if let Err(job) = state.order.push(now, class, job) {
            state.accounts.refused += 1;
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

    /// Drops cancelled work at once, if it still waits for a thread, as none may come for a long
    /// time. Its place is free then.
    pub(super) fn call_off(&self, task: &Header) {
        let mut state = self.state.lock();
        // Relaxed: the lock orders it.
        let ticket = task.queued_at.load(Ordering::Relaxed);
        let called_off = state.order.call_off(ticket);
        self.note_queued(&state);
        drop(state);
        if let Some(job) = called_off {
            job.task.cancel(|_| ());
        }
    }

    /// Queues what is to be done in any case, such as a file to be closed, or written on: even if
    /// the queue is full, and for as long as it takes. There is no more of it than there were
    /// files. In a lane that is closed it is done here and now.
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
        };
        state.order.push_anyway(now, class, job);
        self.note_queued(&state);
        let hand = state.send_for_hand(self.settings.threads);
        drop(state);
        self.send(shared, hand);
    }

    /// Whether it takes no more work, as the runtime ends.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Whether other work is under way or waits here, and such work was short of late.
    pub(crate) fn is_shared_by_short_work(&self) -> bool {
        let state = self.state.lock();
        let others = !state.running.is_empty() || !state.order.is_empty();
        others && state.lately < self.short
    }

    /// What came of waiting awake for work of this lane.
    pub(crate) fn learn_of_lingering(&self, paid: bool) {
        if !paid {
            // Relaxed, here and below: a hint.
            self.in_vain.store(LINGER_PAUSE, Ordering::Relaxed);
        }
    }

    /// Whether the spinning thread is on another processor than the caller. If not, it needs the
    /// caller's processor to go on.
    fn spins_elsewhere(&self) -> bool {
        // Relaxed: a hint.
        self.spins_on.load(Ordering::Relaxed) != cpus::current()
    }

    fn may_linger(&self) -> bool {
        let in_vain = self.in_vain.load(Ordering::Relaxed);
        if in_vain > 0 {
            // Relaxed: as above.
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
        // Relaxed: a hint to those who spin, who look again under the lock.
        self.queued.store(state.order.len(), Ordering::Relaxed);
    }

    fn send(self: &Arc<Self>, shared: &Arc<Shared>, hand: Hand) {
        match hand {
            Hand::Nobody => {}
            Hand::Asleep(thread) => thread.unpark(),
            Hand::New => self.start_thread(shared),
        }
    }

    fn start_thread(self: &Arc<Self>, starter: &Arc<Shared>) {
        let shared = Arc::clone(starter);
        let core = Arc::clone(self);
        let runtime = &shared.config.thread_name;
        let name = format!("{runtime}-{}", self.settings.thread_suffix);
        let started = thread::Builder::new().name(name).spawn(move || {
            context::own_thread(&shared);
            let config = &shared.config;
            let _entered = context::enter(Arc::clone(&shared));
            let _leave = Leave(&core, &shared);
            config.on_thread_start.iter().for_each(Hook::run);
            core.run_thread(&shared);
            config.on_thread_stop.iter().for_each(Hook::run);
        });
        match started {
            Ok(thread) => self.keep_track(thread),
            Err(error) => {
                self.state.lock().coming -= 1;
                self.give_up_thread(starter, error.kind());
            }
        }
    }

    /// Remembers a thread, to be joined at the end, and forgets those that have ended.
    fn keep_track(&self, thread: JoinHandle<()>) {
        let mut state = self.state.lock();
        let ended = state.handles.extract_if(.., |thread| thread.is_finished());
        let ended: Vec<_> = ended.collect();
        state.handles.push(thread);
        drop(state);
        // Dropped outside the lock: it may hold what a hook of the user's panicked with, whose drop
        // may run anything.
        drop(ended);
    }

    /// A thread that was expected could not be started. If there are others, one of them does the
    /// work; otherwise the work is refused rather than left waiting for ever.
    fn give_up_thread(self: &Arc<Self>, shared: &Arc<Shared>, kind: std::io::ErrorKind) {
        let mut state = self.state.lock();
        state.threads -= 1;
        let left = if state.threads == 0 {
            state.order.take_all()
        } else {
            Vec::new()
        };
        let (patient, orphans): (Vec<Job>, Vec<Job>) =
            left.into_iter().partition(|job| job.patient);
        self.note_queued(&state);
        state.accounts.refused += orphans.len() as u64;
        // The submitter set no timer, as it expected this thread. A timer is needed now, as the
        // others may hang.
        let waits = !state.order.is_empty() && self.settings.wait.is_some();
        let arm = waits && !state.armed && !state.closed;
        state.armed |= arm;
        drop(state);
        self.ended.notify_all();
        if arm && let Some(wait) = self.settings.wait {
            self.set_timer(shared, wait);
        }
        for job in orphans {
            job.task.fail(
                LaneError::NoThread {
                    lane: Arc::clone(&self.settings.name),
                    kind,
                }
                .into_join(),
            );
        }
        // No thread would come to do it, perhaps for ever.
        patient.into_iter().for_each(|job| run_here(job.task));
    }

    /// Does work until there has been none for the time to keep alive, or the lane closes.
    fn run_thread(self: &Arc<Self>, shared: &Arc<Shared>) {
        let clock = shared.clock;
        let mut spinner = Spinner::new(self.level, self.spin, self.quota);
        let mut state = self.state.lock();
        state.coming -= 1;
        drop(state);
        let mut idle_since = None;
        loop {
            // What counts is when the work came, not how long it took to wake for it.
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

    /// Does what there is to do. Returns when the first of it came.
    fn work(self: &Arc<Self>, shared: &Arc<Shared>) -> Option<u64> {
        let clock = &shared.clock;
        let mut first = None;
        let mut state = self.state.lock();
        while let Some((since, Job { task, .. }, charge)) = state.take(shared) {
            first = first.or(Some(since));
            // Cancelled work is dropped, which says nothing about how long work takes.
            let called_off = task.is_aborted();
            let began = clock.cycles();
            if !called_off {
                count(&mut state.accounts.waits, began.saturating_sub(since));
            }
            let running = state.running.insert(Running {
                spawned_at: task.header().spawned_at(),
                name: task.header().name(),
            });
            self.note_queued(&state);
            let hand = state.send_for_hand(self.settings.threads);
            drop(state);
            self.send(shared, hand);
            // So the accounts have the work before its output is there.
            let mut took = 0;
            let account = |_: &Header| {
                took = clock.cycles().saturating_sub(began);
                if !called_off {
                    self.state.lock().accounts.note_done(took);
                }
            };
            // The work never waits, so it is complete after one run.
            if let Ran::Again(task) = task.run(|_| true, account) {
                task.cancel(|_| ());
            }
            state = self.state.lock();
            state.running.remove(running);
            if called_off {
                state.order.undone(charge);
                continue;
            }
            state.order.done(charge, took);
            state.lately = state.lately - state.lately / 8 + took / 8;
        }
        first
    }

    /// Busy-waits for work; one thread of a lane at a time. Returns whether there may be some.
    fn spin(&self, shared: &Shared, limit: u64) -> bool {
        let mut state = self.state.lock();
        // Others that work here may use all processors there are.
        let crowded = state.running.len() >= shared.seats.len() || !shared.idle.has_parked();
        if state.spinning > 0 || state.closed || crowded {
            return !state.order.is_empty();
        }
        state.spinning += 1;
        drop(state);
        // The task that was woken by the result may be waiting for this very processor.
        thread::yield_now();
        // Relaxed: a hint, for those who might wait awake for this thread.
        self.spins_on.store(cpus::current(), Ordering::Relaxed);
        let began = shared.clock.cycles();
        // Relaxed: a hint; the lock below tells.
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

    /// Sleeps until there is work. Returns false if there was none until the thread may end, or if
    /// the lane has closed.
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
                // The thread that took this one off the list has sent for it.
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

    /// Has a timer look for what has waited too long.
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

    /// Fails what has waited too long.
    fn sweep(self: &Arc<Self>, shared: &Arc<Shared>) {
        let clock = &shared.clock;
        let now = clock.cycles();
        let mut state = self.state.lock();
        let expired = state.order.take_expired(now);
        state.accounts.expired += expired.len() as u64;
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

    /// Refuses work from now on, and cancels what waits for a thread, but for what is to be kept.
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

    /// Waits, after [`close`](Core::close), for what runs. Returns false if some work has not ended
    /// by the deadline.
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
        // They have counted themselves out, so none of these blocks for longer than a thread's
        // end takes; after it, they hold nothing of the runtime's any more.
        ended.into_iter().for_each(|thread| drop(thread.join()));
        true
    }

    /// Whether nothing is done or waits here, and no thread is kept for more.
    pub(crate) fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.threads == 0 && state.order.is_empty()
    }

    /// The work that is under way.
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
            done: state.accounts.done,
            refused: state.accounts.refused,
            expired: state.accounts.expired,
            waits: state.accounts.waits,
            runs: state.accounts.runs,
        }
    }
}

/// Keeps by which ticket the work that is queued next can be cancelled. Only what is queued by
/// `submit` ever is.
fn note_ticket(order: &Order<Job>, job: &Job) {
    let ticket = order.next_ticket();
    // Relaxed: the lane's lock orders it.
    (job.task.header().queued_at).store(ticket, Ordering::Relaxed);
}

/// Does work on the calling thread.
fn run_here(task: Runnable) {
    if let Ran::Again(task) = task.run(|_| true, |_| ()) {
        task.cancel(|_| ());
    }
}

/// A class of the user's own in another runtime means nothing here.
fn class_here(shared: &Shared, task: &Runnable) -> Class {
    let known = |class: &Class| shared.config.classes.has(*class);
    Some(task.header().class())
        .filter(known)
        .unwrap_or_default()
}

fn count(buckets: &mut [u64; BUCKETS], cycles: u64) {
    buckets[bucket_of(cycles)] += 1;
}

/// What the timer calls.
struct Sweep {
    core: Arc<Core>,
    shared: Arc<Shared>,
}

impl Wake for Sweep {
    fn wake(self: Arc<Self>) {
        self.core.sweep(&self.shared);
    }
}

/// Counts a thread out, however it ends.
struct Leave<'a>(&'a Arc<Core>, &'a Arc<Shared>);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        let Leave(core, shared) = self;
        if thread::panicking() {
            // A hook of the user's panicked, and would do so on the next thread as well.
            return core.give_up_thread(shared, std::io::ErrorKind::Other);
        }
        let mut state = core.state.lock();
        state.threads -= 1;
        // Work that came after this thread decided to leave may have counted on it, as the most
        // threads were there; then another takes its place.
        let hand = state.send_for_hand(core.settings.threads);
        drop(state);
        core.ended.notify_all();
        core.send(shared, hand);
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
