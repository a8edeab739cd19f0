//! `futures_io::{AsyncRead, AsyncWrite}` for the streams and their owned halves.
//!
//! If the extension traits of both families are in scope, a call such as `stream.read(..)` is
//! ambiguous. Then name the trait (`AsyncReadExt::read(&mut stream, ..)`), or import only one.

use std::io::{self, IoSliceMut};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_io::{AsyncRead, AsyncWrite};

use crate::net::tcp::{self, TcpStream};
#[cfg(unix)]
use crate::net::unix::{self, UnixStream};
use crate::net::{methods, stream};

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

/// Implements `AsyncWrite` for a type whose source is `$source`.
macro_rules! async_write {
    ($type:ty, |$this:ident| $source:expr) => {
        impl AsyncWrite for $type {
            methods::writing!(|$this| $source, poll_close);
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
