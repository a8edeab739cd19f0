//! The end of a pipe that reads.

use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::BufMut;
use tokio::io::{AsyncRead, ReadBuf};

use super::end::end;
use crate::io::Interest;
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

end!(Receiver, Direction::Read, "reading", "writing");

impl Receiver {
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
