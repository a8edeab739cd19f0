//! Sockets that take connections.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel::net::handover::{HandoverError, Passed};
use evenkeel::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream, lookup_host};
use evenkeel::runtime::Handle;
use nix::sys::socket::{setsockopt, sockopt};

use crate::congestion::CongestionControl;
use crate::socket::{Address, Ends, Socket};

/// How many connections may wait to be accepted: as many as systems commonly allow.
const BACKLOG: u32 = 4_096;

/// A socket that takes connections.
#[derive(Debug)]
pub enum Listener {
    /// Over TCP.
    Tcp(OverTcp),
    /// Over a Unix socket, whose file goes with it.
    Unix(UnixListener, SocketFile),
}

/// A socket of TCP that takes connections, which inherit its options.
#[derive(Debug)]
pub struct OverTcp {
    listener: TcpListener,
    /// To what clients connect, if that is one address: then no connection has to be asked.
    only: Option<SocketAddr>,
}

impl OverTcp {
    fn new(listener: TcpListener) -> io::Result<Self> {
        // To gather small writes would only be slower.
        setsockopt(&listener, sockopt::TcpNoDelay, &true)?;
        let address = listener.local_addr()?;
        let only = (!address.ip().is_unspecified()).then_some(address);
        Ok(Self { listener, only })
    }

    async fn accept(&self) -> io::Result<(TcpStream, Ends)> {
        let (stream, client) = self.listener.accept().await?;
        let server = match self.only {
            Some(server) => server,
            None => stream.local_addr()?,
        };
        let addresses = Some((client, server));
        Ok((stream, Ends { addresses }))
    }
}

impl Listener {
    /// Listens, with keep-alive, which accepted connections inherit: the system probes silent
    /// peers, so that one whose machine is gone frees its place at some time.
    ///
    /// The file of a Unix socket whose server has ended is replaced; nothing else is.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub async fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let bound = |address| tcp(address, false).and_then(OverTcp::new);
                each_address(address, bound).await.map(Self::Tcp)
            }
            Address::Unix(path) => {
                remove_dead(path).await?;
                let listener = UnixListener::bind(path)?;
                Ok(Self::Unix(listener, SocketFile::new(path)))
            }
            Address::Service(_) => Err(no_address()),
        }
    }

    /// The same with a socket for each worker, over which the system spreads connections
    /// (`SO_REUSEPORT`). On a Unix socket it is one for all.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind). Then none is left.
    pub async fn bind_per_worker(address: &Address) -> io::Result<Vec<Self>> {
        let Address::Tcp(name) = address else {
            return Ok(vec![Self::bind(address).await?]);
        };
        let workers = workers();
        each_address(name, |mut address| {
            let mut listeners = Vec::new();
            for worker in 0..workers {
                let mut listener = tcp(address, true)?;
                listener.set_worker(worker);
                // The first one may have let the system choose the port.
                address = listener.local_addr()?;
                listeners.push(Self::Tcp(OverTcp::new(listener)?));
            }
            Ok(listeners)
        })
        .await
    }

    /// Goes on with a socket of another process, which listened at this address.
    ///
    /// # Errors
    ///
    /// It is something else.
    pub fn of_passed(address: &Address, passed: Passed) -> Result<Self, HandoverError> {
        Ok(match address {
            Address::Tcp(_) => Self::Tcp(OverTcp::new(passed.into_tcp_listener()?)?),
            Address::Service(_) => return Err(no_address().into()),
            Address::Unix(path) => {
                let file = SocketFile::new(path);
                // Until this process serves, as the other one goes on if it never does.
                file.leave(true);
                Self::Unix(passed.into_unix_listener()?, file)
            }
        })
    }

    /// The same with several, one for each worker. If there are more workers now, there are more
    /// sockets; if there are fewer, some have several, as connections may wait in each.
    ///
    /// # Errors
    ///
    /// They are something else, or those of the system.
    pub fn of_passed_per_worker(
        address: &Address,
        passed: Vec<Passed>,
    ) -> Result<Vec<Self>, HandoverError> {
        let workers = workers();
        let mut listeners = Vec::new();
        for (index, passed) in passed.into_iter().enumerate() {
            let mut listener = Self::of_passed(address, passed)?;
            if let Self::Tcp(tcp) = &mut listener {
                tcp.listener.set_worker(index % workers);
            }
            listeners.push(listener);
        }
        if let Some(Self::Tcp(first)) = listeners.first() {
            let address = first.listener.local_addr()?;
            for worker in listeners.len()..workers {
                let mut listener = tcp(address, true)?;
                listener.set_worker(worker);
                listeners.push(Self::Tcp(OverTcp::new(listener)?));
            }
        }
        Ok(listeners)
    }

    /// Has connections that are taken from now on use this congestion control.
    ///
    /// # Errors
    ///
    /// As [`CongestionControl::set`].
    pub fn set_congestion_control(&self, control: &CongestionControl) -> io::Result<()> {
        match self {
            Self::Tcp(tcp) => {
                let address = tcp.listener.local_addr()?;
                control.set(&tcp.listener, address.ip())
            }
            Self::Unix(..) => Ok(()),
        }
    }

    /// Takes the next connection, and says who is at its ends.
    ///
    /// # Errors
    ///
    /// Those of the system, such as that no descriptor is left.
    pub async fn accept(&self) -> io::Result<(Socket, Ends)> {
        match self {
            Self::Tcp(tcp) => {
                let (stream, ends) = tcp.accept().await?;
                Ok((Socket::Tcp(stream), ends))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Socket::Unix(stream), Ends::default()))
            }
        }
    }

    /// Where it listens, with the port that the system has chosen.
    pub fn shown(&self) -> String {
        match self {
            Self::Tcp(tcp) => match tcp.listener.local_addr() {
                Ok(address) => address.to_string(),
                Err(error) => format!("an address that the system does not say: {error}"),
            },
            Self::Unix(_, file) => Address::Unix(file.path.clone()).to_string(),
        }
    }

    /// Leaves the file of a Unix socket where it is, as another process listens there now.
    pub fn leave_file(&self) {
        if let Self::Unix(_, file) = self {
            file.leave(true);
        }
    }

    /// This process serves here from now on, and removes the file of a Unix socket at the end.
    pub fn take_file(&self) {
        if let Self::Unix(_, file) = self {
            file.leave(false);
        }
    }
}

/// The socket, to be passed on to another process.
impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(tcp) => tcp.listener.as_fd(),
            Self::Unix(listener, _) => listener.as_fd(),
        }
    }
}

/// The file of a Unix socket, which is removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    is_left: AtomicBool,
}

impl SocketFile {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            is_left: AtomicBool::new(false),
        }
    }

    fn leave(&self, is_left: bool) {
        // Relaxed: whoever drops the listener last has it by some synchronisation.
        self.is_left.store(is_left, Ordering::Relaxed);
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !*self.is_left.get_mut() {
            // Whoever comes next removes it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Services name servers to connect to, and nowhere to listen.
fn no_address() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "a service is no address to listen on",
    )
}

fn workers() -> usize {
    Handle::current().stats().workers.len()
}

/// The first address of a name with which it can be done.
async fn each_address<T>(
    name: &str,
    listen: impl Fn(SocketAddr) -> io::Result<T>,
) -> io::Result<T> {
    let mut result = Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "the name has no address",
    ));
    for address in lookup_host(name).await? {
        result = listen(address);
        if result.is_ok() {
            break;
        }
    }
    result
}

fn tcp(address: SocketAddr, is_shared: bool) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(is_shared)?;
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Removes the file of a socket on which nobody listens.
async fn remove_dead(path: &Path) -> io::Result<()> {
    let Ok(kind) = std::fs::symlink_metadata(path).map(|metadata| metadata.file_type()) else {
        return Ok(());
    };
    if !kind.is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is no socket is in the way; remove it, or choose another path",
        ));
    }
    match UnixStream::connect(path).await {
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another process listens there; end it, or choose another path",
        )),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        Err(error) => Err(error),
    }
}
