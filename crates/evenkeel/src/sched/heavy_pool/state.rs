//! The state under the pool's lock: the tasks that wait, the threads, and their bounds.

use std::collections::VecDeque;
use std::time::Duration;

use crate::class::Class;
use crate::counters::histogram::Tallied;
use crate::sched::hog::{Hog, Profile};
use crate::sched::ledger::{Ledger, Party};
use crate::sched::shares::Spent;
use crate::sched::stacks::PollId;
use crate::sched::task::cell::Runnable;
use crate::sched::task::kind::Kind;

use super::{HeavyPoolStats, Priority};

/// After this time in one poll a thread no longer counts among those that serve the pool.
pub(super) const GONE: Duration = Duration::from_millis(50);

/// How long a poll may last before its thread gets the priority of one that may never return. A
/// request that computes has mostly finished by then; to lower it just before its end would cost it
/// most. The price: if more of them compute than there are processors, a worker that wakes has to
/// wait now and then.
pub(super) const LONG: Duration = Duration::from_millis(100);

/// How long a class has to have had work here before a worker lends to it. It comes with credit,
/// and a thread that was woken needs some of this to begin.
pub(super) const SETTLED: Duration = Duration::from_micros(200);

/// How many waiting tasks are checked for an abort at a time: so few that nobody waits long for the
/// lock.
const LOOKED_AT: usize = 64;
/// How many of the threads that were found blocked are asked about in one sample: each costs a
/// system call. One that goes on to compute is found after as many samples as there are such
/// groups.
const BLOCKED_ASKED: usize = 16;

/// How many threads there may be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// Those that serve the queue.
    pub(super) servers: usize,
    /// Those that are not blocked.
    pub(super) limit: usize,
    /// Those that are.
    pub(super) blocked_limit: usize,
    /// See [`GONE`], [`LONG`] and [`SETTLED`]; in cycles.
    pub(super) gone: u64,
    pub(super) long: u64,
    pub(super) settled: u64,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) bounds: Bounds,
    /// By class.
    queues: Vec<VecDeque<Runnable>>,
    /// The classes with work that could run, as published last, and since when each has had some
    /// without a break.
    working: u64,
    working_since: Vec<u64>,
    /// Tasks of all classes that are known to block: they use no processor that could be divided.
    blockers: VecDeque<Runnable>,
    /// How many tasks in these queues, from the first on, were checked for an abort.
    looked_at: usize,
    pub(super) threads: Vec<Thread>,
    /// The first of the blocked threads to ask about in this sample.
    sampled: usize,
    /// How many places are reserved for threads to come.
    pub(super) starting: usize,
    pub(super) idle: usize,
    /// A thread without work is to end.
    pub(super) make_room: bool,
    pub(super) closed: bool,
    /// Processor time by class, in cycles.
    spent: Vec<u64>,
    polls: Vec<u64>,
    /// How long tasks of each class were ready before each poll.
    waits: Vec<Tallied>,
    /// How long the polls took that are over.
    poll_lengths: Vec<Tallied>,
    pub(super) hand_offs: u64,
    pub(super) early: u64,
    pub(super) given_up: u64,
    pub(super) priority: Priority,
}

#[derive(Debug)]
pub(super) struct Thread {
    pub(super) desk: usize,
    pub(super) nice: i32,
    /// It ends after this poll, as its priority is too low for the next one.
    pub(super) leaves: bool,
    pub(super) running: Option<Running>,
}

impl Thread {
    /// It has lost its seat in the poll under way.
    pub(super) fn has_just_lost(&self) -> bool {
        self.running.as_ref().is_some_and(|poll| poll.before > 0)
    }
}

/// A poll under way.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) kind: Kind,
    /// When the poll began, in cycles.
    pub(crate) since: u64,
    /// The thread's processor time when it was first asked about, and up to which its class was
    /// charged.
    pub(crate) first: Duration,
    pub(crate) charged: Duration,
    /// The thread's processor time when it was last sampled.
    pub(crate) sampled: Duration,
    pub(crate) doing: Doing,
    /// It has been found blocked.
    pub(crate) was_blocked: bool,
    /// It has been noted as a hog's.
    pub(crate) noted: bool,
    /// It gave up its seat itself, so it is no hog's.
    pub(crate) given_up: bool,
    /// How long it had lasted when its thread lost its seat, in cycles; 0 if it began without one.
    pub(crate) before: u64,
    /// It lasted for so long that its thread has the priority of long polls.
    pub(crate) long: bool,
    /// If it is too long, it is the first such poll of its task.
    pub(crate) fresh: bool,
}

/// What a thread does in its poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It computes, or is runnable and not scheduled.
    Computes,
    /// It is blocked.
    Blocked,
    /// Its task is known to block. It was not found blocked yet, and has not computed for long.
    Trusted,
    /// The system does not say how much time it uses. It counts as computing, but its class is owed
    /// nothing for it, as nobody could tell when the debt is paid.
    Unknown,
}

impl Doing {
    fn computes(self) -> bool {
        matches!(self, Self::Computes | Self::Unknown)
    }
}

impl Running {
    /// A poll that began at `since`, when its thread's processor time was `cpu`.
    pub(crate) fn new(kind: Kind, since: u64, cpu: Duration, doing: Doing) -> Self {
        Self {
            kind,
            since,
            first: cpu,
            charged: cpu,
            sampled: cpu,
            doing,
            was_blocked: doing == Doing::Blocked,
            noted: false,
            given_up: false,
            before: 0,
            long: false,
            fresh: false,
        }
    }

    /// The processor time that the poll has used since it was first asked about; the thread's is
    /// `cpu`.
    pub(super) fn computed(&self, cpu: Duration) -> Duration {
        cpu.saturating_sub(self.first)
    }

    /// Whether the poll, which has `used` so many cycles here, is a hog's: it computed or was
    /// blocked for long. Time in which the kernel did not schedule it does not count.
    pub(super) fn is_hog(&self, now: u64, used: u64, limit: u64) -> bool {
        let age = now.saturating_sub(self.since);
        self.before + used >= limit || (self.was_blocked && age >= limit)
    }

    /// The hog that the poll is.
    pub(crate) fn hog(&self, poll: PollId, length: u64, running: bool) -> Hog {
        Hog {
            poll,
            kind: self.kind,
            length,
            running,
            blocked: self.was_blocked,
            fresh: self.fresh,
        }
    }

    /// Updates the thread's processor time. Returns what was not charged of it yet. A poll that is
    /// trusted to block may compute for `before_it_blocks`.
    pub(super) fn sample(
        &mut self,
        cpu: Option<Duration>,
        before_it_blocks: Duration,
        is_runnable: impl FnOnce() -> Option<bool>,
    ) -> Duration {
        let Some(cpu) = cpu else {
            self.doing = Doing::Unknown;
            return Duration::ZERO;
        };
        let stood_still = cpu <= std::mem::replace(&mut self.sampled, cpu);
        if !(stood_still && self.doing == Doing::Blocked) {
            // A thread that used nothing is blocked, or was not scheduled. One that is trusted
            // reads its request before it blocks, and others wait for it to be found so.
            let is_trusted = self.doing == Doing::Trusted;
            let is_blocked = (stood_still || is_trusted) && !is_runnable().unwrap_or(true);
            self.doing = if is_blocked {
                Doing::Blocked
            } else if is_trusted && self.computed(cpu) < before_it_blocks {
                Doing::Trusted
            } else {
                Doing::Computes
            };
        }
        self.was_blocked |= self.doing == Doing::Blocked;
        self.charge(cpu)
    }

    /// Returns what the poll has used since its class was last charged; the thread's processor time
    /// is `cpu`.
    pub(super) fn charge(&mut self, cpu: Duration) -> Duration {
        let used = cpu.saturating_sub(self.charged);
        self.charged = cpu;
        used
    }
}

impl State {
    pub(super) fn new(classes: usize, bounds: Bounds) -> Self {
        Self {
            bounds,
            queues: (0..classes).map(|_| VecDeque::new()).collect(),
            working_since: vec![0; classes],
            spent: vec![0; classes],
            polls: vec![0; classes],
            waits: vec![Tallied::new(); classes],
            poll_lengths: vec![Tallied::new(); classes],
            ..Self::default()
        }
    }

    pub(super) fn stats(&self) -> HeavyPoolStats {
        HeavyPoolStats {
            threads: self.threads.len(),
            limit: self.bounds.limit,
            blocked: self.blocked(),
            blocked_limit: self.bounds.blocked_limit,
            queued: self.queued(),
            running: self.running().count(),
            hogging: (self.running())
                .filter(|poll| poll.noted && !poll.given_up)
                .map(|poll| (poll.kind.class, poll.since))
                .collect(),
            hand_offs: self.hand_offs,
            early: self.early,
            given_up: self.given_up,
            priority: self.priority,
            spent: self.spent.clone(),
            polls: self.polls.clone(),
            waits: self.waits.clone(),
            poll_lengths: self.poll_lengths.clone(),
            ..HeavyPoolStats::default()
        }
    }

    // ---- Tasks ----

    pub(super) fn queue(&mut self, task: Runnable) {
        if Profile::of(task.header()).blocks() {
            self.blockers.push_back(task);
        } else {
            self.queues[task.header().class().index()].push_back(task);
        }
    }

    pub(super) fn queued(&self) -> usize {
        self.queued_to_compute() + self.blockers.len()
    }

    fn queued_to_compute(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// The task that a thread is to poll now; `first` chooses among classes.
    pub(super) fn pop(
        &mut self,
        now: u64,
        first: impl FnOnce(u64) -> Option<Class>,
    ) -> Option<Runnable> {
        if self.lets_block(0, now)
            && let Some(task) = self.blockers.pop_front()
        {
            return Some(task);
        }
        if self.serving(now) >= self.bounds.servers {
            return None;
        }
        let class = first(self.queued_classes())?;
        self.queues[class.index()].pop_front()
    }

    pub(super) fn take_all(&mut self) -> Vec<Runnable> {
        let mut waiting: Vec<_> = std::mem::take(&mut self.blockers).into();
        let queues = self.queues.iter_mut();
        waiting.extend(queues.flat_map(std::mem::take));
        waiting
    }

    /// Takes out aborted tasks. Goes on where it ended the last time; if tasks were taken from the
    /// front meanwhile, it may skip some until it comes round again.
    pub(super) fn take_aborted(&mut self) -> Vec<Runnable> {
        let mut aborted = Vec::new();
        let mut left = LOOKED_AT;
        let mut place = self.looked_at;
        for queue in self.queues.iter_mut().chain([&mut self.blockers]) {
            let end = queue.len().min(place.saturating_add(left));
            let begin = place.min(end);
            left -= end - begin;
            // Those that stay move up, so that the rest of the queue, which may be long, moves only
            // once.
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
        aborted
    }

    fn queued_classes(&self) -> u64 {
        let queues = self.queues.iter().enumerate();
        queues
            .filter(|(_, queue)| !queue.is_empty())
            .fold(0, |bits, (index, _)| bits | Class::at(index).bit())
    }

    pub(super) fn count_poll(&mut self, class: Class, waited: u64) {
        self.polls[class.index()] += 1;
        self.waits[class.index()].add(waited);
    }

    pub(super) fn count_length(&mut self, class: Class, length: u64) {
        self.poll_lengths[class.index()].add(length);
    }

    // ---- Threads ----

    /// Adds a thread to the pool, for which a place was reserved.
    pub(super) fn add_thread(&mut self, desk: usize, nice: i32, running: Option<Running>) {
        debug_assert!(self.starting > 0, "its place was not reserved");
        self.starting -= 1;
        self.threads.push(Thread {
            desk,
            nice,
            leaves: false,
            running,
        });
        let places = self.bounds.limit + self.bounds.blocked_limit;
        debug_assert!(self.threads.len() + self.starting <= places);
    }

    /// Ends the poll of a thread. Returns what was known of it.
    pub(super) fn end_poll(&mut self, desk: usize) -> Option<Running> {
        let thread = self.thread(desk)?;
        debug_assert!(thread.running.is_some(), "no poll is under way");
        let running = thread.running.take()?;
        thread.leaves |= running.long;
        Some(running)
    }

    pub(super) fn thread(&mut self, desk: usize) -> Option<&mut Thread> {
        self.threads.iter_mut().find(|thread| thread.desk == desk)
    }

    fn running(&self) -> impl Iterator<Item = &Running> {
        self.threads
            .iter()
            .filter_map(|thread| thread.running.as_ref())
    }

    fn count(&self, is: impl Fn(Doing) -> bool) -> usize {
        self.running().filter(|running| is(running.doing)).count()
    }

    fn blocked(&self) -> usize {
        self.count(|doing| doing == Doing::Blocked)
    }

    /// How many threads compute in a poll that may be over soon.
    fn serving(&self, now: u64) -> usize {
        let serves = |it: &&Running| it.doing.computes() && self.comes_back(it, now);
        self.running().filter(serves).count()
    }

    fn comes_back(&self, running: &Running, now: u64) -> bool {
        now.saturating_sub(running.since) < self.bounds.gone
    }

    fn trusted(&self) -> usize {
        self.count(|doing| doing == Doing::Trusted)
    }

    /// Whether one more task that is known to block may be polled, beside `coming` others: the
    /// bound on blocked threads has room, if only for one at a time; so has the bound on computing
    /// ones, in case the task computes; and such tasks are trusted, or a server is free.
    fn lets_block(&self, coming: usize, now: u64) -> bool {
        let bound = self.bounds.blocked_limit.max(1);
        let server_is_free = || {
            let serving = self.serving(now) + self.trusted() + coming;
            self.queued_to_compute() == 0 && serving < self.bounds.servers
        };
        self.blocked() + self.trusted() + coming < bound
            && self.count(Doing::computes) < self.bounds.limit
            && (self.trusts_more(coming) || server_is_free())
    }

    /// Whether one more task is trusted to block. If what is known of such tasks is wrong, they all
    /// compute at once; so it is one for each that the kernel has found blocked.
    fn trusts_more(&self, coming: usize) -> bool {
        self.trusted() + coming < self.blocked().max(self.bounds.servers)
    }

    /// Whether a task computes, or waits to.
    pub(super) fn computes(&self) -> bool {
        self.queued_to_compute() > 0 || self.count(Doing::computes) > 0
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.queued() == 0 && self.running().count() == 0
    }

    pub(super) fn serves_at_once(&self, now: u64) -> bool {
        self.queued_to_compute() == 0 && self.serving(now) + self.starting < self.bounds.servers
    }

    /// Whether a poll here may be over soon.
    pub(super) fn serves(&self, now: u64) -> bool {
        self.serving(now) > 0
    }

    /// Whether so many polls compute that more would only share their processors, or delay the
    /// tasks that wait.
    pub(super) fn is_crowded(&self, now: u64) -> bool {
        self.count(Doing::computes) >= 2 * self.bounds.servers || self.is_overdue(now)
    }

    /// Whether the first task of a queue has waited for as long as a poll counts.
    fn is_overdue(&self, now: u64) -> bool {
        let first = self.queues.iter().filter_map(VecDeque::front);
        let since = |task: &Runnable| task.header().since.load();
        first
            .map(since)
            .any(|since| now.saturating_sub(since) >= self.bounds.gone)
    }

    /// Whether there is room for one more thread, blocked or not.
    pub(super) fn has_room(&self, blocked: bool) -> bool {
        let threads = self.threads.len() + self.starting;
        let room = if blocked {
            self.blocked() + self.trusted() < self.bounds.blocked_limit
        } else {
            threads - self.blocked() < self.bounds.limit
        };
        room && self.has_room_at_all()
    }

    /// Whether one more task that blocks would not have to wait until another one is done.
    pub(super) fn has_room_for_blockers(&self) -> bool {
        let block = self.blocked() + self.trusted() + self.blockers.len();
        block < self.bounds.blocked_limit
    }

    /// Whether there is a place for one more thread, whatever it does. More threads may be blocked
    /// than their bound says, as threads that computed may block later.
    fn has_room_at_all(&self) -> bool {
        let threads = self.threads.len() + self.starting;
        threads < self.bounds.limit + self.bounds.blocked_limit && !self.closed
    }

    /// Whether tasks wait that no present thread will take.
    pub(super) fn wants_thread(&self, now: u64) -> bool {
        if self.closed {
            return false;
        }
        let coming = self.idle + self.starting;
        let serving = self.serving(now) + coming;
        let serves =
            self.queued_to_compute() > 0 && serving < self.bounds.servers && self.has_room(false);
        let blocks =
            self.blockers.len() > coming && self.lets_block(coming, now) && self.has_room_at_all();
        serves || blocks
    }

    /// Whether the monitor should look again soon: tasks wait behind threads that may be blocked,
    /// or a thread has not shown yet what it does.
    pub(super) fn is_unsettled(&self, now: u64, nice: i32) -> bool {
        let waits = self.queued() > 0;
        self.threads.iter().any(|thread| {
            thread.running.as_ref().is_some_and(|running| {
                let young = self.comes_back(running, now);
                let computes = running.doing == Doing::Computes;
                young && (!running.noted || (computes && (waits || thread.nice == nice)))
            })
        }) || !self.blockers.is_empty()
    }

    // ---- Accounts ----

    /// Chooses the blocked threads to ask about.
    pub(super) fn begin_sample(&mut self) {
        self.sampled += BLOCKED_ASKED;
        if self.sampled >= self.blocked() {
            self.sampled = 0;
        }
    }

    /// The threads to ask about: all that may run, and some of the blocked ones.
    pub(super) fn asked_about(&mut self) -> impl Iterator<Item = &mut Thread> {
        let asked = self.sampled..self.sampled + BLOCKED_ASKED;
        let mut number = 0;
        self.threads.iter_mut().filter(move |thread| {
            let Some(running) = &thread.running else {
                return false;
            };
            if running.doing != Doing::Blocked {
                return true;
            }
            number += 1;
            asked.contains(&(number - 1)) || !running.noted
        })
    }

    pub(super) fn charge(&mut self, ledger: &Ledger, class: Class, time: u64) {
        self.spent[class.index()] += time;
        let mut spent = Spent::new();
        spent.add(class, time);
        ledger.charge(&spent);
    }

    /// Whether a thread is here, or about to come, for the tasks that wait.
    fn is_served(&self, now: u64) -> bool {
        self.idle > 0 || self.starting > 0 || self.serving(now) > 0
    }

    /// Whether a class has had work here for so long that what it is owed says whether it is
    /// served.
    pub(super) fn is_settled(&self, class: Class, now: u64) -> bool {
        let since = self.working_since[class.index()];
        self.working & class.bit() != 0 && now.saturating_sub(since) >= self.bounds.settled
    }

    /// Publishes which classes have work here, and which of it could run. Tasks that wait and have
    /// no thread (the pool is full, or the system gives none) could not: a worker that lent its
    /// processor to them would do so for ever.
    pub(super) fn publish(&mut self, ledger: &Ledger, now: u64) {
        let queued = self.queued_classes();
        let served = if self.is_served(now) { queued } else { 0 };
        let running = self.running();
        let running = running.filter(|running| running.doing == Doing::Computes);
        let running = running.fold(0, |bits, running| bits | running.kind.class.bit());
        ledger.publish(Party::HeavyPool, queued | running);
        let working = served | running;
        for class in Class::of_bits(working & !self.working) {
            self.working_since[class.index()] = now;
        }
        self.working = working;
        ledger.set_pool(working);
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use std::panic::Location;

    use super::*;
    use crate::sched::shares::{Limits, Term};
    use crate::sched::task::kind::FutureType;

    static FUTURE: FutureType = FutureType::of::<()>();

    fn state(bounds: Bounds) -> State {
        State::new(1, bounds)
    }

    #[test]
    fn a_class_is_settled_when_it_has_had_work_for_a_while_without_a_break() {
        let limits = Limits {
            credit: 1,
            lead_max: 1,
            lag_max: 1,
            lend: 1,
            workers: 1,
        };
        let ledger = Ledger::new(limits, &[Term::default(); 2]);
        let bounds = Bounds {
            servers: 1,
            limit: 1,
            blocked_limit: 1,
            gone: u64::MAX,
            long: u64::MAX,
            settled: 100,
        };
        let mut state = State::new(2, bounds);
        let class = Class::NORMAL;
        state.publish(&ledger, 900);
        assert!(!state.is_settled(class, 1_000), "it has no work");
        let computes = || Thread {
            running: blocked(0).running.map(|poll| Running {
                doing: Doing::Computes,
                ..poll
            }),
            ..blocked(0)
        };
        state.threads = vec![computes()];
        for now in [1_000, 1_050] {
            state.publish(&ledger, now);
            assert!(!state.is_settled(class, 1_099));
            assert!(state.is_settled(class, 1_100));
        }
        state.threads.clear();
        state.publish(&ledger, 1_100);
        state.threads = vec![computes()];
        state.publish(&ledger, 1_150);
        assert!(!state.is_settled(class, 1_249), "it had a break");
        assert!(state.is_settled(class, 1_250));
    }

    #[test]
    fn what_was_charged_is_not_charged_again_and_still_counts_as_used() {
        let ms = Duration::from_millis;
        let mut poll = blocked(0).running.expect("it is in a poll");
        poll.doing = Doing::Computes;
        assert_eq!(poll.charge(ms(3)), ms(3));
        assert_eq!(poll.sample(Some(ms(5)), ms(9), || None), ms(2));
        assert_eq!(poll.charge(ms(6)), ms(1));
        // It has computed since it was sampled, so it need not be asked whether it is blocked.
        assert_eq!(poll.sample(Some(ms(6)), ms(9), || Some(false)), ms(0));
        assert_eq!(poll.doing, Doing::Computes);
    }

    /// A thread that was found blocked.
    fn blocked(desk: usize) -> Thread {
        let kind = Kind {
            spawned_at: Location::caller(),
            future: &FUTURE,
            name: None,
            class: Class::NORMAL,
        };
        Thread {
            desk,
            nice: 0,
            leaves: false,
            running: Some(Running {
                noted: true,
                ..Running::new(kind, 0, Duration::ZERO, Doing::Blocked)
            }),
        }
    }

    #[test]
    fn a_trusted_thread_is_judged_at_each_look_and_others_when_they_use_nothing() {
        use Doing::{Blocked, Computes, Trusted};
        let ms = Duration::from_millis;
        let found = |doing, used, is_runnable| {
            let mut running = blocked(0).running.expect("it is in a poll");
            running.doing = doing;
            running.sample(Some(used), ms(2), || Some(is_runnable));
            running.doing
        };
        for used in [ms(0), ms(1), ms(2)] {
            assert_eq!(found(Trusted, used, false), Blocked);
        }
        // It may be about to block, until it has computed for too long.
        assert_eq!(found(Trusted, ms(0), true), Trusted);
        assert_eq!(found(Trusted, ms(1), true), Trusted);
        assert_eq!(found(Trusted, ms(2), true), Computes);
        assert_eq!(found(Computes, ms(0), false), Blocked);
        assert_eq!(found(Computes, ms(0), true), Computes);
        assert_eq!(found(Computes, ms(1), false), Computes);
        assert_eq!(found(Blocked, ms(1), false), Computes);
        assert_eq!(found(Blocked, ms(0), false), Blocked);
    }

    #[test]
    fn a_thread_has_just_lost_its_seat_until_its_poll_is_over() {
        let mut thread = blocked(0);
        assert!(!thread.has_just_lost(), "the poll began in the pool");
        thread.running.as_mut().expect("it is in a poll").before = 1;
        assert!(thread.has_just_lost());
        thread.running = None;
        assert!(!thread.has_just_lost());
    }

    #[test]
    fn each_blocked_thread_is_asked_about_whatever_their_number_was_before() {
        const MOST: usize = 3 * BLOCKED_ASKED;
        for before in 1..=MOST {
            for number in 1..=MOST {
                for samples in 0..4 {
                    let mut state = state(Bounds {
                        servers: 1,
                        limit: 1,
                        blocked_limit: MOST,
                        gone: 1,
                        long: 1,
                        settled: 1,
                    });
                    state.threads = (0..before).map(blocked).collect();
                    (0..samples).for_each(|_| state.begin_sample());
                    state.threads = (0..number).map(blocked).collect();
                    let mut asked = vec![false; number];
                    for _ in 0..=MOST.div_ceil(BLOCKED_ASKED) {
                        state.begin_sample();
                        state
                            .asked_about()
                            .for_each(|thread| asked[thread.desk] = true);
                    }
                    let all = asked.iter().all(|&asked| asked);
                    assert!(all, "{before}, then {number}, after {samples}: {asked:?}");
                }
            }
        }
    }
}
