//! Datagrams between processes of one machine.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::SocketAddr;
use std::path::Path;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use socket2::SockAddr;
use tokio::io::ReadBuf;

use super::{RETRY_MAX, RETRY_MIN};
use crate::net::source::{Direction, Source};
use crate::net::{Delivery, datagrams, methods, read};
use crate::time::sleep;

/// A Unix socket for datagrams, which arrive whole, in order and without loss.
///
/// There are no halves: all methods take `&self`, so tasks can share the socket in an `Arc`. A
/// datagram that is longer than the receiver's buffer is truncated.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// use evenkeel::net::UnixDatagram;
///
/// let (here, there) = UnixDatagram::pair()?;
/// here.send(b"ping").await?;
/// let mut buf = [0; 16];
/// let len = there.recv(&mut buf).await?;
/// assert_eq!(&buf[..len], b"ping");
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
pub struct UnixDatagram {
    io: Source<mio::net::UnixDatagram>,
}

impl UnixDatagram {
    /// Binds to `path`, which must not exist.
    ///
    /// # Errors
    ///
    /// The path exists (`AddrInUse`) or cannot be made, or there is no current runtime.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        mio::net::UnixDatagram::bind(path).and_then(Self::from_mio)
    }

    /// Makes a socket without an address. It can send, but nobody can answer.
    ///
    /// # Errors
    ///
    /// No descriptor is left, or there is no current runtime.
    pub fn unbound() -> io::Result<Self> {
        mio::net::UnixDatagram::unbound().and_then(Self::from_mio)
    }

    /// Makes two sockets that are connected to each other.
    ///
    /// # Errors
    ///
    /// No descriptor is left, or there is no current runtime.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = mio::net::UnixDatagram::pair()?;
        Ok((Self::from_mio(one)?, Self::from_mio(other)?))
    }

    fn from_mio(socket: mio::net::UnixDatagram) -> io::Result<Self> {
        Ok(Self {
            io: Source::new(socket)?,
        })
    }

    /// Makes the socket at `path` the only peer that this socket sends to and receives from.
    ///
    /// # Errors
    ///
    /// No socket for datagrams is at `path`.
    pub fn connect(&self, path: impl AsRef<Path>) -> io::Result<()> {
        self.io.get_ref().connect(path)
    }

    /// Sets how the reader of this socket is woken.
    ///
    /// Datagrams have no watermark: [`Delivery::Coalesce`] asks for `bytes: usize::MAX` and goes by
    /// the delay alone. Senders wait while the receive buffer is full.
    ///
    /// # Errors
    ///
    /// A watermark is asked for, or the delay is too long; the inner error is a
    /// [`DeliveryError`](crate::net::DeliveryError).
    pub fn set_delivery(&self, delivery: Delivery) -> io::Result<()> {
        delivery.check_for_datagrams()?;
        self.io.set_delivery(delivery, false);
        Ok(())
    }

    /// Closes one direction or both, for every descriptor of this socket.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.io.get_ref().shutdown(how)
    }
}

/// Sending to any peer.
impl UnixDatagram {
    /// Sends `buf` as one datagram to the socket at `target`, and returns its length.
    ///
    /// While the receiver's queue is full, this tries again every 1 to 50 ms, without a limit,
    /// because the system reports room there only to a socket that is connected to the receiver.
    /// For the same reason there is no `poll_send_to`. Prefer [`connect`](Self::connect) and
    /// [`send`](Self::send) where there is one receiver.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once.
    pub async fn send_to(&self, buf: &[u8], target: impl AsRef<Path>) -> io::Result<usize> {
        let target = target.as_ref();
        let mut wait = RETRY_MIN;
        loop {
            // Tell the source that this was a success: this socket has room, and no event would end
            // a wait.
            let attempt = self.io.io(Direction::Write, |socket| {
                match socket.send_to(buf, target) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                    result => result.map(Some),
                }
            });
            if let Some(len) = attempt.await? {
                return Ok(len);
            }
            sleep(wait).await;
            wait = (wait * 2).min(RETRY_MAX);
        }
    }

    /// Like [`send_to`](Self::send_to), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if the receiver's queue is full, or this socket's. Then wait a while, since
    /// [`writable`](Self::writable) does not cover the receiver. Else as [`send`](Self::send).
    pub fn try_send_to(&self, buf: &[u8], target: impl AsRef<Path>) -> io::Result<usize> {
        self.io.get_ref().send_to(buf, target)
    }
}

/// Receiving, for the methods that all sockets for datagrams have.
impl UnixDatagram {
    async fn receive<R>(
        &self,
        op: impl FnMut(&mio::net::UnixDatagram) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io.io(Direction::Read, op).await
    }

    fn poll_receive<R>(
        &self,
        cx: &mut Context<'_>,
        op: impl FnMut(&mio::net::UnixDatagram) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.io.poll_io(cx, Direction::Read, op)
    }

    fn try_receive<R>(
        &self,
        op: impl FnOnce(&mio::net::UnixDatagram) -> io::Result<R>,
    ) -> io::Result<R> {
        self.io.try_io(Direction::Read, op)
    }
}

methods::descriptor!(
    UnixDatagram,
    mio::net::UnixDatagram,
    std::os::unix::net::UnixDatagram,
    SocketAddr
);
methods::readiness!(UnixDatagram);
datagrams::datagrams!(
    UnixDatagram, SocketAddr, named,
    sending fails by: "The error of the system call: the peer has gone (`ConnectionRefused`), or \
        `buf` is too long.",
    receiving fails by: "The error of the system call.",
);

/// The sender's address. The system reports none for a sender that is not bound, which the standard
/// library calls an unnamed address.
fn named(address: &SockAddr) -> io::Result<SocketAddr> {
    address
        .as_unix()
        .map_or_else(|| SocketAddr::from_pathname(""), Ok)
}
