//! Command line options for rounds, and for the file of the results.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::results::Results;

/// The number of rounds and the length of a measurement, for `#[command(flatten)]`.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use clap::Parser;
/// use evenkeel_measure::options::RoundOptions;
///
/// #[derive(Parser)]
/// struct Arguments {
///     #[command(flatten)]
///     rounds: RoundOptions,
/// }
///
/// let quick = Arguments::parse_from(["bench", "--quick"]).rounds;
/// assert_eq!(quick.rounds(), 5);
/// assert_eq!(quick.sample(Duration::from_millis(400)), Duration::from_millis(100));
/// ```
#[derive(Args, Clone, Debug)]
pub struct RoundOptions {
    /// Rounds for each row, 5 to 1000: fewer say nothing about the spread [default: 7].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(5..=1_000))]
    rounds: Option<u16>,
    /// A quarter of the time for each measurement, and 5 rounds: to see that
    /// it runs, not to judge by
    #[arg(long, verbatim_doc_comment)]
    quick: bool,
    /// Cargo passes it to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

impl RoundOptions {
    /// The number of rounds: as given, else 7, or 5 with `--quick`.
    pub fn rounds(&self) -> usize {
        let default = if self.quick { 5 } else { 7 };
        self.rounds.unwrap_or(default).into()
    }

    /// The length of one measurement: `ordinary`, or a quarter of it with `--quick`.
    pub fn sample(&self, ordinary: Duration) -> Duration {
        if self.quick { ordinary / 4 } else { ordinary }
    }
}

/// Where the results go besides the terminal, for `#[command(flatten)]`.
///
/// # Examples
///
/// ```
/// use clap::Parser;
/// use evenkeel_measure::options::JsonOption;
///
/// #[derive(Parser)]
/// struct Arguments {
///     #[command(flatten)]
///     json: JsonOption,
/// }
///
/// // Without `--json FILE`, tables are only printed.
/// let arguments = Arguments::parse_from(["bench"]);
/// let results = arguments.json.begin("bench")?;
/// # drop(results);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Args, Clone, Debug, Default)]
pub struct JsonOption {
    /// Write the tables to this file as JSON, too
    #[arg(long = "json", value_name = "FILE")]
    path: Option<PathBuf>,
}

impl JsonOption {
    /// Results that go to the file, if one is named.
    ///
    /// # Errors
    ///
    /// As [`Results::begin`].
    pub fn begin(&self, name: &str) -> io::Result<Results> {
        Results::begin(name, self.path.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    fn parsed<O: Args + FromArgMatches>(line: &str) -> Result<O, clap::Error> {
        let words = line.split_whitespace();
        let matches = O::augment_args(Command::new("bench")).try_get_matches_from(words)?;
        O::from_arg_matches(&matches)
    }

    #[test]
    fn rounds_are_as_asked_for_or_as_usual() {
        for (line, rounds, sample_ms) in [
            ("bench", 7, 400),
            ("bench --bench", 7, 400),
            ("bench --rounds 12", 12, 400),
            ("bench --quick", 5, 100),
            ("bench --quick --rounds 1000 --bench", 1_000, 100),
        ] {
            let options: RoundOptions = parsed(line).expect(line);
            assert_eq!(options.rounds(), rounds, "{line}");
            let sample = options.sample(Duration::from_millis(400));
            assert_eq!(sample.as_millis(), sample_ms, "{line}");
        }
    }

    #[test]
    fn too_few_and_too_many_are_refused() {
        for line in ["bench --rounds 4", "bench --rounds 1001", "bench --rounds"] {
            assert!(parsed::<RoundOptions>(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_file_is_named_once_or_not_at_all() {
        let path = |line: &str| parsed::<JsonOption>(line).expect(line).path;
        assert_eq!(path("bench"), None);
        assert_eq!(path("bench --json a.json"), Some("a.json".into()));
        assert!(parsed::<JsonOption>("bench --json").is_err());
    }
}
