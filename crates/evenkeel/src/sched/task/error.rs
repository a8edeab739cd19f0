//! Why a task gave no output.

use std::any::Any;
use std::error::Error;
use std::fmt;

use crate::sync::Mutex;

/// Why a task ended without an output.
///
/// # Examples
///
/// ```
/// # #[evenkeel::main]
/// # async fn main() {
/// let handle = evenkeel::spawn(async { panic!("a bug") });
/// let error = handle.await.unwrap_err();
/// assert!(error.is_panic());
/// # }
/// ```
pub struct JoinError(Cause);

enum Cause {
    Cancelled,
    /// It was never begun, for this reason.
    Refused(Box<dyn Error + Send + Sync>),
    /// The lock is never contended: it makes the payload, which is only `Send`, shareable.
    Panic(Mutex<Box<dyn Any + Send + 'static>>),
}

impl JoinError {
    pub(crate) fn cancelled() -> Self {
        Self(Cause::Cancelled)
    }

    pub(crate) fn refused(reason: impl Error + Send + Sync + 'static) -> Self {
        Self(Cause::Refused(Box::new(reason)))
    }

    /// Why it was refused, or the error itself if it was not.
    pub(crate) fn try_into_reason(self) -> Result<Box<dyn Error + Send + Sync>, JoinError> {
        match self.0 {
            Cause::Refused(reason) => Ok(reason),
            cause => Err(JoinError(cause)),
        }
    }

    /// Public for `serve`, which beneath Tokio is in another package.
    #[doc(hidden)]
    pub fn panic(payload: Box<dyn Any + Send + 'static>) -> Self {
        Self(Cause::Panic(Mutex::new(payload)))
    }

    /// Whether the task was aborted, or its runtime shut down before it finished.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0, Cause::Cancelled)
    }

    /// Whether the task panicked.
    pub fn is_panic(&self) -> bool {
        matches!(self.0, Cause::Panic(_))
    }

    /// Whether the work was refused because the queue for blocking work was full, or because the
    /// system gave no thread for it; it never ran.
    pub fn is_refused(&self) -> bool {
        matches!(self.0, Cause::Refused(_))
    }

    /// The panic's payload, for [`resume_unwind`](std::panic::resume_unwind).
    ///
    /// # Panics
    ///
    /// If the task did not panic; [`try_into_panic`](JoinError::try_into_panic) does not.
    #[track_caller]
    pub fn into_panic(self) -> Box<dyn Any + Send + 'static> {
        match self.try_into_panic() {
            Ok(payload) => payload,
            Err(error) => panic!("`JoinError::into_panic` on a task that did not panic: {error}"),
        }
    }

    /// The panic's payload, if the task panicked.
    ///
    /// # Errors
    ///
    /// The error itself, if the task did not panic.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send + 'static>, JoinError> {
        match self.0 {
            Cause::Panic(payload) => Ok(payload.into_inner()),
            cause => Err(JoinError(cause)),
        }
    }

    /// The panic's message, if it has one.
    fn message(payload: &(dyn Any + Send)) -> Option<&str> {
        payload
            .downcast_ref::<&'static str>()
            .copied()
            .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Cause::Cancelled => f.write_str("the task was cancelled before it finished"),
            Cause::Refused(reason) => fmt::Display::fmt(reason, f),
            Cause::Panic(payload) => match Self::message(&**payload.lock()) {
                Some(message) => write!(f, "the task panicked: {message}"),
                None => f.write_str("the task panicked"),
            },
        }
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinError({self})")
    }
}

impl Error for JoinError {}

impl From<JoinError> for std::io::Error {
    fn from(error: JoinError) -> Self {
        std::io::Error::other(error)
    }
}
