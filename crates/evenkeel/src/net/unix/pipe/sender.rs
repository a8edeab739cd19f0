//! The end of a pipe that writes.

use std::fmt;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use super::descriptor::{self, set_nonblocking};
use crate::io::{Interest, Ready};
use crate::net::source::{Direction, Source};
use crate::net::stream::passed_on;

/// A short write need not have filled the pipe: up to `PIPE_BUF` bytes are written all at once or
/// not at all, so there may be room for fewer.
const NO_FULL_WRITE: usize = 0;

/// The end of a pipe that writes.
///
/// Made by [`pipe`](super::pipe), by [`OpenOptions`](super::OpenOptions), or of a descriptor. It
/// implements [`AsyncWrite`]. The receiver sees the end of the pipe when all senders have been
/// dropped; `shutdown` alone does nothing.
pub struct Sender {
    io: Source<OwnedFd>,
}

impl Sender {
    /// Takes over an open pipe, and sets it to non-blocking mode.
    ///
    /// The mode belongs to all duplicates of the descriptor, also in other processes.
    ///
    /// # Errors
    ///
    /// The file is not a pipe that is open for writing (`InvalidInput`), or there is no current
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
        descriptor::check(&fd, Direction::Write)?;
        set_nonblocking(&fd, true)?;
        Self::from_owned_fd_unchecked(fd)
    }

    /// Takes over a descriptor that is known to be a pipe, open for writing and non-blocking.
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
        let io = descriptor::source(fd, Direction::Write)?;
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

    /// Gives back the descriptor, in blocking mode: for a child process, most of which expect that.
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
    /// The interest includes reading (`InvalidInput`), or the runtime is shutting down.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.io.check(interest)?;
        self.io.ready(interest).await
    }

    /// Waits until there is room to write, or nobody reads any more.
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
    pub async fn writable(&self) -> io::Result<()> {
        self.io.ready(Interest::WRITABLE).await.map(drop)
    }

    /// As [`writable`](Self::writable), for one waiter at a time; shares it with [`AsyncWrite`].
    ///
    /// # Errors
    ///
    /// The runtime is shutting down.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, Direction::Write)
    }

    /// Writes as much of `buf` as there is room for, without waiting. Up to `PIPE_BUF` bytes (4 KiB
    /// on Linux) are written all at once or not at all.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room: wait with [`writable`](Self::writable). `BrokenPipe` if
    /// nobody reads any more.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.try_io(Direction::Write, |fd| write(fd, buf))
    }

    /// As [`try_write`](Self::try_write), from several buffers, in their order.
    ///
    /// # Errors
    ///
    /// As [`try_write`](Self::try_write).
    pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.io
            .try_io(Direction::Write, |fd| write_vectored(fd, bufs))
    }
}

fn write(fd: &OwnedFd, buf: &[u8]) -> io::Result<usize> {
    Ok(rustix::io::write(fd, buf)?)
}

fn write_vectored(fd: &OwnedFd, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
    Ok(rustix::io::writev(fd, &bufs[passed_on(bufs)])?)
}

impl AsyncWrite for Sender {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let write = |fd: &OwnedFd| write(fd, buf);
        self.io
            .poll_transfer(cx, Direction::Write, NO_FULL_WRITE, write)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let write = |fd: &OwnedFd| write_vectored(fd, bufs);
        self.io
            .poll_transfer(cx, Direction::Write, NO_FULL_WRITE, write)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Does nothing: a pipe ends when its senders are dropped.
    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.io.get_ref().as_fd()
    }
}

impl AsRawFd for Sender {
    fn as_raw_fd(&self) -> RawFd {
        self.io.get_ref().as_raw_fd()
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&self.io).finish()
    }
}
