//! What became of a record.

use crate::error::ClientError;

/// A record's number, or why it has none.
pub(super) type Outcome = Result<u64, AppendError>;

/// What became of a record that is not known to be stored.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppendError {
    /// It is not in the log, and will not be.
    #[error("it is not stored: {why}")]
    NotStored {
        /// Why.
        why: ClientError,
    },
    /// It is in the log or not: it was sent, and its answer did not come.
    #[error("it may be stored or not: {why}")]
    Unknown {
        /// Why that is not known.
        why: ClientError,
    },
}

impl AppendError {
    /// Why, whatever became of it.
    pub fn why(&self) -> &ClientError {
        let (AppendError::NotStored { why } | AppendError::Unknown { why }) = self;
        why
    }

    /// Whether it is surely not in the log.
    pub fn is_surely_not_stored(&self) -> bool {
        matches!(self, AppendError::NotStored { .. })
    }
}

pub(super) fn closed() -> AppendError {
    AppendError::NotStored {
        why: ClientError::Closed,
    }
}
