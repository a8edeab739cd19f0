//! Commands that look after a log's directory: backups, and what is done without a server.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use txlog::advice;
use txlog::log::{
    Copied, LocalDisk, LogError, Repair, backup as back_up, can_be_copied, repair as mend,
    restore as bring_back, verify,
};

use super::beside::refuse_within;
use super::{Outcome, of_directory};

/// Copy the durable records of a log into a new directory, while a server works or not.
///
/// Each record is checked while it is copied, and the copy passes `txlog verify`. Beside a server,
/// all records are in it that were acknowledged before the command began: if the server does not
/// say within `--wait` that they are durable, the command says how many it left out. No server
/// opens a backup, so that it stays as it is: `txlog restore` makes a log of it.
///
/// The log may go on meanwhile, begin new files and remove old ones; the copy has the records that
/// were there when it began. An interrupted copy is not taken for a backup.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  txlog backup /var/lib/txlog/main /backup/monday
  txlog verify /backup/monday")]
pub(crate) struct BackupArguments {
    /// The log's directory.
    pub(crate) dir: PathBuf,
    /// Where the backup is made: an empty directory, or one that does not exist; not inside the
    /// log's.
    pub(crate) to: PathBuf,
    /// How long a server may take to say that its last records are durable.
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    pub(crate) wait: u64,
}

/// Make a log of a backup, in an empty directory.
///
/// Each record is checked while it is copied. The log keeps its id and the numbers of its records.
/// It gets a new epoch, by which readers learn that records which were appended after the backup
/// are not in it, and that their numbers are used again.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  txlog restore /backup/monday /var/lib/txlog/main && txlog serve --dir /var/lib/txlog/main")]
pub(crate) struct RestoreArguments {
    /// A backup, or the directory of another log that no server has open.
    pub(crate) backup: PathBuf,
    /// The log's directory: empty, or one that does not exist.
    pub(crate) dir: PathBuf,
}

/// Give up what is lost at the end of a log, so that it can be served again.
///
/// For a log that `serve` or `verify` refuses, since durable records at its end are damaged or
/// missing, or the file MARK is. If there is a backup with these records, restore that instead.
/// The damaged end is cut off at the first record that is not whole, and kept in a file beside the
/// log's, whose name is printed; so is the mark put back. It says which records are lost. Their
/// numbers are used again, and the log gets a new epoch, by which readers learn of this.
///
/// It changes nothing if nothing is lost, and mends no damage before the last file: it fails then,
/// and says which records cannot be read, and where reading goes on. `trim` gives up those before.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  txlog verify /var/lib/txlog/main || txlog repair /var/lib/txlog/main")]
pub(crate) struct RepairArguments {
    /// The log's directory; no server has it open.
    pub(crate) dir: PathBuf,
}

pub(crate) async fn backup(arguments: BackupArguments) -> Outcome {
    let (from, to) = (&arguments.dir, &arguments.to);
    refuse_within(from, to).await?;
    let stopped = LocalDisk::borrow_stopped(from).await;
    let stopped = stopped.map_err(cannot_use(from))?;
    let live = stopped
        .is_none()
        .then(|| Duration::from_secs(arguments.wait));
    let disk = stopped.unwrap_or_else(|| LocalDisk::borrow(from));
    let target = target(from, &disk, to).await?;
    let copied = back_up(&disk, &target, live).await;
    let copied = copied.map_err(|error| of_copy(from, to, &error))?;
    println!("{} has {}", to.display(), said(&copied));
    if copied.left_out > 0 {
        eprintln!(
            "txlog: {} records at the end were left out, as the server did not say within {} s \
             that they are durable",
            copied.left_out, arguments.wait
        );
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn restore(arguments: RestoreArguments) -> Outcome {
    let (from, to) = (&arguments.backup, &arguments.dir);
    refuse_within(from, to).await?;
    let disk = LocalDisk::borrow_stopped(from).await;
    let disk = disk.map_err(cannot_use(from))?.ok_or_else(|| {
        let shown = from.display();
        format!("a server has {shown}: make a backup of it with `txlog backup`, and restore that")
    })?;
    let target = target(from, &disk, to).await?;
    let copied = bring_back(&disk, &target).await;
    let copied = copied.map_err(|error| of_copy(from, to, &error))?;
    println!("{} has {}", to.display(), said(&copied));
    Ok(ExitCode::SUCCESS)
}

/// Makes the directory of a copy, once it is known that there is something to copy.
async fn target(from: &Path, disk: &LocalDisk, to: &Path) -> Result<LocalDisk, String> {
    let can_be = can_be_copied(disk).await;
    can_be.map_err(|error| of_copy(from, to, &error))?;
    LocalDisk::hold(to).await.map_err(cannot_use(to))
}

pub(crate) async fn repair(arguments: RepairArguments) -> Outcome {
    let directory = &arguments.dir;
    let disk = LocalDisk::hold_existing(directory).await;
    let disk = disk.map_err(cannot_use(directory))?;
    let repaired = mend(&disk).await;
    let repaired = repaired.map_err(|error| of_directory(directory, &error))?;
    match repaired {
        Some(repair) => say_repaired(repair),
        None => println!("nothing is lost at its end, and nothing was changed there"),
    }
    // Damage before the end is not mended, and is not to be taken for it.
    let whole = verify(&disk, |_, _, _| ()).await;
    whole.map_err(|error| of_directory(directory, &error))?;
    Ok(ExitCode::SUCCESS)
}

fn say_repaired(repair: Repair) {
    let Repair {
        next,
        lost_end,
        kept,
        epoch,
    } = repair;
    match lost_end - next {
        0 => println!("no record is known to be lost; the next is {next}"),
        1 => println!("record {next} is lost; its number is used again"),
        _ => println!(
            "records {next} to {} are lost; their numbers are used again",
            lost_end - 1
        ),
    }
    for name in kept {
        println!("what was cut off is in {name}");
    }
    println!("the log has the epoch {epoch} now");
}

fn said(copied: &Copied) -> String {
    let files = match copied.segments {
        1 => "1 file".to_owned(),
        count => format!("{count} files"),
    };
    format!(
        "{}, all whole, in {files}",
        super::numbers(copied.first, copied.next)
    )
}

pub(super) fn cannot_use(directory: &Path) -> impl Fn(io::Error) -> String + use<> {
    let shown = directory.display().to_string();
    move |error| format!("cannot use {shown}: {}", advice::of_files(&error))
}

/// An error of a copy: of the source, or of the target.
fn of_copy(from: &Path, to: &Path, error: &LogError) -> String {
    match error {
        LogError::NotEmpty { .. } => format!("cannot copy to {}: {error}", to.display()),
        LogError::Io { what, name, source } => {
            let (from, to) = (from.display(), to.display());
            let why = advice::of_files(source);
            format!("cannot copy the log in {from} to {to}: cannot {what} {name}: {why}")
        }
        error => of_directory(from, error),
    }
}
