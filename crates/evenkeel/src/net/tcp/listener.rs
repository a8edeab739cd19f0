//! The listening side of TCP.

use std::future;
use std::io;
use std::net::SocketAddr;

use socket2::{Domain, SockRef, Socket, Type};

use super::TcpStream;
use crate::net::ToSocketAddrs;
use crate::net::accept::Pause;
use crate::net::addr::each_address;
use crate::net::methods;
use crate::net::source::Source;
use crate::runtime::Handle;

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
    pub(super) io: Source<mio::net::TcpListener>,
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

    /// Binds one listener for each worker to the same address (`SO_REUSEPORT`), in the workers'
    /// order. The system spreads the connections over them.
    ///
    /// Each listener is watched by its worker, so that a task that accepts from it runs there, and
    /// so does a task that it spawns. A connection that it accepts is watched by the worker that it
    /// was accepted on, too. Other workers help when that one is overloaded: they take tasks, with
    /// their connections. In exchange, each worker wakes for itself, even if one would do; listen
    /// with [`bind`](Self::bind) unless thousands of connections come in each second.
    ///
    /// Close all of them, or none: connections in the queue of a listener that is closed are reset,
    /// although others go on at the same address. (On Linux, unless `net.ipv4.tcp_migrate_req` is
    /// set.) Other processes of the same user can bind the address as well, and get a part of the
    /// connections.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind). Then none is left.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the sockets are closed.
    ///
    /// # Examples
    ///
    /// ```
    /// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
    /// use evenkeel::net::{TcpListener, TcpStream};
    ///
    /// let listeners = TcpListener::bind_per_worker("127.0.0.1:0").await?;
    /// let address = listeners[0].local_addr()?;
    /// for listener in listeners {
    ///     evenkeel::spawn(async move {
    ///         while let Ok((stream, _)) = listener.accept().await {
    ///             // Runs on the same worker, as long as that is not overloaded.
    ///             evenkeel::spawn(async move { drop(stream) });
    ///         }
    ///     });
    /// }
    /// TcpStream::connect(address).await?;
    /// # Ok::<(), std::io::Error>(()) }).unwrap();
    /// ```
    pub async fn bind_per_worker<A: ToSocketAddrs>(addr: A) -> io::Result<Vec<Self>> {
        each_address(addr, |addr| future::ready(bound_per_worker(addr))).await
    }

    /// The worker that watches this listener, if it is one of
    /// [`bind_per_worker`](Self::bind_per_worker): its index in
    /// [`Stats::workers`](crate::stats::Stats::workers).
    pub fn worker(&self) -> Option<usize> {
        self.io.pinned()
    }

    /// Has this worker watch the listener, as those of [`bind_per_worker`](Self::bind_per_worker)
    /// are: for one with options of its own (`SO_REUSEPORT` by
    /// [`TcpSocket`](crate::net::TcpSocket::set_reuseport)), or one that [another
    /// process](crate::net::handover) had.
    ///
    /// Call it before anyone waits for a connection; after that, it changes only what
    /// [`worker`](Self::worker) says.
    ///
    /// # Panics
    ///
    /// There is no such worker.
    pub fn set_worker(&mut self, worker: usize) {
        let workers = self.io.runtime().shared().seats.len();
        assert!(worker < workers, "worker {worker} of {workers}");
        self.io.pin(worker);
    }
}

/// The first asks the system for a port, if `addr` has none; the others get the same.
fn bound_per_worker(mut addr: SocketAddr) -> io::Result<Vec<TcpListener>> {
    let runtime = Handle::try_current().map_err(io::Error::other)?;
    let mut listeners = Vec::new();
    for worker in 0..runtime.shared().seats.len() {
        let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.bind(&addr.into())?;
        socket.listen(BACKLOG)?;
        let socket = mio::net::TcpListener::from_std(socket.into());
        let mut listener = TcpListener::from_mio(socket)?;
        listener.io.pin(worker);
        addr = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

methods::listener! {
    /// Waits for a connection and returns it with the peer's address.
    TcpListener, mio::net::TcpListener => TcpStream, mio::net::TcpStream, SocketAddr
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
