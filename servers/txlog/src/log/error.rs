//! Why an operation on the log failed.

use std::io;
use std::sync::Arc;

use evenkeel::fs::CommitError;

use super::record::Damage;

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
         {damage}{later}; nothing was changed: restore the file from a copy, or move it and all \
         later ones away"
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
    },
    /// A segment is missing.
    #[error(
        "{segment} begins with record {found}, and the one before ends before {expected}: a file \
         is missing; bring it back, or move all earlier ones away"
    )]
    Gap {
        /// The file after the gap.
        segment: String,
        /// The record that has to be first in it.
        expected: u64,
        /// The record that is first in it.
        found: u64,
    },
    /// The records are no longer kept.
    #[error("record {sequence} is no longer kept; the oldest is {first}: read from there on")]
    Trimmed {
        /// The requested record.
        sequence: u64,
        /// The oldest.
        first: u64,
    },
    /// A record could not be made durable, or a limit refused it.
    #[error(transparent)]
    Commit(#[from] CommitError),
}

impl LogError {
    pub(super) fn io(what: &'static str, name: &str) -> impl Fn(io::Error) -> Self + use<> {
        let name = name.to_owned();
        move |source| LogError::Io {
            what,
            name: name.clone(),
            source: Arc::new(source),
        }
    }
}
