//! How an experiment is run, as the command line says it.

use std::path::PathBuf;
use std::time::Duration;

use crate::load::CpuList;
use crate::peers::Peer;

/// How an experiment is run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RunArgs {
    /// Seconds of each measurement, 10 for full figures; without it an experiment is brief, and its
    /// figures rough.
    #[arg(long, value_name = "S", value_parser = measured_seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Rounds, in each of which every peer has its turn; the median counts [default: 1 in brief,
    /// else 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,
    /// Measure only what has this in its name, as the lines on the way say it, such as
    /// `transactions` of `proxy`.
    ///
    /// Verdicts on what is left out have no figure. Load that belongs to an experiment as a whole
    /// is there all the same.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) only: String,
    /// The program evenkeel-proxy to measure in `proxy`, such as the one that `cargo xtask trained`
    /// builds; without it the one that is built into the lab.
    #[arg(long, value_name = "FILE")]
    pub(crate) proxy: Option<PathBuf>,
    /// Whom to measure beside evenkeel.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "tokio,go,erlang"
    )]
    pub(crate) peers: Vec<Peer>,
    /// Write the raw figures here (all experiments: lab-report.json if not said otherwise).
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the report with its plots here (all experiments: lab-report.html if not said
    /// otherwise).
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Mark what moved since an earlier report, from its JSON.
    ///
    /// A figure has moved if all rounds of one report are above all of the other. Of two reports of
    /// three rounds each, chance moves one figure in ten. Single rounds are not compared.
    #[arg(long, value_name = "OLD.json")]
    pub(crate) compare: Option<PathBuf>,
    /// Where load and servers run: `auto`, `none`, or the load's processors as in `2-3`.
    ///
    /// `auto`: where there are 4 processors or more, load has the last quarter and servers have the
    /// rest, so that neither takes time from the other; where there are fewer, both run anywhere,
    /// except in `classes` and `storm`, which give a half to each. `none`: both run anywhere.
    /// A list, such as `3`, `2-3` or `1,3`: load runs there, and servers on all others. Processors
    /// count from 0, as `lscpu -e` shows them. Servers have as many workers as processors.
    #[arg(long, value_name = "auto|none|LIST", default_value = "auto")]
    pub(crate) pin: Pin,
}

/// Where load runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pin {
    Auto,
    None,
    Load(CpuList),
}

impl std::str::FromStr for Pin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Pin::Auto),
            "none" => Ok(Pin::None),
            list => list.parse().map(Pin::Load),
        }
    }
}

fn measured_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3_600.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err("not between 0.05 and 3600 seconds".to_owned()),
        Err(_) => Err("not a number of seconds, as in `10`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_pinned_by_word_or_by_list() {
        assert_eq!("auto".parse(), Ok(Pin::Auto));
        assert_eq!("none".parse(), Ok(Pin::None));
        assert_eq!("1".parse(), Ok(Pin::Load(CpuList(vec![1]))));
        assert!("all".parse::<Pin>().is_err());
    }
}
