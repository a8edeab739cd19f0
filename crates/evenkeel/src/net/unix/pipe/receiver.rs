//! The end of a pipe that reads.

use std::fmt;
use std::fs::File;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BufMut;
use tokio::io::{AsyncRead, ReadBuf};

use super::descriptor::{self, set_nonblocking};
use crate::io::{Interest, Ready};
use crate::net::read;
use crate::net::source::{Direction, Source};
use crate::net::stream::passed_on;

/// A short read need not have emptied the pipe: in its packet mode (`O_DIRECT`) a read ends with
/// the packet.
const NO_FULL_READ: usize = 0;

/// The end of a pipe that reads.
///
/// Made by [`pipe`](super::pipe), by [`OpenOptions`](super::OpenOptions), or of a descriptor. It
/// implements [`AsyncRead`].
pub struct Receiver {
    io: Source<OwnedFd>,
}

impl Receiver {
    /// Takes over an open pipe, and sets it to non-blocking mode.
    ///
    /// The mode belongs to all duplicates of the descriptor, also in other processes.
    ///
    /// # Errors
    ///
    /// The file is not a pipe that is open for reading (`InvalidInput`), or there is no current
    /// runtime.
    pub fn from_file(file: File) -> io::Result<Self> {
        Self::from_owned_fd(file.into())
    }

    /// As [`from_file`](Self::from_file).
    ///
    /// # Errors
    ///
    /// As [`from_file`](Self::from_file).
    pub fn from_owned_fd(fd: OwnedFd) -> io::Result<Self> {
        descriptor::check(&fd, Direction::Read)?;
        set_nonblocking(&fd, true)?;
        Self::from_owned_fd_unchecked(fd)
    }

    /// Takes over a descriptor that is known to be a pipe, open for reading and non-blocking.
    ///
    /// # Errors
    ///
    /// There is no current runtime.
    pub fn from_file_unchecked(file: File) -> io::Result<Self> {
        Self::from_owned_fd_unchecked(file.into())
    }

    /// As [`from_file_unchecked`](Self::from_file_unchecked).
    ///
    /// # Errors
    ///
    /// As [`from_file_unchecked`](Self::from_file_unchecked).
    pub fn from_owned_fd_unchecked(fd: OwnedFd) -> io::Result<Self> {
        let io = descriptor::source(fd, Direction::Read)?;
        Ok(Self { io })
    }

    /// Gives back the descriptor, in non-blocking mode.
    ///
    /// # Errors
    ///
    /// The system refuses to take it out of the readiness queue.
    pub fn into_nonblocking_fd(self) -> io::Result<OwnedFd> {
        self.io.into_inner()
    }

    /// Gives back the descriptor, in blocking mode.
    ///
    /// # Errors
    ///
    /// As [`into_nonblocking_fd`](Self::into_nonblocking_fd), or the mode cannot be set.
    pub fn into_blocking_fd(self) -> io::Result<OwnedFd> {
        let fd = self.into_nonblocking_fd()?;
        set_nonblocking(&fd, false)?;
        Ok(fd)
    }

    /// Waits until the pipe is ready for any part of `interest`, and returns for which.
    ///
    /// # Errors
    ///
    /// The interest includes writing (`InvalidInput`), or the runtime is shutting down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.io.check(interest)?;
        self.io.ready(interest).await
    }

    /// Waits until there is something to read, or the end of the pipe.
    ///
    /// Readiness is a hint: the attempt that follows may still return `WouldBlock`. Then wait
    /// again.
    ///
    /// # Errors
    ///
    /// The runtime is shutting down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once.
    pub async fn readable(&self) -> io::Result<()> {
        self.io.ready(Interest::READABLE).await.map(drop)
    }

    /// As [`readable`](Self::readable), for one waiter at a time; shares it with [`AsyncRead`].
    ///
    /// # Errors
    ///
    /// The runtime is shutting down.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, Direction::Read)
    }

    /// Reads what is there, without waiting. Returns 0 at the end of the pipe, and if `buf` is
    /// empty.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there: wait with [`readable`](Self::readable).
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let mut buf = ReadBuf::new(buf);
        self.attempt(|fd| read::read(fd, &mut buf))
    }

    /// As [`try_read`](Self::try_read), but appends to `buf`, which may be a `Vec<u8>` or a buffer
    /// of the `bytes` crate. A buffer that can grow does so if it has no room.
    ///
    /// # Errors
    ///
    /// As [`try_read`](Self::try_read).
    pub fn try_read_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.attempt(|fd| read::read_buf(fd, buf))
    }

    /// As [`try_read`](Self::try_read), into several buffers, filled in their order.
    ///
    /// # Errors
    ///
    /// As [`try_read`](Self::try_read).
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let passed = passed_on(bufs);
        self.attempt(|fd| Ok(rustix::io::readv(fd, &mut bufs[passed])?))
    }

    fn attempt(&self, read: impl FnOnce(&OwnedFd) -> io::Result<usize>) -> io::Result<usize> {
        self.io.try_transfer(Direction::Read, NO_FULL_READ, read)
    }
}

impl AsyncRead for Receiver {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let read = |fd: &OwnedFd| read::read(fd, buf);
        let read = self
            .io
            .poll_transfer(cx, Direction::Read, NO_FULL_READ, read);
        read.map_ok(drop)
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get_ref().as_fd()
    }
}

impl AsRawFd for Receiver {
    fn as_raw_fd(&self) -> RawFd {
        self.io.get_ref().as_raw_fd()
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&self.io).finish()
    }
}
