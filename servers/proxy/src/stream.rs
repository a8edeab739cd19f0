//! A connection, over TLS or not.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::BytesMut;
use evenkeel::net::splice::{self, Meter, Moved, TransferError};
use evenkeel::time::timeout;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::socket::Socket;
use crate::spare;
use crate::tls::Session;

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// What is sent is what the socket is given.
    Plain(Socket),
    /// What is sent is encrypted.
    Tls(Box<Session>),
}

impl Stream {
    /// The socket beneath.
    pub fn socket(&self) -> &Socket {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(session) => session.socket(),
        }
    }

    /// The socket, if what it is given is what is sent, so that the kernel may move it.
    pub fn plain(&self) -> Option<&Socket> {
        match self {
            Self::Plain(socket) => Some(socket),
            Self::Tls(_) => None,
        }
    }

    /// The session, if there is one.
    pub fn session(&self) -> Option<&Session> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(session) => Some(session),
        }
    }

    /// Writes what is taken without waiting; 0 if that is nothing. TLS may take more than the
    /// socket beneath, and [hold it back](Self::holds_back).
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write_now(bytes),
            Self::Tls(session) => session.write_now(bytes),
        }
    }

    /// Whether something that was taken waits for room in the socket.
    pub fn holds_back(&self) -> bool {
        self.session().is_some_and(Session::holds_back)
    }

    /// Writes some of what was held back, and returns how many bytes the socket took.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub async fn push(&self) -> io::Result<usize> {
        match self {
            Self::Plain(_) => Ok(0),
            Self::Tls(session) => poll_fn(|cx| session.poll_push(cx)).await,
        }
    }

    /// Reads what is there without waiting, into the room that the buffer has.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: nothing is there. Others are those of the system, and of TLS.
    pub fn read_now(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read_now(buffer),
            Self::Tls(session) => session.read_now(buffer),
        }
    }

    /// Whether nothing has come, and no end. If the last read has found that, and no event has come
    /// since, it costs no system call.
    pub fn is_silent(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_silent(),
            Self::Tls(session) => session.is_silent(),
        }
    }

    /// Whether something was read of the socket that nobody has asked for yet.
    pub fn has_more(&self) -> bool {
        self.session().is_some_and(Session::has_more)
    }

    /// Moves bytes between two connections until both have ended: by the kernel if `splices`,
    /// unless one is over TLS. They are to be closed then, by which the last end is sent.
    ///
    /// # Errors
    ///
    /// That of one of them.
    pub async fn splice_both(
        one: &Self,
        other: &Self,
        meter: &Meter,
        splices: bool,
    ) -> Result<Moved, TransferError> {
        match (one, other) {
            (Self::Plain(one), Self::Plain(other)) if splices => {
                Socket::splice_both(one, other, meter).await
            }
            (mut one, mut other) => {
                splice::copy_bidirectional_metered(&mut one, &mut other, meter).await
            }
        }
    }

    /// Makes its end a reset, by which the peer sees that something is missing.
    pub fn reset(&self) {
        self.socket().reset();
    }

    /// Says over TLS that nothing is missing, within this time. Others say it by ending.
    pub async fn finish(&self, limit: Duration) {
        if let Self::Tls(_) = self {
            // Who does not take it sees a connection that was cut off.
            let _ = timeout(limit, (&*self).shutdown()).await;
        }
    }

    /// The same, if it can be done without waiting.
    pub fn finish_now(&self) {
        if let Self::Tls(session) = self {
            session.finish_now();
        }
    }

    /// Waits for bytes, and reads some into an empty buffer, up to [`spare::ROOM`]. While nothing
    /// comes, it has no memory. Returns 0 at the end of the stream.
    ///
    /// # Errors
    ///
    /// Those of the system, and of TLS.
    pub fn read_first<'s>(
        &'s self,
        buffer: &'s mut BytesMut,
    ) -> impl Future<Output = io::Result<usize>> + 's {
        poll_fn(|cx| self.poll_read_first(buffer, cx))
    }

    /// The same, in one step of it.
    ///
    /// # Errors
    ///
    /// Those of the system, and of TLS.
    pub fn poll_read_first(
        &self,
        buffer: &mut BytesMut,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        loop {
            if buffer.capacity() > 0 {
                spare::give(std::mem::take(buffer));
            }
            if !self.has_more() {
                ready!(self.socket().poll_read_ready(cx))?;
            }
            *buffer = spare::take();
            match self.read_now(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }
}

/// Reading and writing go through a shared reference, one task per direction; over TLS, one task
/// for both.
impl AsyncRead for &Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match **self {
            Stream::Plain(ref socket) => Pin::new(&mut &*socket).poll_read(cx, buffer),
            Stream::Tls(ref session) => session.poll_read(cx, buffer),
        }
    }
}

/// TLS may [hold back](Stream::holds_back) what it took: flush before waiting for something else.
impl AsyncWrite for &Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match **self {
            Stream::Plain(ref socket) => Pin::new(&mut &*socket).poll_write(cx, bytes),
            Stream::Tls(ref session) => session.poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match **self {
            Stream::Plain(ref socket) => Pin::new(&mut &*socket).poll_write_vectored(cx, buffers),
            Stream::Tls(ref session) => {
                let first = buffers.iter().find(|buffer| !buffer.is_empty());
                session.poll_write(cx, first.map_or(&[], |buffer| &**buffer))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.plain().is_some()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match **self {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(ref session) => session.poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Stream::Tls(ref session) = **self {
            session.finish();
            ready!(session.poll_flush(cx))?;
        }
        Pin::new(&mut self.socket()).poll_shutdown(cx)
    }
}
