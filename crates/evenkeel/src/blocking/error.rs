//! Errors of lanes.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::sched::task::JoinError;
use crate::sync::Arc;

/// Why a lane did not do a piece of work, or did not return its output.
///
/// In all cases but [`Panicked`](LaneError::Panicked) the work was never begun. As an
/// [`io::Error`], which is how [`fs`](crate::fs) passes it on, [`QueueFull`](LaneError::QueueFull)
/// is of the kind [`ResourceBusy`](io::ErrorKind::ResourceBusy),
/// [`WaitedTooLong`](LaneError::WaitedTooLong) is [`TimedOut`](io::ErrorKind::TimedOut), and the
/// `LaneError` can be recovered with [`io::Error::downcast`].
///
/// # Examples
///
/// ```
/// use evenkeel::blocking::{Lane, LaneError};
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let lane = Lane::builder("thumbnails").threads(2).queue(100).build()?;
/// match lane.run(|| 6 * 7).await {
///     Ok(answer) => assert_eq!(answer, 42),
///     Err(LaneError::QueueFull { .. }) => { /* Answer "503 try again later". */ }
///     Err(error) => return Err(error.into()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[non_exhaustive]
pub enum LaneError {
    /// The queue of the lane is full.
    QueueFull {
        /// The lane's name.
        lane: Arc<str>,
        /// The limit of the queue, in pieces of work.
        limit: usize,
    },
    /// The work waited for as long as it may, and no thread of the lane was free.
    WaitedTooLong {
        /// The lane's name.
        lane: Arc<str>,
        /// How long it waited.
        waited: Duration,
        /// How long it might wait.
        limit: Duration,
    },
    /// The runtime or the lane has shut down before the work was begun.
    ShutDown {
        /// The lane's name.
        lane: Arc<str>,
    },
    /// The lane has no thread, and the system could not start one.
    NoThread {
        /// The lane's name.
        lane: Arc<str>,
        /// The kind of the system's error.
        kind: io::ErrorKind,
    },
    /// The work panicked; [`JoinError::into_panic`] returns the payload.
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

    /// Converts this to the task's error, for its join handle.
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

#[derive(Debug)]
struct Refusal(LaneError);

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            // Users do not know the lane of `spawn_blocking` by name.
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
                "the lane `{lane}` has no thread, and none could be started: {kind}; raise the \
                 limit on threads"
            ),
            LaneError::Panicked(error) => write!(f, "work in a lane: {error}"),
        }
    }
}

/// Contains the message, as `main` prints its error by `Debug`.
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
