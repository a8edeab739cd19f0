//! A TCP socket that is neither connected nor listening yet.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::{TcpListener, TcpStream};
use crate::net::methods;
use crate::sync::atomic::{AtomicBool, Ordering};

/// A TCP socket that can be configured before it connects or listens.
///
/// Options that have no method here are set through `socket2::SockRef::from(&socket)`.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// use evenkeel::net::TcpSocket;
///
/// let socket = TcpSocket::new_v4()?;
/// socket.set_reuseaddr(true)?;
/// socket.bind("127.0.0.1:0".parse().unwrap())?;
/// let listener = socket.listen(1024)?;
///
/// let client = TcpSocket::new_v4()?;
/// client.set_keepalive(true)?;
/// let client = client.connect(listener.local_addr()?).await?;
/// assert_eq!(client.peer_addr()?, listener.local_addr()?);
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
pub struct TcpSocket {
    inner: Socket,
    /// Whether the descriptor may have duplicates: see `net/source.rs`. Relaxed, as it is read by
    /// the owner, who has it by some synchronisation.
    handed_out: AtomicBool,
}

impl TcpSocket {
    /// Makes a socket for IPv4.
    ///
    /// # Errors
    ///
    /// The error of the system call: no descriptor is left, for example.
    pub fn new_v4() -> io::Result<Self> {
        Self::new(Domain::IPV4)
    }

    /// Makes a socket for IPv6.
    ///
    /// # Errors
    ///
    /// The error of the system call: no descriptor is left, for example.
    pub fn new_v6() -> io::Result<Self> {
        Self::new(Domain::IPV6)
    }

    fn new(domain: Domain) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        let inner = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
        #[cfg(not(target_os = "linux"))]
        let inner = {
            let inner = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
            inner.set_nonblocking(true)?;
            inner
        };
        Ok(Self {
            inner,
            handed_out: AtomicBool::new(false),
        })
    }

    /// Takes over a socket of the standard library that is not connected, and sets it to
    /// non-blocking mode.
    ///
    /// # Errors
    ///
    /// The mode cannot be set.
    pub fn from_std_stream(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            inner: stream.into(),
            handed_out: AtomicBool::new(true),
        })
    }

    /// Gives the socket the local address `addr`.
    ///
    /// # Errors
    ///
    /// The address is in use or not this machine's, or the port needs a privilege.
    pub fn bind(&self, addr: SocketAddr) -> io::Result<()> {
        self.inner.bind(&addr.into())
    }

    /// Connects to `addr`.
    ///
    /// # Errors
    ///
    /// The peer refuses or does not answer, or there is no current runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the socket is closed.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        match self.inner.connect(&addr.into()) {
            Err(error) if !is_in_progress(&error) => return Err(error),
            _ => {}
        }
        let is_handed_out = self.is_handed_out();
        let stream = mio::net::TcpStream::from_std(self.inner.into());
        TcpStream::begun(stream, is_handed_out).await
    }

    /// Listens on the address given to [`bind`](Self::bind).
    ///
    /// The system keeps up to `backlog` connections that nobody has accepted yet; it may cap the
    /// number (`net.core.somaxconn` on Linux).
    ///
    /// # Errors
    ///
    /// The error of the system call, or there is no current runtime.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        self.inner
            .listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
        let is_handed_out = self.is_handed_out();
        let listener = mio::net::TcpListener::from_std(self.inner.into());
        let listener = TcpListener::from_mio(listener)?;
        if is_handed_out {
            listener.io.hand_out();
        }
        Ok(listener)
    }

    fn is_handed_out(&self) -> bool {
        // Relaxed: see the field.
        self.handed_out.load(Ordering::Relaxed)
    }

    fn hand_out(&self) {
        // Relaxed: see the field.
        self.handed_out.store(true, Ordering::Relaxed);
    }

    /// The address given to [`bind`](Self::bind), with the port that the system chose.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        let address = self.inner.local_addr()?;
        address
            .as_socket()
            .ok_or_else(|| io::Error::other("the socket is not an Internet socket"))
    }

    /// Takes the pending error of the socket (`SO_ERROR`), if there is one.
    ///
    /// # Errors
    ///
    /// The option cannot be read.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.inner.take_error()
    }
}

methods::options! {
    /// Options. Accepted streams inherit those of their listener where the system supports it;
    /// Linux does for all of these.
    TcpSocket, |socket| socket.inner;
    /// Whether an address may be bound while connections of a closed listener linger on it.
    reuseaddr, set_reuseaddr => reuse_address, set_reuse_address: bool;
    /// Whether several sockets may bind one address, among which the system spreads connections.
    #[cfg(unix)]
    reuseport, set_reuseport => reuse_port, set_reuse_port: bool;
    /// Whether the system probes an idle connection for a peer that has gone.
    keepalive, set_keepalive => keepalive, set_keepalive: bool;
    /// Whether small writes are sent at once.
    nodelay, set_nodelay => tcp_nodelay, set_tcp_nodelay: bool;
    /// How long closing the socket waits for unsent bytes. Best left alone; see
    /// [`TcpStream::set_linger`](crate::net::TcpStream::set_linger).
    linger, set_linger => linger, set_linger: Option<Duration>;
}

/// Sizes, which the system may round: Linux reports double the size asked for.
impl TcpSocket {
    /// The size of the send buffer, in bytes.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        self.inner.send_buffer_size().map(saturated)
    }

    /// Sets the size of the send buffer, in bytes. It then no longer grows by itself.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn set_send_buffer_size(&self, size: u32) -> io::Result<()> {
        self.inner.set_send_buffer_size(size as usize)
    }

    /// The size of the receive buffer, in bytes.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        self.inner.recv_buffer_size().map(saturated)
    }

    /// Sets the size of the receive buffer, in bytes. It then no longer grows by itself.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn set_recv_buffer_size(&self, size: u32) -> io::Result<()> {
        self.inner.set_recv_buffer_size(size as usize)
    }
}

/// How fast it sends, where the system lets a socket choose.
#[cfg(target_os = "linux")]
impl TcpSocket {
    /// The name of the congestion control (`TCP_CONGESTION`), such as `reno`.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn congestion_control(&self) -> io::Result<String> {
        let name = self.inner.tcp_congestion()?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// Sets the congestion control, by the name that the system has for it. It costs least before
    /// the socket connects.
    ///
    /// # Errors
    ///
    /// The system has none of this name (`NotFound`), or does not let this process use it
    /// (`PermissionDenied`).
    pub fn set_congestion_control(&self, name: &str) -> io::Result<()> {
        self.inner.set_tcp_congestion(name.as_bytes())
    }
}

fn saturated(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

fn is_in_progress(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::EINPROGRESS)
}

impl AsFd for TcpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.hand_out();
        self.inner.as_fd()
    }
}

impl AsRawFd for TcpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.hand_out();
        self.inner.as_raw_fd()
    }
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
