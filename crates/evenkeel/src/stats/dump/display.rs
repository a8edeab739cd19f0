//! A dump for people; the format may change.

use std::fmt::{self, Display, Formatter};

use super::super::show::{Count, Cut, Time};
use super::{DumpFrame, DumpGroup, DumpOutcome, TaskDump, Wait};

/// So many tasks of a group are shown each by itself; the others are only counted.
const TASKS_MAX: usize = 3;
/// So much of a future's type.
const FUTURE_MAX: usize = 100;

impl Display for TaskDump {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} tasks, in {}",
            Count(self.shown() as u64),
            Count(self.tasks as u64),
            Time::of(self.took)
        )?;
        for group in &self.groups {
            write!(f, "\n\n")?;
            group.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for DumpGroup {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let count = self.tasks.len();
        let tasks = if count == 1 { "task" } else { "tasks" };
        let count = Count(count as u64);
        let outcome = self.outcome;
        write!(f, "{count} {tasks} from {}: {outcome}", self.spawned_at)?;
        if self.outcome == DumpOutcome::Waits && self.stacks.is_empty() {
            write!(f, ", with no waker kept that would end the wait")?;
        }
        write!(f, "\n  of type {}", Cut(&self.future, FUTURE_MAX))?;
        for (index, stack) in self.stacks.iter().enumerate() {
            if index > 0 {
                write!(f, "\n  and")?;
            }
            // In the short form a function is not repeated for a part of it.
            let mut last = "";
            for frame in stack {
                if f.alternate() || !frame.is_internal && frame.function != last {
                    write!(f, "\n    {frame}")?;
                    last = &frame.function;
                }
            }
        }
        for dumped in self.tasks.iter().take(TASKS_MAX) {
            let task = &dumped.task;
            let since = Time::of(task.since);
            write!(f, "\n  {}: {} for {since}", task.id, task.state)?;
            if let Some(name) = &task.name {
                write!(f, ", {}", Cut(name, FUTURE_MAX))?;
            }
            for wait in dumped.waits.iter().flatten() {
                write!(f, "; {wait}")?;
            }
            if let Some(within) = &dumped.within {
                write!(f, "; within {within}")?;
            }
        }
        match self.tasks.len().saturating_sub(TASKS_MAX) {
            0 => Ok(()),
            more => write!(f, "\n  and {} more", Count(more as u64)),
        }
    }
}

impl Display for DumpOutcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Waits => "waiting",
            Self::Runs => "at work",
            Self::NotReached => "not reached",
            Self::Completed => "completed meanwhile",
        })
    }
}

impl Display for DumpFrame {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.function)?;
        match &self.site {
            Some(site) => write!(f, " at {}:{}", site.file, site.line),
            None => Ok(()),
        }
    }
}

impl Display for Wait {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Descriptor {
                fd,
                local,
                peer,
                readable,
                writable,
            } => {
                let what = match (readable, writable) {
                    (true, true) => "readable or writable",
                    (false, true) => "writable",
                    _ => "readable",
                };
                write!(f, "until descriptor {fd} is {what}")?;
                if let Some(local) = local {
                    write!(f, ", {local}")?;
                }
                match peer {
                    Some(peer) => write!(f, ", peer {peer}"),
                    None => Ok(()),
                }
            }
            Self::Timer { due_in } => write!(f, "timer due in {}", Time::of(*due_in)),
            Self::Task { id, spawned_at } => write!(f, "for task {id} from {spawned_at}"),
            Self::Lane { name } => write!(f, "for work in lane {name:?}"),
        }
    }
}
