//! The heavy lane: the threads that run tasks known to hog.
//!
//! Threads come here in two ways. One that is stuck in a poll loses its seat and *becomes* a thread
//! of the lane, where it finishes the poll. And when tasks that are known to hog wait here, the
//! monitor starts a thread for them. Either has a kernel priority below a worker's for as long as
//! it lives (an unprivileged thread cannot raise it again), so that workers are served first, and
//! ends when it has had nothing to do for a while.
//!
//! # Bounds
//!
//! Tasks that wait here are run by as many threads as there are workers: more would only share the
//! same processors. A thread that has been at one poll for [`GONE`] does not count, so that hogs
//! which never return do not stop the others; but all threads together are at most `limit`. When
//! that is reached no more seats are handed over, which is counted and said.
//!
//! # Classes
//!
//! Which class's task is next is decided by what the classes are owed, as on a worker. Processor
//! time is charged to the class when a poll ends, and at each look of the monitor while it goes
//! on. What workers do for a class whose work is here and not served is in `worker`: they lend
//! their processors.
//!
//! # Tasks that are aborted
//!
//! One that is aborted while it waits here may wait behind polls that never return. So the monitor
//! looks for such tasks, some at each of its looks, and a worker drops them. A worker that comes by
//! one on its way here drops it there and then.

use std::collections::VecDeque;
use std::time::Duration;

use crate::class::{CLASSES_MAX, Class};
use crate::clock::Clock;
use crate::sync::{Condvar, Mutex};
use crate::sys::thread::{self, NICE_MAX, STEPS_MAX, STEPS_MIN};
use crate::task::cell::Runnable;

use super::desk::Desks;
use super::ledger::{Ledger, Published};
use super::shares::{Shares, Turn};

/// How long a poll goes on before its thread no longer counts among those that serve the lane.
const GONE: Duration = Duration::from_millis(50);
/// How many tasks that wait are looked at for whether they were aborted, at a time: so few that
/// nobody has to wait for the lock.
const LOOKED_AT: usize = 64;
/// How long a thread waits for work before it ends.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// See the module's documentation.
///
/// Aligned so that what it writes often shares no cache line with what others read.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Lane {
    state: Mutex<State>,
    /// What it looked like when it was last asked.
    last: Mutex<LaneStats>,
    /// There is work, or the lane closes.
    work: Condvar,
    clock: Clock,
    /// The most threads.
    limit: usize,
    /// How many of them serve the queue.
    servers: usize,
    /// The nice level of the workers.
    nice: i32,
}

#[derive(Debug)]
struct State {
    queues: Vec<VecDeque<Runnable>>,
    queued: usize,
    /// How many of them, from the first on, were looked at for whether they were aborted.
    looked_at: usize,
    threads: Vec<Thread>,
    /// Threads that were asked for and have not come yet.
    starting: usize,
    idle: usize,
    /// A thread without work is to end.
    make_room: bool,
    closed: bool,
    published: Published,
    /// Processor time by class, in cycles.
    spent: [u64; CLASSES_MAX],
    polls: [u64; CLASSES_MAX],
    hand_offs: u64,
    refused: u64,
    priority: Priority,
}

/// What became of the wish for a lower kernel priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Priority {
    /// No thread has been in the lane.
    #[default]
    Untried,
    /// The system lowered it.
    Lowered,
    /// The system refused.
    Refused,
}

#[derive(Debug)]
struct Thread {
    desk: usize,
    nice: i32,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    class: Class,
    /// When the poll began, in cycles.
    since: u64,
    /// Up to which processor time of the thread its class has been charged.
    charged: Duration,
    /// Whether it could run when last asked.
    runnable: bool,
}

/// What the lane looks like at a moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaneStats {
    pub(crate) threads: usize,
    pub(crate) limit: usize,
    pub(crate) queued: usize,
    pub(crate) running: usize,
    pub(crate) hand_offs: u64,
    pub(crate) refused: u64,
    pub(crate) priority: Priority,
    pub(crate) spent: [u64; CLASSES_MAX],
    pub(crate) polls: [u64; CLASSES_MAX],
}

impl Lane {
    pub(crate) fn new(clock: Clock, classes: usize, servers: usize, limit: usize) -> Self {
        Self {
            clock,
            state: Mutex::new(State {
                queues: (0..classes).map(|_| VecDeque::new()).collect(),
                queued: 0,
                looked_at: 0,
                threads: Vec::new(),
                starting: 0,
                idle: 0,
                make_room: false,
                closed: false,
                published: Published::default(),
                spent: [0; CLASSES_MAX],
                polls: [0; CLASSES_MAX],
                hand_offs: 0,
                refused: 0,
                priority: Priority::default(),
            }),
            last: Mutex::new(LaneStats {
                limit,
                ..LaneStats::default()
            }),
            work: Condvar::new(),
            limit,
            servers,
            nice: thread::nice(),
        }
    }

    // ---- Queueing ----

    /// Queues a task. Returns it if the lane is closed. The flag says that the monitor has to be
    /// roused: it may be asleep, or no thread will come for the task by itself.
    pub(crate) fn push(&self, ledger: &Ledger, task: Runnable) -> Result<bool, Runnable> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(task);
        }
        let class = task.header().class();
        let at_rest = state.queued == 0 && state.running().count() == 0;
        state.queues[class.index()].push_back(task);
        state.queued += 1;
        state.publish(ledger, &self.clock);
        let enough = state.idle >= state.queued;
        drop(state);
        self.work.notify_one();
        Ok(at_rest || !enough)
    }

    /// Takes what waits, and takes in nothing any more.
    pub(crate) fn close(&self) -> Vec<Runnable> {
        let mut state = self.state.lock();
        state.closed = true;
        let waiting = state.queues.iter_mut().flat_map(std::mem::take).collect();
        state.queued = 0;
        drop(state);
        self.work.notify_all();
        waiting
    }

    /// For the monitor: takes out tasks that were aborted while they waited, if any are among the
    /// next few.
    pub(crate) fn take_aborted(&self, ledger: &Ledger) -> Vec<Runnable> {
        let mut state = self.state.lock();
        let aborted = state.take_aborted();
        if !aborted.is_empty() {
            state.publish(ledger, &self.clock);
        }
        aborted
    }

    /// The next task for a thread of the lane; waits for one. `None` if the thread should end: it
    /// is the lane's no more.
    pub(crate) fn next(&self, ledger: &Ledger, desk: usize) -> Option<Runnable> {
        let mut state = self.state.lock();
        let mut waited = false;
        while !state.closed {
            if state.serving(&self.clock) < self.servers
                && let Some(task) = state.pop(ledger)
            {
                return Some(task);
            }
            // As many wait for work as could serve it at once; the others end, and make room.
            let make_room = std::mem::take(&mut state.make_room);
            if waited || make_room || state.idle >= self.servers {
                break;
            }
            state.idle += 1;
            // What waits behind polls that have gone on for too long gets this thread when those
            // no longer count, of which nobody tells it.
            let wait = if state.queued > 0 { GONE } else { KEEP_ALIVE };
            let (guard, timed_out) = self.work.wait_timeout(state, wait);
            state = guard;
            state.idle -= 1;
            waited = timed_out && wait == KEEP_ALIVE;
        }
        state.threads.retain(|thread| thread.desk != desk);
        state.publish(ledger, &self.clock);
        None
    }

    // ---- Threads ----

    /// For the monitor: reserves a place for one more thread, if tasks wait that none will come
    /// for.
    pub(crate) fn wants_thread(&self) -> bool {
        let mut state = self.state.lock();
        let serving = state.serving(&self.clock) + state.idle + state.starting;
        let wants = !state.closed
            && state.queued > 0
            && serving < self.servers
            && state.threads.len() + state.starting < self.limit;
        state.starting += usize::from(wants);
        wants
    }

    /// A thread that was wanted could not be started.
    pub(crate) fn give_up_thread(&self) {
        self.state.lock().starting -= 1;
    }

    /// A thread that was wanted has come.
    pub(crate) fn join(&self, desk: usize) {
        let mut state = self.state.lock();
        state.starting -= 1;
        state.threads.push(Thread {
            desk,
            nice: self.nice,
            running: None,
        });
    }

    /// Reserves a place for a thread that is about to lose its seat. Returns false if the lane is
    /// full; one of its threads that has nothing to do then ends, so that there is room next time.
    pub(crate) fn reserve(&self) -> bool {
        let mut state = self.state.lock();
        let room = !state.closed && state.threads.len() + state.starting < self.limit;
        state.starting += usize::from(room);
        state.make_room = !room && state.idle > 0;
        if state.make_room {
            self.work.notify_one();
        }
        room
    }

    /// Whether a thread that lost its seat now would find a place; makes room like
    /// [`reserve`](Lane::reserve) if not. For the monitor, which starts no heir in vain.
    pub(crate) fn has_room(&self) -> bool {
        let room = self.reserve();
        if room {
            self.give_up_thread();
        }
        room
    }

    /// A seat was not handed over, as the lane is full.
    pub(crate) fn refuse(&self) {
        self.state.lock().refused += 1;
    }

    /// A thread lost its seat in a poll that began at `since`, and is the lane's from now on.
    pub(crate) fn adopt(
        &self,
        ledger: &Ledger,
        desks: &Desks,
        desk: usize,
        class: Class,
        since: u64,
    ) {
        let cpu = desks.get(desk).ask_thread(thread::cpu_time).flatten();
        let mut state = self.state.lock();
        state.starting -= 1;
        state.hand_offs += 1;
        state.threads.push(Thread {
            desk,
            nice: self.nice,
            running: Some(Running {
                class,
                since,
                charged: cpu.unwrap_or_default(),
                runnable: true,
            }),
        });
        state.publish(ledger, &self.clock);
    }

    /// A thread of the lane begins a poll.
    pub(crate) fn begin(
        &self,
        ledger: &Ledger,
        desk: usize,
        class: Class,
        since: u64,
        cpu: Duration,
    ) {
        let mut state = self.state.lock();
        state.polls[class.index()] += 1;
        if let Some(thread) = state.thread(desk) {
            thread.running = Some(Running {
                class,
                since,
                charged: cpu,
                runnable: true,
            });
        }
        state.publish(ledger, &self.clock);
    }

    /// A thread of the lane has ended a poll, its processor time being `cpu`.
    pub(crate) fn end(&self, ledger: &Ledger, desk: usize, cpu: Duration) {
        let mut state = self.state.lock();
        let running = state.thread(desk).and_then(|thread| thread.running.take());
        if let Some(running) = running {
            let used = cpu.saturating_sub(running.charged);
            state.charge(ledger, running.class, self.clock.cycles_of(used));
        }
        state.publish(ledger, &self.clock);
    }

    /// Gives a thread the kernel priority that its class asks for, as far as the system lets it.
    pub(crate) fn prioritise(&self, ledger: &Ledger, desks: &Desks, desk: usize, class: Class) {
        let wanted = (self.nice + steps(ledger, class)).min(NICE_MAX);
        let mut state = self.state.lock();
        let Some(thread) = state.thread(desk) else {
            return;
        };
        let before = thread.nice;
        if before == wanted {
            return;
        }
        let change = |id| thread::lower(id, wanted).is_ok();
        let changed = desks.get(desk).ask_thread(change).unwrap_or(false);
        if changed {
            thread.nice = wanted;
        }
        // What was lowered can mostly not be raised again; that is expected and no refusal.
        if wanted > before {
            state.priority = if changed {
                Priority::Lowered
            } else {
                Priority::Refused
            };
        }
    }

    /// For the monitor: charges what polls under way have used since they were last asked about.
    pub(crate) fn sample(&self, ledger: &Ledger, desks: &Desks) {
        let mut state = self.state.lock();
        let mut spent = [0; CLASSES_MAX];
        for thread in &mut state.threads {
            let desk = desks.get(thread.desk);
            let cpu = desk.ask_thread(thread::cpu_time).flatten();
            let Some(running) = &mut thread.running else {
                continue;
            };
            let Some(cpu) = cpu else {
                // The system does not say what it uses, so nobody could tell when to stop lending.
                running.runnable = false;
                continue;
            };
            let used = cpu.saturating_sub(running.charged);
            running.charged = cpu;
            spent[running.class.index()] += self.clock.cycles_of(used);
            // One that used nothing is blocked or was not let; only the latter is owed anything.
            let is_runnable = || desk.ask_thread(thread::is_runnable).flatten();
            running.runnable = !used.is_zero() || is_runnable().unwrap_or(true);
        }
        for (class, &time) in spent.iter().enumerate().filter(|&(_, &time)| time > 0) {
            state.charge(ledger, Class::at(class), time);
        }
        state.publish(ledger, &self.clock);
    }

    /// The desks of the lane's threads, and where what they poll was spawned.
    pub(crate) fn desks(&self) -> Vec<usize> {
        self.state
            .lock()
            .threads
            .iter()
            .map(|thread| thread.desk)
            .collect()
    }

    /// Whether nothing runs or waits here. `None` if a thread of the lane is changing that: beside
    /// busy workers it may have to wait for long before it has done so, and the monitor must not.
    pub(crate) fn is_at_rest(&self) -> Option<bool> {
        let state = self.state.try_lock()?;
        Some(state.queued == 0 && state.running().count() == 0 && state.starting == 0)
    }

    /// What the lane looks like; what it last looked like if a thread of the lane is changing that,
    /// for the reason that [`is_at_rest`](Lane::is_at_rest) has.
    pub(crate) fn stats(&self) -> LaneStats {
        let mut last = self.last.lock();
        if let Some(state) = self.state.try_lock() {
            *last = state.stats(self.limit);
        }
        last.clone()
    }
}

impl State {
    fn stats(&self, limit: usize) -> LaneStats {
        LaneStats {
            threads: self.threads.len(),
            limit,
            queued: self.queued,
            running: self.running().count(),
            hand_offs: self.hand_offs,
            refused: self.refused,
            priority: self.priority,
            spent: self.spent,
            polls: self.polls,
        }
    }

    fn thread(&mut self, desk: usize) -> Option<&mut Thread> {
        self.threads.iter_mut().find(|thread| thread.desk == desk)
    }

    fn running(&self) -> impl Iterator<Item = &Running> {
        self.threads
            .iter()
            .filter_map(|thread| thread.running.as_ref())
    }

    /// How many threads are at a poll that may be over soon.
    fn serving(&self, clock: &Clock) -> usize {
        let (now, gone) = (clock.cycles(), clock.cycles_of(GONE));
        self.running()
            .filter(|running| now.saturating_sub(running.since) < gone)
            .count()
    }

    /// Takes the first task of the class whose turn it is.
    fn pop(&mut self, ledger: &Ledger) -> Option<Runnable> {
        let class = first_of(ledger, self.queued_classes())?;
        let task = self.queues[class.index()].pop_front()?;
        self.queued -= 1;
        Some(task)
    }

    /// Goes on where it ended the last time. What is taken from the front meanwhile may make it
    /// pass over a task, until it comes by again.
    fn take_aborted(&mut self) -> Vec<Runnable> {
        let mut aborted = Vec::new();
        let mut left = LOOKED_AT;
        let mut place = self.looked_at;
        for queue in &mut self.queues {
            let end = queue.len().min(place.saturating_add(left));
            let begin = place.min(end);
            left -= end - begin;
            // Those that stay move up, so that the rest of the queue, which may be long, has to
            // but once.
            let mut stay = begin;
            for at in begin..end {
                if !queue[at].is_aborted() {
                    queue.swap(stay, at);
                    stay += 1;
                }
            }
            self.looked_at += stay - begin;
            aborted.extend(queue.drain(stay..end));
            place = place.saturating_sub(queue.len());
        }
        if left > 0 {
            self.looked_at = 0;
        }
        self.queued -= aborted.len();
        aborted
    }

    fn queued_classes(&self) -> u32 {
        let queues = self.queues.iter().enumerate();
        queues
            .filter(|(_, queue)| !queue.is_empty())
            .fold(0, |bits, (index, _)| bits | Class::at(index).bit())
    }

    fn charge(&mut self, ledger: &Ledger, class: Class, time: u64) {
        self.spent[class.index()] += time;
        let mut spent = [0; CLASSES_MAX];
        spent[class.index()] = time;
        ledger.charge(&spent);
    }

    /// Whether a thread is there, or about to come, for what waits.
    fn is_served(&self, clock: &Clock) -> bool {
        let (now, gone) = (clock.cycles(), clock.cycles_of(GONE));
        let comes_back = |running: &Running| now.saturating_sub(running.since) < gone;
        self.idle > 0
            || self.starting > 0
            || self
                .running()
                .any(|running| running.runnable && comes_back(running))
    }

    /// Tells the ledger which classes have work here, and which of it could run. What waits and
    /// has no thread to come for it (the lane is full, or the system gives none) could not: workers
    /// that lent their processors to it would do so for ever, as it never uses them.
    fn publish(&mut self, ledger: &Ledger, clock: &Clock) {
        let queued = self.queued_classes();
        let bits = |of: fn(&Running) -> bool, waiting: u32| {
            let running = self.running().filter(|running| of(running));
            running.fold(waiting, |bits, running| bits | running.class.bit())
        };
        let served = if self.is_served(clock) { queued } else { 0 };
        let active = bits(|_| true, queued);
        let runnable = bits(|running| running.runnable, served);
        ledger.publish(&mut self.published, active);
        ledger.set_lane(runnable);
    }
}

/// The class whose turn it is, of some.
fn first_of(ledger: &Ledger, classes: u32) -> Option<Class> {
    let mut reading = ledger.read();
    reading.lane = 0;
    let mut shares = Shares::new(ledger.limits(), reading);
    Class::of_bits(classes).for_each(|class| shares.wake(class));
    match shares.first()? {
        Turn::Here(class) | Turn::Lane(class) => Some(class),
    }
}

/// How many nice levels below the workers a class is in the lane: the class with the greatest share
/// the fewest, and each further one, which is worth a quarter of processor time to the kernel,
/// stands for a quarter of share.
fn steps(ledger: &Ledger, class: Class) -> i32 {
    let reading = ledger.read();
    let share = |class: Class| f64::from(reading.terms[class.index()].share);
    let greatest = Class::of_bits(reading.active | class.bit())
        .map(share)
        .fold(1.0, f64::max);
    let steps = (greatest / share(class)).log(1.25).round();
    (STEPS_MIN + steps as i32).clamp(STEPS_MIN, STEPS_MAX)
}
