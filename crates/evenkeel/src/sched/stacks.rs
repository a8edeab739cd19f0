//! Stacks of hogs: when they are taken, and where they go.
//!
//! **Invariant:** each poll of a hog that has ended is counted once, with its length: by the event
//! of its end if a stack of it was taken, and else among the [`Unknown`]. So the functions' times
//! add up to the kinds'.
//!
//! The monitor calls [`Stacks::catch`] for polls that it knows to be hogs', again and again. A
//! poll's stack is taken when it is first caught, and then when it has lasted for 10 ms, 100 ms, a
//! second and so on. Each stack stands for the time since the one before it. A thread that computes
//! is asked, and its answer is collected at a later look; that of a blocked thread is read at once.
//! Where the system does not let that be read, a blocked thread is not asked instead: the signal
//! would interrupt its call.
//!
//! What was found goes to a queue of bounded length, in the order in which it happened: stacks, the
//! ends of their polls, and reports that wait to be named. `hogs` takes it from there, on a thread
//! of its own.
//!
//! # When names are made
//!
//! To name the first stack the program's tables are read, which takes some 50 ms of a processor and
//! some megabytes. That is not done for a few polls of 2 ms of which nobody asks: the queue
//! waits until it has stacks that stand for [`WORTH_NAMES`] or is half full, or somebody has asked
//! for statistics, or a report waits for its name. From the first question on, all are named at
//! once.
//!
//! # The lock
//!
//! The thread that makes names has the lowest priority, and may hold the lock for long while it is
//! not scheduled. So all others only try to take it: the monitor looks again later, a report goes
//! without a name, and the end of a poll stays at its desk until the monitor finds it. For the same
//! reason nobody waits for a handler that has begun to answer: its slot is left to it, and the
//! monitor frees it later.

mod serving;
mod unknown;

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::clock::{self, Clock};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, thread};
use crate::sys::stack::{self, Asked, Ends, Stack};
use crate::sys::thread::is_runnable;

use super::HogReport;
use super::desk::{Desk, Desks, Ended};
use super::task::kind::Kind;
use unknown::Unknown;

pub(crate) use serving::ServerId;
#[cfg(any(test, feature = "drop-in"))]
pub(crate) use serving::TakeOver;
pub(crate) use unknown::UnknownPolls;

/// At most so many stacks are taken in a second. Each may cost the stuck poll 50 us, and what makes
/// names of it a tenth of a millisecond at low priority: one per cent of a processor.
const EACH_SECOND: u32 = 100;
/// How many of them may be taken at once after a quiet time.
const BURST: u32 = 10;
/// How many reports wait for stacks at most.
const REPORTS_MAX: usize = 64;
/// How many events wait for the thread that makes names. A stack has 64 KiB at most.
const QUEUE_MAX: usize = 64;
/// Stacks that stand for so long are worth their names: it is what the first ones cost, or more.
const WORTH_NAMES: Duration = Duration::from_millis(50);
/// The second stack of a poll is taken after so long, each further one after ten times as long.
const SECOND_AFTER: Duration = Duration::from_millis(10);
/// A poll's stack is taken at least so often.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// After so long the thread that makes names is started again, if the system refused it.
const START_AGAIN: Duration = Duration::from_secs(1);
/// A thread that has not answered for so long does not run, or somebody else handles the signal.
const ANSWER_MAX: Duration = Duration::from_millis(250);

/// One poll: the desk where it is made, and when it began, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PollId {
    pub(crate) desk: usize,
    pub(crate) since: u64,
}

/// A stack, and what is known of the poll.
pub(crate) struct Caught {
    pub(crate) poll: PollId,
    pub(crate) kind: Kind,
    pub(crate) blocked: bool,
    /// For how many cycles of the poll it stands.
    pub(crate) weight: u64,
    /// What the thread is within: spans of `tracing`.
    pub(crate) within: Option<String>,
    pub(crate) stack: Stack,
}

/// What happened, for the thread that makes names.
pub(crate) enum Event {
    Caught(Arc<Caught>),
    /// A poll of which there was a stack is over. Its stacks do not stand for `rest` of its cycles.
    Ended {
        end: Ended,
        rest: u64,
    },
    /// A report to be delivered with a name, if there is a stack of its poll.
    Report(PollId, HogReport),
}

/// How many stacks were taken, and how many were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackCounts {
    pub(crate) taken: u64,
    /// How many polls lack one, as too many were taken lately, or too many wait for their names.
    pub(crate) skipped: u64,
    /// The thread did not answer in time, or the system refused.
    pub(crate) failed: u64,
    /// Reports that went without a name, as the system refused the thread that makes names.
    pub(crate) unnamed: u64,
}

pub(crate) struct Stacks {
    on: bool,
    /// The runtime ends: nobody wants names any more.
    closed: AtomicBool,
    /// Somebody has asked for what hogs were doing.
    asked_for: AtomicBool,
    clock: Clock,
    state: Mutex<State>,
    /// There may be events for the thread that makes names, which lingers.
    more: Condvar,
    /// Ends of polls are at desks, as the lock was taken.
    missed: AtomicBool,
    unknown: Unknown,
    taken: AtomicU64,
    skipped: AtomicU64,
    failed: AtomicU64,
    unnamed: AtomicU64,
}

#[derive(Default)]
struct State {
    /// At most one for each desk.
    watched: Vec<Watched>,
    /// By desk: when the last hog's poll there began that is over, in cycles. Its thread may still
    /// wake who waits for the task.
    over: Vec<u64>,
    /// By desk: when the last poll began that lacks a stack as too many were taken.
    skipped: Vec<u64>,
    events: VecDeque<Event>,
    /// For how many cycles the stacks in the queue stand, and the rests of their polls.
    waiting: u64,
    /// Reports whose stacks are still to come.
    reports: Vec<(PollId, HogReport)>,
    /// Whether a thread takes the events, which of them all, and the stack or the end that it has
    /// taken and not counted.
    served: bool,
    server: ServerId,
    in_hand: Option<Event>,
    /// It counts one, which is no longer in hand.
    counts: bool,
    /// It has taken over from another, and has an ordinary priority.
    hurries: bool,
    /// It waits for more, and keeps what it has learned meanwhile.
    lingers: bool,
    /// The system refused that thread; until when nothing is kept for it, in cycles.
    refused_until: u64,
    /// Questions to which a handler was about to answer when they were no longer wanted.
    left: Vec<Asked>,
    /// How many stacks may be taken now, and when that was last reckoned, in cycles.
    allowed: f64,
    reckoned_at: u64,
}

/// A poll whose stacks are taken.
struct Watched {
    poll: PollId,
    kind: Kind,
    blocked: bool,
    /// How long the poll had lasted at the last stack that was got or is asked for, when it was
    /// last looked at, and how long it has to last for the next; in cycles.
    reached: u64,
    seen: u64,
    next: u64,
    pending: Option<Pending>,
    /// There is a stack of it.
    is_caught: bool,
    /// It was found to be over.
    is_over: bool,
}

struct Pending {
    asked: Asked,
    /// In cycles.
    at: u64,
    weight: u64,
    within: Option<String>,
}

impl Stacks {
    pub(crate) fn new(on: bool, clock: Clock) -> Self {
        Self {
            on: on && stack::SUPPORTED,
            closed: AtomicBool::new(false),
            asked_for: AtomicBool::new(false),
            clock,
            state: Mutex::new(State {
                allowed: f64::from(BURST),
                ..State::default()
            }),
            more: Condvar::new(),
            missed: AtomicBool::new(false),
            unknown: Unknown::new(),
            taken: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            unnamed: AtomicU64::new(0),
        }
    }

    /// For the monitor: takes the stack of a poll, which is a hog's, if one is due. Of the thread
    /// it is known whether it is blocked.
    pub(crate) fn catch(&self, desks: &Desks, poll: PollId, blocked: bool) {
        let PollId { desk: index, since } = poll;
        let desk = desks.get(index);
        if !self.on || since == 0 || desk.tenure().polling_since() != since {
            return;
        }
        let Some(mut state) = self.state.try_lock() else {
            return;
        };
        let now = self.clock.cycles();
        if state.over.get(index) == Some(&since) || now < state.refused_until {
            return;
        }
        let age = now.saturating_sub(since);
        let known = state.watched.iter().position(|it| it.poll.desk == index);
        let at = match known.filter(|&at| state.watched[at].poll == poll) {
            Some(at) => at,
            None => {
                let Some(kind) = desk.running_kind() else {
                    return;
                };
                // The end of an earlier poll would have been told by now, or is at the desk.
                self.take_missed(&mut state, index, desk);
                // It may be that of this poll, which was under way a moment ago.
                if state.over.get(index) == Some(&since) {
                    return;
                }
                let earlier = (state.watched.iter()).position(|it| it.poll.desk == index);
                if let Some(at) = earlier {
                    self.end_untold(&mut state, at);
                }
                state.watched.push(Watched::new(poll, kind));
                state.watched.len() - 1
            }
        };
        let watched = &state.watched[at];
        if age < watched.next || watched.pending.is_some() {
            return;
        }
        if !self.allows(&mut state, now) {
            let last = std::mem::replace(at_desk(&mut state.skipped, index), since);
            if last != since {
                // Relaxed, here and below: statistics.
                self.skipped.fetch_add(1, Ordering::Relaxed);
            }
            // Of a poll without any stack nothing has to be known.
            if state.watched[at].reached == 0 {
                state.watched.swap_remove(at);
            }
            return;
        }
        self.take(&mut state, at, desk, (age, now, blocked));
    }

    fn take(
        &self,
        state: &mut State,
        at: usize,
        desk: &Arc<Desk>,
        (age, now, blocked): (u64, u64, bool),
    ) {
        let second = self.clock.cycles_of(SECOND_AFTER);
        let pause_max = self.clock.cycles_of(PAUSE_MAX);
        let watched = &mut state.watched[at];
        let weight = age.saturating_sub(watched.reached);
        watched.blocked = blocked;
        watched.seen = age;
        let mut next = second;
        while next <= age {
            next = next.saturating_mul(10).min(next.saturating_add(pause_max));
        }
        watched.next = next;
        let within = desk.within();
        let poll = watched.poll;
        let is_over = || desk.tenure().polling_since() != poll.since;
        // Also of a thread that computes on the whole: it may be in a call at this moment, which
        // the signal would interrupt.
        if let Some(stack) = desk.ask_thread(stack::read_blocked).flatten() {
            if !is_over() {
                watched.reached = age;
                let caught = watched.caught(weight, within, stack);
                self.push_caught(state, caught);
            }
            return;
        }
        let runs = || desk.ask_thread(is_runnable).flatten();
        if !may_be_signalled(runs) {
            // Relaxed: a statistic.
            self.failed.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let ends: Arc<dyn Ends> = Arc::<Desk>::clone(desk);
        match desk.ask_thread(|thread| stack::ask(thread, ends, poll.since)) {
            Some(Ok(asked)) => {
                watched.reached = age;
                watched.pending = Some(Pending {
                    asked,
                    at: now,
                    weight,
                    within,
                });
            }
            // Relaxed: a statistic.
            _ => drop(self.failed.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// For the monitor: takes in what threads have answered, and the ends of polls that could not
    /// be told. Returns whether some are still to come.
    pub(crate) fn collect(&self, desks: &Desks) -> bool {
        if !self.on {
            return false;
        }
        let Some(mut state) = self.state.try_lock() else {
            return true;
        };
        let now = self.clock.cycles();
        // Acquire pairs with the Release in `ended`: the end is at its desk.
        if self.missed.swap(false, Ordering::Acquire) {
            for (index, desk) in desks.used() {
                self.take_missed(&mut state, index, desk);
            }
        }
        for at in (0..state.watched.len()).rev() {
            self.collect_from(&mut state, at, now);
            let watched = &mut state.watched[at];
            let desk = desks.get(watched.poll.desk);
            let since = desk.tenure().polling_since();
            if since == watched.poll.since {
                continue;
            }
            // Its thread may be lowered, and take any time to tell the end. If it is not to tell,
            // what it may have left at the desk is seen at the next look at the latest.
            let has_told = since != 0 || watched.is_over && !desk.tenure().is_about_to_tell();
            watched.is_over = true;
            if has_told {
                let desk_index = watched.poll.desk;
                let before = state.watched.len();
                self.take_missed(&mut state, desk_index, desk);
                if state.watched.len() == before {
                    self.end_untold(&mut state, at);
                }
            }
        }
        state.left.retain(|asked| !asked.give_up());
        let is_to_come = |it: &Watched| it.pending.is_some() || it.is_over;
        !state.left.is_empty() || state.watched.iter().any(is_to_come)
    }

    /// The poll is over, and its thread will not say so: it was no hog's in the end. It took at
    /// least as long as when it was last looked at.
    fn end_untold(&self, state: &mut State, at: usize) {
        let watched = &state.watched[at];
        let end = Ended {
            poll: watched.poll,
            class: watched.kind.class,
            length: watched.seen,
            blocked: watched.blocked,
        };
        self.end(state, end);
    }

    /// Takes in the end of a poll that is at a desk, if there is one.
    fn take_missed(&self, state: &mut State, index: usize, desk: &Desk) {
        if let Some(end) = desk.missed_end.take(index) {
            self.end(state, end);
        }
    }

    fn collect_from(&self, state: &mut State, at: usize, now: u64) {
        let watched = &mut state.watched[at];
        let Some(pending) = &watched.pending else {
            return;
        };
        let answer = pending.asked.collect();
        let late = now.saturating_sub(pending.at) > self.clock.cycles_of(ANSWER_MAX);
        if answer.is_none() && !(late && pending.asked.give_up()) {
            return;
        }
        let Some(pending) = watched.pending.take() else {
            return;
        };
        match answer.flatten() {
            Some(stack) => {
                let caught = watched.caught(pending.weight, pending.within, stack);
                self.push_caught(state, caught);
            }
            // Relaxed: as above.
            None => {
                // The next stack stands for its time as well.
                watched.reached = watched.reached.saturating_sub(pending.weight);
                self.failed.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The poll of a hog is over. For the thread that made it. Returns whether the monitor has to
    /// look: there is an event for the thread that makes names.
    pub(crate) fn ended(&self, desk: &Desk, end: Ended) -> bool {
        if !self.on {
            return false;
        }
        let Some(mut state) = self.state.try_lock() else {
            if !desk.missed_end.put(end) {
                // The end of an earlier poll is there, so the monitor has not held the lock in this
                // poll and has no stack of it.
                self.unknown.add(end.class, end.length, end.blocked);
            }
            // Release pairs with the Acquire in `collect`.
            self.missed.store(true, Ordering::Release);
            return true;
        };
        self.end(&mut state, end)
    }

    fn end(&self, state: &mut State, end: Ended) -> bool {
        let poll = end.poll;
        *at_desk(&mut state.over, poll.desk) = poll.since;
        let watched = state.watched.iter().position(|it| it.poll == poll);
        let Some(at) = watched else {
            self.unknown.add(end.class, end.length, end.blocked);
            return false;
        };
        self.collect_from(state, at, self.clock.cycles());
        let watched = &state.watched[at];
        // An answer that has not come is not waited for.
        let lost = watched.pending.as_ref().map_or(0, |it| it.weight);
        let rest = end.length.saturating_sub(watched.reached - lost);
        let is_caught = watched.is_caught;
        state.forget(at);
        if is_caught {
            state.waiting = state.waiting.saturating_add(rest);
            state.events.push_back(Event::Ended { end, rest });
        } else {
            self.unknown.add(end.class, end.length, end.blocked);
        }
        is_caught
    }

    /// A poll had stacks, and none of them could be named.
    pub(crate) fn unnamed(&self, end: &Ended) {
        self.unknown.add(end.class, end.length, end.blocked);
    }

    /// The polls of which nothing is known but how long they took.
    pub(crate) fn unknown(&self) -> Vec<UnknownPolls> {
        self.unknown.read()
    }

    /// Takes a report if there is, or will soon be, a stack of its poll; gives it back otherwise.
    pub(crate) fn keep_report(&self, poll: PollId, report: HogReport) -> Option<HogReport> {
        let Some(mut state) = self.try_lock_on() else {
            return Some(report);
        };
        let is_watched = state.watched.iter().any(|it| it.poll == poll);
        let comes = |event: &Event| matches!(event, Event::Caught(it) if it.poll == poll);
        let is_full = state.events.len() >= 2 * QUEUE_MAX;
        if self.clock.cycles() < state.refused_until {
            // Relaxed: a statistic.
            self.unnamed.fetch_add(1, Ordering::Relaxed);
            return Some(report);
        }
        if is_full || self.is_closed() || !is_watched && !state.events.iter().any(comes) {
            return Some(report);
        }
        state.events.push_back(Event::Report(poll, report));
        None
    }

    /// For the thread that makes names: keeps a report if a stack of its poll is still to come, and
    /// gives it back otherwise.
    pub(crate) fn put_off(&self, poll: PollId, report: HogReport) -> Option<HogReport> {
        let mut state = self.state.lock();
        if !state.expects(poll) || state.reports.len() >= REPORTS_MAX {
            return Some(report);
        }
        state.reports.push((poll, report));
        None
    }

    /// Takes out the reports of a poll.
    pub(crate) fn reports_of(&self, poll: PollId) -> Vec<(PollId, HogReport)> {
        let mut state = self.state.lock();
        state
            .reports
            .extract_if(.., |(of, _)| *of == poll)
            .collect()
    }

    /// Takes out those reports whose stacks did not come; `all` if nobody waits for them any more.
    pub(crate) fn late_reports(&self, all: bool) -> Vec<(PollId, HogReport)> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let mut reports = std::mem::take(&mut state.reports);
        let late = reports
            .extract_if(.., |(of, _)| all || !state.expects(*of))
            .collect();
        state.reports = reports;
        late
    }

    /// Somebody asks what hogs were doing: from now on their stacks are named at once. Returns
    /// whether there are some that wait for it.
    pub(crate) fn ask_for(&self) -> bool {
        // Relaxed: a hint.
        if self.asked_for.swap(true, Ordering::Relaxed) {
            return false;
        }
        let state = self.try_lock_on();
        state.is_none_or(|state| !state.events.is_empty())
    }

    /// Says who is to take events that wait, that nobody takes, and that are worth it. The caller
    /// then starts that thread, or [gives it up](Stacks::give_up_serving).
    pub(crate) fn wants_server(&self) -> Option<ServerId> {
        let mut state = self.try_lock_on()?;
        if state.events.is_empty() || self.is_closed() {
            return None;
        }
        if std::mem::take(&mut state.lingers) {
            self.more.notify_all();
        }
        let is_wanted = !state.served && self.is_worth_names(&state);
        is_wanted.then(|| state.begin_serving())
    }

    fn is_worth_names(&self, state: &State) -> bool {
        let waits = |event: &Event| matches!(event, Event::Report(..));
        // Relaxed: a hint.
        self.asked_for.load(Ordering::Relaxed)
            || state.waiting >= self.clock.cycles_of(WORTH_NAMES)
            || state.events.len() >= QUEUE_MAX / 2
            || state.events.iter().any(waits)
    }

    fn try_lock_on(&self) -> Option<MutexGuard<'_, State>> {
        if self.on { self.state.try_lock() } else { None }
    }

    /// Waits until there may be more events, at most for so long. For the thread that takes them.
    /// Returns false if the time is over, and nobody waits for the thread.
    pub(crate) fn linger(&self, length: Duration) -> bool {
        let until = clock::now() + length;
        let mut state = self.state.lock();
        state.lingers = state.events.is_empty();
        while state.lingers && !self.is_closed() {
            let left = until.saturating_duration_since(clock::now());
            if left.is_zero() {
                state.lingers = false;
                return false;
            }
            state = self.more.wait_timeout(state, left).0;
        }
        state.lingers = false;
        true
    }

    /// The runtime ends. Returns the reports that have waited for names, unless there is a thread
    /// that makes names: then it does the same when it ends.
    pub(crate) fn close(&self) -> Vec<HogReport> {
        let mut state = self.state.lock();
        // Relaxed: a hint; whoever lingers looks under the lock.
        self.closed.store(true, Ordering::Relaxed);
        state.lingers = false;
        let is_served = state.served;
        drop(state);
        self.more.notify_all();
        match is_served {
            true => Vec::new(),
            false => self.rest_of_reports(),
        }
    }

    /// Takes out all reports; of polls whose ends wait, nothing is known any more.
    pub(crate) fn rest_of_reports(&self) -> Vec<HogReport> {
        let mut state = self.state.lock();
        let waited = std::mem::take(&mut state.reports).into_iter();
        let mut reports: Vec<HogReport> = waited.map(|(_, report)| report).collect();
        for event in state.events.drain(..) {
            match event {
                Event::Report(_, report) => reports.push(report),
                Event::Ended { end, .. } => self.unnamed(&end),
                Event::Caught(_) => {}
            }
        }
        reports
    }

    /// Whether a thread is at it that takes events.
    pub(crate) fn is_served(&self) -> bool {
        self.state.lock().served
    }

    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: as above.
        self.closed.load(Ordering::Relaxed)
    }

    /// In the clock's cycles.
    pub(crate) fn to_duration(&self, cycles: u64) -> Duration {
        self.clock.to_duration(cycles)
    }

    /// No thread takes the events. Returns the reports that have waited for names.
    pub(crate) fn give_up_serving(&self) -> Vec<HogReport> {
        let reports = self.rest_of_reports();
        let mut state = self.state.lock();
        state.served = false;
        state.in_hand = None;
        state.counts = false;
        drop(state);
        reports
    }

    /// The system refused the thread that takes events. As [`give_up_serving`]; for a while reports
    /// go without names and no stacks are taken, and then it is tried again.
    ///
    /// [`give_up_serving`]: Self::give_up_serving
    pub(crate) fn refuse_serving(&self) -> Vec<HogReport> {
        let again = self.clock.cycles() + self.clock.cycles_of(START_AGAIN);
        self.state.lock().refused_until = again;
        let reports = self.give_up_serving();
        // Relaxed: a statistic.
        self.unnamed
            .fetch_add(reports.len() as u64, Ordering::Relaxed);
        reports
    }

    pub(crate) fn counts(&self) -> StackCounts {
        // Relaxed, all: statistics.
        StackCounts {
            taken: self.taken.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            unnamed: self.unnamed.load(Ordering::Relaxed),
        }
    }

    fn allows(&self, state: &mut State, now: u64) -> bool {
        let passed = self.clock.to_duration(now - state.reckoned_at.min(now));
        let earned = passed.as_secs_f64() * f64::from(EACH_SECOND);
        state.allowed = (state.allowed + earned).min(f64::from(BURST));
        state.reckoned_at = now;
        let allows = state.allowed >= 1.0 && state.events.len() < QUEUE_MAX;
        state.allowed -= if allows { 1.0 } else { 0.0 };
        allows
    }

    fn push_caught(&self, state: &mut State, caught: Caught) {
        // Relaxed: a statistic.
        self.taken.fetch_add(1, Ordering::Relaxed);
        state.waiting = state.waiting.saturating_add(caught.weight);
        state.events.push_back(Event::Caught(Arc::new(caught)));
    }

    /// For the monitor at its end: no question is left behind, as there are only so many slots for
    /// answers in the process.
    pub(crate) fn abandon(&self) {
        let mut state = self.state.lock();
        while !state.watched.is_empty() {
            state.forget(0);
        }
        let mut left = std::mem::take(&mut state.left);
        drop(state);
        // A handler that is at it takes some microseconds, once its thread is scheduled.
        for _ in 0..100 {
            left.retain(|asked| !asked.give_up());
            if left.is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl State {
    /// Stops watching a poll. An answer that has not come is not waited for.
    fn forget(&mut self, at: usize) {
        let pending = self.watched.swap_remove(at).pending;
        self.left
            .extend(pending.map(|it| it.asked).filter(|it| !it.give_up()));
    }

    /// Whether a stack of this poll is still to come.
    fn expects(&self, poll: PollId) -> bool {
        let mut watched = self.watched.iter();
        watched.any(|it| it.poll == poll && it.pending.is_some())
    }
}

impl Watched {
    fn new(poll: PollId, kind: Kind) -> Self {
        Self {
            poll,
            kind,
            blocked: false,
            reached: 0,
            seen: 0,
            next: 0,
            pending: None,
            is_caught: false,
            is_over: false,
        }
    }

    fn caught(&mut self, weight: u64, within: Option<String>, stack: Stack) -> Caught {
        self.is_caught = true;
        Caught {
            poll: self.poll,
            kind: self.kind,
            blocked: self.blocked,
            weight,
            within,
            stack,
        }
    }
}

/// Whether a signal interrupts no call of a thread, as far as can be known: it runs now. That it
/// was found blocked before says nothing: it may have waited for a moment, and compute since.
fn may_be_signalled(is_runnable: impl FnOnce() -> Option<bool>) -> bool {
    is_runnable() == Some(true)
}

/// The entry of a desk in a list that grows as desks are used.
fn at_desk(list: &mut Vec<u64>, desk: usize) -> &mut u64 {
    if list.len() <= desk {
        list.resize(desk + 1, 0);
    }
    &mut list[desk]
}

impl fmt::Debug for Stacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stacks")
            .field("on", &self.on)
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

#[cfg(all(
    test,
    feature = "hog-stacks",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(any(evenkeel_loom, evenkeel_preempt, evenkeel_tsan))
))]
mod tests;
