//! What the command line asks for.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use evenkeel_measure::options::{JsonOption, RoundOptions};

use crate::help;

/// How long one contender is measured at a time.
const SAMPLE: Duration = Duration::from_millis(250);

/// Reads and writes of files by Evenkeel and by Tokio, measured in turn.
#[derive(Parser)]
#[command(
    bin_name = "cargo bench -p evenkeel --all-features --bench vs_tokio_fs --",
    after_help = help::text()
)]
pub(crate) struct Options {
    /// Only the rows whose name has each of these words, such as 'read cached x32'.
    words: Vec<String>,
    #[command(flatten)]
    rounds: RoundOptions,
    #[command(flatten)]
    pub(crate) json: JsonOption,
    /// Print the figures of each round, too.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Where the files are made and removed, 1.1 GB.
    #[arg(long, value_name = "DIRECTORY", default_value_os_t = std::env::temp_dir())]
    pub(crate) dir: PathBuf,
}

impl Options {
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.rounds()
    }

    pub(crate) fn sample(&self) -> Duration {
        self.rounds.sample(SAMPLE)
    }

    pub(crate) fn wants(&self, row: &str) -> bool {
        let mut filters = self.words.iter().flat_map(|words| words.split_whitespace());
        filters.all(|filter| row.split(' ').any(|word| word == filter))
    }
}
