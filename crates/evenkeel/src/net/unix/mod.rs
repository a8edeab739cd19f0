//! Unix sockets: listeners, streams, their halves, and datagrams; and [pipes](pipe).
//!
//! Addresses are those of the standard library ([`std::os::unix::net::SocketAddr`]), which on Linux
//! may be abstract names as well as paths. A path stays in the file system when its socket is
//! closed: remove it before binding it again.

mod datagram;
mod listener;
pub mod pipe;
mod split;
mod stream;
mod ucred;

pub use self::datagram::UnixDatagram;
pub use self::listener::UnixListener;
pub use self::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use self::stream::UnixStream;
pub use self::ucred::UCred;

use std::time::Duration;

/// The first and the longest wait between two attempts at a peer whose queue is full, where the
/// system does not report that there is room again.
const RETRY_MIN: Duration = Duration::from_millis(1);
const RETRY_MAX: Duration = Duration::from_millis(50);
