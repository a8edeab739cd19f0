//! Why the log could not do what it was asked.

use std::io;
use std::sync::Arc;

use evenkeel::fs::CommitError;

use super::record::Damage;

/// Why the log could not do what it was asked. Cheap to clone.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The system refused something.
    #[error("cannot {what} {name}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        name: String,
        /// The system's reason.
        source: Arc<io::Error>,
    },
    /// What had been durable is damaged. Nothing was changed.
    #[error(
        "{segment} is damaged at byte {offset}, where record {sequence} has to be: \
         {damage}{later}; nothing was changed: restore the file from a copy, or move it and all \
         later ones away"
    )]
    Corrupt {
        /// Which file.
        segment: String,
        /// Where in it.
        offset: u64,
        /// The record that has to be there.
        sequence: u64,
        /// What is wrong.
        damage: Damage,
        /// What is behind it.
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
        /// The record that is.
        found: u64,
    },
    /// The records are no longer kept.
    #[error("record {sequence} is no longer kept; the oldest is {first}: read from there on")]
    Trimmed {
        /// The one that was asked for.
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
