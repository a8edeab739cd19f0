//! The tasks whose polls take too long: by kind, and by what they were doing.

mod frames;
mod naming;
mod server;
mod spans;
mod table;

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use crate::class::Class;
use crate::sched::kinds::Known;
use crate::sched::shared::Shared;
use crate::sync::{Arc, Mutex};

use super::site::Site;
use server::Polls;
use table::Table;

#[cfg(feature = "drop-in")]
pub(crate) use server::finish as finish_names;
pub(crate) use server::start as name_hogs;
pub use spans::HogSpans;

/// The hogs of one kind: tasks of the same type, name and class, spawned by the same line of
/// source.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct HogStats {
    /// Where they were spawned.
    pub spawned_at: Site,
    /// The type of their future, as the compiler prints it: for people, not for programs.
    pub future: Cow<'static, str>,
    /// The name they were given, if any.
    pub name: Option<Cow<'static, str>>,
    /// Their class.
    #[cfg_attr(feature = "serde", serde(with = "super::index"))]
    pub class: Class,
    /// How many of their polls were too long.
    pub count: u64,
    /// How many of these, as far as they have ended, were blocked and did not compute.
    pub blocked: u64,
    /// The longest of these that has ended, by the clock; since the runtime's start, also in a
    /// difference of two snapshots.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub longest: Duration,
    /// The sum of all that have ended, by the clock.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub total: Duration,
    /// Whether new tasks of this kind start in the heavy pool, because nearly all of them hog.
    pub in_pool: bool,
}

impl HogStats {
    pub(super) fn kind(&self) -> impl PartialEq + '_ {
        (&self.spawned_at, &self.future, &self.name, self.class)
    }
}

pub(super) fn read(shared: &Shared) -> Vec<HogStats> {
    let mut rows = shared.kinds.rows();
    rows.sort_by_key(|(row, _)| std::cmp::Reverse(row.total));
    rows.into_iter()
        .map(|(row, known)| HogStats {
            spawned_at: row.kind.spawned_at.into(),
            future: row.kind.future.name().into(),
            name: row.kind.name.map(Cow::Borrowed),
            class: row.kind.class,
            count: row.count,
            blocked: row.blocked,
            longest: shared.clock.to_duration(row.longest),
            total: shared.clock.to_duration(row.total),
            in_pool: matches!(known, Known::NearlyAll { .. }) && row.kind.class != Class::URGENT,
        })
        .collect()
}

/// What hogs were doing: the function in which their polls were found.
///
/// To name the first stack takes some 50 ms of a processor and some megabytes. So no names are
/// made until the hogs' polls have lasted for as long together, or somebody has asked: by reading
/// statistics, a hook for [reports](crate::runtime::Builder::on_hog), or a subscriber of `tracing`
/// that takes warnings. What becomes known when the first one asks is here when the next one does.
///
/// A stack is taken of most polls that are too long: of at most 100 in a second, or 10 at once.
/// Those without one are together in rows named `(unknown)`, one for each class, when they have
/// ended. So the times of all rows add up to those of [`HogStats`], but for polls that have ended
/// in the last moments.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct HogFunction {
    /// The innermost function of the program's own on the stack, as far as they can be told: by the
    /// file of its source, or without debug information by the crate. If there is none, the
    /// innermost function of a library.
    pub function: String,
    /// What that function had called, if that is a library's, or blocks.
    pub callee: Option<String>,
    /// The class of the tasks.
    #[cfg_attr(feature = "serde", serde(with = "super::index"))]
    pub class: Class,
    /// How many polls were found in it, by the first stack of each.
    pub count: u64,
    /// How many of them have ended.
    pub ended: u64,
    /// How many of those were blocked and did not compute.
    pub blocked: u64,
    /// The sum of all that have ended, by the clock: whole polls, from their beginning to their
    /// end.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub total: Duration,
    /// The longest of those; since the runtime's start, also in a difference of two snapshots.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub longest: Duration,
    /// The spans of `tracing` in which they were found, if they were in some and a layer
    /// [tells](crate::runtime::within): at most four, the most frequent first. If there are more,
    /// the rarest give place to others.
    pub spans: Vec<HogSpans>,
    /// How many were found in spans that have given place. All counts add up to the polls that were
    /// in spans.
    pub spans_others: u64,
    /// Where the task of the last of them was spawned, and the type of its future.
    pub spawned_at: Site,
    /// See `spawned_at`.
    pub future: Cow<'static, str>,
}

impl HogFunction {
    /// How long a poll took on average, of those that have ended.
    pub fn mean(&self) -> Duration {
        let ended = u32::try_from(self.ended).unwrap_or(u32::MAX);
        self.total.checked_div(ended).unwrap_or_default()
    }

    pub(super) fn key(&self) -> impl PartialEq + '_ {
        (&self.function, &self.callee, self.class)
    }
}

/// Prints as `app::compute 412 times, 50ms on average, within request{uri=/compute}`.
impl fmt::Display for HogFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.function)?;
        if let Some(callee) = &self.callee {
            write!(f, " > {callee}")?;
        }
        let times = if self.count == 1 { "time" } else { "times" };
        write!(f, " {} {times}", self.count)?;
        match self.count.saturating_sub(self.ended) {
            0 => {}
            1 if self.count == 1 => write!(f, ", not over yet")?,
            under_way => write!(f, ", {under_way} not over yet")?,
        }
        if self.ended > 0 {
            let mean = Duration::from_micros(self.mean().as_micros() as u64);
            write!(f, ", {mean:?} on average")?;
        }
        match self.within() {
            Some(within) => write!(f, ", within {within}"),
            None => Ok(()),
        }
    }
}

/// How many stacks of hogs were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct HogStacks {
    /// Taken.
    pub taken: u64,
    /// Polls of which one was not taken that was due, as too many were taken lately, or wait for
    /// their names.
    pub skipped: u64,
    /// Not taken, as the system refused or the thread did not answer in time.
    pub failed: u64,
    /// Reports that were delivered without a name, as the system refused the thread that makes
    /// names. It is tried again each second.
    pub unnamed: u64,
}

/// The stacks of hogs since the runtime's start, for flame graphs. Prints one stack a line, as
/// tools for flame graphs read it: functions from the outermost to the innermost, separated by `;`,
/// then a space and microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HogProfile {
    /// Each stack, and for how long polls were found in it: a stack stands for the time since the
    /// one before it of the same poll. The one with the most time first; at most 1 024, one row
    /// for others, and `(unknown)` for polls of which there is none.
    pub stacks: Vec<(String, Duration)>,
}

impl fmt::Display for HogProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (stack, time) in &self.stacks {
            writeln!(f, "{stack} {}", time.as_micros())?;
        }
        Ok(())
    }
}

/// What is known of hogs' stacks: an extension of the runtime.
#[derive(Default)]
pub(crate) struct HogNames(Arc<Names>);

#[derive(Default)]
struct Names {
    table: Mutex<Table>,
    /// Those whose stacks have names, by which their ends are counted. Whoever takes over goes on
    /// with them.
    polls: Mutex<Polls>,
    /// Either part of the table as it was last read: the thread that makes names has the lowest
    /// priority, and nobody waits for it.
    last: Mutex<Table>,
}

impl Names {
    /// Stacks are not copied for who asks for functions: they are many, and long.
    fn functions(&self) -> Vec<HogFunction> {
        let mut last = self.last.lock();
        if let Some(table) = self.table.try_lock() {
            last.copy_functions(&table);
        }
        last.functions()
    }

    fn profile(&self) -> HogProfile {
        let mut last = self.last.lock();
        if let Some(table) = self.table.try_lock() {
            last.copy_stacks(&table);
        }
        last.profile()
    }
}

/// The functions, those with the most time first.
pub(super) fn read_functions(shared: &Shared) -> Vec<HogFunction> {
    shared.ask_for_names();
    let mut rows = shared.extensions.get::<HogNames>().0.functions();
    rows.extend(shared.stacks.unknown().iter().map(|row| HogFunction {
        function: UNKNOWN.to_owned(),
        class: row.class,
        count: row.polls,
        ended: row.polls,
        blocked: row.blocked,
        total: shared.clock.to_duration(row.total),
        longest: shared.clock.to_duration(row.longest),
        ..HogFunction::default()
    }));
    rows.sort_by(|a, b| b.total.cmp(&a.total).then(a.function.cmp(&b.function)));
    rows
}

pub(super) fn read_stacks(shared: &Shared) -> HogStacks {
    let counts = shared.stacks.counts();
    HogStacks {
        taken: counts.taken,
        skipped: counts.skipped,
        failed: counts.failed,
        unnamed: counts.unnamed,
    }
}

pub(crate) fn profile(shared: &Shared) -> HogProfile {
    shared.ask_for_names();
    let mut profile = shared.extensions.get::<HogNames>().0.profile();
    let unknown: u64 = shared.stacks.unknown().iter().map(|row| row.total).sum();
    if unknown > 0 {
        let row = (UNKNOWN.to_owned(), shared.clock.to_duration(unknown));
        let at = profile.stacks.partition_point(|it| it.1 >= row.1);
        profile.stacks.insert(at, row);
    }
    profile
}

/// The name of what has none.
const UNKNOWN: &str = "(unknown)";

#[cfg(test)]
mod tests {
    use super::naming::Name;
    use super::*;

    #[test]
    fn who_asks_for_functions_copies_no_stacks() {
        let names = Names::default();
        let name = Name {
            function: "app::f".to_owned(),
            callee: None,
        };
        let mut table = names.table.lock();
        table.row(name, Class::BULK).count += 1;
        table.add("app::f", Duration::from_millis(1));
        drop(table);
        assert_eq!(names.functions().len(), 1);
        assert_eq!(names.last.lock().profile().stacks, []);
        assert_eq!(names.profile().stacks.len(), 1);
        // While the thread that makes names holds the lock, there is what was there before.
        let _table = names.table.lock();
        assert_eq!(names.functions()[0].count, 1);
        assert_eq!(names.profile().stacks.len(), 1);
    }
}
