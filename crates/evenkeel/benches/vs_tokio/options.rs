//! What the command line asks for.

use std::time::Duration;

use clap::Parser;
use clap::builder::NonEmptyStringValueParser;
use evenkeel_measure::options::{JsonOption, RoundOptions};

use crate::help;
use crate::memory::{Runtime, Subject};

/// How long one contender is measured at a time.
const SAMPLE: Duration = Duration::from_millis(400);

/// Evenkeel beside Tokio, on the same loads, measured in turn.
#[derive(Parser)]
#[command(
    bin_name = "cargo bench -p evenkeel --all-features --bench vs_tokio --",
    after_help = help::text()
)]
pub(crate) struct Options {
    /// Only one part (`scheduler`, `network`, `crowd`, `memory`), or only the rows whose
    /// name contains it, such as `echo` or 'spawn_many' or 'echo, 64'
    #[arg(verbatim_doc_comment, value_parser = NonEmptyStringValueParser::new())]
    filter: Option<String>,
    #[command(flatten)]
    rounds: RoundOptions,
    #[command(flatten)]
    pub(crate) json: JsonOption,
    /// In a process that this program starts of itself: print the bytes of one subject.
    #[arg(long, hide = true, requires = "subject")]
    pub(crate) measure_memory: Option<Runtime>,
    #[arg(long, hide = true)]
    pub(crate) subject: Option<Subject>,
    /// In another: hold the other ends of idle connections to this port.
    #[arg(long, hide = true)]
    pub(crate) hold_connections: Option<u16>,
}

impl Options {
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.rounds()
    }

    pub(crate) fn sample(&self) -> Duration {
        self.rounds.sample(SAMPLE)
    }

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
