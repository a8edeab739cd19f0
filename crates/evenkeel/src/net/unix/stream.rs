//! A connection between two processes of one machine.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use super::{
    OwnedReadHalf, OwnedWriteHalf, RETRY_MAX, RETRY_MIN, ReadHalf, UCred, WriteHalf, split,
};
use crate::net::source::{Direction, Source};
use crate::net::{methods, read};
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

    #[cfg(any(feature = "hyper", feature = "futures-io"))]
    pub(crate) fn source(&self) -> &Source<mio::net::UnixStream> {
        &self.io
    }

    pub(super) fn from_mio(stream: mio::net::UnixStream) -> io::Result<Self> {
        Ok(Self {
            io: Source::new(stream)?,
        })
    }

    /// The two directions of this stream, borrowed: for two futures within one task.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        split::split(self)
    }

    /// The two directions of this stream, each owned: for two tasks.
    ///
    /// Dropping the write half shuts the write side down, which the peer sees as the end of the
    /// stream. The connection is closed when both halves are gone.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        split::into_split(self)
    }

    /// Reads bytes and leaves them to be read again; waits until there are some.
    ///
    /// Returns 0 at the end of the stream, and if `buf` is empty.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let mut buf = tokio::io::ReadBuf::new(buf);
        self.io
            .io(Direction::Read, |stream| read::peek(stream, &mut buf))
            .await
    }

    /// The address of this end.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }

    /// The address of the peer.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().peer_addr()
    }

    /// The credentials of the process at the other end, for a server that admits some users only.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn peer_cred(&self) -> io::Result<UCred> {
        UCred::of_peer(self.as_fd())
    }
}

methods::descriptor!(
    UnixStream,
    mio::net::UnixStream,
    std::os::unix::net::UnixStream
);
methods::readiness!(UnixStream);
methods::stream!(UnixStream);
