//! Errors of group commit.

use std::fmt;
use std::io;
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Write,
    Sync,
    /// The task that commits was dropped, or panicked.
    Abandoned,
}

/// Why a log is poisoned, and what that means for one record. Cheap to clone, as each waiting task
/// gets one.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    stage: Stage,
    source: Option<Arc<io::Error>>,
    /// Whether this record was in the batch that failed.
    maybe_written: bool,
}

impl Failure {
    /// For the records of the batch that failed.
    pub(super) fn new(stage: Stage, source: Option<io::Error>) -> Self {
        Self {
            stage,
            source: source.map(Arc::new),
            maybe_written: true,
        }
    }

    /// The same, for records that were in no batch yet.
    pub(super) fn as_unwritten(&self) -> Self {
        Self {
            maybe_written: false,
            ..self.clone()
        }
    }
}

/// Why a record was not made durable, or is not known to be. Returned by
/// [`GroupCommit`](super::GroupCommit)'s methods.
///
/// After a write or a sync has failed, the log is *poisoned*: all pending records and all later
/// ones get that error. Nothing is tried again. After a failed sync the system may have dropped
/// bytes from its cache, which are lost even if a second sync succeeds; and bytes that it has kept
/// can still be read although they never reached the device. Open the file again, find the end of
/// its last whole record, write the records again that are not known to be durable, sync, and go on
/// from there.
#[derive(Clone, Debug)]
pub struct CommitError(pub(super) Cause);

#[derive(Clone, Debug)]
pub(super) enum Cause {
    TooLarge { bytes: usize, bytes_max: usize },
    Closed,
    Failed(Failure),
}

impl CommitError {
    /// Whether the record was refused because it is larger than a batch may be.
    pub fn is_too_large(&self) -> bool {
        matches!(self.0, Cause::TooLarge { .. })
    }

    /// Whether the record was refused because the log was closed.
    pub fn is_closed(&self) -> bool {
        matches!(self.0, Cause::Closed)
    }

    /// Whether a write or a sync has failed, of this record or of one before it, or the runtime
    /// that wrote them has ended. All later records fail as well.
    pub fn is_poisoned(&self) -> bool {
        matches!(self.0, Cause::Failed(_))
    }

    /// Whether the record may be in the file, and may survive a crash. False if it was certainly
    /// never written.
    pub fn maybe_written(&self) -> bool {
        matches!(&self.0, Cause::Failed(failure) if failure.maybe_written)
    }

    /// The error of the write or the sync that failed, if one did.
    pub fn io_error(&self) -> Option<&io::Error> {
        match &self.0 {
            Cause::Failed(failure) => failure.source.as_deref(),
            _ => None,
        }
    }
}

impl fmt::Display for CommitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failure = match &self.0 {
            Cause::TooLarge { bytes, bytes_max } => {
                let advice = "append smaller records or allow larger batches";
                return write!(
                    f,
                    "a record of {bytes} bytes does not fit a batch of {bytes_max}; {advice}"
                );
            }
            Cause::Closed => return f.write_str("the log is closed; open it again to append"),
            Cause::Failed(failure) => failure,
        };
        match failure.stage {
            Stage::Write => f.write_str("a write to the log failed")?,
            Stage::Sync => f.write_str("a sync of the log failed")?,
            Stage::Abandoned => f.write_str("the runtime that wrote the log has ended")?,
        }
        if let Some(error) = &failure.source {
            write!(f, " ({error})")?;
        }
        f.write_str(if failure.maybe_written {
            "; the record may be in the file or not"
        } else {
            "; the record was not written"
        })?;
        f.write_str("; open the file again and look where it ends")
    }
}

impl std::error::Error for CommitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.io_error().map(|error| error as _)
    }
}

impl From<CommitError> for io::Error {
    fn from(error: CommitError) -> Self {
        let kind = match &error.0 {
            Cause::TooLarge { .. } => io::ErrorKind::InvalidInput,
            Cause::Closed => io::ErrorKind::BrokenPipe,
            Cause::Failed(_) => error
                .io_error()
                .map_or(io::ErrorKind::Other, io::Error::kind),
        };
        io::Error::new(kind, error)
    }
}
