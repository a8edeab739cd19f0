//! `txlog trim`: of a log that a server has, and of one that is stopped.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use txlog::log::{Disk, LocalDisk, Log, LogConfig, LogError, WouldTrim, would_trim};
use txlog_client::Trim;

use super::access::ServerArgument;
use super::upkeep::cannot_use;
use super::{Outcome, PRODUCERS_MAX, numbers, of_directory};

/// Remove the oldest records of a log.
///
/// A server is asked to do it, as by the other commands, which takes a token that allows `admin`
/// where there are tokens. With a directory it is done here, and no server may have that open.
///
/// Whole files are removed, those of which no record is needed, so some records below the number
/// may be left; it says which is the oldest then. With the number of the next record, all go. There
/// is no way back: make a backup before, if in doubt.
///
/// If consumers have yet to read what would go, by their named cursors, nothing is removed, and it
/// says which they are; --force removes it all the same. Readers that are behind the oldest record
/// fail, and are told which it is.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  txlog trim --before 120000 --dry-run
  txlog trim --server 10.0.0.7:7010 --log orders --before 120000
  txlog trim /var/lib/txlog/main --before 120000    of a stopped log")]
pub(crate) struct TrimArguments {
    /// The directory of a log that no server has open.
    #[arg(conflicts_with_all = ["server", "log", "create", "token_file", "tls_ca"])]
    dir: Option<PathBuf>,
    #[command(flatten)]
    server: ServerArgument,
    /// The number of the oldest record to keep.
    #[arg(long, value_name = "NUMBER")]
    before: u64,
    /// Remove nothing, and say what would go.
    #[arg(long)]
    dry_run: bool,
    /// Remove records also if consumers have yet to read them.
    #[arg(long)]
    force: bool,
}

pub(crate) async fn trim(arguments: TrimArguments) -> Outcome {
    let trim = Trim::before(arguments.before)
        .dry_run(arguments.dry_run)
        .force(arguments.force);
    match &arguments.dir {
        Some(directory) if trim.is_dry_run => would(directory, trim).await,
        Some(directory) => here(directory, trim).await,
        None => at_server(&arguments.server, trim).await,
    }
}

async fn at_server(server: &ServerArgument, trim: Trim) -> Outcome {
    let client = server.connect().await?;
    // Others may trim as well, or retention does: what is said is as of these two moments.
    let first = client.info().first;
    let left = client.trim(trim).await?;
    match trim.is_dry_run {
        true => say_would(first, left, trim),
        false => println!(
            "{}; the oldest is {left} now",
            went(first, left, trim, "went")
        ),
    }
    Ok(ExitCode::SUCCESS)
}

async fn would(directory: &Path, trim: Trim) -> Outcome {
    let stopped = LocalDisk::borrow_stopped(directory).await;
    let disk = stopped.map_err(cannot_use(directory))?;
    let disk = disk.ok_or_else(|| is_served(directory, trim))?;
    let would = would_trim(&disk, trim).await;
    let WouldTrim { first, left, .. } = would.map_err(|error| of_directory(directory, &error))?;
    say_would(first, left, trim);
    Ok(ExitCode::SUCCESS)
}

async fn here(directory: &Path, trim: Trim) -> Outcome {
    let disk = LocalDisk::hold_existing(directory)
        .await
        .map_err(|error| match error.kind() {
            ErrorKind::ResourceBusy => is_served(directory, trim),
            _ => cannot_use(directory)(error),
        })?;
    let trimmed = trim_log(disk, trim).await;
    let (first, next) = trimmed.map_err(|error| of_directory(directory, &error))?;
    println!("it has {} now", numbers(first, next));
    Ok(ExitCode::SUCCESS)
}

async fn trim_log(disk: LocalDisk, trim: Trim) -> Result<(u64, u64), LogError> {
    // Else a new log would be made in an empty directory.
    if disk
        .list()
        .await
        .is_ok_and(|names| !names.iter().any(|name| name.ends_with(".seg")))
    {
        return Err(LogError::NoLog);
    }
    let config = LogConfig {
        // Its server may know so many, and goes on from what is written here.
        producers_max: PRODUCERS_MAX,
        ..LogConfig::default()
    };
    let (log, _) = Log::open(disk, config).await?;
    let trimmed = log.trim_unless_read(trim).await;
    log.close().await?;
    Ok((trimmed?, log.next()))
}

/// A directory of a live server, and what to do instead.
fn is_served(directory: &Path, trim: Trim) -> String {
    format!(
        "{} is open by a server, or by a command that works on it: ask its server by `txlog trim \
         --server ADDRESS --log NAME --before {}` (without --log if it has no name), or stop that",
        directory.display(),
        trim.before
    )
}

fn say_would(first: u64, left: u64, trim: Trim) {
    println!(
        "{}; the oldest would be {left}",
        went(first, left, trim, "would go")
    );
}

/// What went, in words.
fn went(first: u64, left: u64, trim: Trim, went: &str) -> String {
    match left.saturating_sub(first) {
        0 if trim.before > first => {
            format!("no record {went}, as files go whole, and the oldest has later ones, too")
        }
        0 => format!("no record {went}"),
        1 => format!("record {first} {went}"),
        _ => format!("all from {first} to {} {went}", left - 1),
    }
}
