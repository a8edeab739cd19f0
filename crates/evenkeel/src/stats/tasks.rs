//! What each task has cost, and what it does just now.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::class::Class;
use crate::sched::dumps::since_of;
use crate::sched::shared::Shared;
use crate::sched::task::Id;
use crate::sched::task::cell::Header;
use crate::sched::task::counts::PollCounts;
use crate::sched::task::kind::Kind;
use crate::sched::task::state::Phase;

use super::show::{Count, Cut, Time};
use super::site::Site;

/// A task that has been polled and has not completed.
///
/// Its polls are those that have returned pending. The one that is under way is part of
/// [`run`](Self::run) and [`longest`](Self::longest).
///
/// How long a task was ready before its polls, in all, is not kept: one more number would make a
/// task larger than 80 bytes without its future, up to which spawning is fast, and cost each poll a
/// store. [`ClassStats::waits`](super::ClassStats::waits) has the waits of its class, and
/// [`since`](Self::since) that of a task which is ready now.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TaskInfo {
    /// That of its join handle. Another task may get it when this one has ended.
    pub id: Id,
    /// Its class.
    #[cfg_attr(feature = "serde", serde(with = "super::index"))]
    pub class: Class,
    /// The name it was given, if any.
    pub name: Option<Cow<'static, str>>,
    /// Where it was spawned.
    pub spawned_at: Site,
    /// The type of its future, as the compiler prints it: for people, not for programs.
    pub future: Cow<'static, str>,
    /// What it does.
    pub state: TaskState,
    /// For how long.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub since: Duration,
    /// How often it was polled; no more than 4 294 967 295 are counted.
    pub polls: u32,
    /// How long its polls took, by the clock, but for those that were found
    /// [`blocked`](Self::blocked). One that gave up its seat by
    /// [`block_in_place`](crate::task::block_in_place) counts here, and so do blocks that are too
    /// short for a hog.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub run: Duration,
    /// How long those of its polls took that were too long, and were found blocked: in a sleep, a
    /// lock or a call of the system. Each counts here when it is over.
    #[cfg_attr(feature = "serde", serde(default, with = "super::nanos"))]
    pub blocked: Duration,
    /// How long the longest took, to about a microsecond; no more than twenty minutes are counted
    /// of one that is over.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub longest: Duration,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum TaskState {
    /// It is being polled.
    Running,
    /// It was woken, and waits to be polled.
    Ready,
    /// It waits to be woken.
    Waiting,
    /// It has completed meanwhile.
    Complete,
}

/// An order of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum TaskOrder {
    /// The one with the most run time first.
    #[default]
    Run,
    /// The one that was blocked for longest in all first.
    Blocked,
    /// The one with the longest poll first.
    Longest,
    /// The one with the most polls first.
    Polls,
    /// The one first that has been in its state for longest.
    Since,
}

/// How much of a name or a type's name is printed.
const FUTURE_MAX: usize = 120;

impl TaskInfo {
    /// How long its polls took in the mean that are over; `None` if there were none.
    pub fn mean(&self) -> Option<Duration> {
        let under_way = match self.state {
            TaskState::Running => self.since,
            _ => Duration::ZERO,
        };
        let all = self.run.saturating_add(self.blocked);
        let over = all.saturating_sub(under_way);
        over.checked_div(self.polls)
    }
}

/// One line, for people; the format may change.
impl Display for TaskInfo {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>8} run, {}{} in {} polls, longest {}, {} for {}, class {}, {}",
            Time::of(self.run),
            Blocked(self.blocked),
            Time(self.mean()),
            Count(u64::from(self.polls)),
            Time::of(self.longest),
            self.state,
            Time::of(self.since),
            self.class,
            self.spawned_at
        )?;
        match &self.name {
            Some(name) => write!(f, ", {}", Cut(name, FUTURE_MAX))?,
            None => write!(f, ", {}", Cut(&self.future, FUTURE_MAX))?,
        }
        write!(f, ", task {}", self.id)
    }
}

/// Nothing for most tasks.
struct Blocked(Duration);

impl Display for Blocked {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.0.is_zero() {
            return Ok(());
        }
        write!(f, "{} blocked, ", Time::of(self.0))
    }
}

impl Display for TaskState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Running => "running",
            Self::Ready => "ready",
            Self::Waiting => "waiting",
            Self::Complete => "complete",
        })
    }
}

/// The same as it is in memory: cheap to copy, of which a walk makes many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) key: u64,
    pub(super) id: Id,
    kind: Kind,
    pub(super) phase: Phase,
    /// In cycles, here and below.
    since: u64,
    polls: PollCounts,
}

impl Row {
    /// As of `now`, in cycles.
    pub(super) fn read(key: u64, task: &Header, now: u64) -> Self {
        let mut phase = task.phase();
        // First, as it is written last.
        let mut polls = task.polls.read();
        // The processors' counters may differ a little.
        let (since, put_back) = since_of(task);
        let since = now.saturating_sub(since);
        if put_back && phase == (Phase::Running { woken: false }) {
            phase = Phase::Waiting;
        } else if matches!(phase, Phase::Running { .. }) && !put_back {
            polls.spent += since;
            polls.longest = polls.longest.max(since);
        }
        Self {
            key,
            id: task.into(),
            kind: task.kind(),
            phase,
            since,
            polls,
        }
    }

    /// Of what is not blocked.
    fn run(&self) -> u64 {
        self.polls.spent.saturating_sub(self.polls.blocked)
    }

    fn rank(&self, order: TaskOrder) -> u64 {
        match order {
            TaskOrder::Run => self.run(),
            TaskOrder::Blocked => self.polls.blocked,
            TaskOrder::Longest => self.polls.longest,
            TaskOrder::Polls => self.polls.count.into(),
            TaskOrder::Since => self.since,
        }
    }

    pub(super) fn info(&self, shared: &Shared) -> TaskInfo {
        let time = |cycles| shared.clock.to_duration(cycles);
        TaskInfo {
            id: self.id,
            class: self.kind.class,
            name: self.kind.name.map(Cow::Borrowed),
            spawned_at: self.kind.spawned_at.into(),
            future: self.kind.future.name().into(),
            state: match self.phase {
                Phase::Running { .. } => TaskState::Running,
                Phase::Ready => TaskState::Ready,
                Phase::Waiting => TaskState::Waiting,
                Phase::Complete => TaskState::Complete,
            },
            since: time(self.since),
            polls: self.polls.count,
            run: time(self.run()),
            blocked: time(self.polls.blocked),
            longest: time(self.polls.longest),
        }
    }
}

/// A row that is compared by its rank, and then by what tells it from others.
struct Ranked(u64, Row);

impl Ranked {
    fn rank(&self) -> impl Ord + use<> {
        (self.0, self.1.key)
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// The first `limit` tasks in this order. Memory is used for no more than these.
pub(super) fn first(shared: &Shared, order: TaskOrder, limit: usize) -> Vec<Row> {
    let mut kept: BinaryHeap<Reverse<Ranked>> = BinaryHeap::new();
    shared.registry.walk(|key, task| {
        let row = Row::read(key, task, shared.clock.cycles());
        let rank = row.rank(order);
        let is_kept = |Reverse(least): &Reverse<Ranked>| rank <= least.0;
        if kept.len() >= limit && kept.peek().is_none_or(is_kept) {
            return;
        }
        kept.push(Reverse(Ranked(rank, row)));
        if kept.len() > limit {
            kept.pop();
        }
    });
    let rows = kept.into_sorted_vec().into_iter();
    rows.map(|Reverse(Ranked(_, row))| row).collect()
}

pub(crate) fn list(shared: &Shared, order: TaskOrder, limit: usize) -> Vec<TaskInfo> {
    let rows = first(shared, order, limit).into_iter();
    rows.map(|row| row.info(shared)).collect()
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use std::panic::Location;

    use super::*;
    use crate::sched::dumps::put_back;
    use crate::sched::task::cell::{Attributes, Ran, Runnable, Schedule, new_task};

    struct Never;

    impl Schedule for Never {
        fn schedule(&self, _: Runnable) {
            unreachable!("the task is never woken")
        }
    }

    #[test]
    fn a_task_whose_wait_a_dump_puts_back_has_not_run_meanwhile() {
        let attributes = Attributes {
            class: Class::NORMAL,
            spawned_at: Location::caller(),
            name: None,
        };
        let (task, _join) = new_task(std::future::pending::<()>(), Never, attributes);
        let look = |task: &Runnable| {
            let row = Row::read(0, task.header(), 100);
            (row.phase, row.since, row.run(), row.polls.longest)
        };
        let at_end = |task: &Runnable| {
            let running = Phase::Running { woken: false };
            task.header().since.put(10);
            assert_eq!(look(task), (running, 90, 90, 90));
            put_back(task.header(), 10);
            assert_eq!(look(task), (Phase::Waiting, 90, 0, 0));
            // The task is over.
            false
        };
        assert!(matches!(task.run(at_end, |_| ()), Ran::Complete));
    }
}
