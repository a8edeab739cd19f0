//! Memory: what an idle task and an idle connection keep resident. Each figure comes from a fresh
//! process, as an allocator never quite gives back what it had.

use std::io;
use std::process::{Command, Stdio};

use clap::ValueEnum;
use evenkeel_measure::comparison::Comparison;
use evenkeel_measure::rounds::alternate_aloud;
use evenkeel_measure::statistics::Better;

use crate::CONTENDERS;
use crate::options::Options;

pub(crate) const PART: &str = "memory";

/// The figures hardly differ between runs, so more would tell no more.
const RUNS: usize = 5;

/// The rows: name, and what is counted.
pub(crate) const ROWS: [(&str, Subject); 2] = [
    ("one idle task", Subject::Tasks),
    ("one idle connection", Subject::Connections),
];

/// What a process holds many of.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Subject {
    Tasks,
    Connections,
}

/// On what they are held.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Runtime {
    Evenkeel,
    Tokio,
}

/// As an argument.
fn word(value: impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is skipped");
    value.get_name().to_owned()
}

pub(crate) fn compare(options: &Options) -> io::Result<Vec<Comparison>> {
    let title = "memory: what one keeps resident";
    let mut table = Comparison::new(title, "B", Better::Less, &CONTENDERS);
    for (name, subject) in ROWS.iter().filter(|(name, _)| options.wants(PART, name)) {
        let measure = |runtime: &Runtime| measured_by_child(*runtime, *subject);
        let runtimes = [Runtime::Evenkeel, Runtime::Tokio];
        table.add(name, &alternate_aloud(name, RUNS, &runtimes, measure)?);
    }
    Ok(vec![table])
}

/// Runs this program anew to measure, and reads the one number that it prints.
fn measured_by_child(runtime: Runtime, subject: Subject) -> io::Result<f64> {
    let (runtime, subject) = (word(runtime), word(subject));
    let child = Command::new(std::env::current_exe()?)
        .args(["--measure-memory", &runtime, "--subject", &subject])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let said = String::from_utf8_lossy(&child.stdout);
    match said.trim().parse() {
        Ok(bytes) if child.status.success() => Ok(bytes),
        _ => Err(io::Error::other(format!(
            "the process that measures the memory of {subject} on {runtime} ended with {}, having \
             said {:?}; its own complaint is above",
            child.status,
            said.trim()
        ))),
    }
}
