//! What the command line asks for.

use std::path::PathBuf;
use std::time::Duration;

/// Fewer say nothing about the spread.
const ROUNDS: std::ops::RangeInclusive<usize> = 5..=1_000;

pub(crate) enum Request {
    Help,
    Compare(Options),
}

/// How to compare.
pub(crate) struct Options {
    filters: Vec<String>,
    pub(crate) rounds: usize,
    /// How long one contender is measured at a time.
    pub(crate) sample: Duration,
    /// Where the files are.
    pub(crate) directory: PathBuf,
    pub(crate) raw: bool,
}

impl Options {
    pub(crate) fn wants(&self, row: &str) -> bool {
        let words: Vec<&str> = row.split(' ').collect();
        self.filters
            .iter()
            .all(|filter| words.contains(&filter.as_str()))
    }
}

/// Reads the arguments.
///
/// # Errors
///
/// What is wrong with them, and what to write instead.
pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Request, String> {
    let (mut filters, mut rounds, mut quick) = (Vec::new(), None, false);
    let (mut directory, mut raw) = (std::env::temp_dir(), false);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Cargo passes it to every benchmark.
            "--bench" => {}
            "--help" | "-h" => return Ok(Request::Help),
            "--quick" => quick = true,
            "--raw" => raw = true,
            "--rounds" => rounds = Some(parse_rounds(arguments.next())?),
            "--dir" => directory = arguments.next().ok_or("--dir wants a directory")?.into(),
            flag if flag.starts_with('-') => return Err(format!("there is no option `{flag}`")),
            words => filters.extend(words.split_whitespace().map(str::to_owned)),
        }
    }
    let (rounds_default, sample_ms) = if quick { (5, 60) } else { (7, 250) };
    Ok(Request::Compare(Options {
        filters,
        rounds: rounds.unwrap_or(rounds_default),
        sample: Duration::from_millis(sample_ms),
        directory,
        raw,
    }))
}

fn parse_rounds(argument: Option<String>) -> Result<usize, String> {
    let argument = argument.ok_or("--rounds wants a number after it")?;
    match argument.parse() {
        Ok(rounds) if ROUNDS.contains(&rounds) => Ok(rounds),
        _ => Err(format!("--rounds wants 5 to 1000, not `{argument}`")),
    }
}
