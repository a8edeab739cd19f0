//! Why a lane did not do what it was given.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::sched::task::JoinError;
use crate::sync::Arc;

/// Why a lane did not do a piece of work, or why there is no output.
///
/// All but [`Panicked`](LaneError::Panicked) say that the work was never begun. As an
/// [`io::Error`], which is how [`fs`](crate::fs) passes it on, [`QueueFull`](LaneError::QueueFull)
/// is of the kind [`ResourceBusy`](io::ErrorKind::ResourceBusy),
/// [`WaitedTooLong`](LaneError::WaitedTooLong) is [`TimedOut`](io::ErrorKind::TimedOut), and the
/// `LaneError` can be had back with [`io::Error::downcast`].
///
/// # Examples
///
/// ```
/// use evenkeel::blocking::{Lane, LaneError};
///
/// # #[evenkeel::main]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let lane = Lane::builder("thumbnails").threads(2).queue(100).build()?;
/// match lane.run(|| 6 * 7).await {
///     Ok(answer) => assert_eq!(answer, 42),
///     Err(LaneError::QueueFull { .. }) => { /* Answer "503 try again later". */ }
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[non_exhaustive]
pub enum LaneError {
    /// As much waits in the lane as may.
    QueueFull {
        /// The lane's name.
        lane: Arc<str>,
        /// How much may wait.
        limit: usize,
    },
    /// The work waited as long as it may, and no thread of the lane had come to it.
    WaitedTooLong {
        /// The lane's name.
        lane: Arc<str>,
        /// How long it waited.
        waited: Duration,
        /// How long it might.
        limit: Duration,
    },
    /// The runtime has shut down, or the lane has, before the work was begun.
    ShutDown {
        /// The lane's name.
        lane: Arc<str>,
    },
    /// The lane has no thread, and the system gave none.
    NoThread {
        /// The lane's name.
        lane: Arc<str>,
        /// What the system said.
        kind: io::ErrorKind,
    },
    /// The work panicked; [`JoinError::into_panic`] has what it said.
    Panicked(JoinError),
}

impl LaneError {
    pub(crate) fn from_join(error: JoinError, lane: &Arc<str>) -> Self {
        let shut_down = || LaneError::ShutDown {
            lane: Arc::clone(lane),
        };
        match error.try_into_reason() {
            Ok(reason) => reason
                .downcast()
                .map_or_else(|_| shut_down(), |refusal: Box<Refusal>| refusal.0),
            Err(error) if error.is_panic() => LaneError::Panicked(error),
            Err(_) => shut_down(),
        }
    }

    /// As the task's error, for whoever holds its handle.
    pub(crate) fn into_join(self) -> JoinError {
        JoinError::refused(Refusal(self))
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            LaneError::QueueFull { .. } => io::ErrorKind::ResourceBusy,
            LaneError::WaitedTooLong { .. } => io::ErrorKind::TimedOut,
            LaneError::NoThread { kind, .. } => *kind,
            LaneError::ShutDown { .. } | LaneError::Panicked(_) => io::ErrorKind::Other,
        }
    }
}

/// Why a task was refused that a lane was to do.
#[derive(Debug)]
struct Refusal(LaneError);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            // The lane of `spawn_blocking` has no name for the user.
            LaneError::QueueFull { .. } => f.write_str(
                "the blocking work was refused because its queue is full; \
                 retry later, or raise `Builder::blocking_queue_limit`",
            ),
            error => fmt::Display::fmt(error, f),
        }
    }
}

impl std::error::Error for Refusal {}

impl fmt::Display for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaneError::QueueFull { lane, limit } => write!(
                f,
                "the lane `{lane}` is full: {limit} pieces of work wait in it; retry later, or \
                 raise its queue bound"
            ),
            LaneError::WaitedTooLong {
                lane,
                waited,
                limit,
            } => write!(
                f,
                "the work waited {waited:.1?} for a thread of the lane `{lane}`, whose limit is \
                 {limit:?}, and was not begun; all its threads are busy or hang"
            ),
            LaneError::ShutDown { lane } => write!(
                f,
                "the work was not begun: the runtime of the lane `{lane}` has shut down"
            ),
            LaneError::NoThread { lane, kind } => write!(
                f,
                "the lane `{lane}` has no thread, and the system gave none: {kind}; raise the \
                 limit on threads"
            ),
            LaneError::Panicked(error) => write!(f, "work in a lane: {error}"),
        }
    }
}

/// `main` shows its error by `Debug`, so the message is part of it.
impl fmt::Debug for LaneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LaneError({self})")
    }
}

impl std::error::Error for LaneError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LaneError::Panicked(error) => Some(error),
            _ => None,
        }
    }
}

impl From<LaneError> for io::Error {
    fn from(error: LaneError) -> Self {
        io::Error::new(error.kind(), error)
    }
}
