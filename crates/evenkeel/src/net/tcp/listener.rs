//! The listening side of TCP.

use std::future;
use std::io;
use std::net::SocketAddr;

use socket2::SockRef;

use super::TcpStream;
use crate::net::ToSocketAddrs;
use crate::net::accept::Pause;
use crate::net::addr::each_address;
use crate::net::methods;
use crate::net::source::Source;

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
}

methods::listener! {
    /// Waits for a connection and returns it with the peer's address.
    TcpListener, mio::net::TcpListener => TcpStream, SocketAddr
}
methods::options! {
    /// Options.
    TcpListener, |listener| listener.io.get_ref();
    /// The time to live of the packets sent, in hops.
    ttl, set_ttl => ttl, set_ttl: u32;
}
methods::descriptor!(
    TcpListener,
    mio::net::TcpListener,
    std::net::TcpListener,
    SocketAddr
);
