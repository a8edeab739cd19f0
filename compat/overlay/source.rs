//! Descriptors that can be watched by either.

use mio::unix::SourceFd;
use std::os::fd::{AsRawFd, RawFd};

pub(crate) trait Source: mio::event::Source {
    /// Whether anybody may have made it, so that the system may refuse to watch it: that is to be
    /// known at once.
    const FOREIGN: bool = false;

    fn raw_fd(&self) -> RawFd;
}

macro_rules! by_as_raw_fd {
    ($($type:ty),* $(,)?) => {
        $(impl Source for $type {
            fn raw_fd(&self) -> RawFd {
                self.as_raw_fd()
            }
        })*
    };
}

#[cfg(any(feature = "net", feature = "process", feature = "signal"))]
by_as_raw_fd!(
    mio::net::TcpListener,
    mio::net::TcpStream,
    mio::net::UdpSocket,
    mio::net::UnixDatagram,
    mio::net::UnixListener,
    mio::net::UnixStream,
    mio::unix::pipe::Receiver,
    mio::unix::pipe::Sender,
);

/// The descriptors of `AsyncFd`.
impl Source for SourceFd<'_> {
    const FOREIGN: bool = true;

    fn raw_fd(&self) -> RawFd {
        *self.0
    }
}
