//! What the command line asks for.

use std::time::Duration;

use crate::memory::{Runtime, Subject};

/// Fewer say nothing about the spread.
const ROUNDS_MIN: usize = 5;
/// More than a working day of them.
const ROUNDS_MAX: usize = 1_000;

pub(crate) enum Request {
    Help,
    Compare(Options),
    /// Hidden: the child process whose memory is measured.
    MeasureMemory(Runtime, Subject),
    /// Hidden: the process that holds the other ends of idle connections to a port.
    HoldConnections(u16),
}

/// How to compare.
pub(crate) struct Options {
    filter: Option<String>,
    pub(crate) rounds: usize,
    /// How long one contender is measured at a time.
    pub(crate) sample: Duration,
}

impl Options {
    /// Is this row of this part wanted?
    pub(crate) fn wants(&self, part: &str, row: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|filter| filter == part || row.contains(filter.as_str()))
    }

    /// What to say when no row was wanted.
    pub(crate) fn advice_on_nothing(&self) -> String {
        let filter = self.filter.as_deref().unwrap_or_default();
        format!("`{filter}` names no part and is in no row's name; --help lists them all")
    }
}

/// Reads the arguments.
///
/// # Errors
///
/// What is wrong with them, and what to write instead.
pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Request, String> {
    let (mut filter, mut rounds, mut quick) = (None::<String>, None, false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Cargo passes it to every benchmark.
            "--bench" => {}
            "--help" | "-h" => return Ok(Request::Help),
            "--quick" => quick = true,
            "--rounds" => rounds = Some(parse_rounds(arguments.next())?),
            "--measure-memory" => return parse_measure_memory(arguments),
            "--hold-connections" => return parse_hold_connections(arguments),
            flag if flag.starts_with('-') => return Err(format!("there is no option `{flag}`")),
            "" => return Err("an empty filter names every row: leave it out".to_owned()),
            word => {
                if let Some(first) = filter.replace(word.to_owned()) {
                    return Err(format!(
                        "one filter at a time, not both `{first}` and `{word}`; a name with \
                         spaces wants quotes"
                    ));
                }
            }
        }
    }
    let (rounds_default, sample_ms) = if quick { (5, 100) } else { (7, 400) };
    Ok(Request::Compare(Options {
        filter,
        rounds: rounds.unwrap_or(rounds_default),
        sample: Duration::from_millis(sample_ms),
    }))
}

fn parse_rounds(argument: Option<String>) -> Result<usize, String> {
    let argument = argument.ok_or("--rounds wants a number after it")?;
    let rounds = argument
        .parse()
        .map_err(|_| format!("--rounds wants a number, not `{argument}`"))?;
    if (ROUNDS_MIN..=ROUNDS_MAX).contains(&rounds) {
        Ok(rounds)
    } else {
        Err(format!(
            "--rounds wants {ROUNDS_MIN} to {ROUNDS_MAX}, not {rounds}: fewer say nothing about \
             the spread"
        ))
    }
}

fn parse_measure_memory(mut arguments: impl Iterator<Item = String>) -> Result<Request, String> {
    let runtime = arguments.next().and_then(|word| Runtime::parse(&word));
    let subject = arguments.next().and_then(|word| Subject::parse(&word));
    match (runtime, subject, arguments.next()) {
        (Some(runtime), Some(subject), None) => Ok(Request::MeasureMemory(runtime, subject)),
        _ => Err(
            "--measure-memory wants `evenkeel` or `tokio`, then `tasks` or \
                  `connections`"
                .to_owned(),
        ),
    }
}

fn parse_hold_connections(mut arguments: impl Iterator<Item = String>) -> Result<Request, String> {
    match (
        arguments.next().and_then(|word| word.parse().ok()),
        arguments.next(),
    ) {
        (Some(port), None) => Ok(Request::HoldConnections(port)),
        _ => Err("--hold-connections wants a port".to_owned()),
    }
}
