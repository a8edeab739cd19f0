//! A connection with TLS or without. Hands are shaken when it is first read from or written to, so
//! that a client that does not holds up no other.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use evenkeel::net::TcpStream;
use hyper::rt::{Read, ReadBufCursor, Write};
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{Accept, TlsAcceptor, TlsStream, client};

use super::Certificate;

/// So much of a request is read at a time.
const READ_BYTES: usize = 4 << 10;

/// A connection, with TLS or without.
#[derive(Debug)]
pub struct Stream(State);

enum State {
    Plain(TcpStream),
    Shaking(Box<Accept<TcpStream>>),
    Secured(Box<TlsStream<TcpStream>>),
    /// The handshake has failed.
    Broken,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Shaking(_) => "Shaking",
            Self::Secured(_) => "Secured",
            Self::Broken => "Broken",
        })
    }
}

impl Stream {
    /// Without TLS.
    pub fn plain(socket: TcpStream) -> Self {
        Self(State::Plain(socket))
    }

    /// The server's side of a connection for HTTP.
    pub fn http(socket: TcpStream, certificate: Option<&Certificate>) -> Self {
        Self::accepting(socket, certificate.map(Certificate::http))
    }

    /// The same for RTSP.
    pub fn rtsp(socket: TcpStream, certificate: Option<&Certificate>) -> Self {
        Self::accepting(socket, certificate.map(Certificate::rtsp))
    }

    fn accepting(socket: TcpStream, config: Option<Arc<ServerConfig>>) -> Self {
        Self(match config {
            None => State::Plain(socket),
            Some(config) => State::Shaking(Box::new(TlsAcceptor::from(config).accept(socket))),
        })
    }

    /// The client's side of one, after the handshake.
    pub fn connected(stream: client::TlsStream<TcpStream>) -> Self {
        Self(State::Secured(Box::new(stream.into())))
    }

    /// Its socket; `None` after a handshake that failed.
    pub fn socket(&self) -> Option<&TcpStream> {
        match &self.0 {
            State::Plain(socket) => Some(socket),
            State::Shaking(accept) => accept.get_ref(),
            State::Secured(stream) => Some(stream.get_ref().0),
            State::Broken => None,
        }
    }

    /// What is read and written, when hands have been shaken.
    fn ready(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Pin<&mut dyn Both>>> {
        if let State::Shaking(accept) = &mut self.0 {
            self.0 = match ready!(Pin::new(&mut **accept).poll(cx)) {
                Ok(stream) => State::Secured(Box::new(stream.into())),
                Err(error) => {
                    self.0 = State::Broken;
                    return Poll::Ready(Err(error));
                }
            };
        }
        Poll::Ready(match &mut self.0 {
            State::Plain(socket) => Ok(Pin::new(socket)),
            State::Secured(stream) => Ok(Pin::new(&mut **stream)),
            State::Shaking(_) | State::Broken => Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.ready(cx))?.poll_read(cx, buf)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Write::poll_write(self, cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_flush(self, cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_shutdown(self, cx)
    }
}

trait Both: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Both for T {}

impl Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if let State::Plain(socket) = &mut self.0 {
            return Read::poll_read(Pin::new(socket), cx, buf);
        }
        let stream = ready!(self.ready(cx))?;
        // Requests are short: a copy of them is cheap.
        let mut bytes = [0; READ_BYTES];
        let room = buf.remaining().min(READ_BYTES);
        let mut part = ReadBuf::new(&mut bytes[..room]);
        ready!(AsyncRead::poll_read(stream, cx, &mut part))?;
        buf.put_slice(part.filled());
        Poll::Ready(Ok(()))
    }
}

impl Write for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let stream = ready!(self.ready(cx))?;
        AsyncWrite::poll_write(stream, cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = ready!(self.ready(cx))?;
        AsyncWrite::poll_flush(stream, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = ready!(self.ready(cx))?;
        AsyncWrite::poll_shutdown(stream, cx)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream = ready!(self.ready(cx))?;
        AsyncWrite::poll_write_vectored(stream, cx, bufs)
    }
}
