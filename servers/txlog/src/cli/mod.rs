//! The commands and their arguments.

mod access;
mod allocator;
mod append;
mod bench;
mod bench_tcp;
mod beside;
mod client;
mod consume;
mod descriptors;
mod logs;
mod nats;
mod place;
mod serve;
mod supervisor;
mod trim;
mod upkeep;
mod verify;

use std::error::Error;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use clap::{Args, Parser, Subcommand};
use evenkeel::runtime::Runtime;
use evenkeel_measure::options::JsonOption;
use txlog::advice;
use txlog::log::LogError;

use self::access::{SecurityArguments, ServerArgument, TokenArguments};

/// How a command ends.
pub(crate) type Outcome = Result<ExitCode, Box<dyn Error + Send + Sync>>;

/// How long a runtime may take to end.
const SHUTDOWN_MAX: Duration = Duration::from_secs(5);

/// The most producers that a log may know.
const PRODUCERS_MAX: usize = 16_384;

/// A server that keeps a durable log of records.
///
/// A record is acknowledged when it would survive a crash of the machine. Records that arrive while
/// the disk syncs are made durable together by the next sync.
///
/// Try it, in two terminals:
///
///   txlog serve --dir /tmp/log
///   echo hello | txlog append; txlog read --follow
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<ServeArguments>),
    Append(AppendArguments),
    Read(ReadArguments),
    Ping(PingArguments),
    Logs(logs::ListArguments),
    Cursors(consume::CursorsArguments),
    Verify(VerifyArguments),
    Backup(upkeep::BackupArguments),
    Restore(upkeep::RestoreArguments),
    Trim(trim::TrimArguments),
    Repair(upkeep::RepairArguments),
    Bench(BenchArguments),
    Token(TokenArguments),
}

/// Serve a log until ctrl-c; a second ctrl-c ends at once.
///
/// Prints `listening on ADDRESS` when it accepts connections, and on standard error the records
/// that it finds in the directory, and errors. At ctrl-c, or SIGTERM, it takes no more requests,
/// makes accepted records durable, answers, and ends.
///
/// When a write or a sync has failed, as on a full disk, it says so, continues to answer reads, and
/// refuses appends: make room, and start it again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  txlog serve --dir /var/lib/txlog/main
  txlog serve --dir /var/lib/txlog/main --keep-bytes 10000000000
  txlog serve --dir /var/lib/txlog/main --logs /var/lib/txlog/logs --create-logs
  txlog serve --dir /var/lib/txlog/main --tokens /etc/txlog/tokens
  txlog serve --nats 127.0.0.1:4222 --stream orders
  txlog serve --nats nats.example.org:4222 --nats-ca ca.pem --nats-creds txlog.creds")]
pub(crate) struct ServeArguments {
    /// Where to listen; port 0 takes a free one.
    ///
    /// An address that others than this machine can reach needs --tls-cert and --tokens.
    #[arg(long, default_value = "127.0.0.1:7010", value_name = "ADDRESS")]
    pub(crate) listen: String,
    /// The directory of the log, created if necessary; one server at a time can use it.
    ///
    /// Clients that name no log have this one.
    #[arg(long, value_name = "PATH", required_unless_present_any = ["nats", "logs"])]
    pub(crate) dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) logs: logs::LogsArguments,
    #[command(flatten)]
    pub(crate) nats: nats::NatsArguments,
    #[command(flatten)]
    pub(crate) security: SecurityArguments,
    /// The largest record, in bytes; 64 MiB at most.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20)]
    pub(crate) record_bytes_max: usize,
    /// A file of the log is followed by a new one at this size, of 100 bytes or more.
    ///
    /// With the least of them, each record is in a file of its own.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20,
        value_parser = RangedU64ValueParser::<u64>::new().range(100..))]
    pub(crate) segment_bytes: u64,
    /// Keep so many bytes; whole files go, the oldest first. 0 keeps all.
    ///
    /// A file has no more than a quarter of what is kept, by this and by --keep-records, so at most
    /// a little more is there for a while.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub(crate) keep_bytes: u64,
    /// Keep so many records; 0 keeps all.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) keep_records: u64,
    /// Keep records so long; 0 keeps all.
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    pub(crate) keep_seconds: u64,
    /// How many producers a log knows, each in 3 KiB of memory at most.
    ///
    /// A producer numbers its records, so that those which it repeats are stored once. If there are
    /// more, those are forgotten that have stored nothing for the longest time. A log with a name
    /// knows 128 at most.
    #[arg(long, value_name = "COUNT", default_value_t = 1_024, conflicts_with = "nats",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=PRODUCERS_MAX as u64))]
    pub(crate) producers_max: usize,
    /// How many connections to take.
    ///
    /// 32 more are taken that may ping, but not append or read, so that a full server answers.
    #[arg(long, value_name = "COUNT", default_value_t = 1_024)]
    pub(crate) connections_max: usize,
    /// How much memory all connections together may take for requests and answers.
    ///
    /// 64 KiB are set aside for each connection that there may be; of the rest, a quarter is for
    /// appends and the others are for reads. Requests wait for memory in the order in which they
    /// came; while some wait, connections that hold memory and make no progress are cut off.
    ///
    /// On top come the program and what its allocator leaves unused; of the log without a name a
    /// buffer of 2 MiB, or of its largest append if that is more, 3 KiB for each producer that it
    /// knows, and 16 bytes for each 64 KiB that were written or read since its start; without
    /// --no-hog-names, the tables by which a function is named; and the kernel's own buffers of the
    /// connections. With --nats, up to 64 MiB come on top for records that NATS has not
    /// acknowledged, and 64 MiB for what it is asked to read: of all streams together. A stream of
    /// --stream-prefix has 16 MiB of the former at most.
    #[arg(long, value_name = "BYTES", default_value_t = 512 << 20)]
    pub(crate) memory_bytes: usize,
    /// Do not name the functions that keep a processor for long, in metrics and reports.
    ///
    /// To name one the server reads the tables of its own program, which takes up to some hundred
    /// MiB if it has debug information, and gives that back when none was named for 10 seconds.
    #[arg(long)]
    pub(crate) no_hog_names: bool,
    /// How many appends of one connection may be under way.
    #[arg(long, value_name = "COUNT", default_value_t = 4_096)]
    pub(crate) appends_max: usize,
    /// Serve metrics, a page and `/healthz` there, by HTTP: an address and a port, or `unix:PATH`.
    ///
    /// `/healthz` has status 503 when an append to an open log would not be acknowledged within a
    /// second, `/metrics` is for Prometheus. Without --admin-token-file, only a loopback address or
    /// a Unix socket can be listened on.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) admin: Option<String>,
    /// The file with the token that requests to --admin have to carry.
    #[arg(long, value_name = "FILE", requires = "admin")]
    pub(crate) admin_token_file: Option<PathBuf>,
    /// End with exit code 3 when the log has failed for good, instead of answering reads.
    ///
    /// For a supervisor that starts it again, as the log is repaired by that. The exit code is 4 if
    /// the log's directory or its newest file was removed or replaced: then a start would begin
    /// another log in its place, and somebody has to look. This is about the log without a name:
    /// one with a name is opened again by its next client. A log in NATS does not fail for good, as
    /// it goes on when NATS does.
    #[arg(long, conflicts_with = "nats")]
    pub(crate) exit_on_failure: bool,
}

/// Append records, and print their numbers once they are durable.
///
/// Without arguments, each line of the input is a record. Lines that come while others are under
/// way are sent together. When the connection ends, it connects again, and repeats what was not
/// answered; the server sees that it is repeated, so that nothing is stored twice. It does not wait
/// for a log that has failed for good, but for one in NATS when NATS is away.
///
/// At the first record that fails, and at ctrl-c, it ends, and says of all records that it has
/// taken which are stored, which are surely not, and which may be: those were sent, and it could
/// not be found out what became of them. Records that it has not taken are not mentioned.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  txlog append 'an entry' 'another one'
  tail -F events.txt | txlog append --server 10.0.0.7:7010")]
pub(crate) struct AppendArguments {
    #[command(flatten)]
    pub(crate) server: ServerArgument,
    /// How long to try for, while there is no connection or the server does not answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) give_up_after: u64,
    /// The records.
    pub(crate) records: Vec<String>,
}

/// Print records: the number of each, a tab, its bytes as they were appended, and a newline.
///
/// Fails if the first requested record is no longer kept, and says which is the oldest; and if it
/// is beyond the next one to come, as the log is then not the one that was read before.
///
/// A cursor says where a reader was, and in which log: a later `read` that resumes from it fails if
/// the log was replaced by another one in the meantime, or has lost records.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  txlog read                           all records
  txlog read --from 120 --count 10     ten of them
  txlog read --from 120 --follow       and new ones
  txlog read --tail 10 --follow        the last ten, and new ones
  txlog read --since 2h                those of the last two hours
  txlog read --consumer billing -f     those not read by this name before, and new ones
  txlog read --show-cursor             all, and in the end `cursor: 1a2b3c4d-0-130`
  txlog read --cursor 1a2b3c4d-0-130   those that came since")]
pub(crate) struct ReadArguments {
    #[command(flatten)]
    pub(crate) server: ServerArgument,
    #[command(flatten)]
    pub(crate) place: place::PlaceArguments,
    /// In the end, print the cursor of the next record on standard error.
    #[arg(long)]
    pub(crate) show_cursor: bool,
    /// At the end, wait for more, until ctrl-c.
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// How long to try for, while there is no connection; without it, for ever.
    #[arg(long, value_name = "SECONDS", requires = "follow")]
    pub(crate) give_up_after: Option<u64>,
    /// End after this many records.
    #[arg(long, value_name = "COUNT")]
    pub(crate) count: Option<u64>,
}

/// Ask whether the server answers, and how soon.
///
/// Fails if it does not: at once if the connection is refused, within ten seconds if the server is
/// silent.
///
/// With `--writable` it asks whether an append would be acknowledged within a time, and fails if
/// not. No record is written: the server goes by whether its log has failed, by how long the oldest
/// pending append has waited, and by how long the last one took, for ten seconds. If there was none
/// since, it writes the log's MARK, syncs it, and sees whether the disk has room for what the log's
/// file grows by. What only a larger file would meet is not noticed, such as a quota or a limit of
/// file sizes. A NATS that hangs is noticed within about five seconds, as a server over NATS asks
/// it each second, and sooner when somebody appends.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  txlog ping --count 1 --server 10.0.0.7:7010 || echo 'it does not answer'
  txlog ping --count 1 --writable --within 500 || echo 'appends fail, or are slow'")]
pub(crate) struct PingArguments {
    #[command(flatten)]
    pub(crate) server: ServerArgument,
    /// How often to ask.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub(crate) count: u32,
    /// Ask whether an append would be acknowledged in time.
    #[arg(long)]
    pub(crate) writable: bool,
    /// In which time, in milliseconds; 60 seconds at most.
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 1_000,
        requires = "writable"
    )]
    pub(crate) within: u64,
}

/// Check every record of a log or a backup, and change nothing.
///
/// Fails if records that had been durable are damaged, or missing at the end. An end that a crash
/// has torn is not an error: it was never acknowledged, and the next `serve` cuts it off.
///
/// Beside a server, the newest file grows while it is read: what looks like a torn end is a write
/// under way then. It says so, and up to where the records are known to be durable.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  txlog verify /var/lib/txlog/main
  txlog verify /backup/monday")]
pub(crate) struct VerifyArguments {
    /// The directory of the log, or of a backup.
    pub(crate) dir: PathBuf,
}

/// Measure durable appends per second here, beside one sync per record.
///
/// Both write to the same directory, in turns, so that they meet the same disk. A log of a server
/// is no good place: it has to be empty. It takes 18 seconds, of which each turn has three, and
/// prints a line for each in the end: look at `per sync`, how many records shared one, and at the
/// last line, how many times the appends of one sync each that came to.
///
/// With --tcp the appends come over TCP to a server that is a process of its own: first those of
/// 1 000 connections, each with one at a time, and with one batch of 16 at a time, beside one sync
/// for each record; then those of 16 clients with 64 pending each, beside a JetStream that syncs
/// each record, if a nats-server of version 2.10 or newer is installed. Servers and clients share
/// this machine's processors: the table says how much each takes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  txlog bench /var/lib/bench
  txlog bench /var/lib/bench --appenders 100 --record-bytes 4096 --seconds 10
  txlog bench /var/lib/bench --tcp --rounds 5
  txlog bench /var/lib/bench --tcp --nats-server /opt/nats/nats-server --json bench.json")]
pub(crate) struct BenchArguments {
    /// An empty directory on the disk to measure; made if need be, and emptied in the end.
    pub(crate) dir: PathBuf,
    /// How many tasks append at a time, each one record after the other.
    #[arg(long, value_name = "COUNT", default_value_t = 1_000)]
    pub(crate) appenders: usize,
    /// The size of a record.
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub(crate) record_bytes: usize,
    /// How often each of the two has its turn.
    #[arg(long, value_name = "COUNT", default_value_t = 3)]
    pub(crate) rounds: u32,
    /// How long a turn takes.
    #[arg(long, value_name = "SECONDS", default_value_t = 3.0)]
    pub(crate) seconds: f64,
    /// How many bytes the log makes its file longer at a time.
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20)]
    pub(crate) ahead_bytes: u64,
    #[command(flatten)]
    pub(crate) tcp: bench_tcp::TcpArguments,
    #[command(flatten)]
    pub(crate) json: JsonOption,
}

/// Records by their numbers, in words.
fn numbers(first: u64, next: u64) -> String {
    match next - first {
        0 => format!("no records; the next is {next}"),
        1 => format!("record {first}"),
        _ => format!("records {first} to {}", next - 1),
    }
}

/// Reports an error of the log in this directory: the log's own errors name only files.
fn of_directory(directory: &Path, error: &LogError) -> String {
    advice::of_log(directory, error)
}

pub(crate) fn run(arguments: Arguments) -> Outcome {
    match arguments.command {
        Command::Serve(arguments) => {
            let runtime = nats::runtime(&arguments)?;
            within(runtime, serve::run(*arguments))
        }
        Command::Append(arguments) => within_runtime(append::append(arguments)),
        Command::Read(arguments) => within_runtime(client::read(arguments)),
        Command::Ping(arguments) => within_runtime(client::ping(arguments)),
        Command::Logs(arguments) => within_runtime(logs::list(arguments)),
        Command::Cursors(arguments) => within_runtime(consume::cursors(arguments)),
        Command::Verify(arguments) => within_runtime(verify::run(arguments)),
        Command::Backup(arguments) => within_runtime(upkeep::backup(arguments)),
        Command::Restore(arguments) => within_runtime(upkeep::restore(arguments)),
        Command::Trim(arguments) => within_runtime(trim::trim(arguments)),
        Command::Repair(arguments) => within_runtime(upkeep::repair(arguments)),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Token(arguments) => access::token(arguments),
    }
}

fn within_runtime(command: impl Future<Output = Outcome>) -> Outcome {
    within(Runtime::new()?, command)
}

fn within(runtime: Runtime, command: impl Future<Output = Outcome>) -> Outcome {
    let outcome = runtime.block_on(command);
    // A call that does not end, such as a read of the terminal, ends with the process.
    let _ = runtime.shutdown(SHUTDOWN_MAX);
    outcome
}
