//! hyper's traits for the sockets.
//!
//! Where `cargo evenkeel` has Evenkeel beneath Tokio, the features that depend on hyper are in a
//! package above it. There, `compat/above/hyper/sockets.rs` is in this file's place: a package
//! cannot implement another's traits for the types of a third.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use ::hyper::rt::{self, ReadBufCursor};

use crate::net::unix::{self, UnixStream};
use crate::net::{methods, read, tcp};

pub(super) use crate::net::tcp::TcpStream;

/// Implements `Read` for a type whose source is `$source`.
macro_rules! reading {
    ($type:ty, |$this:ident| $source:expr) => {
        impl rt::Read for $type {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                cursor: ReadBufCursor<'_>,
            ) -> Poll<io::Result<()>> {
                let $this = self.get_mut();
                read::poll_read_cursor($source, cx, cursor)
            }
        }
    };
}

/// Implements `Write` for a type whose source is `$source`.
macro_rules! writing {
    ($type:ty, |$this:ident| $source:expr) => {
        impl rt::Write for $type {
            methods::writing!(|$this| $source, poll_shutdown, is_write_vectored);
        }
    };
}

reading!(TcpStream, |stream| stream.source());
reading!(tcp::OwnedReadHalf, |half| half.as_ref().source());
writing!(TcpStream, |stream| stream.source());
writing!(tcp::OwnedWriteHalf, |half| half.as_ref().source());

reading!(UnixStream, |stream| stream.source());
reading!(unix::OwnedReadHalf, |half| half.as_ref().source());
writing!(UnixStream, |stream| stream.source());
writing!(unix::OwnedWriteHalf, |half| half.as_ref().source());
