//! The worker: a thread in a seat that runs tasks and checks I/O.
//!
//! ```text
//!        ┌──────────────────────────────────────────────────────────────┐
//!        ▼                                                              │
//!   check due? ──yes──▶ look around: I/O check, timers, inbox           │
//!        │no                    │                                       │
//!        ▼                      ▼                                       │
//!   next task: slot, woken line, inbox, yielded line ──▶ poll ──▶ charge┤
//!        │none                                                          │
//!        ▼                                                              │
//!   idle: search (inboxes, other seats) ──▶ spin ──▶ park ──────────────┘
//! ```
//!
//! The clock is read once for each poll: the end of one is the beginning of the next. The bound
//! on the time between I/O checks is kept by that reading and not by counting polls.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::panic::Location;
use std::ptr;

use crate::class::{CLASSES, Class};
use crate::clock::Clock;
use crate::io::readiness::{WakeList, wake_all};
use crate::stats::accounts::{Accounts, CheckOrigin, State};
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::task::cell::{Header, Origin, Ran, Runnable, new_task};
use crate::task::join::JoinHandle;

use super::lines::{Line, received};
use super::shared::{Home, Seat, Shared};
use super::spin::Spinner;
use super::turn::Turn;

/// How many tasks a worker takes from an inbox at a time: enough to pay for the lock, few enough
/// to leave some for the others.
const INBOX_BATCH: usize = 64;

/// Lengths of time that steer a worker, in cycles.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// The most between two I/O checks, as long as polls are shorter.
    check: u64,
    /// How long a task may go on before its leaf futures yield.
    slice: u64,
    /// How long the next-task slot may be served before the lines get a turn.
    slot: u64,
    /// How much work has to wait before another worker is woken for it. Waking costs about 5 us
    /// of processor time, and the woken worker begins about 50 us later.
    help: u64,
    /// How long a poll has to go on before its worker's next-task slot may be stolen from.
    stuck: u64,
}

/// The thread-bound part of a worker. Its `Cell`s are there because tasks reach it, through the
/// thread's context, while they are polled.
pub(crate) struct Worker {
    shared: Arc<Shared>,
    index: usize,
    bounds: Bounds,
    /// The time after the last poll or check, in cycles.
    now: Cell<u64>,
    check_due: Cell<u64>,
    /// Until when the running task may go on.
    slice_end: Cell<u64>,
    /// Since when the next-task slot has been served.
    slot_since: Cell<u64>,
    turn: RefCell<Turn>,
    /// For each class, how long woken tasks have run since a yielded one did.
    woken_for: [Cell<u64>; CLASSES],
    /// Which line the running task came from; the next-task slot counts as the woken one.
    taken_from: Cell<Line>,
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
    /// It did so because its slice was used up.
    cut_short: Cell<bool>,
    /// The running task was cut short last time, and has not got anything done since. It may go on
    /// until it has, or it would be cut short at the same place for ever: a future may compute for
    /// longer than a slice before it comes to its first leaf, and again in each poll.
    exempt: Cell<bool>,
    /// Events are being handed out, so what is woken goes to the lines and not to the slot.
    dispatching: Cell<bool>,
    /// This worker counts as searching in `Idle`.
    searching: Cell<bool>,
    spinner: RefCell<Spinner>,
    /// State of a xorshift generator that chooses whom to steal from first.
    random: Cell<u32>,
    /// Kept so that checks allocate nothing.
    wakers: Cell<WakeList>,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, index: usize) -> Self {
        let clock = shared.clock;
        let cycles = |micros| clock.cycles_of(std::time::Duration::from_micros(micros));
        let bounds = Bounds {
            check: clock.cycles_of(shared.config.io_check_bound),
            slice: cycles(100),
            slot: cycles(50),
            help: cycles(20),
            stuck: cycles(50),
        };
        let level = shared.config.busy_wait;
        let limit = clock.cycles_of(level.limit());
        Self {
            index,
            bounds,
            now: Cell::new(clock.cycles()),
            check_due: Cell::new(0),
            slice_end: Cell::new(0),
            slot_since: Cell::new(0),
            turn: RefCell::new(Turn::new(bounds.slice)),
            woken_for: Default::default(),
            taken_from: Cell::new(Line::Woken),
            // Unknown work is taken for long, so that it gets help at first.
            poll_length: Cell::new(bounds.help),
            running: Cell::new(ptr::null()),
            last_class: Cell::new(Class::NORMAL),
            current: Cell::new(None),
            yielded: Cell::new(false),
            cut_short: Cell::new(false),
            exempt: Cell::new(false),
            dispatching: Cell::new(false),
            searching: Cell::new(false),
            spinner: RefCell::new(Spinner::new(level, limit, shared.config.quota)),
            random: Cell::new(index as u32 + 1),
            wakers: Cell::new(WakeList::new()),
            shared,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn seat(&self) -> &Seat {
        &self.shared.seats[self.index]
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

    /// Works until the runtime stops.
    pub(crate) fn run(&self) {
        self.accounts().begin(self.now.get());
        loop {
            if self.now.get() >= self.check_due.get() {
                if self.shared.is_stopping() {
                    break;
                }
                self.look_around();
            }
            match self.next_task() {
                Some(task) => self.poll(task),
                None => self.idle(),
            }
        }
        self.wind_up();
    }

    /// The runtime stops: drops the tasks that wait here.
    fn wind_up(&self) {
        if self.searching.take() {
            let _ = self.shared.idle.stop_search();
        }
        while let Some(task) = self.seat().take_next().or_else(|| self.next_in_lines()) {
            self.shared.cancel(task);
        }
        self.mark(State::Steal, State::Park);
    }

    // ---- Choosing ----

    #[inline]
    fn next_task(&self) -> Option<Runnable> {
        let now = self.now.get();
        if let Some(task) = self.seat().take_next() {
            let in_time = now.wrapping_sub(self.slot_since.get()) < self.bounds.slot;
            if in_time && task.header().class() == self.last_class.get() {
                self.taken_from.set(Line::Woken);
                return Some(task);
            }
            // The slot has had its time, or its task is of another class, whose turn it may not
            // be. Such a task lines up with those that were woken: left in the slot it would wait
            // until the lines are empty, which beside busy tasks is never.
            self.line_up(Line::Woken, task);
        }
        self.slot_since.set(now);
        self.next_in_lines()
    }

    /// The first task of the class whose turn it is. Takes from the inboxes what the lines lack.
    fn next_in_lines(&self) -> Option<Runnable> {
        loop {
            let first = self.turn.borrow().first();
            let Some(class) = first else { break };
            if let Some(task) = self.next_of_class(class) {
                return Some(task);
            }
            self.turn.borrow_mut().rest(class);
        }
        let class = Class::ALL
            .into_iter()
            .find(|&class| self.fetch_mail(class) > 0)?;
        self.next_of_class(class)
    }

    #[inline]
    fn next_of_class(&self, class: Class) -> Option<Runnable> {
        let lines = &self.seat().lines;
        let woken_for = &self.woken_for[class.index()];
        let owed = woken_for.get() >= self.bounds.slice;
        self.taken_from.set(Line::Woken);
        if !owed && let Some(task) = lines.pop(class, Line::Woken) {
            return Some(task);
        }
        if !owed
            && self.fetch_mail(class) > 0
            && let Some(task) = lines.pop(class, Line::Woken)
        {
            return Some(task);
        }
        woken_for.set(0);
        if let Some(task) = lines.pop(class, Line::Yielded) {
            self.taken_from.set(Line::Yielded);
            return Some(task);
        }
        if owed {
            lines.pop(class, Line::Woken)
        } else {
            None
        }
    }

    /// Moves tasks from a class's inbox to its line of woken tasks.
    #[inline]
    fn fetch_mail(&self, class: Class) -> usize {
        let inbox = self.shared.inbox(class);
        if inbox.is_empty() {
            return 0;
        }
        let receive = |entry| self.line_up(Line::Woken, received(entry));
        inbox.take(INBOX_BATCH, receive)
    }

    /// Appends a task to a line.
    #[inline]
    fn line_up(&self, line: Line, task: Runnable) {
        let class = task.header().class();
        self.seat().lines.push(line, task);
        self.turn.borrow_mut().wake(class);
    }

    // ---- Running ----

    fn poll(&self, task: Runnable) {
        if self.searching.get() {
            self.end_search();
        }
        self.ask_for_help();
        let (now, class) = (self.now.get(), task.header().class());
        // Relaxed: a statistic.
        let queued_at = task.header().queued_at.load(Ordering::Relaxed);
        self.accounts().go_on(State::Run(class));
        self.accounts()
            .count_poll(class, now.saturating_sub(queued_at));
        self.seat().begin_poll(task.header(), now);
        self.running.set(task.header());
        self.current.set(Some(class));
        self.last_class.set(class);
        self.yielded.set(false);
        self.cut_short.set(false);
        // Relaxed, here and below: the runner alone touches the flag.
        self.exempt
            .set(task.header().cut_short.load(Ordering::Relaxed));
        self.slice_end.set(now + self.bounds.slice);

        let registry = &self.shared.registry;
        let ran = task.run(
            |header| registry.insert(header, self.index),
            |header| registry.remove(header),
        );

        self.running.set(ptr::null());
        self.current.set(None);
        self.seat().end_poll();
        let length = self.mark(State::Run(class), State::Run(class)) - now;
        self.turn.borrow_mut().charge(class, length);
        if self.taken_from.get() == Line::Woken {
            let woken_for = &self.woken_for[class.index()];
            woken_for.set(woken_for.get() + length);
        }
        self.poll_length
            .set(self.poll_length.get() - self.poll_length.get() / 8 + length / 8);
        if let Ran::Again(task) = ran {
            // Relaxed: a statistic.
            task.header()
                .queued_at
                .store(self.now.get(), Ordering::Relaxed);
            task.header()
                .cut_short
                .store(self.cut_short.get(), Ordering::Relaxed);
            let line = if self.yielded.get() {
                Line::Yielded
            } else {
                Line::Woken
            };
            self.line_up(line, task);
        }
    }

    /// Wakes another worker if more waits here than is worth a wake-up.
    #[inline]
    fn ask_for_help(&self) {
        if !self.shared.idle.has_help() {
            return;
        }
        let waiting = self.seat().lines.len() as u64;
        if waiting.saturating_mul(self.poll_length.get()) >= self.bounds.help {
            self.accounts().helps.add(1);
            self.shared.wake_one();
        }
    }

    /// A task was woken on this thread.
    #[inline]
    pub(crate) fn wake_here(&self, task: Runnable) {
        // Relaxed: a statistic. The time is the one before the running poll, so that a wake-up
        // costs no clock reading; waits come out too long by that poll at most.
        task.header()
            .queued_at
            .store(self.now.get(), Ordering::Relaxed);
        if self.dispatching.get() {
            self.line_up(Line::Woken, task);
        } else if let Some(displaced) = self.seat().put_next(task) {
            self.line_up(Line::Woken, displaced);
        }
    }

    /// Spawns a task on this thread.
    pub(crate) fn spawn<F>(
        &self,
        class: Option<Class>,
        spawned_at: &'static Location<'static>,
        future: F,
    ) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let class = class.unwrap_or_else(|| self.current_class());
        let origin = Origin { class, spawned_at };
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

    /// Whether the running task has used up its slice.
    #[inline]
    pub(crate) fn slice_is_used_up(&self) -> bool {
        self.current.get().is_some()
            && !self.exempt.get()
            && self.clock().cycles() >= self.slice_end.get()
    }

    pub(crate) fn is_running(&self, task: &Header) -> bool {
        ptr::eq(self.running.get(), task)
    }

    /// The running task wakes itself, so that others have their turn before it goes on; `cut_short`
    /// if it was made to.
    pub(crate) fn give_way(&self, cut_short: bool) {
        self.yielded.set(true);
        self.cut_short.set(self.cut_short.get() || cut_short);
    }

    /// A leaf future of the running task has got something done.
    #[inline]
    pub(crate) fn got_on(&self) {
        if self.exempt.replace(false) {
            self.slice_end
                .set(self.clock().cycles() + self.bounds.slice);
        }
    }

    // ---- Looking around ----

    /// What is due from time to time, whatever the queues hold.
    fn look_around(&self) {
        let seat = self.seat();
        self.check_due.set(self.now.get() + self.bounds.check);
        if seat.driver.has_descriptors() {
            self.check(seat, CheckOrigin::Due);
        }
        self.fire_timers(seat);
        for class in Class::ALL {
            self.fetch_mail(class);
        }
        let now = self.mark(State::Check, State::Steal);
        self.check_due.set(now + self.bounds.check);
    }

    /// An I/O check without sleep, of this seat's queue or another's. Returns whether it brought
    /// anything.
    fn check(&self, seat: &Seat, origin: CheckOrigin) -> bool {
        let mut wakers = self.wakers.take();
        let checked = if ptr::eq(seat, self.seat()) {
            Some(
                seat.driver
                    .check(Some(std::time::Duration::ZERO), &mut wakers),
            )
        } else {
            seat.driver.visit(&mut wakers)
        };
        if let Some(checked) = checked {
            seat.checked_at.put(self.now.get());
            self.accounts()
                .count_check(origin, checked.events, checked.deliveries);
        }
        let found = !wakers.is_empty();
        self.dispatch(wakers);
        found
    }

    /// Wakes tasks for events, in the order in which the events came.
    fn dispatch(&self, mut wakers: WakeList) {
        self.dispatching.set(true);
        wake_all(&mut wakers);
        self.dispatching.set(false);
        self.wakers.set(wakers);
    }

    /// Wakes the tasks whose time has come at a seat. Returns whether there were any.
    fn fire_timers(&self, seat: &Seat) -> bool {
        let timers = &seat.timers;
        let due = timers.next_due();
        if due == u64::MAX {
            return false;
        }
        let tick = self.clock().tick();
        if due > tick {
            return false;
        }
        let mut wakers = self.wakers.take();
        let found = !timers.fire(tick, &mut wakers) || !wakers.is_empty();
        self.dispatch(wakers);
        found
    }

    // ---- Idling ----

    /// Out of work: searches, spins, and sleeps until there is some.
    fn idle(&self) {
        let began = self.now.get();
        if !self.searching.get() {
            self.searching.set(self.shared.idle.start_search());
        }
        let found = self.searching.get() && self.search();
        if found {
            self.mark(State::Steal, State::Steal);
            return;
        }
        if !self.spin() {
            self.park();
        }
        self.spinner.borrow_mut().learn(self.now.get() - began);
    }

    /// Work was found: others rely no longer on this worker's search.
    fn end_search(&self) {
        self.searching.set(false);
        // Whoever pushed while this worker searched woke nobody. This worker looks into the
        // inboxes again soon; if what it runs tends to take long, somebody else should.
        if self.shared.idle.stop_search()
            && self.poll_length.get() >= self.bounds.help / 4
            && self.shared.has_mail()
        {
            self.shared.wake_one();
        }
    }

    /// Looks for work at other seats, each once, beginning at a random one.
    fn search(&self) -> bool {
        let seats = &self.shared.seats;
        let start = self.next_random() as usize;
        (0..seats.len())
            .map(|offset| (start + offset) % seats.len())
            .filter(|&victim| victim != self.index)
            .any(|victim| self.steal_from(&seats[victim]))
    }

    fn steal_from(&self, victim: &Seat) -> bool {
        for class in Class::ALL {
            let count = victim.lines.steal_into(class, &self.seat().lines);
            if count > 0 {
                self.accounts().steals.add(count as u64);
                self.turn.borrow_mut().wake(class);
                return true;
            }
        }
        let since = victim.polling_since.load();
        if since == 0 || self.now.get().saturating_sub(since) < self.bounds.stuck {
            return false;
        }
        // The victim is busy with a long poll: what it would do next is better done here.
        if let Some(task) = victim.take_next() {
            self.accounts().steals.add(1);
            self.line_up(Line::Woken, task);
            return true;
        }
        if self.fire_timers(victim) {
            return true;
        }
        victim.driver.has_descriptors()
            && self.now.get().saturating_sub(victim.checked_at.load()) > 2 * self.bounds.check
            && self.check(victim, CheckOrigin::Monitor)
    }

    /// Busy-waits as long as the level says. Returns whether there may be work.
    fn spin(&self) -> bool {
        let limit = self.spinner.borrow().limit();
        if limit == 0 || self.seat().timers.is_behind() {
            return false;
        }
        let began = self.mark(State::Steal, State::Spin);
        let seat = self.seat();
        let mut found = false;
        let mut check_at = began;
        let mut now = began;
        while !found && now.saturating_sub(began) < limit {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
            found = seat.parker.is_notified() || self.shared.has_mail();
            if !found && now >= check_at && seat.driver.has_descriptors() {
                found = self.check(seat, CheckOrigin::Spin);
                // A visit to the kernel costs about 300 ns; one in a microsecond is plenty.
                check_at = now + self.bounds.check / 100;
            }
            now = self.clock().cycles();
            // Timers are not looked at: spinning ends within a tick.
        }
        let count = if found {
            &self.accounts().hits
        } else {
            &self.accounts().misses
        };
        count.add(1);
        self.mark(State::Spin, State::Steal);
        found
    }

    /// Sleeps until an event, a timer, or a wake-up by another thread.
    fn park(&self) {
        let (seat, idle) = (self.seat(), &self.shared.idle);
        let searching = self.searching.take();
        idle.park(self.index, searching);
        let work = self.shared.has_mail()
            || self.shared.is_stopping()
            || (searching && self.others_have_work());
        if work {
            self.searching.set(idle.unpark(self.index));
            self.check_due.set(self.now.get());
            self.mark(State::Steal, State::Steal);
            return;
        }
        let timeout = seat
            .timers
            .before_park()
            .map(|tick| self.clock().until_tick(tick));
        let mut wakers = self.wakers.take();
        self.mark(State::Steal, State::Park);
        let sleeps = seat.parker.prepare();
        let timeout = if sleeps {
            timeout
        } else {
            Some(std::time::Duration::ZERO)
        };
        let checked = seat.driver.check(timeout, &mut wakers);
        if sleeps {
            seat.parker.finish();
        }
        let now = self.mark(State::Park, State::Check);
        seat.checked_at.put(now);
        seat.timers.after_park();
        self.accounts().parks.add(1);
        self.accounts()
            .count_check(CheckOrigin::Idle, checked.events, checked.deliveries);
        self.searching.set(idle.unpark(self.index));
        if idle.rouses_monitor() {
            self.shared.monitor.rouse();
        }
        self.dispatch(wakers);
        self.fire_timers(seat);
        let now = self.mark(State::Check, State::Steal);
        let due = if self.shared.is_stopping() {
            now
        } else {
            now + self.bounds.check
        };
        self.check_due.set(due);
    }

    fn others_have_work(&self) -> bool {
        let seats = self.shared.seats.iter().enumerate();
        seats
            .into_iter()
            .any(|(index, seat)| index != self.index && !seat.lines.is_empty())
    }

    /// Marsaglia's xorshift with 32 bits.
    fn next_random(&self) -> u32 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random.set(x);
        x
    }
}
