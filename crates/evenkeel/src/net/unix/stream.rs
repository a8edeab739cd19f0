//! A connection between two processes of one machine.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use super::{RETRY_MAX, RETRY_MIN, UCred};
use crate::net::methods;
use crate::net::source::{Direction, Source};
use crate::net::stream::begin_delivery;
use crate::time::sleep;

/// A connection over a Unix socket.
///
/// It is used as a [`TcpStream`](crate::net::TcpStream) is.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// use evenkeel::net::UnixStream;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let (mut here, mut there) = UnixStream::pair()?;
/// here.write_all(b"ping").await?;
/// let mut heard = [0; 4];
/// there.read_exact(&mut heard).await?;
/// assert_eq!(&heard, b"ping");
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
pub struct UnixStream {
    pub(super) io: Source<mio::net::UnixStream>,
}

impl UnixStream {
    /// Connects to the listener at `path`.
    ///
    /// While the listener's backlog is full, this tries again every 1 to 50 ms, without a limit.
    ///
    /// # Errors
    ///
    /// Nobody listens at `path`, or there is no current runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the socket is closed.
    pub async fn connect(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::connect_addr(&SocketAddr::from_pathname(path)?).await
    }

    /// Connects to the listener at `address`, which may be an abstract name.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// As [`connect`](Self::connect).
    pub async fn connect_addr(address: &SocketAddr) -> io::Result<Self> {
        let mut wait = RETRY_MIN;
        let stream = loop {
            match mio::net::UnixStream::connect_addr(address) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    sleep(wait).await;
                    wait = (wait * 2).min(RETRY_MAX);
                }
                result => break result?,
            }
        };
        let io = Source::new_pending(stream)?;
        io.io(Direction::Write, |stream| match stream.take_error()? {
            Some(error) => Err(error),
            None => Ok(()),
        })
        .await?;
        begin_delivery(&io);
        Ok(Self { io })
    }

    /// Makes two streams that are connected to each other.
    ///
    /// # Errors
    ///
    /// No descriptor is left, or there is no current runtime.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = mio::net::UnixStream::pair()?;
        Ok((Self::from_mio(one)?, Self::from_mio(other)?))
    }

    /// The credentials of the process at the other end, for a server that admits some users only.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        UCred::of_peer(self.io.get_ref().as_fd())
    }
}

methods::descriptor!(
    UnixStream,
    mio::net::UnixStream,
    std::os::unix::net::UnixStream,
    SocketAddr
);
methods::readiness!(UnixStream);
methods::stream!(UnixStream, mio::net::UnixStream, SocketAddr);
