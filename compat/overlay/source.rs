//! Descriptors that can be watched by either.

use mio::unix::SourceFd;
use std::os::fd::{AsRawFd, RawFd};

pub(crate) trait Source: mio::event::Source {
    /// Whether Tokio's driver watches it in any case: what is known of it does not suffice.
    const UPSTREAM: bool = false;

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

/// The descriptors of `AsyncFd`, whose users look at interests and errors closely.
impl Source for SourceFd<'_> {
    const UPSTREAM: bool = true;

    fn raw_fd(&self) -> RawFd {
        *self.0
    }
}
