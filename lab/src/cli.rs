//! The command line.

use clap::{Parser, Subcommand};

use crate::error::Result;
use crate::load::LoadArgs;
use crate::report::picture::{self, PictureArgs};
use crate::serve::ServeArgs;
use crate::split::SplitArgs;
use crate::trial::args::RunArgs;
use crate::{experiments, load, serve, split};

/// The experiments that hold evenkeel's promise against its peers.
///
/// Without a command: all experiments, shortened to two to three minutes, ending in tables,
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
    ///
    /// Started: an echo server of each runtime, with hogs in it that compute for 100 us or 10 ms a
    /// poll or never return, or with fresh tasks that compute for 20 ms; and, as the kernel's own
    /// limit, one thread that echoes beside as many that spin. Load sends 1 000 requests a second.
    ///
    /// Measured: how long the echo takes, in an open loop, so that what is not answered counts with
    /// the time waited; and how much the hogs compute, without the probe and beside it.
    ///
    /// Takes: 40 seconds in brief; with --seconds 10 half an hour, a third of it with --rounds 1.
    ///
    /// Look at: the column `evenkeel` of the first table beside `OS thread`; then the verdicts: its
    /// p99 over the lone thread's, its p99.9 over Erlang's and in microseconds, the work that the
    /// hogs keep; and beside the fresh tasks its p99 over Tokio's.
    #[command(after_help = "\
Examples:
  evenkeel-lab responsive --seconds 10 --rounds 1
  evenkeel-lab responsive --seconds 4 --peers tokio --html responsive.html")]
    Responsive(RunArgs),
    /// Handlers that answer at once beside handlers that compute for long or block their thread.
    ///
    /// Started: a server of each runtime. 200 calls a second over fresh and kept connections of
    /// HTTP/1.1 and over HTTP/2, of which one in four computes for 20 ms, spawned by the line of
    /// source that spawns the others, and by another; the same as bare tasks. 40 and 400 handlers
    /// that block for 2 s. 10 POSTs a second that compute for 50 ms.
    ///
    /// Measured: how long the other calls take, in an open loop; how long a fresh task waits for
    /// its first poll; how long the POSTs take themselves; and an echo beside those that block
    /// and beside the POSTs.
    ///
    /// Takes: half a minute in brief; with --seconds 10 twenty minutes, a third of it with
    /// --rounds 1.
    ///
    /// Look at: `one line` beside `a line each`: the verdicts ask for 1.5 times as long at most.
    /// The wait beside 400 handlers that block, at most 1 ms at the 99th percentile, and the POSTs'
    /// p99, at most 1.15 times Tokio's.
    #[command(after_help = "\
Examples:
  evenkeel-lab services --seconds 10 --rounds 1
  evenkeel-lab services --seconds 4 --peers tokio --html services.html")]
    Services(RunArgs),
    /// What checking for I/O costs and brings: HTTP, a proxy, and hogs with little I/O.
    ///
    /// Started: an HTTP server of each runtime under short connections (`ab` if it is installed); a
    /// TCP proxy in front of a private MariaDB under `sysbench`, or of a request/response pair
    /// where these are not installed; an echo beside up to 32 hogs for each worker. Evenkeel takes
    /// part twice, with its bound of 100 us between two checks and with 10 ms.
    ///
    /// Measured: requests a second, their p99, processor time and context switches for each;
    /// evenkeel's I/O checks by origin, and how many found nothing; how long the echo takes.
    ///
    /// Takes: half a minute in brief; with --seconds 10 ten minutes.
    ///
    /// Look at: evenkeel's two rows, whose requests a second should not differ by more than the
    /// rounds do; and the echo's p99 beside 32 hogs for each worker, which should not grow with
    /// their number. There are no verdicts.
    #[command(after_help = "\
Examples:
  evenkeel-lab checks --seconds 10
  evenkeel-lab checks --peers tokio --json checks.json")]
    Checks(RunArgs),
    /// What spinning before parking costs and brings, level by level.
    ///
    /// Started: a server of each runtime, at each level of busy wait that it has, that reads 700
    /// connections of 1 Mbit/s each, in ten writes a second; and a probe of 200 requests a second
    /// beside them.
    ///
    /// Measured: the server's processor time, how much of it ran tasks and how much was spun, the
    /// probe's p50 and p99, context switches.
    ///
    /// Takes: a quarter of a minute in brief, with three levels; with --seconds 10 nine minutes,
    /// with all of them.
    ///
    /// Look at: CPU of `evenkeel, adaptive`, the default, beside `erlang, none`: it should not be
    /// more. What a longer level gains is in p50 and p99, what it costs in `spin`. There are no
    /// verdicts.
    #[command(after_help = "\
Examples:
  evenkeel-lab busywait --seconds 10
  evenkeel-lab busywait --peers tokio,erlang --json busywait.json")]
    Busywait(RunArgs),
    /// Processor time of classes against their weights, second by second.
    ///
    /// Started: no server and no load, but processes with four computing tasks in every class, by
    /// several sets of weights; polls are of 100 us, or of mixed lengths, and with and without hogs
    /// in the last class.
    ///
    /// Measured: what each class had of the processors in each second, by the runtime's accounts,
    /// and by what the tasks counted themselves.
    ///
    /// Takes: a quarter of a minute in brief; with --seconds 10 eleven minutes. More rounds are
    /// more seconds of which the worst counts.
    ///
    /// Look at: `worst error`, in per cent of all processor time: at most 2, with hogs 5; and `own
    /// count`, which should say the same. `least` says that no class had nothing.
    #[command(after_help = "\
Examples:
  evenkeel-lab shares --seconds 10
  evenkeel-lab split evenkeel --weights 1,10 --workers 2       one split alone")]
    Shares(RunArgs),
    /// A relay between bulk, short connections and an admin page, beside HAProxy.
    ///
    /// Started: an origin; in front of it a relay of evenkeel with classes and without, of Tokio,
    /// and HAProxy where it is installed; 200 clients that fetch objects of 1 MB, 100 that fetch
    /// empty ones, and 200 calls a second of an admin page in the relay's own process. On two
    /// processors or three, servers have half and load the other, unless --pin says otherwise.
    ///
    /// Measured: bytes and connections a second, how long admin calls take, processor time of the
    /// relay; and the same with bulk alone and with the admin page alone.
    ///
    /// Takes: a quarter of a minute in brief; with --seconds 10 twelve minutes, with more shares,
    /// more bounds between I/O checks and more settings of HAProxy.
    ///
    /// Look at: the admin page's p99 beside HAProxy's, and how much of the bulk is kept: the
    /// verdicts ask for a fifth of the one and 95 % of the other.
    #[command(after_help = "\
Examples:
  evenkeel-lab classes --seconds 10
  evenkeel-lab classes --pin 1 --html classes.html               load on processor 1")]
    Classes(RunArgs),
    /// Many small packets from cameras, and an API call beside them.
    ///
    /// Started: 350 cameras that send 500 Mbit/s in all in numbered frames of 1 460 bytes, to a
    /// server that checks and records each, passes every tenth camera on to a viewer, and answers
    /// an API call that computes for 20 ms. Evenkeel takes part with several modes of delivery;
    /// beside it Tokio, and OTP, which asks for more after 100 ms. On two processors or three,
    /// servers have half and load the other, unless --pin says otherwise.
    ///
    /// Measured: how long the API call takes over its time without cameras, processor time for each
    /// MB, deliveries a second, how long a frame takes to its reader, frames lost; how busy others
    /// kept the machine.
    ///
    /// Takes: a quarter of a minute in brief, with the even storm; with --seconds 10 more than an
    /// hour, a third of it with --rounds 1: with four times the cameras, bursts, and (as root) a
    /// network with Ethernet's segments.
    ///
    /// Look at: `API over idle` and `CPU per MB` of the rows `adaptive` and `coalesce`, beside
    /// `immediate`; `longest added delay`, which is bounded by the 100 ms that they are given;
    /// `frames lost`, which is 0.
    #[command(after_help = "\
Examples:
  evenkeel-lab storm --seconds 10 --rounds 1
  evenkeel-lab storm --seconds 10 --rounds 1 --peers erlang --html storm.html")]
    Storm(RunArgs),
    /// Pings and an unrelated file beside disk work, and a log's durable appends.
    ///
    /// Started: an echo server of each runtime, in which 1 to 32 tasks write 1 byte to 1 MiB to a
    /// file each and sync it, for ever, or 600 open a FIFO that nobody writes to, as a disk that
    /// hangs; a thread for each writer and connection and no runtime, as the kernel's own part;
    /// then logs that 1 000 clients or tasks append to. As root, and where control groups let it,
    /// some of it on a disk that is slow on purpose. Files are in the directory for temporary ones
    /// (`TMPDIR`): set it to the disk that matters.
    ///
    /// Measured: how long a ping takes (500 a second), and asking for the state of a file that
    /// nobody writes to (100 a second), beside that work and without it; syncs a second; durable
    /// appends a second, their p50 and p99, and how long syncs took meanwhile.
    ///
    /// Takes: half a minute in brief, with 1 MiB by 8 writers; with --seconds 10 more than an hour,
    /// a third of it with --rounds 1.
    ///
    /// Look at: `ping p99 over idle` in the verdicts, at most 1.2, and in the table above them the
    /// same of `OS thread`: what the kernel does not give to a lone thread, no runtime can. Then
    /// `appends over one sync each`, to be at least 50, and `append's p99 over a sync's median`, at
    /// most 3.
    #[command(after_help = "\
Examples:
  evenkeel-lab fsync --seconds 10 --rounds 1
  TMPDIR=/mnt/disk evenkeel-lab fsync --seconds 10 --rounds 1 --peers tokio")]
    Fsync(RunArgs),
    /// The server side alone, for the lab and for any load generator.
    Serve(Box<ServeArgs>),
    /// The load generators alone.
    Load(LoadArgs),
    /// One split of processor time among classes alone.
    Split(SplitArgs),
    /// One plot of a report as a picture (SVG), from the report's JSON.
    #[command(after_help = "\
Example:
  evenkeel-lab responsive --seconds 4 --json responsive.json
  evenkeel-lab picture responsive.json responsive responsive.svg")]
    Picture(PictureArgs),
}

/// Runs what the command line asks for.
///
/// # Errors
/// When it cannot be run; a peer that is missing is no error.
pub(crate) fn run(cli: Cli) -> Result<()> {
    match cli.command {
        None => experiments::run_all(&cli.all),
        Some(Command::Responsive(args)) => experiments::run_one("responsive", &args),
        Some(Command::Services(args)) => experiments::run_one("services", &args),
        Some(Command::Checks(args)) => experiments::run_one("checks", &args),
        Some(Command::Busywait(args)) => experiments::run_one("busywait", &args),
        Some(Command::Shares(args)) => experiments::run_one("shares", &args),
        Some(Command::Classes(args)) => experiments::run_one("classes", &args),
        Some(Command::Storm(args)) => experiments::run_one("storm", &args),
        Some(Command::Fsync(args)) => experiments::run_one("fsync", &args),
        Some(Command::Serve(args)) => serve::run(&args),
        Some(Command::Load(args)) => load::run(&args),
        Some(Command::Split(args)) => split::run(&args),
        Some(Command::Picture(args)) => picture::run(&args),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::peers::PeerName;

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
    fn every_experiment_teaches_what_it_does() {
        use clap::CommandFactory;
        for name in crate::experiments::names() {
            let mut cli = Cli::command();
            let command = cli
                .find_subcommand_mut(name)
                .expect("a command of that name");
            let help = command.render_long_help().to_string();
            for part in [
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
        use clap::CommandFactory;
        let cli = Cli::command();
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
                let parsed = Cli::try_parse_from(example.split_whitespace());
                assert!(parsed.is_ok(), "{example}: {:?}", parsed.err());
                run += 1;
            }
        }
        assert!(run > 20, "{run}");
    }
}
