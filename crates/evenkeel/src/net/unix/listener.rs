//! The listening side of Unix streams.

use std::io;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::task::{Context, Poll, ready};

use super::UnixStream;
use crate::net::accept::{Pause, skip_dead};
use crate::net::methods;
use crate::net::source::{Direction, Source};

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

    fn from_mio(listener: mio::net::UnixListener) -> io::Result<Self> {
        Ok(Self {
            io: Source::new(listener)?,
            pause: Pause::new(),
        })
    }

    /// Waits for a connection and returns it with the peer's address, most often an unnamed one.
    ///
    /// # Errors
    ///
    /// As [`TcpListener::accept`](crate::net::TcpListener::accept), with the same wait after an
    /// attempt for which no descriptor was left.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no connection is lost. Any number of tasks may wait at once.
    pub async fn accept(&self) -> io::Result<(UnixStream, SocketAddr)> {
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
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(UnixStream, SocketAddr)>> {
        ready!(self.pause.poll(cx));
        let accepted = ready!(
            self.io
                .poll_io(cx, Direction::Read, |io| skip_dead(|| io.accept()))
        );
        Poll::Ready(Self::accepted(self.pause.note(accepted)))
    }

    fn accepted(
        accepted: io::Result<(mio::net::UnixStream, SocketAddr)>,
    ) -> io::Result<(UnixStream, SocketAddr)> {
        let (stream, from) = accepted?;
        Ok((UnixStream::from_mio(stream)?, from))
    }

    /// The address that this listener is bound to.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }
}

methods::descriptor!(
    UnixListener,
    mio::net::UnixListener,
    std::os::unix::net::UnixListener
);
