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
    /// Consumers have yet to read records that are to be removed. Nothing was changed.
    #[error(
        "consumers have yet to read some of the records before {left}, which would go: {names}; \
         let them read on, remove the cursors that nobody needs by `txlog cursors --remove NAME`, \
         or have the records removed all the same by `txlog trim --force`"
    )]
    CursorsBehind {
        /// Some of the named cursors, and where they are.
        names: String,
        /// The oldest record that would be left.
        left: u64,
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
    /// There is too little room on the disk for the log's last file to grow.
    #[error(
        "the disk has room for {free} bytes, and the log's file grows by {needed}: make room on \
         that disk"
    )]
    NoRoom {
        /// How much there is.
        free: u64,
        /// How much is needed.
        needed: u64,
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
    #[error("a batch of {found} {what}; {most} are allowed: send one that keeps to that")]
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
            "it is a backup, which has to stay as it is: make a log of it by `txlog restore`"
        }
        Kind::Unfinished => "it is a copy that did not end: empty the directory, and copy again",
    }
}

/// Refuses a number beyond the log's end.
pub(super) fn expect_within(sequence: u64, first: u64, next: u64) -> Result<(), LogError> {
    if sequence <= next {
        return Ok(());
    }
    Err(LogError::OutOfRange {
        sequence,
        first,
        next,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::advice::{self, gives_advice};
    use crate::store::StoreError;

    /// All errors but those that are another's, in the order of the enum; some more than once, as
    /// their advice depends on what they found.
    fn all() -> Vec<LogError> {
        let (segment, name) = (|| "1.seg".to_owned(), "x".to_owned());
        let corrupt = |offset, following| LogError::Corrupt {
            segment: segment(),
            offset,
            sequence: 7,
            damage: Damage::HeaderChecksum,
            later: String::new(),
            following,
        };
        let defects = [
            MarkDefect::Missing,
            MarkDefect::Damaged,
            MarkDefect::OtherLog,
            MarkDefect::Newer,
        ];
        let mut all = vec![
            LogError::io("read", MARK_NAME)(io::Error::from_raw_os_error(5)),
            corrupt(0, None),
            corrupt(0, Some(9)),
            corrupt(90, Some(8)),
            LogError::Gap {
                segment: segment(),
                expected: 7,
                found: 9,
            },
            LogError::LostTail {
                next: 7,
                marked: 9,
                segment: segment(),
                bytes: 90,
                damage: String::new(),
            },
        ];
        all.extend(defects.map(|defect| LogError::Mark { defect }));
        all.extend(defects.map(|defect| LogError::Cursors { defect }));
        all.push(LogError::TooManyCursors { count: 9 });
        let names = "billing (at 3)".to_owned();
        all.push(LogError::CursorsBehind { names, left: 7 });
        let kinds = [Kind::Backup, Kind::Unfinished];
        all.extend(kinds.map(|kind| LogError::Copy { kind }));
        all.extend(others(name));
        all
    }

    /// Those after the copies, in the order of the enum.
    fn others(name: String) -> Vec<LogError> {
        let (sequence, first, next) = (9, 3, 7);
        let mut all = vec![
            LogError::Foreign { name: name.clone() },
            LogError::NotEmpty { name: name.clone() },
            LogError::NoLog,
            LogError::Displaced { what: name },
            LogError::NoRoom { free: 8, needed: 9 },
            LogError::Closed,
            LogError::OutOfRange {
                sequence,
                first,
                next,
            },
            LogError::Trimmed { sequence, first },
            LogError::BadBatch {
                what: "bytes",
                found: 9,
                most: 8,
            },
        ];
        let (expected, number, end) = (9, 9, 10);
        let refusals = [
            Refusal::NotExpected { expected, next },
            Refusal::Gap { number, next },
            Refusal::Past { number, end, next },
            Refusal::Unknown { number },
        ];
        all.extend(refusals.map(LogError::from));
        all
    }

    /// Its place in the enum. A new error has to be put into the list.
    fn place(error: &LogError) -> Option<usize> {
        Some(match error {
            LogError::Io { .. } => 0,
            LogError::Corrupt { .. } => 1,
            LogError::Gap { .. } => 2,
            LogError::LostTail { .. } => 3,
            LogError::Mark { .. } => 4,
            LogError::Cursors { .. } => 5,
            LogError::TooManyCursors { .. } => 6,
            LogError::CursorsBehind { .. } => 7,
            LogError::Copy { .. } => 8,
            LogError::Foreign { .. } => 9,
            LogError::NotEmpty { .. } => 10,
            LogError::NoLog => 11,
            LogError::Displaced { .. } => 12,
            LogError::NoRoom { .. } => 13,
            LogError::Closed => 14,
            LogError::OutOfRange { .. } => 15,
            LogError::Trimmed { .. } => 16,
            LogError::BadBatch { .. } => 17,
            LogError::Refused(refusal) => match refusal {
                Refusal::NotExpected { .. } => 18,
                Refusal::Gap { .. } => 19,
                Refusal::Past { .. } => 20,
                Refusal::Unknown { .. } => 21,
            },
            // The runtime's own.
            LogError::Commit(_) => return None,
        })
    }

    #[test]
    fn each_error_says_what_to_do() {
        let all = all();
        let mut places: Vec<_> = all.iter().map(place).collect();
        places.dedup();
        assert!(places.into_iter().eq((0..22).map(Some)), "all are there");
        for error in &all {
            // As clients are told, and as commands say it.
            let text = StoreError::from(error.clone()).text;
            assert!(gives_advice(&text), "{text}");
            let text = advice::of_log(Path::new("log"), error);
            assert!(gives_advice(&text), "{text}");
        }
    }
}
