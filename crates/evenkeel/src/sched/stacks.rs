//! Stacks of hogs: when they are taken, and where they go.
//!
//! The monitor calls [`Stacks::catch`] for polls that it knows to be hogs', again and again. A
//! poll's stack is taken when it is first caught, and then when it has lasted for 10 ms, 100 ms, a
//! second and so on. Each stack stands for the time since the one before it. A thread that computes
//! is asked, and its answer is collected at a later look; that of a blocked thread is read at once.
//!
//! What was found goes to a queue of bounded length, in the order in which it happened: stacks, the
//! ends of their polls, and reports that wait to be named. `hogs` takes it from there, on a thread
//! of its own.
//!
//! # The lock
//!
//! The thread that makes names has the lowest priority, and may hold the lock for long while it is
//! not scheduled. So all others only try to take it: the monitor looks again later, a report goes
//! without a name, and the end of a poll stays at its desk until the monitor finds it. For the same
//! reason nobody waits for a handler that has begun to answer: its slot is left to it, and the
//! monitor frees it later.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::clock::Clock;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, MutexGuard, thread};
use crate::sys::stack::{self, Asked, Ends, Stack};

use super::HogReport;
use super::desk::{Desk, Desks};
use super::task::kind::Kind;

/// At most so many stacks are taken in a second. Each may cost the stuck poll 50 us, and what makes
/// names of it a tenth of a millisecond at low priority: one per cent of a processor.
const EACH_SECOND: u32 = 100;
/// How many of them may be taken at once after a quiet time.
const BURST: u32 = 10;
/// How many reports wait for stacks at most.
const REPORTS_MAX: usize = 64;
/// How many events wait for the thread that makes names. A stack has 64 KiB at most.
const QUEUE_MAX: usize = 64;
/// The second stack of a poll is taken after so long, each further one after ten times as long.
const SECOND_AFTER: Duration = Duration::from_millis(10);
/// A poll's stack is taken at least so often.
const PAUSE_MAX: Duration = Duration::from_secs(10);
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
    Caught(Box<Caught>),
    /// A poll of which there was a stack is over. It took `length` cycles, of which its stacks do
    /// not stand for `rest`.
    Ended {
        poll: PollId,
        length: u64,
        rest: u64,
        blocked: bool,
    },
    /// A report to be delivered with a name, if there is a stack of its poll.
    Report(PollId, HogReport),
}

/// How many stacks were taken, and how many were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StackCounts {
    pub(crate) taken: u64,
    /// As too many were taken lately, or too many wait for their names.
    pub(crate) skipped: u64,
    /// The thread did not answer in time, or the system refused.
    pub(crate) failed: u64,
}

pub(crate) struct Stacks {
    on: bool,
    /// The runtime ends: nobody wants names any more.
    closed: AtomicBool,
    clock: Clock,
    state: Mutex<State>,
    taken: AtomicU64,
    skipped: AtomicU64,
    failed: AtomicU64,
}

#[derive(Default)]
struct State {
    /// At most one for each desk.
    watched: Vec<Watched>,
    /// By desk: when the last hog's poll there began that is over, in cycles. Its thread may still
    /// wake who waits for the task.
    over: Vec<u64>,
    events: VecDeque<Event>,
    /// Reports whose stacks are still to come.
    reports: Vec<(PollId, HogReport)>,
    /// Whether a thread takes the events.
    served: bool,
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
    /// How long the poll had lasted at the last stack, and how long it has to last for the next, in
    /// cycles.
    reached: u64,
    next: u64,
    pending: Option<Pending>,
    /// Since when another poll goes on there, or none, in cycles.
    over_since: Option<u64>,
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
            clock,
            state: Mutex::new(State {
                allowed: f64::from(BURST),
                ..State::default()
            }),
            taken: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// For the monitor: takes the stack of the poll at a desk, which is a hog's, if one is due. Of
    /// the thread it is known whether it is blocked.
    pub(crate) fn catch(&self, desks: &Desks, index: usize, blocked: bool) {
        if !self.on {
            return;
        }
        let desk = desks.get(index);
        let since = desk.tenure().polling_since();
        let Some(mut state) = self.state.try_lock().filter(|_| since != 0) else {
            return;
        };
        if state.over.get(index) == Some(&since) {
            return;
        }
        let poll = PollId { desk: index, since };
        let now = self.clock.cycles();
        let age = now.saturating_sub(since);
        let known = state.watched.iter().position(|it| it.poll.desk == index);
        let at = match known.filter(|&at| state.watched[at].poll == poll) {
            Some(at) => at,
            None => {
                let Some(kind) = desk.running_kind() else {
                    return;
                };
                if let Some(at) = known {
                    self.end_untold(&mut state, at, desk);
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
            // Relaxed, here and below: statistics.
            self.skipped.fetch_add(1, Ordering::Relaxed);
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
        watched.reached = age;
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
                let caught = watched.caught(weight, within, stack);
                self.push_caught(state, caught);
            }
            return;
        }
        let ends: Arc<dyn Ends> = Arc::<Desk>::clone(desk);
        match desk.ask_thread(|thread| stack::ask(thread, ends, poll.since)) {
            Some(Ok(asked)) => {
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
        for at in (0..state.watched.len()).rev() {
            self.collect_from(&mut state, at, now);
            let watched = &mut state.watched[at];
            let desk = desks.get(watched.poll.desk);
            if desk.tenure().polling_since() != watched.poll.since {
                // Its thread may be about to tell the end. It may be lowered, so it has as long as
                // for an answer; what it tells later would be lost.
                let since = *watched.over_since.get_or_insert(now);
                let had_time = now.saturating_sub(since) > self.clock.cycles_of(ANSWER_MAX);
                if had_time || desk.missed_end.has(watched.poll.since) {
                    self.end_untold(&mut state, at, desk);
                }
            }
        }
        state.left.retain(|asked| !asked.give_up());
        let is_to_come = |it: &Watched| it.pending.is_some() || it.over_since.is_some();
        !state.left.is_empty() || state.watched.iter().any(is_to_come)
    }

    /// The poll is over, and its thread has not told the lock's holder: it found the lock taken, or
    /// the poll was no hog's in the end. Then it took at least as long as at its last stack.
    fn end_untold(&self, state: &mut State, at: usize, desk: &Desk) {
        let watched = &state.watched[at];
        let (poll, least) = (watched.poll, (watched.reached, watched.blocked));
        let (length, blocked) = desk.missed_end.take(poll.since).unwrap_or(least);
        self.end(state, poll, length, blocked);
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
            None => drop(self.failed.fetch_add(1, Ordering::Relaxed)),
        }
    }

    /// The poll of a hog is over, after `length` cycles. For the thread that made it. Returns
    /// whether there is an event for the thread that makes names.
    pub(crate) fn ended(&self, desk: &Desk, poll: PollId, length: u64, blocked: bool) -> bool {
        if !self.on {
            return false;
        }
        let Some(mut state) = self.state.try_lock() else {
            desk.missed_end.put(poll.since, length, blocked);
            // The monitor finds it, as it is roused.
            return true;
        };
        self.end(&mut state, poll, length, blocked)
    }

    fn end(&self, state: &mut State, poll: PollId, length: u64, blocked: bool) -> bool {
        if state.over.len() <= poll.desk {
            state.over.resize(poll.desk + 1, 0);
        }
        state.over[poll.desk] = poll.since;
        let Some(at) = state.watched.iter().position(|it| it.poll == poll) else {
            return false;
        };
        self.collect_from(state, at, self.clock.cycles());
        let rest = length.saturating_sub(state.watched[at].reached);
        state.forget(at);
        state.events.push_back(Event::Ended {
            poll,
            length,
            rest,
            blocked,
        });
        true
    }

    /// Takes a report if there is, or will soon be, a stack of its poll; gives it back otherwise.
    pub(crate) fn keep_report(&self, poll: PollId, report: HogReport) -> Option<HogReport> {
        let Some(mut state) = self.try_lock_on() else {
            return Some(report);
        };
        let is_watched = state.watched.iter().any(|it| it.poll == poll);
        let comes = |event: &Event| matches!(event, Event::Caught(it) if it.poll == poll);
        let is_full = state.events.len() >= 2 * QUEUE_MAX;
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

    /// Whether events wait that nobody takes. The caller then starts a thread that does, or
    /// [gives that up](Stacks::give_up_serving).
    pub(crate) fn wants_server(&self) -> bool {
        let Some(mut state) = self.try_lock_on() else {
            return false;
        };
        let wants = !state.events.is_empty() && !state.served;
        let wants = wants && !self.is_closed();
        state.served |= wants;
        wants
    }

    fn try_lock_on(&self) -> Option<MutexGuard<'_, State>> {
        if self.on { self.state.try_lock() } else { None }
    }

    /// The next event, for the thread that takes them; `None` if there is none, and the thread no
    /// longer counts as the one that does if it `ends` then.
    pub(crate) fn next(&self, ends: bool) -> Option<Event> {
        let mut state = self.state.lock();
        let event = state.events.pop_front();
        state.served &= event.is_some() || !ends;
        event
    }

    /// The runtime ends. Returns the reports that have waited for names, unless there is a thread
    /// that makes names: then it does the same when it ends.
    pub(crate) fn close(&self) -> Vec<HogReport> {
        // Relaxed: a hint.
        self.closed.store(true, Ordering::Relaxed);
        match self.is_served() {
            true => Vec::new(),
            false => self.rest_of_reports(),
        }
    }

    /// Takes out all reports.
    pub(crate) fn rest_of_reports(&self) -> Vec<HogReport> {
        let mut state = self.state.lock();
        let waited = std::mem::take(&mut state.reports).into_iter();
        let mut reports: Vec<HogReport> = waited.map(|(_, report)| report).collect();
        // The rest says what nobody asks for any more.
        for event in state.events.drain(..) {
            if let Event::Report(_, report) = event {
                reports.push(report);
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

    pub(crate) fn give_up_serving(&self) {
        let mut state = self.state.lock();
        state.served = false;
        state.events.clear();
    }

    pub(crate) fn counts(&self) -> StackCounts {
        // Relaxed, all: statistics.
        StackCounts {
            taken: self.taken.load(Ordering::Relaxed),
            skipped: self.skipped.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
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
        state.events.push_back(Event::Caught(Box::new(caught)));
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
            next: 0,
            pending: None,
            over_since: None,
        }
    }

    fn caught(&self, weight: u64, within: Option<String>, stack: Stack) -> Caught {
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
mod tests {
    use std::panic::Location;

    use super::*;
    use crate::class::Class;
    use crate::sched::task::cell::{Attributes, Runnable, Schedule, new_task};

    struct Never;

    impl Schedule for Never {
        fn schedule(&self, _: Runnable) {
            unreachable!("the task is never woken")
        }
    }

    /// A poll of this thread's whose stack was taken is over, and the lock is taken when its thread
    /// would tell that, if it does. Returns the length that is known in the end.
    fn length_of_poll(tells: Option<u64>) -> u64 {
        let (clock, desks) = (Clock::start(), Desks::new(1, 3));
        let stacks = Stacks::new(true, clock);
        let attributes = Attributes {
            class: Class::BULK,
            spawned_at: Location::caller(),
            name: None,
        };
        let (task, _join) = new_task(async {}, Never, attributes);
        let desk = desks.get(0);
        desk.sit();
        let since = clock.cycles();
        desk.begin_poll(task.header(), since);
        let began = clock.instant();
        let caught = loop {
            stacks.catch(&desks, 0, false);
            while stacks.collect(&desks) {}
            if let Some(event) = stacks.next(false) {
                break event;
            }
            let waited = began.elapsed();
            assert!(waited < Duration::from_secs(60), "no stack is taken");
        };
        assert!(matches!(caught, Event::Caught(it) if it.kind.class == Class::BULK));

        let _ = desk.tenure().end_poll();
        if let Some(length) = tells {
            let lock = stacks.state.lock();
            assert!(stacks.ended(desk, PollId { desk: 0, since }, length, false));
            drop(lock);
        }
        while stacks.collect(&desks) {}
        desk.rise();
        task.cancel(|_| ());
        loop {
            match stacks.next(false) {
                Some(Event::Ended { length, .. }) => break length,
                Some(_) => {}
                None => panic!("its end is not known"),
            }
        }
    }

    #[test]
    fn an_end_that_cannot_be_told_is_found() {
        assert_eq!(length_of_poll(Some(1 << 40)), 1 << 40);
        assert!((1..1 << 40).contains(&length_of_poll(None)), "at its stack");
    }
}
