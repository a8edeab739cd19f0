//! The command line.

use std::ffi::OsString;
use std::process::ExitCode;
use std::slice;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::error::{Error, Result};
use crate::experiments::{EXPERIMENTS, Named};
use crate::load::LoadArgs;
use crate::report::picture::{self, PictureArgs};
use crate::serve::ServeArgs;
use crate::split::SplitArgs;
use crate::trial::args::RunArgs;
use crate::{experiments, load, serve, split};

/// The experiments that hold evenkeel's promise against its peers.
///
/// Without a command: all experiments, shortened to some three and a half minutes, ending in
/// tables, lab-report.html and lab-report.json. Other programs distort the figures: run nothing
/// else meanwhile.
///
/// `evenkeel-lab <experiment> --help` says how long it takes.
#[derive(Parser)]
#[command(
    name = "evenkeel-lab",
    version,
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  evenkeel-lab                                        all experiments, in brief
  evenkeel-lab responsive --seconds 10                one experiment, with full figures
  evenkeel-lab busywait --peers tokio,erlang --json busywait.json
  evenkeel-lab busywait --rounds 5 --compare busywait.json
                                                      ... and what has moved since
  evenkeel-lab serve tokio --echo 127.0.0.1:7000      one side alone ...
  evenkeel-lab load echo 127.0.0.1:7000               ... and the other

Peers that are not installed are left out, with a line that says so; lab/setup.sh installs them."
)]
struct All {
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Tool {
    /// The server side alone, for the lab and for any load generator.
    Serve(Box<ServeArgs>),
    /// The load generators alone.
    Load(LoadArgs),
    /// One split of processor time among classes alone.
    Split(SplitArgs),
    /// The program evenkeel-proxy, as it is: `evenkeel-lab evenkeel-proxy run FILE`.
    EvenkeelProxy(proxy::cli::Arguments),
    /// The program evenkeel-cameras, as it is: `evenkeel-lab evenkeel-cameras run FILE`.
    EvenkeelCameras(cameras::cli::Arguments),
    /// One plot of a report as a picture (SVG), from the report's JSON.
    #[command(after_help = "\
Example:
  evenkeel-lab responsive --seconds 4 --json responsive.json
  evenkeel-lab picture responsive.json responsive responsive.svg")]
    Picture(PictureArgs),
}

/// What the command line asks for.
pub(crate) enum Cli {
    All(RunArgs),
    One(&'static Named, RunArgs),
    Tool(Tool),
}

/// The experiments, each with its page as its help, and then the tools.
fn command() -> clap::Command {
    Tool::augment_subcommands(All::command().subcommands(EXPERIMENTS.iter().map(Named::command)))
}

impl Cli {
    /// Reads the words that the program was started with.
    pub(crate) fn read(words: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let matches = command().try_get_matches_from(words)?;
        let Some((name, of)) = matches.subcommand() else {
            return RunArgs::from_arg_matches(&matches).map(Cli::All);
        };
        match EXPERIMENTS
            .iter()
            .find(|experiment| experiment.name == name)
        {
            Some(experiment) => Ok(Cli::One(experiment, RunArgs::from_arg_matches(of)?)),
            None => Tool::from_arg_matches(&matches).map(Cli::Tool),
        }
    }

    /// Does what it asks for.
    /// A peer that is missing is no error.
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Cli::All(mut args) => {
                args.json.get_or_insert("lab-report.json".into());
                args.html.get_or_insert("lab-report.html".into());
                experiments::run(EXPERIMENTS, &args)
            }
            Cli::One(experiment, args) => experiments::run(slice::from_ref(experiment), &args),
            Cli::Tool(Tool::Serve(args)) => serve::run(Box::leak(args)),
            Cli::Tool(Tool::Load(args)) => load::run(&args),
            Cli::Tool(Tool::Split(args)) => split::run(&args),
            Cli::Tool(Tool::Picture(args)) => picture::run(&args),
            Cli::Tool(Tool::EvenkeelProxy(args)) => well("evenkeel-proxy", proxy::cli::run(args)),
            Cli::Tool(Tool::EvenkeelCameras(args)) => {
                well("evenkeel-cameras", cameras::cli::run(args))
            }
        }
    }
}

/// The program has said itself what went wrong; the lab says that it did.
fn well(program: &str, ended: ExitCode) -> Result<()> {
    match ended == ExitCode::SUCCESS {
        true => Ok(()),
        false => Err(Error::new(format!(
            "{program} failed; its own words are above"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::peers::Peer;

    fn read(line: &str) -> Result<Cli, clap::Error> {
        Cli::read(line.split_whitespace().map(OsString::from))
    }

    fn parse(line: &str) -> Result<Cli, String> {
        read(line).map_err(|error| error.to_string())
    }

    fn complaint(line: &str) -> String {
        parse(line)
            .err()
            .unwrap_or_else(|| panic!("`{line}` was taken"))
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn all_experiments_run_without_a_name() {
        let cli = parse("evenkeel-lab --peers tokio --seconds 0.5").expect("a good line");
        let Cli::All(args) = cli else {
            panic!("it names no experiment");
        };
        assert_eq!(args.peers, [Peer::Tokio]);
        assert_eq!(args.seconds, Some(Duration::from_millis(500)));
    }

    #[test]
    fn load_takes_its_flags_before_and_after_its_generator() {
        for line in [
            "evenkeel-lab load --json --pin 0 echo 127.0.0.1:1",
            "evenkeel-lab load echo 127.0.0.1:1 --json --pin 0",
        ] {
            let cli = parse(line).expect("a good line");
            assert!(matches!(cli, Cli::Tool(Tool::Load(_))));
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
    fn every_experiment_teaches_what_it_does() {
        for name in EXPERIMENTS.iter().map(|experiment| experiment.name) {
            let mut cli = command();
            let command = cli
                .find_subcommand_mut(name)
                .expect("a command of that name");
            let help = command.render_long_help().to_string();
            for part in [
                "Claimed: ",
                "Started: ",
                "Measured: ",
                "Takes: ",
                "Look at: ",
                "Examples:\n",
            ] {
                assert!(help.contains(part), "{name} does not say `{part}`:\n{help}");
            }
            assert!(help.contains("--pin") && help.contains("the last quarter"));
        }
    }

    #[test]
    fn examples_can_be_run() {
        let cli = command();
        let mut run = 0;
        for command in cli.get_subcommands().chain([&cli]) {
            let after = command.get_after_help().map(ToString::to_string);
            for line in after.unwrap_or_default().lines() {
                let Some(at) = line.find("evenkeel-lab ") else {
                    continue;
                };
                // What explains an example stands apart from it.
                let example = line[at..].split("   ").next().unwrap_or_default();
                let example = example.split(" ...").next().unwrap_or_default().trim();
                let parsed = read(example);
                assert!(parsed.is_ok(), "{example}: {:?}", parsed.err());
                run += 1;
            }
        }
        assert!(run > 20, "{run}");
    }
}
