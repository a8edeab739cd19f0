//! Descriptors of any kind that the system can watch.
//!
//! Names and meanings are those of `tokio::io::unix`.

mod async_fd;
mod guard;

pub use self::async_fd::{AsyncFd, AsyncFdTryNewError};
pub use self::guard::{AsyncFdReadyGuard, AsyncFdReadyMutGuard, TryIoError};
