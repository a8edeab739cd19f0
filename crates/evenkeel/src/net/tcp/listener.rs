//! The listening side of TCP.

use std::future;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, ready};

use socket2::SockRef;

use super::TcpStream;
use crate::net::ToSocketAddrs;
use crate::net::accept::{Pause, skip_dead};
use crate::net::addr::each_address;
use crate::net::methods;
use crate::net::source::{Direction, Source};

/// How many connections may wait to be accepted. The 128 of std and mio are too few when all
/// clients reconnect after a restart; one that finds no place tries again a second later.
const BACKLOG: i32 = 1_024;

/// A TCP socket that listens for connections.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// use evenkeel::net::{TcpListener, TcpStream};
///
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let client = TcpStream::connect(listener.local_addr()?).await?;
/// let (server, from) = listener.accept().await?;
/// assert_eq!(from, client.local_addr()?);
/// assert_eq!(server.peer_addr()?, from);
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
pub struct TcpListener {
    io: Source<mio::net::TcpListener>,
    pause: Pause,
}

fn bound(addr: SocketAddr) -> io::Result<mio::net::TcpListener> {
    let listener = mio::net::TcpListener::bind(addr)?;
    // It listens already; a second `listen` only changes the backlog.
    SockRef::from(&listener).listen(BACKLOG)?;
    Ok(listener)
}

impl TcpListener {
    /// Binds to `addr` and listens there. Port 0 asks the system for a free port, which
    /// [`local_addr`](Self::local_addr) returns.
    ///
    /// Where a name has several addresses, the first that can be bound is. The address may be bound
    /// again at once after the listener is closed (`SO_REUSEADDR`). Up to 1024 connections wait to
    /// be accepted, or as many as the system allows. Other options, and another length of the
    /// backlog, can be chosen with a [`TcpSocket`](crate::net::TcpSocket).
    ///
    /// # Errors
    ///
    /// No address could be bound (the error is that of the last one tried), or there is no current
    /// runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the socket is closed.
    pub async fn bind<A: ToSocketAddrs>(addr: A) -> io::Result<Self> {
        each_address(addr, |addr| {
            future::ready(bound(addr).and_then(Self::from_mio))
        })
        .await
    }

    /// Waits for a connection and returns it with the peer's address.
    ///
    /// A connection that was aborted while it was queued is skipped.
    ///
    /// # Errors
    ///
    /// Errors come from the system and leave the listener as it was, so a server may carry on.
    ///
    /// When the process or the system is out of descriptors (`EMFILE`, `ENFILE`) or of memory for
    /// sockets, the error is returned at once, and the *next* attempt waits first: 10 ms, doubling
    /// to 100 ms while the shortage lasts, and none after a success. A loop that only logs the
    /// error and accepts again therefore neither spins nor stops serving; the connections wait in
    /// the backlog.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no connection is lost. Any number of tasks may wait at once.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.pause.wait().await;
        let accepted = self
            .io
            .io(Direction::Read, |io| skip_dead(|| io.accept()))
            .await;
        Self::accepted(self.pause.note(accepted))
    }

    /// Like [`accept`](Self::accept), for one waiter at a time.
    ///
    /// # Errors
    ///
    /// As [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        ready!(self.pause.poll(cx));
        let accepted = ready!(
            self.io
                .poll_io(cx, Direction::Read, |io| skip_dead(|| io.accept()))
        );
        Poll::Ready(Self::accepted(self.pause.note(accepted)))
    }

    pub(super) fn from_mio(listener: mio::net::TcpListener) -> io::Result<Self> {
        Ok(Self {
            io: Source::new(listener)?,
            pause: Pause::new(),
        })
    }

    fn accepted(
        accepted: io::Result<(mio::net::TcpStream, SocketAddr)>,
    ) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, from) = accepted?;
        Ok((TcpStream::from_mio(stream)?, from))
    }

    /// The address that this listener is bound to.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }

    /// The time to live of the packets sent, in hops.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn ttl(&self) -> io::Result<u32> {
        self.io.get_ref().ttl()
    }

    /// Sets the time to live of the packets sent, in hops.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        self.io.get_ref().set_ttl(ttl)
    }
}

methods::descriptor!(TcpListener, mio::net::TcpListener, std::net::TcpListener);
