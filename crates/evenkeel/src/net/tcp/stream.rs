//! A TCP connection.

use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::ReadBuf;

use crate::io::{Interest, Ready};
use crate::net::ToSocketAddrs;
use crate::net::addr::each_address;
use crate::net::source::{Direction, Source};
use crate::net::stream::begin_delivery;
use crate::net::{methods, read};
use crate::sched::coop;

/// A TCP connection.
///
/// Bytes move through [`tokio::io::AsyncRead`] and [`tokio::io::AsyncWrite`], with the methods of
/// `tokio::io::AsyncReadExt` and `AsyncWriteExt` on top, or through [`readable`](Self::readable)
/// with [`try_read`](Self::try_read) and their like. Shutting the write side down (`shutdown` of
/// `AsyncWriteExt`) sends the end of the stream, and reading goes on.
///
/// Both directions can be used at once from two tasks by [`split`](Self::split) or
/// [`into_split`](Self::into_split), or through `&TcpStream`, which implements the two traits too;
/// each direction has one waiter at a time.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// use evenkeel::net::{TcpListener, TcpStream};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// let listener = TcpListener::bind("127.0.0.1:0").await?;
/// let mut client = TcpStream::connect(listener.local_addr()?).await?;
/// let (mut server, _) = listener.accept().await?;
///
/// client.write_all(b"ping").await?;
/// client.shutdown().await?;
///
/// let mut heard = Vec::new();
/// server.read_to_end(&mut heard).await?;
/// assert_eq!(heard, b"ping");
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
pub struct TcpStream {
    pub(super) io: Source<mio::net::TcpStream>,
}

impl TcpStream {
    /// Connects to `addr`.
    ///
    /// Where a name has several addresses, they are tried one after the other until one accepts.
    /// The system may go on trying an address that does not answer for minutes: wrap the call in a
    /// [`timeout`](crate::time::timeout).
    ///
    /// # Errors
    ///
    /// No address accepted (the error is that of the last one tried), or there is no current
    /// runtime.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the socket is closed.
    pub async fn connect<A: ToSocketAddrs>(addr: A) -> io::Result<Self> {
        each_address(addr, |addr| async move {
            let stream = mio::net::TcpStream::connect(addr)?;
            Self::begun(stream, false).await
        })
        .await
    }

    /// Waits until a stream whose connection is being made is connected.
    pub(super) async fn begun(
        stream: mio::net::TcpStream,
        is_handed_out: bool,
    ) -> io::Result<Self> {
        // A peer on this machine has answered by now, mostly: to ask costs less than a wait.
        let at_once = stream.peer_addr().is_ok();
        if at_once {
            // A task that connects again and again gives way, as if it had waited.
            coop::checkpoint().await;
        }
        let io = match at_once {
            // Nothing has come that an attempt could read.
            true => Source::with_readiness(stream, Ready::WRITABLE)?,
            false => Source::new_pending(stream)?,
        };
        if is_handed_out {
            io.hand_out();
        }
        if at_once {
            begin_delivery(&io);
            return Ok(Self { io });
        }
        Self::connected(io).await
    }

    /// Waits for the outcome.
    async fn connected(io: Source<mio::net::TcpStream>) -> io::Result<Self> {
        loop {
            let seen = io.seen(Interest::WRITABLE).await?;
            match outcome(seen.ready(), io.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    io.readiness().clear_blocked(seen, Direction::Write);
                }
                result => break result?,
            }
        }
        coop::got_on();
        begin_delivery(&io);
        Ok(Self { io })
    }

    /// Like [`peek`](Self::peek), for one waiter at a time.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        self.io
            .poll_io(cx, Direction::Read, |stream| read::peek(stream, buf))
    }

    /// How long closing the socket waits for unsent bytes; `None` is the system's default.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        SockRef::from(self.io.get_ref()).linger()
    }

    /// Makes closing the socket reset the connection and discard unsent bytes.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        SockRef::from(self.io.get_ref()).set_linger(Some(Duration::ZERO))
    }

    /// Sets how long closing the socket waits for unsent bytes, in whole seconds.
    ///
    /// **The thread that closes the socket waits that long**, and with it every task of its worker,
    /// unless `linger` is `None` (the default: the system sends the rest in the background) or zero
    /// (see [`set_zero_linger`](Self::set_zero_linger)).
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        SockRef::from(self.io.get_ref()).set_linger(linger)
    }
}

methods::options! {
    /// Options.
    TcpStream, |stream| stream.io.get_ref();
    /// Whether small writes are sent at once (`TCP_NODELAY`), instead of being gathered until the
    /// peer has acknowledged earlier data.
    nodelay, set_nodelay => nodelay, set_nodelay: bool;
    /// The time to live of the packets sent, in hops.
    ttl, set_ttl => ttl, set_ttl: u32;
}

methods::descriptor!(
    TcpStream,
    mio::net::TcpStream,
    std::net::TcpStream,
    SocketAddr
);
methods::readiness!(TcpStream);
methods::stream!(TcpStream, mio::net::TcpStream, SocketAddr);

/// What has come of a connection whose socket is reported to be ready. `WouldBlock` if nothing has
/// yet.
fn outcome(ready: Ready, stream: &mio::net::TcpStream) -> io::Result<()> {
    // Linux reports a socket that waits for its peer's answer as ready for nothing, and one whose
    // connection has failed as closed. So the report says all.
    let is_open = !ready.is_write_closed() && !ready.is_read_closed() && !ready.is_error();
    if cfg!(target_os = "linux") && is_open {
        return Ok(());
    }
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(()),
        // The event came before the peer's answer.
        Err(error) if is_still_connecting(&error) => Err(io::ErrorKind::WouldBlock.into()),
        Err(error) => Err(error),
    }
}

/// Whether this error of `peer_addr` means that the connection is still being made.
fn is_still_connecting(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotConnected || error.raw_os_error() == Some(libc::EINPROGRESS)
}
