//! Sockets that take connections.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use evenkeel::net::{TcpListener, TcpSocket, UnixListener, UnixStream, lookup_host};

use crate::socket::{Address, Socket};

/// How many connections may wait to be accepted: as many as systems commonly allow.
const BACKLOG: u32 = 4_096;

/// A socket that takes connections.
#[derive(Debug)]
pub enum Listener {
    /// Over TCP.
    Tcp(TcpListener),
    /// Over a Unix socket, whose file goes with it.
    Unix(UnixListener, SocketFile),
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
                let mut result = Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "the name has no address",
                ));
                for address in lookup_host(address.as_str()).await? {
                    result = bind_tcp(address).map(Self::Tcp);
                    if result.is_ok() {
                        break;
                    }
                }
                result
            }
            Address::Unix(path) => {
                remove_dead(path).await?;
                let listener = UnixListener::bind(path)?;
                Ok(Self::Unix(listener, SocketFile(path.clone())))
            }
        }
    }

    /// Takes the next connection.
    ///
    /// # Errors
    ///
    /// Those of the system, such as that no descriptor is left.
    pub async fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // It would only be slower.
                let _ = stream.set_nodelay(true);
                Ok(Socket::Tcp(stream))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok(Socket::Unix(stream))
            }
        }
    }

    /// Where it listens, with the port that the system has chosen.
    pub fn shown(&self) -> String {
        match self {
            Self::Tcp(listener) => match listener.local_addr() {
                Ok(address) => address.to_string(),
                Err(error) => format!("an address that the system does not say: {error}"),
            },
            Self::Unix(_, file) => Address::Unix(file.0.clone()).to_string(),
        }
    }
}

/// The file of a Unix socket, which is removed when this is dropped.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Whoever comes next removes it.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
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
