//! The end of a pipe that writes.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use super::end::end;
use crate::io::Interest;
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

end!(Sender, Direction::Write, "writing", "reading");

impl Sender {
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
