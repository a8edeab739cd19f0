//! `futures_io::{AsyncRead, AsyncWrite}` for the streams and their owned halves.
//!
//! If the extension traits of both families are in scope, a call such as `stream.read(..)` is
//! ambiguous. Then name the trait (`AsyncReadExt::read(&mut stream, ..)`), or import only one.

use std::io::{self, IoSlice, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

use crate::net::stream;
use crate::net::tcp::{self, TcpStream};
#[cfg(unix)]
use crate::net::unix::{self, UnixStream};

/// Implements `AsyncRead` for a type whose source is `$source`.
macro_rules! async_read {
    ($type:ty, |$this:ident| $source:expr) => {
        impl AsyncRead for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut [u8],
            ) -> Poll<io::Result<usize>> {
                let $this = self.get_mut();
                stream::poll_read_slice($source, cx, buf)
            }

            fn poll_read_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &mut [IoSliceMut<'_>],
            ) -> Poll<io::Result<usize>> {
                let $this = self.get_mut();
                stream::poll_read_vectored($source, cx, bufs)
            }
        }
    };
}

/// Implements `AsyncWrite` for a type whose source is `$source`. Nothing is buffered, so there is
/// nothing to flush. Closing sends the end of the stream.
macro_rules! async_write {
    ($type:ty, |$this:ident| $source:expr) => {
        impl AsyncWrite for $type {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                let $this = self.get_mut();
                stream::poll_write($source, cx, buf)
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let $this = self.get_mut();
                stream::poll_write_vectored($source, cx, bufs)
            }

            fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }

            fn poll_close(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $this = self.get_mut();
                Poll::Ready(stream::shutdown_write($source))
            }
        }
    };
}

async_read!(TcpStream, |stream| stream.source());
async_read!(&TcpStream, |stream| stream.source());
async_read!(tcp::OwnedReadHalf, |half| half.as_ref().source());
async_write!(TcpStream, |stream| stream.source());
async_write!(&TcpStream, |stream| stream.source());
async_write!(tcp::OwnedWriteHalf, |half| half.as_ref().source());

#[cfg(unix)]
mod on_unix {
    use super::*;

    async_read!(UnixStream, |stream| stream.source());
    async_read!(&UnixStream, |stream| stream.source());
    async_read!(unix::OwnedReadHalf, |half| half.as_ref().source());
    async_write!(UnixStream, |stream| stream.source());
    async_write!(&UnixStream, |stream| stream.source());
    async_write!(unix::OwnedWriteHalf, |half| half.as_ref().source());
}
