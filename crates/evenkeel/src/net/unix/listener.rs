//! The listening side of Unix streams.

use std::io;
use std::os::unix::net::SocketAddr;
use std::path::Path;

use super::UnixStream;
use crate::net::accept::Pause;
use crate::net::methods;
use crate::net::source::Source;

/// A Unix socket that listens for connections.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// use evenkeel::net::{UnixListener, UnixStream};
///
/// let path = std::env::temp_dir().join(format!("evenkeel-doc-{}.sock", std::process::id()));
/// let listener = UnixListener::bind(&path)?;
/// let client = UnixStream::connect(&path).await?;
/// let (server, _) = listener.accept().await?;
/// assert_eq!(server.local_addr()?.as_pathname(), Some(path.as_path()));
/// std::fs::remove_file(&path)?;
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
pub struct UnixListener {
    io: Source<mio::net::UnixListener>,
    pause: Pause,
}

impl UnixListener {
    /// Binds to `path`, which must not exist, and listens there.
    ///
    /// # Errors
    ///
    /// The path exists (`AddrInUse`) or cannot be made, or there is no current runtime.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        mio::net::UnixListener::bind(path).and_then(Self::from_mio)
    }

    /// Binds to `address`, which may be an abstract name, and listens there.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn bind_addr(address: &SocketAddr) -> io::Result<Self> {
        mio::net::UnixListener::bind_addr(address).and_then(Self::from_mio)
    }
}

methods::listener! {
    /// Waits for a connection and returns it with the peer's address, most often an unnamed one.
    UnixListener, mio::net::UnixListener => UnixStream, mio::net::UnixStream, SocketAddr
}
methods::descriptor!(
    UnixListener,
    mio::net::UnixListener,
    std::os::unix::net::UnixListener,
    SocketAddr
);
