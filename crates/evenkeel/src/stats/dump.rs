//! Where each task waits.

mod display;
mod take;

use std::borrow::Cow;
use std::time::Duration;

use crate::sched::task::Id;

use super::site::Site;
use super::tasks::TaskInfo;

pub(crate) use take::take;

/// What a dump is to show, and how long it may take.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use evenkeel::stats::DumpOptions;
///
/// let options = DumpOptions::new().limit(100).timeout(Duration::from_millis(200));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DumpOptions {
    limit: usize,
    timeout: Duration,
}

impl Default for DumpOptions {
    fn default() -> Self {
        Self {
            limit: 1_000,
            timeout: Duration::from_secs(1),
        }
    }
}

impl DumpOptions {
    /// At most 1 000 tasks, which are waited for at most one second.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many tasks are shown at most: those that have been in their states for longest.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// How long the tasks are waited for until each has been polled.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// Where tasks wait, as [`Handle::dump`](crate::runtime::Handle::dump) has found. It prints for
/// people: `{}` leaves out what is inside the standard library and the runtime, `{:#}` does not.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct TaskDump {
    /// How long it took, with finding the names of functions.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub took: Duration,
    /// How many tasks there were when it began that had been polled and had not completed, about.
    pub tasks: usize,
    /// The tasks, those together that wait at the same place; the largest group first.
    pub groups: Vec<DumpGroup>,
}

impl TaskDump {
    /// How many tasks it shows.
    pub fn shown(&self) -> usize {
        self.groups.iter().map(|group| group.tasks.len()).sum()
    }
}

/// Tasks of one spawn site and type that wait at the same place, or do the same.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DumpGroup {
    /// What they do.
    pub outcome: DumpOutcome,
    /// Where they were spawned.
    pub spawned_at: Site,
    /// The type of their future, as the compiler prints it.
    pub future: Cow<'static, str>,
    /// Where they have left their wakers, at most four places: one for each branch of a `select!`,
    /// for example. Each is a stack, the innermost function first. One that could not be taken is
    /// empty.
    pub stacks: Vec<Vec<DumpFrame>>,
    /// The tasks.
    pub tasks: Vec<DumpedTask>,
}

/// What a dump has found a task to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum DumpOutcome {
    /// It waits.
    Waits,
    /// It is at work: it was being polled all the time, or has yielded.
    Runs,
    /// It was woken and not polled in time: its class gets no time, or the time was short.
    NotReached,
    /// It has completed meanwhile.
    Completed,
}

/// A function on a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DumpFrame {
    /// Its path; that of an async function has no `{{closure}}` at its end.
    pub function: String,
    /// The place in it, if the program has debug information.
    pub site: Option<Site>,
    /// It is inside the standard library or the runtime.
    pub is_internal: bool,
}

/// A task in a dump.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DumpedTask {
    /// As it was before the dump had it polled.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub task: TaskInfo,
    /// What it waits for: one for each of the group's stacks; `None` where another crate's future
    /// waits, such as a lock of `tokio::sync`.
    pub waits: Vec<Option<Wait>>,
    /// The spans of `tracing` that it was within where it waits, the outermost first, if a layer
    /// [tells](crate::runtime::within): at the first of the places that is within some.
    #[cfg_attr(feature = "serde", serde(default))]
    pub within: Option<String>,
}

/// What one of the runtime's own futures waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(rename_all = "snake_case")
)]
#[non_exhaustive]
pub enum Wait {
    /// A socket, pipe or other descriptor.
    Descriptor {
        /// Its number.
        fd: i32,
        /// The address of this end, if it has one.
        local: Option<String>,
        /// That of the other end, if it is connected.
        peer: Option<String>,
        /// Waits until it can be read.
        readable: bool,
        /// Waits until it can be written.
        writable: bool,
    },
    /// A timer.
    Timer {
        /// How long from the dump's end until it is due.
        #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
        due_in: Duration,
    },
    /// The end of a task.
    Task {
        /// The task.
        id: Id,
        /// Where it was spawned.
        spawned_at: Site,
    },
    /// The end of blocking work, such as an operation on a file.
    Lane {
        /// The lane's name, as in [`Stats::lanes`](super::Stats::lanes).
        name: String,
    },
}
