//! A connection whose peer has to take what is written to it, and to speak HTTP/1.
//!
//! Over HTTP/2 a client can take nothing of its answers and still hold its connection, by taking
//! what is written for other reasons, such as pings. No client of this server needs HTTP/2.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use evenkeel::net::{Delivery, TcpStream, UnixStream};
use evenkeel::serve::Listener;
use evenkeel::time::{Sleep, sleep};
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};

/// A listener whose connections are [`TimedIo`].
#[derive(Debug)]
pub(crate) struct TimedListener<L> {
    pub(crate) listener: L,
    pub(crate) timeout: Duration,
}

/// A connection whose requests can be delivered at once, whatever the runtime's streams begin with:
/// who has set a long delay has to be able to end it.
pub(crate) trait Prompt {
    fn deliver_at_once(&self) -> io::Result<()>;
}

impl Prompt for TcpStream {
    fn deliver_at_once(&self) -> io::Result<()> {
        self.set_delivery(Delivery::Immediate)
    }
}

impl Prompt for UnixStream {
    fn deliver_at_once(&self) -> io::Result<()> {
        self.set_delivery(Delivery::Immediate)
    }
}

impl<L: Listener<Io: Prompt>> Listener for TimedListener<L> {
    type Io = TimedIo<L::Io>;
    type Address = L::Address;

    async fn accept(&mut self) -> io::Result<(Self::Io, Self::Address)> {
        let (io, address) = self.listener.accept().await?;
        io.deliver_at_once()?;
        let timeout = self.timeout;
        let io = TimedIo {
            io,
            timeout,
            waits: None,
            same: 0,
        };
        Ok((io, address))
    }
}

/// A connection that fails when its peer takes nothing for so long.
pub(crate) struct TimedIo<T> {
    io: T,
    timeout: Duration,
    /// Since the last write that did not wait.
    waits: Option<Pin<Box<Sleep>>>,
    /// How many bytes came that are those with which [`HTTP_2`] begins; `usize::MAX` if another
    /// one did.
    same: usize,
}

/// How a client of HTTP/2 begins, and no request of HTTP/1.
const HTTP_2: &[u8] = b"PRI ";

impl<T> TimedIo<T> {
    /// Passes on what a write came to, unless it has been waiting for too long.
    fn bound<V>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<V>>,
    ) -> Poll<io::Result<V>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let timeout = self.timeout;
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(timeout)));
        waits.as_mut().poll(cx).map(|()| {
            let message = "the client took nothing of its answer for too long";
            Err(io::Error::new(io::ErrorKind::TimedOut, message))
        })
    }
}

impl<T: Read + Unpin> Read for TimedIo<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let Some(rest) = HTTP_2.get(self.same..) else {
            return Pin::new(&mut self.io).poll_read(cx, buf);
        };
        let mut bytes = [0; HTTP_2.len()];
        let few = rest.len().min(buf.remaining());
        let mut first = ReadBuf::new(&mut bytes[..few]);
        ready!(Pin::new(&mut self.io).poll_read(cx, first.unfilled()))?;
        let first = first.filled();
        if !rest.starts_with(first) {
            self.same = usize::MAX;
        } else if first.len() == rest.len() {
            let message = "the client speaks HTTP/2, which is not served here; use HTTP/1.1";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::Unsupported, message)));
        } else {
            self.same += first.len();
        }
        buf.put_slice(first);
        Poll::Ready(Ok(()))
    }
}

impl<T: Write + Unpin> Write for TimedIo<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.bound(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.io).poll_flush(cx);
        self.bound(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.bound(cx, written)
    }
}
