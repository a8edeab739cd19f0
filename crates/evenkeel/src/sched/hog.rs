//! Hogs: what is known of a task's polls, and how a hog is reported.
//!
//! A task that had a long poll is *heavy*: its next polls run in the heavy pool, until some in a
//! row were short. At first four are enough. Each relapse doubles that, up to 64, so that a task
//! that computes now and then does not go back and forth. A heavy task that had short polls in
//! between is *doubtful*: if it would have to wait in the pool, a worker polls it.
//!
//! A task may be spawned as one that computes, which is heavy from the beginning. Any other
//! fresh task is only *guessed* to be heavy, from its kind (`kinds`). One short poll refutes
//! that. If only some tasks of its kind hog, or the task itself has just left the pool, workers
//! poll it *on guard*: the monitor looks sooner whether the poll has returned. Four short polls end
//! that, and the kind learns of a task that behaved.
//!
//! In a surge of its kind a task is guessed to be heavy, too, though it is not fresh.

use std::panic::Location;
use std::time::Duration;

use crate::class::Class;
use crate::clock::Clock;

use super::kinds::{HogRow, Known, Verdict};
use super::short::short;
use super::stacks::PollId;
use super::task::cell::Header;
use super::task::kind::Kind;

/// Its polls run in the heavy pool.
const HEAVY: u8 = 1;
/// It had a long poll.
const HOGGED: u8 = 1 << 1;
/// Its kind is still to learn how it behaves.
const TRACKED: u8 = 1 << 2;
/// How often it left the pool, up to four times: three bits from here on.
const RETURNS: u8 = 1 << 3;
const RETURNS_MAX: u8 = 4;
/// Its last long poll was blocked, or those of its kind are.
const BLOCKS: u8 = 1 << 6;
/// Its polls on workers are on guard. Those of a heavy task always are; if it has hogged, the flag
/// says instead that it is doubtful: one of its last few polls was short.
const GUARDED: u8 = 1 << 7;
/// How many short polls in a row take a task out of the pool the first time, and off guard.
const SHORT_POLLS: u8 = 4;
/// After so many long polls in a row a task is no longer doubtful.
const LONG_POLLS: u8 = 4;
/// A streak from here on is one of long polls; below, one of short polls.
const LONG: u8 = 128;

/// The shortest time between two reports of one kind.
pub(super) const QUIET: Duration = Duration::from_secs(1);

/// What is known of a task's polls. All functions here are for the task's runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Profile(u8);

impl Profile {
    #[inline]
    pub(crate) fn of(task: &Header) -> Self {
        Self(task.profile.load())
    }

    /// A worker polls it like any other task. Most tasks stay plain for life.
    #[inline]
    pub(crate) fn is_plain(self) -> bool {
        self.0 & (HEAVY | GUARDED | HOGGED) == 0
    }

    pub(crate) fn is_guarded(self) -> bool {
        self.0 & (HEAVY | GUARDED) != 0
    }

    pub(crate) fn has_hogged(self) -> bool {
        self.0 & HOGGED != 0
    }

    pub(crate) fn is_heavy(self) -> bool {
        self.0 & HEAVY != 0
    }

    /// It is heavy by a guess: it has not had a long poll itself.
    pub(crate) fn is_guess(self) -> bool {
        self.0 & (HEAVY | HOGGED) == HEAVY
    }

    /// Its next poll may well be short: it is heavy by a guess, or it has both long and short
    /// polls, like a connection that carries all sorts of requests.
    pub(crate) fn is_doubtful(self) -> bool {
        self.is_guess() || self.0 & (HEAVY | GUARDED) == HEAVY | GUARDED
    }

    fn returns(self) -> u8 {
        self.0 / RETURNS % 8
    }

    /// Its long polls block and do not compute.
    pub(crate) fn blocks(self) -> bool {
        self.0 & BLOCKS != 0
    }

    fn put(self, task: &Header) {
        debug_assert!(self.returns() <= RETURNS_MAX);
        task.profile.put(self.0);
    }
}

/// A new task whose spawner says that it computes: it is heavy as one that has hogged, and is no
/// guess. It is never urgent work that has to go on at once.
pub(crate) fn expect(task: &Header) {
    if task.class() != Class::URGENT {
        Profile(HEAVY | HOGGED).put(task);
    }
}

/// Gives a fresh task its kind's profile, unless its spawner has said what it is. A guess never
/// sends an urgent task to the pool.
#[inline]
pub(crate) fn begin(task: &Header, known: Known) {
    if Profile::of(task).is_heavy() {
        return;
    }
    let profile = match known {
        Known::Nothing => return,
        Known::Few => TRACKED,
        Known::Some => TRACKED | GUARDED,
        Known::NearlyAll { .. } if task.class() == Class::URGENT => TRACKED | GUARDED,
        Known::NearlyAll { blocks: false } => TRACKED | GUARDED | HEAVY,
        Known::NearlyAll { blocks: true } => TRACKED | GUARDED | HEAVY | BLOCKS,
    };
    Profile(profile).put(task);
}

/// Its kind surges: the task is guessed to block, whatever it did before, once in each surge. Its
/// own hogs of earlier times are forgotten, as one short poll is to refute the guess.
pub(crate) fn suspect(task: &Header, surge: u8) {
    let Profile(profile) = Profile::of(task);
    if task.suspected_in.load() == surge || profile & HEAVY != 0 {
        return;
    }
    task.suspected_in.put(surge);
    let guess = if task.class() == Class::URGENT {
        GUARDED
    } else {
        GUARDED | HEAVY | BLOCKS
    };
    Profile(profile & !HOGGED | guess).put(task);
    task.streak.put(0);
}

/// A poll of the task was too long.
pub(crate) fn mark(task: &Header, blocked: bool) {
    let profile = Profile::of(task);
    let streak = task.streak.load();
    debug_assert!(streak <= LONG + LONG_POLLS);
    let long = (streak.saturating_sub(LONG) + 1).min(LONG_POLLS);
    task.streak.put(LONG + long);
    let was_doubtful = profile.is_heavy() && profile.0 & GUARDED != 0;
    let came_back = !profile.is_heavy() && profile.returns() > 0;
    let is_doubtful = (was_doubtful || came_back) && long < LONG_POLLS;
    let doubt = if is_doubtful { GUARDED } else { 0 };
    let blocks = if blocked { BLOCKS } else { 0 };
    let kept = profile.0 & !(TRACKED | BLOCKS | GUARDED);
    Profile(kept | HEAVY | HOGGED | blocks | doubt).put(task);
}

/// A poll of the task was too long, and kept its seat as the pool is full. The task stays out of
/// the pool, where it might wait for polls that never end.
pub(crate) fn mark_kept(task: &Header) {
    let Profile(profile) = Profile::of(task);
    Profile(profile & !(TRACKED | HEAVY) | HOGGED | GUARDED).put(task);
    task.streak.put(0);
}

/// A poll of a heavy task was short. The task leaves the pool if enough in a row were.
pub(crate) fn behaved(task: &Header) {
    let profile = Profile::of(task);
    if !profile.has_hogged() {
        Profile(profile.0 & !HEAVY).put(task);
    } else if count_short(task) < SHORT_POLLS << profile.returns() {
        return Profile(profile.0 | GUARDED).put(task);
    } else {
        let returns = (profile.returns() + 1).min(RETURNS_MAX);
        let kept = profile.0 & (HOGGED | BLOCKS | TRACKED);
        Profile(kept | GUARDED | (returns * RETURNS)).put(task);
    }
    task.streak.put(0);
}

/// A poll on guard was short. Returns whether the kind is to learn that the task behaved.
pub(crate) fn passed(task: &Header) -> bool {
    if count_short(task) < SHORT_POLLS {
        return false;
    }
    let Profile(profile) = Profile::of(task);
    Profile(profile & !GUARDED).put(task);
    task.streak.put(0);
    acquit(task)
}

fn count_short(task: &Header) -> u8 {
    let before = task.streak.load();
    let short = if before >= LONG { 1 } else { before + 1 };
    debug_assert!(short < LONG, "a streak of short polls ends before");
    task.streak.put(short);
    short
}

/// The task has ended, or has had enough short polls: it is no hog. Returns whether its kind is to
/// learn that the task behaved.
#[inline]
pub(crate) fn acquit(task: &Header) -> bool {
    let Profile(profile) = Profile::of(task);
    if profile & TRACKED == 0 {
        return false;
    }
    Profile(profile & !TRACKED).put(task);
    // A task that was dropped before its first poll has shown nothing.
    !task.is_aborted_unseen()
}

/// A task that hogs: what [`Builder::on_hog`](crate::runtime::Builder::on_hog) is given.
///
/// There is at most one report a second for each kind of task that hogs: those of one type, name
/// and class that one line of source spawned.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HogReport {
    /// Where the task was spawned.
    pub spawned_at: &'static Location<'static>,
    /// The type of its future, as the compiler writes it: for people, and not to be relied on.
    pub future: &'static str,
    /// The name it was given with [`task::Builder`](crate::task::Builder), if any.
    pub name: Option<&'static str>,
    /// Its class.
    pub class: Class,
    /// How long the poll has lasted so far.
    pub length: Duration,
    /// How many long polls tasks of its kind have had.
    pub count: u64,
    /// How many of them went by without a report since the last one.
    pub suppressed: u64,
    /// Whether the poll goes on.
    pub running: bool,
    /// Whether its thread was found blocked, in a sleep, a lock or a call of the system, and not
    /// computing.
    pub blocked: bool,
    /// The function that the poll was in when its stack was taken: the innermost one of the
    /// program's own, as far as they can be told, or else of a library. `None` without a stack:
    /// there is at most a limited number in a second, and none on some systems. See
    /// [`HogFunction`](crate::stats::HogFunction).
    pub function: Option<String>,
    /// What that function had called, if that was a library's.
    pub callee: Option<String>,
    /// The spans of `tracing` that were entered on the thread at that moment, outermost first, if a
    /// layer [tells](crate::runtime::within).
    pub within: Option<String>,
}

/// Prints as one line, with the outermost function of the future instead of the whole type, which
/// may have some thousand characters; the format may change.
impl std::fmt::Display for HogReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a task of class `{}`", self.class)?;
        if let Some(name) = self.name {
            write!(f, ", `{name}`,")?;
        }
        let tense = if self.running { "has been" } else { "was" };
        let blocked = if self.blocked { ", blocked" } else { "" };
        let polls = if self.count == 1 { "poll" } else { "polls" };
        write!(
            f,
            " spawned at {} {tense} in one poll for {:?}{blocked}",
            self.spawned_at, self.length
        )?;
        if let Some(function) = &self.function {
            write!(f, ", in `{function}`")?;
        }
        if let Some(callee) = &self.callee {
            write!(f, ", which called `{callee}`")?;
        }
        if let Some(within) = &self.within {
            write!(f, ", within `{within}`")?;
        }
        write!(
            f,
            "; {} such {polls} so far; future: {}",
            self.count,
            short(self.future)
        )
    }
}

/// A poll that is too long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hog {
    pub(crate) poll: PollId,
    pub(crate) kind: Kind,
    /// In cycles, so far.
    pub(crate) length: u64,
    pub(crate) running: bool,
    pub(crate) blocked: bool,
    /// It is the task's first long poll. Only that one counts for its kind, as a task that hogs all
    /// its life would otherwise count for many.
    pub(crate) fresh: bool,
}

impl Hog {
    /// A poll of this task that is over. To be made before the task's profile is changed.
    pub(crate) fn of(task: &Header, poll: PollId, length: u64, blocked: bool) -> Self {
        Self {
            poll,
            kind: task.kind(),
            length,
            running: false,
            blocked,
            fresh: !Profile::of(task).has_hogged(),
        }
    }

    pub(super) fn report(&self, row: &HogRow, clock: &Clock) -> HogReport {
        HogReport {
            spawned_at: self.kind.spawned_at,
            future: self.kind.future.name(),
            name: self.kind.name,
            class: self.kind.class,
            length: clock.to_duration(self.length),
            count: row.count,
            suppressed: row.suppressed,
            running: self.running,
            blocked: self.blocked,
            function: None,
            callee: None,
            within: None,
        }
    }

    pub(super) fn verdict(&self) -> Verdict {
        if self.blocked {
            Verdict::Blocked
        } else {
            Verdict::Computed
        }
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use crate::sched::task::cell::{Attributes, Runnable, Schedule, new_task};

    use super::*;

    /// These tasks are never run.
    struct Never;

    impl Schedule for Never {
        fn schedule(&self, _: Runnable) {
            unreachable!("nobody wakes it")
        }
    }

    fn task() -> Runnable {
        let attributes = Attributes {
            class: Class::NORMAL,
            spawned_at: Location::caller(),
            name: None,
        };
        let (task, join) = new_task(async {}, Never, attributes);
        drop(join);
        task
    }

    #[test]
    fn a_report_is_a_line_with_the_function_of_its_future() {
        let kind = task().header().kind();
        let report = HogReport {
            spawned_at: kind.spawned_at,
            future: "tower::Timeout<tower::Trace<app::serve<app::Db>::{{closure}}>>",
            name: None,
            class: Class::NORMAL,
            length: Duration::from_millis(3),
            count: 2,
            suppressed: 0,
            running: false,
            blocked: false,
            function: None,
            callee: None,
            within: None,
        };
        let text = report.to_string();
        assert!(text.ends_with("future: app::serve"), "{text}");
        static LONG: std::sync::LazyLock<String> =
            std::sync::LazyLock::new(|| vec!["a"; 3000].join("::"));
        let long = LONG.as_str();
        let report = HogReport {
            future: long,
            ..report
        };
        assert!(report.to_string().len() < 300, "{report}");
        assert_eq!(report.future.len(), long.len(), "whole for programs");
    }

    #[test]
    fn each_relapse_doubles_the_streak_that_ends_it() {
        let task = task();
        let task = task.header();
        for expected in [4, 8, 16, 32, 64, 64] {
            mark(task, false);
            let short = (1..=200).find(|_| {
                behaved(task);
                !Profile::of(task).is_heavy()
            });
            assert_eq!(short, Some(expected));
        }
    }

    #[test]
    fn a_hog_is_doubtful_from_a_short_poll_to_four_long_ones_in_a_row() {
        let task = task();
        let task = task.header();
        let is_doubtful_after = |polls: &str| {
            polls.chars().for_each(|poll| match poll {
                'l' => mark(task, false),
                _ => behaved(task),
            });
            Profile::of(task).is_doubtful()
        };
        assert!(!is_doubtful_after("l"), "nothing speaks for it");
        assert!(is_doubtful_after("s"));
        assert!(is_doubtful_after("lll"));
        assert!(!is_doubtful_after("l"), "four in a row");
        assert!(is_doubtful_after("sll"));
        // A short poll in between begins the count anew.
        assert!(is_doubtful_after("slll"));
        assert!(!is_doubtful_after("l"));
        // It left the pool, and so has been short.
        assert!(is_doubtful_after("ssssl"));
    }

    #[test]
    fn a_task_is_suspected_once_in_each_surge_and_one_short_poll_refutes_it() {
        let task = task();
        let task = task.header();
        for surge in 1..4 {
            suspect(task, surge);
            let profile = Profile::of(task);
            assert!(profile.is_guess() && profile.blocks(), "in surge {surge}");
            behaved(task);
            suspect(task, surge);
            assert!(!Profile::of(task).is_heavy(), "once in surge {surge}");
            // On guard, it shows that it behaves. Its kind does not learn that, as it is not fresh.
            assert_eq!([(); 4].map(|()| passed(task)), [false; 4]);
            assert!(Profile::of(task).is_plain());
            // It hogs after all, and has left the pool when the next surge comes.
            mark(task, true);
            (0..64).for_each(|_| behaved(task));
            assert!(!Profile::of(task).is_heavy());
        }
    }

    #[test]
    fn a_known_hog_stays_one_in_a_surge() {
        let task = task();
        let task = task.header();
        mark(task, false);
        let before = Profile::of(task);
        suspect(task, 1);
        assert_eq!(Profile::of(task), before);
    }
}
