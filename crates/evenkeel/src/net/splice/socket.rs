//! The sockets that bytes can be spliced between.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::flow::Splicer;
use crate::io::pipes::{self, Lent, Pipes};
use crate::net::TcpStream;
#[cfg(unix)]
use crate::net::UnixStream;
use crate::net::read;
use crate::net::source::{Direction, Source};
use crate::net::stream::{self, Stream};

/// A stream whose bytes the kernel can move to another one: [`TcpStream`], [`UnixStream`].
///
/// Descriptors that come with the bytes of a Unix socket are closed.
pub trait Socket: sealed::Socket {}

impl<T: sealed::Socket> Socket for T {}

mod sealed {
    use super::*;

    pub trait Socket {
        fn pipes(&self) -> PipesOf<'_>;
        fn poll_fill(
            &self,
            cx: &mut Context<'_>,
            pipe: PipeOf<'_>,
            doubts: bool,
        ) -> Poll<io::Result<usize>>;
        fn poll_drain(&self, cx: &mut Context<'_>, pipe: PipeOf<'_>) -> Poll<io::Result<usize>>;
        fn poll_take(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;
        fn poll_put(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>>;
        /// The same with bytes which others follow at once, or the end.
        fn poll_put_more(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>>;
        /// Whether the peer is known to have ended, though bytes of it may be unread.
        fn has_closed(&self) -> bool;
        fn end(&self) -> io::Result<()>;
        /// Asks for its events, which are waited for in any case: asked for before the first
        /// attempt, they spare one that would find nothing.
        fn watch(&self);
        /// Whether closing it says to the peer what its end would.
        fn ends_by_closing(&self) -> bool;
    }

    /// The pipes of a socket's runtime.
    pub struct PipesOf<'a>(pub(super) &'a Pipes);

    /// A pipe, and the most bytes to move.
    pub struct PipeOf<'a>(pub(super) &'a Lent, pub(super) usize);
}

use sealed::{PipeOf, PipesOf};

/// Implements the trait for a type with the method `source`.
macro_rules! socket {
    ($stream:ident) => {
        impl sealed::Socket for $stream {
            fn pipes(&self) -> PipesOf<'_> {
                PipesOf(pipes_of(self.source()))
            }

            fn poll_fill(
                &self,
                cx: &mut Context<'_>,
                pipe: PipeOf<'_>,
                doubts: bool,
            ) -> Poll<io::Result<usize>> {
                poll_fill(self.source(), cx, pipe, doubts)
            }

            fn poll_drain(
                &self,
                cx: &mut Context<'_>,
                pipe: PipeOf<'_>,
            ) -> Poll<io::Result<usize>> {
                poll_drain(self.source(), cx, pipe)
            }

            fn poll_take(
                &self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                stream::poll_read(self.source(), cx, buf)
            }

            fn poll_put(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                stream::poll_write(self.source(), cx, buf)
            }

            fn poll_put_more(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
                stream::poll_write_more(self.source(), cx, buf)
            }

            fn has_closed(&self) -> bool {
                let ready = self.source().readiness().look().ready();
                ready.is_read_closed() && !ready.is_error()
            }

            fn end(&self) -> io::Result<()> {
                stream::shutdown_write(self.source())
            }

            fn watch(&self) {
                // If it cannot be, whoever waits is told.
                let _ = self.source().register(Direction::Read.into());
            }

            fn ends_by_closing(&self) -> bool {
                !self.source().is_handed_out()
            }
        }
    };
}

socket!(TcpStream);
#[cfg(unix)]
socket!(UnixStream);

fn pipes_of<S: Stream>(source: &Source<S>) -> &Pipes {
    source.runtime().shared().extensions.get()
}

fn poll_fill<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    PipeOf(pipe, len): PipeOf<'_>,
    doubts: bool,
) -> Poll<io::Result<usize>> {
    // The pipe is empty, so `WouldBlock` is about the socket. A short transfer, on the other hand,
    // may be about the pipe, so nothing follows from it.
    debug_assert_eq!(pipe.len(), 0);
    source.poll_transfer(cx, Direction::Read, 0, |socket| {
        match pipes::fill(socket, pipe.pipe(), len) {
            Err(error) if doubts && error.kind() == io::ErrorKind::WouldBlock => {
                read::look_ahead(socket).map(|_| 0)
            }
            filled => filled,
        }
    })
}

fn poll_drain<S: Stream>(
    source: &Source<S>,
    cx: &mut Context<'_>,
    PipeOf(pipe, len): PipeOf<'_>,
) -> Poll<io::Result<usize>> {
    // A signal ends a transfer before the socket is full, so nothing follows from a short one: an
    // event for more room would not come.
    let drained = source.poll_transfer(cx, Direction::Write, 0, |socket| {
        pipes::drain(pipe.pipe(), socket, len)
    });
    if let Poll::Ready(Ok(count)) = drained {
        let shared = source.runtime().shared();
        shared.count_delivery(|counts| counts.count_spliced(count as u64));
    }
    drained
}

/// A socket that is borrowed, so that it can be read in one direction and written in the other.
pub(super) struct Borrowed<'a, T>(pub(super) &'a T);

impl<T: Socket> AsyncRead for Borrowed<'_, T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.poll_take(cx, buf)
    }
}

impl<T: Socket> AsyncWrite for Borrowed<'_, T> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_put(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.end())
    }
}

/// Moves bytes between sockets by pipes.
pub(super) struct ByPipe;

impl<'a, A: Socket, B: Socket> Splicer<Borrowed<'a, A>, Borrowed<'a, B>> for ByPipe {
    fn lend(&self, from: &Borrowed<'a, A>) -> Option<Lent> {
        from.0.pipes().0.lend()
    }

    fn poll_fill(
        &self,
        cx: &mut Context<'_>,
        from: &Borrowed<'a, A>,
        pipe: &Lent,
        len: usize,
        doubts: bool,
    ) -> Poll<io::Result<usize>> {
        from.0.poll_fill(cx, PipeOf(pipe, len), doubts)
    }

    fn poll_drain(
        &self,
        cx: &mut Context<'_>,
        to: &Borrowed<'a, B>,
        pipe: &Lent,
    ) -> Poll<io::Result<usize>> {
        to.0.poll_drain(cx, PipeOf(pipe, pipe.len()))
    }

    fn has_closed(&self, from: &Borrowed<'a, A>) -> bool {
        from.0.has_closed()
    }

    fn poll_put_more(
        &self,
        cx: &mut Context<'_>,
        to: &mut Borrowed<'a, B>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        to.0.poll_put_more(cx, bytes)
    }
}
