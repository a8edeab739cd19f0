//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::error::Result;
use crate::load::{CpuList, LoadArgs};
use crate::peers::PeerName;
use crate::serve::ServeArgs;
use crate::split::SplitArgs;
use crate::{experiments, load, serve, split};

/// The experiments that hold evenkeel's promise against its peers.
///
/// Without a command: all experiments, shortened to about two minutes, ending in tables,
/// lab-report.html and lab-report.json. A number is only worth the machine's silence: run nothing
/// else meanwhile.
#[derive(Debug, Parser)]
#[command(
    name = "evenkeel-lab",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  evenkeel-lab                                        all experiments, in brief
  evenkeel-lab responsive --seconds 10                one experiment, with full figures
  evenkeel-lab busywait --peers tokio,erlang --json busywait.json
  evenkeel-lab serve tokio --echo 127.0.0.1:7000      one side alone ...
  evenkeel-lab load echo 127.0.0.1:7000               ... and the other

Peers that are not installed are left out, with a line that says so; lab/setup.sh installs them."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    all: RunArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// An echo probe beside tasks that hog the workers.
    Responsive(RunArgs),
    /// What checking for I/O costs and brings: HTTP, a proxy, and hogs with little I/O.
    Checks(RunArgs),
    /// What spinning before parking costs and brings, level by level.
    Busywait(RunArgs),
    /// Processor time of classes against their weights, second by second.
    Shares(RunArgs),
    /// A relay between bulk, short connections and an admin page, beside HAProxy.
    Classes(RunArgs),
    /// Many small packets from cameras, and an API call beside them.
    Storm(RunArgs),
    /// Pings and an unrelated file beside disk work, and a log's durable appends.
    Fsync(RunArgs),
    /// The server side alone, for the lab and for any load generator.
    Serve(Box<ServeArgs>),
    /// The load generators alone.
    Load(LoadArgs),
    /// One split of processor time among classes alone.
    Split(SplitArgs),
}

/// How an experiment is run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RunArgs {
    /// Seconds of each measurement; without it an experiment is brief, and its figures rough.
    #[arg(long, value_name = "S", value_parser = measured_seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Rounds, in each of which every peer has its turn; the median counts [default: 1 in brief,
    /// else 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,
    /// Whom to measure beside evenkeel.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "tokio,go,erlang"
    )]
    pub(crate) peers: Vec<PeerName>,
    /// Write the raw figures here (all experiments: lab-report.json if not said otherwise).
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the report with its plots here (all experiments: lab-report.html if not said
    /// otherwise).
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Where load runs: `auto` (on 4 processors and more the last quarter, apart from the servers;
    /// on fewer anywhere), `none` (anywhere), or a list as in `2-3`, which the servers then leave
    /// alone.
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

/// Runs what the command line asks for.
///
/// # Errors
/// When it cannot be run; a peer that is missing is no error.
pub(crate) fn run(cli: Cli) -> Result<()> {
    match cli.command {
        None => experiments::run_all(&cli.all),
        Some(Command::Responsive(args)) => experiments::run_one("responsive", &args),
        Some(Command::Checks(args)) => experiments::run_one("checks", &args),
        Some(Command::Busywait(args)) => experiments::run_one("busywait", &args),
        Some(Command::Shares(args)) => experiments::run_one("shares", &args),
        Some(Command::Classes(args)) => experiments::run_one("classes", &args),
        Some(Command::Storm(args)) => experiments::run_one("storm", &args),
        Some(Command::Fsync(args)) => experiments::run_one("fsync", &args),
        Some(Command::Serve(args)) => serve::run(&args),
        Some(Command::Load(args)) => load::run(&args),
        Some(Command::Split(args)) => split::run(&args),
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

    fn parse(line: &str) -> Result<Cli, String> {
        Cli::try_parse_from(line.split(' ')).map_err(|error| error.to_string())
    }

    fn complaint(line: &str) -> String {
        parse(line)
            .err()
            .unwrap_or_else(|| panic!("`{line}` was taken"))
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn all_experiments_run_without_a_name() {
        let cli = parse("evenkeel-lab --peers tokio --seconds 0.5").expect("a good line");
        assert!(cli.command.is_none());
        assert_eq!(cli.all.peers, [PeerName::Tokio]);
        assert_eq!(cli.all.seconds, Some(Duration::from_millis(500)));
    }

    #[test]
    fn load_takes_its_flags_before_and_after_its_generator() {
        for line in [
            "evenkeel-lab load --json --pin 0 echo 127.0.0.1:1",
            "evenkeel-lab load echo 127.0.0.1:1 --json --pin 0",
        ] {
            let cli = parse(line).expect("a good line");
            assert!(matches!(cli.command, Some(Command::Load(_))));
        }
        assert!(parse("evenkeel-lab checks --json out --pin none").is_ok());
    }

    #[test]
    fn complaints_name_what_is_wrong() {
        let bad_address = complaint("evenkeel-lab serve tokio --echo localhost");
        assert!(
            bad_address.contains("'localhost' for '--echo <ADDR>'"),
            "{bad_address}"
        );
        let bad_runtime = complaint("evenkeel-lab serve smol --echo 127.0.0.1:0");
        assert!(
            bad_runtime.contains("'smol'") && bad_runtime.contains("evenkeel"),
            "{bad_runtime}"
        );
        let bad_level = complaint("evenkeel-lab serve tokio --echo 127.0.0.1:0 --busy-wait lots");
        assert!(bad_level.contains("very_long"), "{bad_level}");
        let bad_peer = complaint("evenkeel-lab responsive --peers tokio,rust");
        assert!(
            bad_peer.contains("'rust'") && bad_peer.contains("erlang"),
            "{bad_peer}"
        );
        let bad_seconds = complaint("evenkeel-lab checks --seconds 1h");
        assert!(bad_seconds.contains("--seconds"), "{bad_seconds}");
        let bad_poll = complaint("evenkeel-lab serve tokio --hogs 2 --hog-poll-us often");
        assert!(
            bad_poll.contains("neither a number of microseconds nor `never`"),
            "{bad_poll}"
        );
        let zero_workers = complaint("evenkeel-lab serve tokio --echo 127.0.0.1:0 --workers 0");
        assert!(zero_workers.contains("--workers"), "{zero_workers}");
    }

    #[test]
    fn load_is_pinned_by_word_or_by_list() {
        assert_eq!("auto".parse(), Ok(Pin::Auto));
        assert_eq!("none".parse(), Ok(Pin::None));
        assert_eq!("1".parse(), Ok(Pin::Load(CpuList(vec![1]))));
        assert!("all".parse::<Pin>().is_err());
    }
}
