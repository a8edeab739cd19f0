//! Memory: what an idle task and an idle connection keep resident. Each figure comes from a fresh
//! process, as an allocator never quite gives back what it had.

use std::io;
use std::process::{Command, Stdio};

use crate::options::Options;
use crate::rounds::{Each, in_turn};
use crate::table::{Better, Table};

pub(crate) const PART: &str = "memory";

/// The figures hardly differ between runs, so more would tell no more.
const RUNS: usize = 5;

/// The rows: name, and what is counted.
pub(crate) const ROWS: [(&str, Subject); 2] = [
    ("one idle task", Subject::Tasks),
    ("one idle connection", Subject::Connections),
];

/// What a process holds many of.
#[derive(Clone, Copy)]
pub(crate) enum Subject {
    Tasks,
    Connections,
}

impl Subject {
    /// As an argument.
    fn word(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Connections => "connections",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        let mut all = [Self::Tasks, Self::Connections].into_iter();
        all.find(|subject| subject.word() == word)
    }
}

/// On what they are held.
#[derive(Clone, Copy)]
pub(crate) enum Runtime {
    Evenkeel,
    Tokio,
}

impl Runtime {
    /// As an argument.
    fn word(self) -> &'static str {
        match self {
            Self::Evenkeel => "evenkeel",
            Self::Tokio => "tokio",
        }
    }

    pub(crate) fn parse(word: &str) -> Option<Self> {
        let mut all = [Self::Evenkeel, Self::Tokio].into_iter();
        all.find(|runtime| runtime.word() == word)
    }
}

pub(crate) fn compare(options: &Options) -> io::Result<Vec<Table>> {
    let mut table = Table::new("memory: what one keeps resident", "B", Better::Less);
    let each = Each {
        evenkeel: Runtime::Evenkeel,
        tokio: Runtime::Tokio,
        limits: Vec::new(),
    };
    for (name, subject) in ROWS {
        if options.wants(PART, name) {
            let runs = in_turn(name, RUNS, &each, |runtime| {
                measured_by_child(*runtime, subject)
            })?;
            table.add(name, &runs);
        }
    }
    Ok(vec![table])
}

/// Runs this program anew to measure, and reads the one number that it prints.
fn measured_by_child(runtime: Runtime, subject: Subject) -> io::Result<f64> {
    let child = Command::new(std::env::current_exe()?)
        .args(["--measure-memory", runtime.word(), subject.word()])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let said = String::from_utf8_lossy(&child.stdout);
    match said.trim().parse() {
        Ok(bytes) if child.status.success() => Ok(bytes),
        _ => Err(io::Error::other(format!(
            "the process that measures the memory of {} on {} ended with {}, having said {:?}; \
             its own complaint is above",
            subject.word(),
            runtime.word(),
            child.status,
            said.trim()
        ))),
    }
}
