//! The heavy pool: the threads that run tasks known to hog.
//!
//! Threads come here in two ways. A thread that is stuck in a poll loses its seat and *becomes* a
//! thread of the pool, where it finishes the poll. And when tasks that are known to hog wait here,
//! the monitor starts a thread for them. A thread that computes gets a kernel priority below the
//! workers', so that they run first: a little lower at first, so that a request that computes for
//! some milliseconds does not wait long for other programs, and much lower if the poll goes on. An
//! unprivileged thread cannot raise its priority again, so it ends after such a poll. It also ends
//! when it has had nothing to do for a while.
//!
//! # Bounds
//!
//! At most as many threads as there are workers run the tasks that wait here: more would only share
//! the same processors. A thread that has been in one poll for [`GONE`] does not count, so that
//! hogs which never return do not stop the others. All threads that compute are together at most
//! `limit`. At that limit no more seats are handed over, which the statistics count.
//!
//! # Blocked threads
//!
//! A thread that is blocked, in a sleep, a lock or a system call, uses no processor. It does not
//! count for these bounds, and has a generous bound of its own. The kernel knows which threads are
//! blocked (`sample`). A task whose long polls are known to block gets a thread at once. The more
//! threads are found blocked, the more such tasks may start before the kernel is asked.
//!
//! # Classes
//!
//! What the classes are owed decides which class is next, as on a worker. Processor time is charged
//! to the class when a poll ends, and while it goes on, each time that the monitor looks. Workers
//! lend their processors to a class whose work is here and not served (`worker`); before one does,
//! it charges what has been used by then.
//!
//! # The lock
//!
//! A thread of the lowest priority may hold the lock, and the kernel may not schedule that thread
//! for long. So workers and the monitor only try to take it. A worker that fails leaves its task in
//! an injection queue, which the next holder of the lock empties.
//!
//! # Tasks that are aborted
//!
//! A task that is aborted may be waiting here behind polls that never return. So the monitor looks
//! for such tasks, a few at a time, and a worker drops them. A worker drops an aborted task at once
//! instead of queueing it here.

use std::time::Duration;

use crate::class::Class;
use crate::clock::Clock;
use crate::counters::histogram::Tallied;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};
use crate::sys::thread::{self, NICE_MAX, STEPS_BRIEF, STEPS_LONG, STEPS_MAX};

use super::desk::Desks;
use super::hog::Hog;
use super::injection::InjectionQueue;
use super::ledger::Ledger;
use super::live::Live;
use super::run_queues::received;
use super::shares::{Choice, Shares, Spent};
use super::stacks::PollId;
use super::task::cell::{Header, Runnable};
use state::{Bounds, GONE, LONG, SETTLED, State, Thread};
pub(crate) use state::{Doing, Running};

mod state;

/// How long a thread waits for work before it ends.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Aligned, so that its writes share no cache line with what others read.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct HeavyPool {
    state: Mutex<State>,
    /// Tasks that workers brought while the lock was held.
    pub(crate) arrivals: InjectionQueue<Header>,
    /// See the function of this name.
    takes_doubtful: AtomicBool,
    is_crowded: AtomicBool,
    takes_suspects: AtomicBool,
    computed_at: AtomicU64,
    /// How often a seat was not handed over.
    refused: AtomicU64,
    /// The statistics as they were last read.
    last: Mutex<HeavyPoolStats>,
    /// Notified when there is work, or the pool closes.
    work: Condvar,
    clock: Clock,
    /// The nice level of the workers.
    nice: i32,
    /// Says how long a hog's poll lasts at least.
    live: Arc<Live>,
}

/// Whether the system lowered the kernel priority of threads in the pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Priority {
    /// No thread has been in the pool.
    #[default]
    Untried,
    /// The system lowered it.
    Lowered,
    /// The system refused.
    Refused,
}

/// A snapshot of the pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeavyPoolStats {
    pub(crate) threads: usize,
    pub(crate) limit: usize,
    pub(crate) blocked: usize,
    pub(crate) blocked_limit: usize,
    pub(crate) queued: usize,
    pub(crate) running: usize,
    /// The hogs' polls that are under way: their classes, and since when.
    pub(crate) hogging: Vec<(Class, u64)>,
    pub(crate) hand_offs: u64,
    pub(crate) early: u64,
    pub(crate) given_up: u64,
    pub(crate) refused: u64,
    pub(crate) priority: Priority,
    pub(crate) spent: Vec<u64>,
    pub(crate) polls: Vec<u64>,
    /// How long tasks were ready before their polls, by class.
    pub(crate) waits: Vec<Tallied>,
    /// How long the polls took that are over, by class, by the clock.
    pub(crate) poll_lengths: Vec<Tallied>,
}

/// What a look at the pool's threads found.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    /// Polls that turned out to be hogs', to be noted.
    pub(crate) hogs: Vec<Hog>,
    /// The desks where hogs' polls are under way, and whether their threads are blocked.
    pub(crate) hogging: Vec<(PollId, bool)>,
    /// Another look is needed soon.
    pub(crate) unsettled: bool,
}

impl HeavyPool {
    /// `servers` is the number of workers.
    pub(crate) fn new(
        clock: Clock,
        classes: usize,
        servers: usize,
        [limit, blocked_limit]: [usize; 2],
        live: Arc<Live>,
    ) -> Self {
        let bounds = Bounds {
            servers,
            limit,
            blocked_limit,
            gone: clock.cycles_of(GONE),
            long: clock.cycles_of(LONG),
            settled: clock.cycles_of(SETTLED),
        };
        let state = State::new(classes, bounds);
        Self {
            last: Mutex::new(state.stats()),
            state: Mutex::new(state),
            arrivals: InjectionQueue::new(),
            takes_doubtful: AtomicBool::new(true),
            is_crowded: AtomicBool::new(false),
            takes_suspects: AtomicBool::new(blocked_limit > 0),
            computed_at: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            work: Condvar::new(),
            nice: thread::nice(),
            clock,
            live,
        }
    }

    /// For threads of the pool, and those about to join it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.take_in(self.state.lock())
    }

    /// For workers and the monitor, which do not wait for a thread of the pool.
    fn try_lock(&self) -> Option<MutexGuard<'_, State>> {
        self.state.try_lock().map(|state| self.take_in(state))
    }

    fn take_in<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        if !self.arrivals.is_empty() {
            let receive = |entry| state.queue(received(entry));
            self.arrivals.take(usize::MAX, receive);
        }
        state
    }

    // ---- Queueing ----

    /// Queues a task. Gives it back if the lock is taken or the pool is closed; it then goes to
    /// `arrivals`, which are closed as well if the pool is. Returns whether the monitor has to be
    /// roused, because it may be asleep or no idle thread will take the task.
    pub(crate) fn push(&self, ledger: &Ledger, task: Runnable) -> Result<bool, Runnable> {
        let Some(mut state) = self.try_lock() else {
            return Err(task);
        };
        if state.closed {
            return Err(task);
        }
        let at_rest = state.is_at_rest();
        state.queue(task);
        self.publish(&mut state, ledger);
        let enough = state.idle >= state.queued();
        drop(state);
        self.work.notify_one();
        Ok(at_rest || !enough)
    }

    /// Whether a doubtful task is better off here: a thread will poll it at once, or so many hogs
    /// compute that no thread could take over a worker that polls it. As of the last change; a
    /// hint.
    pub(crate) fn takes_doubtful(&self) -> bool {
        // Relaxed, here and below: a hint.
        self.takes_doubtful.load(Ordering::Relaxed)
    }

    /// Whether twice as many polls compute here as there are workers, or tasks have waited for
    /// long, and some polls may be over soon. As of the last change; a hint.
    pub(crate) fn is_crowded(&self) -> bool {
        // Relaxed: as above.
        self.is_crowded.load(Ordering::Relaxed)
    }

    /// Whether one more task that may block will not have to wait for one that does. As of the last
    /// change; a hint.
    pub(crate) fn takes_suspects(&self) -> bool {
        // Relaxed: as above.
        self.takes_suspects.load(Ordering::Relaxed)
    }

    /// Charges what the polls under way have used. Returns whether a class has had work here for so
    /// long that what it is owed then says whether it is served. `None` if the lock is taken.
    pub(crate) fn bring_up_to_date(
        &self,
        ledger: &Ledger,
        desks: &Desks,
        class: Class,
    ) -> Option<bool> {
        let mut state = self.try_lock()?;
        let mut spent = Spent::new();
        for thread in &mut state.threads {
            let computing = |poll: &&mut Running| poll.doing == Doing::Computes;
            if let Some(poll) = thread.running.as_mut().filter(computing) {
                let cpu = desks.get(thread.desk).try_ask_thread(thread::cpu_time);
                if let Some(cpu) = cpu.flatten() {
                    spent.add(poll.kind.class, self.clock.cycles_of(poll.charge(cpu)));
                }
            }
        }
        for (class, time) in spent.iter() {
            state.charge(ledger, class, time);
        }
        self.publish(&mut state, ledger);
        let is_settled = state.is_settled(class, self.clock.cycles());
        let has_arrivals = state.idle > 0 && state.queued() > 0;
        drop(state);
        if has_arrivals {
            self.work.notify_all();
        }
        Some(is_settled)
    }

    /// Publishes a change to the ledger and to workers.
    fn publish(&self, state: &mut State, ledger: &Ledger) {
        state.publish(ledger, self.clock.cycles());
        self.advise(state);
    }

    /// Updates the advice on doubtful tasks. To be called on each change of the polls and threads
    /// here: otherwise a pool at rest would pass for a busy one until its next poll.
    fn advise(&self, state: &State) {
        let now = self.clock.cycles();
        let serves = state.serves(now);
        let takes_doubtful = state.serves_at_once(now) || (serves && !state.has_room(false));
        let is_crowded = serves && state.is_crowded(now);
        // Relaxed: as in `takes_doubtful`.
        self.takes_doubtful.store(takes_doubtful, Ordering::Relaxed);
        self.is_crowded.store(is_crowded, Ordering::Relaxed);
        let takes_suspects = state.has_room_for_blockers();
        self.takes_suspects.store(takes_suspects, Ordering::Relaxed);
        if state.computes() {
            // Relaxed: as in `computed_at`.
            self.computed_at.store(now, Ordering::Relaxed);
        }
    }

    /// When a task last computed here or was about to, in cycles. While one does, this is a few
    /// milliseconds old at most.
    #[inline]
    pub(crate) fn computed_at(&self) -> u64 {
        // Relaxed: whoever reads it late has an older one.
        self.computed_at.load(Ordering::Relaxed)
    }

    /// Closes the pool. Returns the tasks that wait.
    pub(crate) fn close(&self) -> Vec<Runnable> {
        self.arrivals.close();
        let mut state = self.lock();
        state.closed = true;
        let waiting = state.take_all();
        drop(state);
        self.work.notify_all();
        waiting
    }

    /// For the monitor: takes out those of the next few tasks that were aborted.
    pub(crate) fn take_aborted(&self, ledger: &Ledger) -> Vec<Runnable> {
        let Some(mut state) = self.try_lock() else {
            return Vec::new();
        };
        let aborted = state.take_aborted();
        if !aborted.is_empty() {
            self.publish(&mut state, ledger);
        }
        aborted
    }

    /// The next task for a thread of the pool, which may wait for it. `None` if the thread should
    /// end; it is then no longer in the pool.
    pub(crate) fn next(&self, ledger: &Ledger, desk: usize) -> Option<Runnable> {
        let mut state = self.lock();
        let leaves = state.thread(desk).is_some_and(|thread| thread.leaves);
        let mut waited = false;
        while !state.closed && !leaves {
            let first = |classes| first_of(ledger, classes);
            if let Some(task) = state.pop(self.clock.cycles(), first) {
                return Some(task);
            }
            // As many threads wait for work as may serve it at once. The others end and make room.
            let make_room = std::mem::take(&mut state.make_room);
            if waited || make_room || state.idle >= state.bounds.servers {
                break;
            }
            state.idle += 1;
            // Tasks may wait for polls that will soon be too long to count. That comes without a
            // notification, so the wait is short.
            let wait = if state.queued() > 0 { GONE } else { KEEP_ALIVE };
            let (guard, timed_out) = self.work.wait_timeout(state, wait);
            state = self.take_in(guard);
            state.idle -= 1;
            waited = timed_out && wait == KEEP_ALIVE;
        }
        state.threads.retain(|thread| thread.desk != desk);
        self.publish(&mut state, ledger);
        None
    }

    // ---- Threads ----

    /// For the monitor: reserves a place for a thread, if tasks wait that no present thread will
    /// take.
    pub(crate) fn wants_thread(&self) -> bool {
        let Some(mut state) = self.try_lock() else {
            return false;
        };
        let wants = state.wants_thread(self.clock.cycles());
        if wants {
            state.starting += 1;
            self.advise(&state);
        }
        wants
    }

    pub(crate) fn give_up_thread(&self) {
        let mut state = self.lock();
        state.starting -= 1;
        self.advise(&state);
    }

    /// A thread that was started for the pool takes its place.
    pub(crate) fn join(&self, desk: usize) {
        let mut state = self.lock();
        state.add_thread(desk, self.nice, None);
        self.advise(&state);
    }

    /// Reserves a place for a thread that is about to lose its seat, blocked or not. Returns false
    /// if the pool is full. If a thread here has nothing to do, it then ends, so that there is room
    /// next time.
    pub(crate) fn reserve(&self, blocked: bool) -> bool {
        let mut state = self.lock();
        let room = self.reserve_in(&mut state, blocked);
        self.advise(&state);
        room
    }

    fn reserve_in(&self, state: &mut State, blocked: bool) -> bool {
        let room = state.has_room(blocked);
        state.starting += usize::from(room);
        state.make_room = !room && state.idle > 0;
        if state.make_room {
            self.work.notify_one();
        }
        room
    }

    /// For the monitor, before it starts an heir: whether a thread that lost its seat now would
    /// find a place. Makes room like [`reserve`](HeavyPool::reserve) if not. True if the lock is
    /// taken.
    pub(crate) fn seems_to_have_room(&self, blocked: bool) -> bool {
        let Some(mut state) = self.try_lock() else {
            return true;
        };
        let room = self.reserve_in(&mut state, blocked);
        state.starting -= usize::from(room);
        room
    }

    pub(crate) fn refuse(&self) {
        // Relaxed: a statistic.
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The thread at a desk lost its seat in a poll, and belongs to the pool from now on.
    pub(crate) fn adopt(&self, ledger: &Ledger, desks: &Desks, desk: usize, mut poll: Running) {
        let cpu = desks.get(desk).ask_thread(thread::cpu_time).flatten();
        poll.first = cpu.unwrap_or_default();
        (poll.charged, poll.sampled) = (poll.first, poll.first);
        let mut state = self.lock();
        state.hand_offs += 1;
        state.early += u64::from(!poll.noted && !poll.given_up);
        state.given_up += u64::from(poll.given_up);
        state.add_thread(desk, self.nice, Some(poll));
        self.publish(&mut state, ledger);
    }

    /// A thread of the pool begins a poll, for which the task `waited` so many cycles.
    pub(crate) fn begin(&self, ledger: &Ledger, desk: usize, waited: u64, poll: Running) {
        let mut state = self.lock();
        state.count_poll(poll.kind.class, waited);
        if let Some(thread) = state.thread(desk) {
            debug_assert!(thread.running.is_none(), "one poll at a time");
            thread.running = Some(poll);
        }
        self.publish(&mut state, ledger);
    }

    /// A thread of the pool has ended a poll; its processor time is `cpu`. Returns what was known
    /// of the poll.
    pub(crate) fn end(&self, ledger: &Ledger, desk: usize, cpu: Duration) -> Option<Running> {
        let mut state = self.lock();
        let mut running = state.end_poll(desk);
        if let Some(running) = &mut running {
            let used = running.charge(cpu);
            state.charge(ledger, running.kind.class, self.clock.cycles_of(used));
            let length = self.clock.cycles().saturating_sub(running.since);
            state.count_length(running.kind.class, length);
        }
        self.publish(&mut state, ledger);
        running
    }

    /// For a thread that lost its seat, with its processor time `cpu`: whether its poll is a hog's,
    /// and if so, whether it was blocked.
    pub(crate) fn judges(&self, desk: usize, cpu: Duration) -> Option<bool> {
        let mut state = self.lock();
        let poll = state.thread(desk)?.running.as_ref()?;
        self.is_hog(poll, cpu).then_some(poll.was_blocked)
    }

    pub(crate) fn is_hog(&self, poll: &Running, cpu: Duration) -> bool {
        let used = self.clock.cycles_of(poll.computed(cpu));
        !poll.given_up && (poll.noted || poll.is_hog(self.clock.cycles(), used, self.live.hog()))
    }

    /// Whether the poll of the calling thread is noted as a hog's.
    pub(crate) fn is_noted(&self, desk: usize) -> bool {
        let mut state = self.lock();
        let running = state
            .thread(desk)
            .and_then(|thread| thread.running.as_ref());
        running.is_some_and(|poll| poll.noted)
    }

    /// Notes the poll of the calling thread as a hog's. Returns whether it was noted before.
    pub(crate) fn note(&self, desk: usize) -> bool {
        let mut state = self.lock();
        let thread = state.thread(desk);
        let poll = thread.and_then(|thread| thread.running.as_mut());
        poll.is_some_and(|poll| std::mem::replace(&mut poll.noted, true))
    }

    /// Gives a thread the kernel priority of its class, as far as the system allows it.
    pub(crate) fn prioritise(&self, ledger: &Ledger, desks: &Desks, desk: usize, class: Class) {
        let wanted = self.wanted(ledger, class, false);
        let mut state = self.lock();
        let Some(thread) = state.thread(desk) else {
            return;
        };
        if let Some(priority) = lower(thread, wanted, desks) {
            state.priority = priority;
        }
    }

    /// The nice level of the workers.
    pub(crate) fn nice(&self) -> i32 {
        self.nice
    }

    /// The nice level of a class, for a long poll or another.
    fn wanted(&self, ledger: &Ledger, class: Class, long: bool) -> i32 {
        let least = if long { STEPS_LONG } else { STEPS_BRIEF };
        (self.nice + steps(ledger, class, least)).min(NICE_MAX)
    }

    /// For the monitor: charges what the polls under way have used since the last time, finds out
    /// which of them are blocked, and lowers the priority of those that compute for long.
    pub(crate) fn sample(&self, ledger: &Ledger, desks: &Desks) -> Sampled {
        let Some(mut state) = self.try_lock() else {
            return Sampled {
                unsettled: true,
                ..Sampled::default()
            };
        };
        let now = self.clock.cycles();
        let mut spent = Spent::new();
        let mut sampled = Sampled::default();
        let mut priority = state.priority;
        let long_after = state.bounds.long;
        let hog = self.live.hog();
        let before_it_blocks = self.clock.to_duration(hog / 2);
        state.begin_sample();
        for thread in state.asked_about() {
            let desk = desks.get(thread.desk);
            let Some(running) = &mut thread.running else {
                continue;
            };
            let cpu = desk.ask_thread(thread::cpu_time).flatten();
            let is_runnable = || desk.ask_thread(thread::is_runnable).flatten();
            let used = running.sample(cpu, before_it_blocks, is_runnable);
            spent.add(running.kind.class, self.clock.cycles_of(used));
            let computed = self.clock.cycles_of(running.computed(running.charged));
            let is_hog = running.is_hog(now, computed, hog);
            // Under the pool's lock this is the poll in question, which its thread cannot end.
            let since = desk.tenure().polling_since();
            let is_new = is_hog && !std::mem::replace(&mut running.noted, true);
            if is_new && !running.given_up {
                let length = now.saturating_sub(running.since);
                let poll = PollId {
                    desk: thread.desk,
                    since,
                };
                sampled.hogs.push(running.hog(poll, length, true));
            }
            if is_hog && !running.given_up {
                let blocked = running.doing == Doing::Blocked;
                let poll = PollId {
                    desk: thread.desk,
                    since,
                };
                sampled.hogging.push((poll, blocked));
            }
            if is_hog && running.doing == Doing::Computes && computed >= hog / 2 {
                let long = now.saturating_sub(running.since) >= long_after;
                let wanted = self.wanted(ledger, running.kind.class, long);
                running.long |= long;
                if wanted > thread.nice {
                    priority = lower(thread, wanted, desks).unwrap_or(priority);
                }
            }
        }
        state.priority = priority;
        for (class, time) in spent.iter() {
            state.charge(ledger, class, time);
        }
        self.publish(&mut state, ledger);
        sampled.unsettled = state.is_unsettled(now, self.nice);
        let freed = state.idle > 0 && state.queued() > 0;
        drop(state);
        if freed {
            // Polls that were found blocked no longer keep waiting tasks from a thread.
            self.work.notify_all();
        }
        sampled
    }

    /// The desks of threads that have lost their seats in the polls under way. `None` if the lock
    /// is taken.
    pub(crate) fn desks_of_losers(&self) -> Option<Vec<usize>> {
        let state = self.try_lock()?;
        let lost = state.threads.iter().filter(|thread| thread.has_just_lost());
        Some(lost.map(|thread| thread.desk).collect())
    }

    /// Whether nothing runs or waits here. `None` if the lock is taken: its holder may not be
    /// scheduled for long beside busy workers, and the monitor must not wait for it.
    pub(crate) fn is_at_rest(&self) -> Option<bool> {
        let state = self.try_lock()?;
        Some(state.is_at_rest() && state.starting == 0)
    }

    /// A snapshot of the pool; the last one if the lock is taken.
    pub(crate) fn stats(&self) -> HeavyPoolStats {
        let mut last = self.last.lock();
        if let Some(state) = self.try_lock() {
            *last = state.stats();
        }
        HeavyPoolStats {
            // Relaxed: a statistic.
            refused: self.refused.load(Ordering::Relaxed),
            ..last.clone()
        }
    }
}

/// Gives a thread another nice level. Returns whether the system lowered its priority, or `None` if
/// it was to be raised: a refusal of that is expected.
fn lower(thread: &mut Thread, wanted: i32, desks: &Desks) -> Option<Priority> {
    let before = thread.nice;
    if before == wanted {
        return None;
    }
    let change = |id| thread::lower(id, wanted).is_ok();
    let changed = desks.get(thread.desk).ask_thread(change).unwrap_or(false);
    if changed {
        thread.nice = wanted;
    }
    (wanted > before).then_some(if changed {
        Priority::Lowered
    } else {
        Priority::Refused
    })
}

/// Which of some classes is next.
fn first_of(ledger: &Ledger, classes: u64) -> Option<Class> {
    let mut reading = ledger.read();
    reading.heavy_pool = 0;
    let mut shares = Shares::new(ledger.limits(), reading);
    Class::of_bits(classes).for_each(|class| shares.wake(class));
    match shares.first()? {
        Choice::Here(class) | Choice::HeavyPool(class) => Some(class),
    }
}

/// How many nice levels below the workers a class runs in the pool. The class with the greatest
/// share is `least` levels below. A level is worth a quarter of processor time to the kernel, so
/// each further one stands for a quarter of share.
fn steps(ledger: &Ledger, class: Class, least: i32) -> i32 {
    let reading = ledger.read();
    let share = |class: Class| f64::from(reading.terms[class.index()].share);
    let greatest = Class::of_bits(reading.active | class.bit())
        .map(share)
        .fold(1.0, f64::max);
    let steps = (greatest / share(class)).log(1.25).round();
    (least + steps as i32).clamp(least, STEPS_MAX)
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;
    use crate::sched::shares::{Limits, Term};
    use crate::sched::spin::BusyWait;

    #[test]
    fn threads_that_were_expected_are_no_reason_to_spare_the_pool_once_they_are_there_or_given_up()
    {
        let limits = Limits {
            credit: 1,
            lead_max: 1,
            lag_max: 1,
            lend: 1,
            workers: 1,
        };
        let term = Term {
            share: 1,
            target: 1,
        };
        let (ledger, desks) = (Ledger::new(limits, &[term]), Desks::new(1, 1));
        let clock = Clock::start();
        let live = Arc::new(Live::new(None, BusyWait::None, clock));
        let pool = HeavyPool::new(clock, 1, 1, [4, 4], live);
        assert!(pool.takes_doubtful());
        for come in [HeavyPool::give_up_thread, |pool: &HeavyPool| pool.join(0)] {
            assert!(pool.reserve(false));
            assert!(
                !pool.takes_doubtful(),
                "a thread is expected that will be busy"
            );
            pool.sample(&ledger, &desks);
            come(&pool);
            assert!(
                pool.takes_doubtful(),
                "a thread of the pool can take a task at once"
            );
        }
    }
}
