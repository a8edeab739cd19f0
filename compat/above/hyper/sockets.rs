//! A socket for hyper: neither its traits nor the socket are this package's, so there is a wrapper.

#![cfg(feature = "client")]

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;

use crate::net;

/// A stream of Evenkeel's that hyper takes.
#[derive(Debug)]
pub struct TcpStream(TokioIo<net::TcpStream>);

impl TcpStream {
    pub(super) async fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = net::TcpStream::connect(address).await?;
        Ok(Self(TokioIo::new(stream)))
    }

    /// See the method of the stream itself.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.inner().set_nodelay(nodelay)
    }

    /// See the method of the stream itself.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.inner().peer_addr()
    }
}

impl Read for TcpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, cursor)
    }
}

impl Write for TcpStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, parts)
    }
}
