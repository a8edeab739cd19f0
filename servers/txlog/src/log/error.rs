//! Why an operation on the log failed.

use std::io;
use std::sync::Arc;

use evenkeel::fs::CommitError;

use super::append::Refusal;
use super::cursors::CURSORS_NAME;
use super::mark::{Kind, MARK_NAME, MarkDefect};
use super::record::Damage;

/// What the log's directory is called. Its path is not told to clients: who opened it knows it.
pub(super) const DIRECTORY: &str = "the log's directory";

/// Why an operation on the log failed. Cheap to clone.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// An error of the system.
    #[error("cannot {what} {name}: {source}")]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The name of the file or directory.
        name: String,
        /// The system's reason.
        source: Arc<io::Error>,
    },
    /// Records that had been durable are damaged. Nothing was changed.
    #[error(
        "{segment} is damaged at byte {offset}, where record {sequence} has to be: \
         {damage}{later}; nothing was changed: bring the file back from a copy, restore a backup, \
         or {}", advice_on_damage(*offset, *sequence, *following)
    )]
    Corrupt {
        /// The file.
        segment: String,
        /// The offset in it.
        offset: u64,
        /// The record that has to be there.
        sequence: u64,
        /// The damage.
        damage: Damage,
        /// What follows the damage.
        later: String,
        /// The first record of the following segment, if there is one: there, reading goes on.
        following: Option<u64>,
    },
    /// A segment is missing.
    #[error(
        "{segment} begins with record {found}, and the one before ends before {expected}: a file \
         is missing; bring it back, or give up all earlier ones by `txlog trim --before {found}`"
    )]
    Gap {
        /// The file after the gap.
        segment: String,
        /// The record that has to be first in it.
        expected: u64,
        /// The record that is first in it.
        found: u64,
    },
    /// Records are missing at the end that had been durable. Nothing was changed.
    #[error(
        "records {next} to {} are missing: the mark says that they were durable, up to byte \
         {bytes} of {segment}, and the log ends before them{damage}; nothing was changed: bring \
         back the file, restore a backup, or accept the loss with `txlog repair`",
        marked - 1
    )]
    LostTail {
        /// The first missing record.
        next: u64,
        /// All records before this number had been durable.
        marked: u64,
        /// The segment in which the log ended.
        segment: String,
        /// The offset at which it ended.
        bytes: u64,
        /// The damage at the end, if there is any.
        damage: String,
    },
    /// The mark cannot be used. Nothing was changed.
    #[error(
        "the file {MARK_NAME}, which says how far the log was durable, {defect}; nothing was \
         changed: {}",
        advice_on(*defect)
    )]
    Mark {
        /// What is wrong with it.
        defect: MarkDefect,
    },
    /// The named cursors cannot be read. Nothing was changed.
    #[error(
        "the file {CURSORS_NAME}, which has the named cursors, {defect}; records are not affected, \
         and nothing was changed: {}",
        advice_on_cursors(*defect)
    )]
    Cursors {
        /// What is wrong with it.
        defect: MarkDefect,
    },
    /// There are as many named cursors as there may be.
    #[error(
        "there are {count} named cursors, as many as a log may have: remove one that nobody needs, \
         as by `txlog cursors --remove NAME`"
    )]
    TooManyCursors {
        /// How many.
        count: usize,
    },
    /// The directory is no log that can be opened, but a copy.
    #[error("{}", said_of(*kind))]
    Copy {
        /// What it holds.
        kind: Kind,
    },
    /// A file is in the directory that is none of the log's. Nothing was changed.
    #[error(
        "{name} is no file of the log; nothing was changed: move it away, if this is the right \
         directory"
    )]
    Foreign {
        /// Its name.
        name: String,
    },
    /// The directory is not empty, and a copy has to begin in an empty one.
    #[error("it holds {name} already: give an empty directory, or one that does not exist")]
    NotEmpty {
        /// A file in it.
        name: String,
    },
    /// There is no log in the directory.
    #[error("it holds no log; give the directory that `txlog serve --dir` has")]
    NoLog,
    /// The directory was removed or replaced while the log was open.
    #[error(
        "{what} was removed or replaced while the log was open, so its last records may be lost; \
         no more are taken: see where it has gone, bring it back, and start the server again"
    )]
    Displaced {
        /// The directory or the file.
        what: String,
    },
    /// The log has failed or was closed, and takes no more changes.
    #[error("the log has failed or is closed; open it again")]
    Closed,
    /// The number is beyond the log's end.
    #[error(
        "record {sequence} is beyond the log's end: it has the records from {first} up to, not \
         including, {next}; is this the log that it was in?"
    )]
    OutOfRange {
        /// The requested record.
        sequence: u64,
        /// The oldest.
        first: u64,
        /// The next one.
        next: u64,
    },
    /// The records are no longer kept.
    #[error("record {sequence} is no longer kept; the oldest is {first}: read from there on")]
    Trimmed {
        /// The requested record.
        sequence: u64,
        /// The oldest.
        first: u64,
    },
    /// A batch breaks a limit.
    #[error("a batch of {found} {what}; {most} are allowed")]
    BadBatch {
        /// What there is too much of, or none.
        what: &'static str,
        /// How much it has.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// A batch was not stored, as its condition does not hold or its producer is not at its number.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A record could not be made durable, or a limit refused it.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl LogError {
    /// Whether a file was not there.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, LogError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    pub(super) fn io(what: &'static str, name: &str) -> impl Fn(io::Error) -> Self + use<> {
        let name = name.to_owned();
        move |source| LogError::Io {
            what,
            name: name.clone(),
            source: Arc::new(source),
        }
    }
}

fn advice_on_damage(offset: u64, sequence: u64, following: Option<u64>) -> String {
    let Some(next) = following else {
        return "let `txlog repair` cut off the end, and read what that costs".to_owned();
    };
    let lost = match next.saturating_sub(sequence) {
        0 | 1 => format!("record {sequence} cannot be read"),
        _ => format!("records {sequence} to {} cannot be read", next - 1),
    };
    match offset {
        // Without its head no log is opened.
        0 => format!(
            "accept that {lost}: move this file and all earlier ones away, and the log begins with \
             record {next}"
        ),
        _ => format!(
            "accept that {lost}: go on behind them by `txlog read --from {next}` and `txlog \
             cursors --set NAME --to {next}`, or give up all before by `txlog trim --before {next}`"
        ),
    }
}

fn advice_on(defect: MarkDefect) -> &'static str {
    match defect {
        MarkDefect::Newer => "use that version",
        MarkDefect::OtherLog => "bring back the log's own, or let `txlog repair` write a new one",
        _ => "bring it back, or, if no segment is missing, let `txlog repair` write a new one",
    }
}

fn advice_on_cursors(defect: MarkDefect) -> &'static str {
    match defect {
        MarkDefect::Newer => "use that version",
        _ => {
            "bring back the log's own, or move it away; then there are no named cursors, and \
             consumers begin where they do without one"
        }
    }
}

fn said_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Log => "it is a log",
        Kind::Backup => {
            "it is a backup, which has to stay as it is: `txlog restore` makes a log of it"
        }
        Kind::Unfinished => "it is a copy that did not end: empty the directory, and copy again",
    }
}
