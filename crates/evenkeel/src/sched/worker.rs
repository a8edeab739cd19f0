//! The worker: a thread in a seat that runs tasks and checks I/O.
//!
//! ```text
//!        ┌──────────────────────────────────────────────────────────────────┐
//!        ▼                                                                  │
//!   check due? ──yes──▶ look around: I/O check, timers, injection queue     │
//!        │no                    │                                           │
//!        ▼                      ▼                                           │
//!   next task: slot, queue of woken tasks,                                  │
//!              injection queue, queue of yielded tasks ──▶ poll ──▶ charge ─┤
//!        │none                                                              │
//!        ▼                                                                  │
//!   idle: search (injection queues, other seats) ──▶ spin ──▶ park ─────────┘
//! ```
//!
//! The clock is read once for each poll: the end of one is the beginning of the next. The bound
//! on the time between I/O checks is kept by that reading and not by counting polls.
//!
//! A thread that is stuck in a poll can lose its seat to another (`heavy`); it learns of it when
//! the poll returns, and goes on in the heavy pool.

mod heavy;
mod idle;
mod look;
mod real_time;

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::Location;
use std::ptr;
use std::time::Duration;

use crate::class::{CLASSES_MAX, Class};
use crate::clock::Clock;
use crate::counters::accounts::{Accounts, State};
use crate::io::readiness::WakeList;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;

use super::desk::Desk;
use super::hog::{self, Ways};
use super::kinds::Verdict;
use super::ledger::Published;
use super::monitor::lookout::guard_after;
use super::run_queues::{Rank, received};
use super::shared::{Home, Seat, Shared};
use super::shares::{Choice, Shares};
use super::spin::Spinner;
use super::task::cell::{Header, Origin, Ran, Runnable, new_task};
use super::task::join::JoinHandle;
use real_time::RealTime;

/// How many tasks a worker takes from an injection queue at a time: enough to pay for the lock, few
/// enough to leave some for the others.
const INJECTED_BATCH: usize = 64;

/// No future is spared.
const NOBODY: u64 = u64::MAX;

/// How many futures are cut short within one poll before the next may go on all the same. A join
/// need not be that large: another crate's `block_on` inside a task polls one future over and over,
/// and its poll does not end before that future makes progress. Cutting short takes some 0.1 us, so
/// this many cuts take about as long as a slice. A poll that blocks wastes half its time at worst,
/// and the poll of a larger join lasts about twice as long.
const CUTS_MAX: u64 = 1_000;

/// Lengths of time that steer a worker, in cycles.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// The most between two I/O checks, as long as polls are shorter.
    check: u64,
    /// How long a task may go on before its leaf futures yield.
    slice: u64,
    /// How long the next-task slot may be served before the run queues get a turn.
    slot: u64,
    /// How much work has to wait before another worker is woken for it. Waking costs about 5 us
    /// of processor time, and the woken worker begins about 50 us later.
    help: u64,
    /// How long a poll has to go on before its worker's next-task slot may be stolen from.
    stuck: u64,
    /// How much time is spent on classes before the other workers are told, and asked.
    exchange: u64,
    /// How long a poll may last before its task hogs; `u64::MAX` if nothing does.
    hog: u64,
    /// How long one on guard may last before another thread sees to what waits behind it.
    guard: u64,
}

/// The thread-bound part of a worker. Its `Cell`s are there because tasks reach it, through the
/// thread's context, while they are polled.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    index: usize,
    seat: Arc<Seat>,
    desk: Arc<Desk>,
    desk_index: usize,
    bounds: Bounds,
    /// The time after the last poll or check, in cycles.
    now: Cell<u64>,
    check_due: Cell<u64>,
    /// Until when the running task may go on.
    slice_end: Cell<u64>,
    /// The slice began anew in this poll.
    extended: Cell<bool>,
    /// Since when the next-task slot has been served.
    slot_since: Cell<u64>,
    shares: RefCell<Shares>,
    /// Set while something may wait in the run queues: to ask all of them costs a tenth of a short
    /// poll.
    has_ready: Cell<bool>,
    /// The class whose turn it is has its work in the heavy pool.
    lending: Cell<bool>,
    /// How many times in a row the processor was lent to it.
    lent: Cell<u32>,
    /// Another thread has the seat.
    lost: Cell<bool>,
    /// The worker that this one looked at last, and the poll in which one was found stuck.
    neighbour: Cell<usize>,
    reported: Cell<u64>,
    /// For each class, how long woken tasks have run since a yielded one did.
    woken_for: [Cell<u64>; CLASSES_MAX],
    /// Which run queue the running task came from; the next-task slot counts as the woken one.
    taken_from: Cell<Rank>,
    /// A moving average of the length of polls, in cycles.
    poll_length: Cell<u64>,
    /// The running task, to be compared with and nothing else; null between polls.
    running: Cell<*const Header>,
    /// The class of the last task that ran.
    last_class: Cell<Class>,
    /// The running task's class; none between polls.
    current: Cell<Option<Class>>,
    /// The running task has given way.
    yielded: Cell<bool>,
    /// How many of its futures were cut short because the slice was used up.
    cut_short: Cell<u64>,
    /// Which of them may go on all the same, counted from the first; [`NOBODY`] for no future.
    spared: Cell<u64>,
    /// The running task was cut short last time and has made no progress since. It may go on until
    /// it does. Otherwise a future that computes for longer than a slice before its first leaf
    /// would be cut short there in every poll. The same goes for a task that was cut short
    /// [`CUTS_MAX`] times in this poll.
    exempt: Cell<bool>,
    /// Events are being handed out, so what is woken goes to the run queues and not to the slot.
    dispatching: Cell<bool>,
    /// This worker counts as searching in `Idle`.
    searching: Cell<bool>,
    spinner: RefCell<Spinner>,
    /// State of a xorshift generator that chooses the first victim of work stealing.
    random: Cell<u32>,
    /// The longest wait among the woken tasks that were polled since the pressure was last noted.
    oldest: Cell<u64>,
    /// Kept so that checks allocate nothing.
    wakers: Cell<WakeList>,
    real_time: RealTime,
}

impl Worker {
    /// A worker for the seat `index`, whose thread has its queues at a desk of its own.
    pub(crate) fn new(shared: Arc<Shared>, index: usize, desk_index: usize) -> Self {
        let clock = shared.clock;
        let cycles = |micros| clock.cycles_of(Duration::from_micros(micros));
        let bounds = Bounds {
            check: clock.cycles_of(shared.config.io_check_bound),
            slice: cycles(100),
            slot: cycles(50),
            help: cycles(20),
            stuck: cycles(50),
            exchange: cycles(100),
            hog: (shared.config.hand_off_after).map_or(u64::MAX, |after| clock.cycles_of(after)),
            guard: (shared.config.hand_off_after)
                .map_or(u64::MAX, |after| clock.cycles_of(guard_after(after))),
        };
        let level = shared.config.busy_wait;
        let limit = clock.cycles_of(level.limit());
        let desk = Arc::clone(shared.desks.get(desk_index));
        desk.tenure().begin();
        Self {
            index,
            seat: Arc::clone(&shared.seats[index]),
            desk,
            desk_index,
            bounds,
            now: Cell::new(clock.cycles()),
            check_due: Cell::new(0),
            slice_end: Cell::new(0),
            extended: Cell::new(false),
            slot_since: Cell::new(0),
            shares: RefCell::new(shared.ledger.view()),
            has_ready: Cell::new(false),
            lending: Cell::new(false),
            lent: Cell::new(0),
            lost: Cell::new(false),
            neighbour: Cell::new(index),
            reported: Cell::new(0),
            woken_for: Default::default(),
            taken_from: Cell::new(Rank::Woken),
            // Unknown work is taken for long, so that it gets help at first.
            poll_length: Cell::new(bounds.help),
            running: Cell::new(ptr::null()),
            last_class: Cell::new(Class::NORMAL),
            current: Cell::new(None),
            yielded: Cell::new(false),
            cut_short: Cell::new(0),
            spared: Cell::new(NOBODY),
            exempt: Cell::new(false),
            dispatching: Cell::new(false),
            searching: Cell::new(false),
            spinner: RefCell::new(Spinner::new(level, limit, shared.config.quota)),
            random: Cell::new(index as u32 + 1),
            oldest: Cell::new(0),
            wakers: Cell::new(WakeList::new()),
            real_time: RealTime::new(shared.config.real_time, &clock),
            shared,
        }
    }

    /// The worker's life begins: that of the seat's first thread.
    pub(crate) fn begin(&self) {
        self.accounts().begin(self.now.get());
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn seat(&self) -> &Seat {
        &self.seat
    }

    pub(crate) fn desk(&self) -> &Desk {
        &self.desk
    }

    fn accounts(&self) -> &Accounts {
        &self.seat().accounts
    }

    fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Charges the time since the last mark and begins the next stretch of it.
    #[inline]
    fn mark(&self, done: State, next: State) -> u64 {
        // Processors' counters may differ a little; differences must not wrap where they meet.
        let now = self.clock().cycles().max(self.now.get());
        self.accounts().charge(now, done, next);
        self.now.set(now);
        now
    }

    /// A thread of the heavy pool that never had a seat. Its timers and descriptors go to the
    /// worker `index`.
    pub(crate) fn without_seat(shared: Arc<Shared>, index: usize, desk_index: usize) -> Self {
        let worker = Self::new(shared, index, desk_index);
        worker.desk.tenure().begin_without_seat();
        worker.lost.set(true);
        worker
    }

    /// Works until the runtime stops, or the seat is lost.
    pub(crate) fn run(&self) {
        while !self.lost.get() {
            if self.now.get() >= self.check_due.get() {
                if self.shared.is_stopping() {
                    break;
                }
                self.look_around();
            }
            match self.next_task() {
                Some(task) => self.poll(task),
                None if self.lending.take() => self.lend(),
                None => self.idle(),
            }
        }
        if self.lost.get() {
            self.serve_heavy_pool();
        } else {
            self.real_time.give_up(&self.desk, self.now.get());
            self.wind_up();
        }
    }

    /// The runtime stops: drops the tasks that wait here.
    fn wind_up(&self) {
        if self.searching.take() {
            let _ = self.shared.idle.stop_search();
        }
        while let Some(task) = self.desk.take_any() {
            self.shared.cancel(task);
        }
        for queue in &self.shared.injection_queues {
            let mut tasks = Vec::new();
            queue.take(usize::MAX, |entry| tasks.push(received(entry)));
            tasks.into_iter().for_each(|task| self.shared.cancel(task));
        }
        self.mark(State::Steal, State::Park);
    }

    // ---- Choosing ----

    #[inline]
    fn next_task(&self) -> Option<Runnable> {
        let now = self.now.get();
        if let Some(task) = self.desk.take_next() {
            let in_time = now.wrapping_sub(self.slot_since.get()) < self.bounds.slot;
            if in_time && task.header().class() == self.last_class.get() {
                self.taken_from.set(Rank::Woken);
                return Some(task);
            }
            // The slot's time is over, or its task is of another class, which may not have its turn
            // now. The task joins the queue of woken ones. In the slot it would wait until the run
            // queues are empty, and beside busy tasks they never are.
            self.enqueue(Rank::Woken, task);
        }
        self.slot_since.set(now);
        self.next_queued()
    }

    /// The first task of the class whose turn it is. If the run queues have none, it comes from the
    /// injection queues.
    fn next_queued(&self) -> Option<Runnable> {
        loop {
            let first = self.shares.borrow().first();
            let class = match first {
                Some(Choice::Here(class)) => class,
                Some(Choice::HeavyPool(_)) => {
                    self.lending.set(true);
                    return None;
                }
                None => break,
            };
            if let Some(task) = self.next_of_class(class) {
                return Some(task);
            }
            self.shares.borrow_mut().rest(class);
        }
        let mut classes = (0..self.shared.injection_queues.len()).map(Class::at);
        let class = classes.find(|&class| self.take_injected(class) > 0)?;
        self.next_of_class(class)
    }

    #[inline]
    fn next_of_class(&self, class: Class) -> Option<Runnable> {
        let run_queues = &self.desk.run_queues;
        let woken_for = &self.woken_for[class.index()];
        let owed = woken_for.get() >= self.bounds.slice;
        self.taken_from.set(Rank::Woken);
        if !owed && let Some(task) = run_queues.pop(class, Rank::Woken) {
            return Some(task);
        }
        if !owed
            && self.take_injected(class) > 0
            && let Some(task) = run_queues.pop(class, Rank::Woken)
        {
            return Some(task);
        }
        woken_for.set(0);
        if let Some(task) = run_queues.pop(class, Rank::Yielded) {
            self.taken_from.set(Rank::Yielded);
            return Some(task);
        }
        if owed {
            run_queues.pop(class, Rank::Woken)
        } else {
            None
        }
    }

    /// Moves tasks from a class's injection queue to its queue of woken tasks.
    #[inline]
    fn take_injected(&self, class: Class) -> usize {
        let queue = self.shared.injection_queue(class);
        if queue.is_empty() {
            return 0;
        }
        let receive = |entry| self.enqueue(Rank::Woken, received(entry));
        queue.take(INJECTED_BATCH, receive)
    }

    /// Appends a task to a run queue.
    #[inline]
    fn enqueue(&self, rank: Rank, task: Runnable) {
        let class = task.header().class();
        self.desk.run_queues.push(rank, task);
        self.note_ready(class);
    }

    /// Tasks of a class have come to its run queues.
    #[inline]
    fn note_ready(&self, class: Class) {
        self.has_ready.set(true);
        self.shares.borrow_mut().wake(class);
    }

    // ---- Running ----

    fn poll(&self, task: Runnable) {
        let ways = self.ways(task.header());
        let is_plain = ways.is_plain();
        if !is_plain && self.is_for_pool(ways) && !task.is_aborted() {
            return self.pass_on(task);
        }
        if self.searching.get() {
            self.end_search();
        }
        self.ask_for_help(ways.is_guarded());
        if !is_plain {
            self.prepare(ways);
        }
        let (now, class) = (self.now.get(), task.header().class());
        self.begin_poll(task.header(), now);
        if self.taken_from.get() == Rank::Woken {
            // Tasks that yielded ran a moment ago, so they are still in the cache.
            self.desk.run_queues.prefetch_next(class, Rank::Woken);
        }

        let registry = &self.shared.registry;
        let ran = task.run(
            |task| {
                if self.desk.tenure().has_lost() {
                    self.mark_lost(task.header(), now);
                } else if !self.was_kept(task.header(), now) && !is_plain {
                    self.note_short(task.header(), now);
                }
                self.note_cut_short(task.header());
                registry.insert(task, self.index)
            },
            |header| {
                if !self.desk.tenure().has_lost() {
                    self.was_kept(header, now);
                }
                if hog::acquit(header) && !self.is_long_since(now) {
                    let kinds = &self.shared.kinds;
                    kinds.judge(&header.kind(), Verdict::Behaved);
                }
                registry.remove(header);
            },
        );

        self.end_task();
        if !is_plain {
            self.desk.mark_poll(false, false);
        }
        if !self.desk.tenure().end_poll() {
            return self.lose_seat(ran, now);
        }
        self.charge_poll(class, now);
        if let Ran::Again(task) = ran {
            // Relaxed: a statistic.
            task.header()
                .queued_at
                .store(self.now.get(), Ordering::Relaxed);
            let rank = if self.yielded.get() {
                Rank::Yielded
            } else {
                Rank::Woken
            };
            self.enqueue(rank, task);
        }
    }

    /// What is known of a task; at its first poll, what is known of its kind. That is looked up now
    /// and not at the spawn, so that of many tasks spawned at once the first ones teach about the
    /// rest.
    #[inline]
    fn ways(&self, task: &Header) -> Ways {
        if self.shared.kinds.is_known() && task.is_unseen() {
            let known = self.shared.kinds.look_up(&task.kind());
            hog::begin(task, known);
        }
        Ways::of(task)
    }

    /// Whether a poll that kept its seat, because no thread could take it, was a hog's.
    #[inline]
    fn was_kept(&self, task: &Header, began: u64) -> bool {
        let kept = self.desk.was_kept(began);
        kept.is_some_and(|blocked| self.note_kept(task, began, blocked))
    }

    /// A poll begins: says so to others, and takes down how long the task had waited for it.
    #[inline]
    fn begin_poll(&self, task: &Header, now: u64) {
        let class = task.class();
        // Relaxed: a statistic.
        let queued_at = task.queued_at.load(Ordering::Relaxed);
        self.accounts().go_on(State::Run(class));
        let waited = now.saturating_sub(queued_at);
        self.accounts().count_poll(class, waited);
        if self.taken_from.get() == Rank::Woken {
            self.oldest.set(self.oldest.get().max(waited));
        }
        self.desk.begin_poll(task, now);
        self.begin_task(task, now);
    }

    /// A poll that began at `began` is over, and kept its seat.
    #[inline]
    fn charge_poll(&self, class: Class, began: u64) {
        let length = self
            .mark(State::Run(class), State::Run(class))
            .saturating_sub(began);
        self.charge_class(class, length);
        if self.taken_from.get() == Rank::Woken {
            let woken_for = &self.woken_for[class.index()];
            woken_for.set(woken_for.get() + length);
        }
        self.poll_length
            .set(self.poll_length.get() - self.poll_length.get() / 8 + length / 8);
    }

    /// Says what this thread polls, to whatever the poll asks of it.
    #[inline]
    fn begin_task(&self, task: &Header, now: u64) {
        self.running.set(task);
        self.current.set(Some(task.class()));
        self.last_class.set(task.class());
        self.yielded.set(false);
        self.cut_short.set(0);
        // Relaxed, here and in `note_cut_short`: the runner alone touches the number.
        let before = task.cut_short.load(Ordering::Relaxed);
        self.exempt.set(before > 0);
        self.spared.set(if before > 1 {
            u64::from(self.next_random() % u32::from(before))
        } else {
            NOBODY
        });
        self.slice_end.set(now + self.bounds.slice);
        self.extended.set(false);
    }

    /// Stores in the task how often it was cut short in this poll, or in the one before if it has
    /// made no progress since. The next poll needs that, on whatever thread. For the task's runner,
    /// before others may run it.
    #[inline]
    fn note_cut_short(&self, task: &Header) {
        let cuts = self.cut_short.get().min(u64::from(u8::MAX)) as u8;
        let now = cuts.max(u8::from(self.exempt.get()));
        // Mostly the number is zero and stays zero.
        if task.cut_short.load(Ordering::Relaxed) != now {
            task.cut_short.store(now, Ordering::Relaxed);
        }
    }

    #[inline]
    fn end_task(&self) {
        self.running.set(ptr::null());
        self.current.set(None);
    }

    #[inline]
    fn charge_class(&self, class: Class, length: u64) {
        let unsettled = self.shares.borrow_mut().charge(class, length);
        if unsettled >= self.bounds.exchange {
            self.lent.set(0);
            self.exchange();
        }
    }

    /// Tells the other workers what was spent here, hears what they spent, and gets work of a class
    /// that is owed more than any that has work here.
    fn exchange(&self) {
        self.settle();
        let owed = self.shares.borrow().owed_elsewhere();
        if let Some(class) = owed {
            self.steal_of(class);
        }
    }

    /// Tells the others what was spent here, and that there is no more work: for a worker about to
    /// sleep.
    fn retire(&self) {
        if self.published() != Published::default() {
            self.settle();
            let mut published = self.published();
            self.shared.ledger.publish(&mut published, 0);
            self.seat.published.put(published.bits());
        }
    }

    fn settle(&self) {
        let now = self.now.get();
        self.note_served(self.shares.borrow().served(), now);
        let mut published = self.published();
        let mut shares = self.shares.borrow_mut();
        self.shared.ledger.exchange(&mut shares, &mut published);
        self.seat.published.put(published.bits());
    }

    /// Notes that these classes keep nobody waiting here since before `now`.
    fn note_served(&self, classes: impl Iterator<Item = Class>, now: u64) {
        for class in classes {
            self.accounts().last_served[class.index()].put(now);
        }
    }

    /// What the ledger was last told of this seat's work, by this thread or the one before it.
    fn published(&self) -> Published {
        Published::of_bits(self.seat.published.load())
    }

    /// Steals tasks of one class from another worker.
    fn steal_of(&self, class: Class) {
        let seats = self.shared.seats.iter().enumerate();
        let others = seats.filter(|&(index, _)| index != self.index);
        let stolen = others
            .map(|(_, seat)| {
                self.shared
                    .desk_of(seat)
                    .run_queues
                    .steal_into(class, &self.desk.run_queues)
            })
            .find(|&count| count > 0);
        if let Some(count) = stolen {
            self.accounts().steals.add(count as u64);
            self.note_ready(class);
        }
    }

    /// Wakes another worker if more waits here than is worth a wake-up, or anything behind a poll
    /// that is on guard.
    #[inline]
    fn ask_for_help(&self, on_guard: bool) {
        if !self.has_ready.get() || !self.shared.idle.has_help() {
            return;
        }
        let waiting = self.desk.run_queues.len() as u64;
        self.has_ready.set(waiting > 0);
        let is_enough = on_guard && waiting > 0;
        if is_enough || waiting.saturating_mul(self.poll_length.get()) >= self.bounds.help {
            self.accounts().helps.add(1);
            self.shared.wake_one();
        }
    }

    /// A task was woken on this thread.
    #[inline]
    pub(crate) fn wake_here(&self, task: Runnable) {
        if self.desk.tenure().is_contested() {
            // This poll has lasted long and may lose its seat. Other workers do not look here for
            // work.
            return self.shared.push_outside(task);
        }
        // Relaxed: a statistic. The time is the one before the running poll, so that a wake-up
        // costs no clock reading; waits come out too long by that poll at most.
        task.header()
            .queued_at
            .store(self.now.get(), Ordering::Relaxed);
        if self.dispatching.get() {
            self.enqueue(Rank::Woken, task);
        } else if let Some(displaced) = self.desk.put_next(task) {
            self.enqueue(Rank::Woken, displaced);
        }
    }

    /// Spawns a task on this thread.
    pub(crate) fn spawn<F>(
        &self,
        class: Option<Class>,
        name: Option<&'static str>,
        spawned_at: &'static Location<'static>,
        future: F,
    ) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        if let Some(class) = class {
            self.shared.check_class(class);
        }
        let class = class.unwrap_or_else(|| self.current_class());
        let origin = Origin {
            class,
            spawned_at,
            name,
        };
        let (task, join) = new_task(future, Home::new(&self.shared), origin);
        if self.shared.is_stopping() {
            self.shared.cancel(task);
        } else {
            self.wake_here(task);
        }
        JoinHandle::new(join)
    }

    /// The class of the running task.
    pub(crate) fn current_class(&self) -> Class {
        self.current.get().unwrap_or_default()
    }

    /// Whether nothing is ready here but the running task: a hint.
    pub(crate) fn has_no_other_task(&self) -> bool {
        self.current.get().is_some()
            && self.desk.run_queues.is_empty()
            && !self.desk.has_next()
            && !self.shared.has_injected()
    }

    /// Where the running task was spawned.
    pub(crate) fn current_spawned_at(&self) -> Option<&'static Location<'static>> {
        self.current.get()?;
        self.desk.last_running()
    }

    /// Whether a future of the running task has to give way, as the task's slice is used up.
    #[inline]
    pub(crate) fn cuts_short(&self) -> bool {
        self.current.get().is_some()
            && !self.exempt.get()
            && self.clock().cycles() >= self.slice_end.get()
            && !self.extends()
            && !self.spares()
    }

    /// Whether the slice begins anew. On a thread without a seat it does so once in each poll, as
    /// no I/O waits behind that poll. So a hog can write its answer at once, and does not have to
    /// queue again for that.
    #[cold]
    fn extends(&self) -> bool {
        let is_seatless = self.lost.get() || self.desk.tenure().has_lost();
        let extends = is_seatless && !self.extended.replace(true);
        if extends {
            let end = self.clock().cycles() + self.bounds.slice;
            self.slice_end.set(end);
        }
        extends
    }

    /// Whether the future that is about to be cut short is spared. If several were cut short in one
    /// poll, the first always goes on in the next, and if it computes, all others are cut short
    /// again. So one of the others, chosen at random, goes on as well.
    #[cold]
    fn spares(&self) -> bool {
        let spares = self.spared.get() == self.cut_short.get();
        if spares {
            self.spared.set(NOBODY);
        }
        spares
    }

    pub(crate) fn is_running(&self, task: &Header) -> bool {
        ptr::eq(self.running.get(), task)
    }

    /// The running task wakes itself, so that others have their turn before it goes on; `cut_short`
    /// if it was made to.
    pub(crate) fn give_way(&self, cut_short: bool) {
        self.yielded.set(true);
        if cut_short {
            let cuts = self.cut_short.get() + 1;
            self.cut_short.set(cuts);
            if cuts.is_multiple_of(CUTS_MAX) {
                self.exempt.set(true);
            }
        }
    }

    /// A leaf future of the running task has made progress.
    #[inline]
    pub(crate) fn got_on(&self) {
        if self.exempt.replace(false) {
            self.slice_end
                .set(self.clock().cycles() + self.bounds.slice);
        }
    }
}
