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
use crate::net::{Delivery, methods, read};
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
    /// No socket of this kind is at `path`.
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

    /// How the reader of this socket is woken.
    pub fn delivery(&self) -> Delivery {
        self.io.delivery()
    }

    /// The address that this socket is bound to.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().local_addr()
    }

    /// The address that this socket is connected to.
    ///
    /// # Errors
    ///
    /// `NotConnected` if there is none.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.io.get_ref().peer_addr()
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

/// Sending.
impl UnixDatagram {
    /// Sends `buf` as one datagram to the connected peer, and returns its length.
    ///
    /// # Errors
    ///
    /// The error of the system call: the peer has gone (`ConnectionRefused`), or `buf` is too long.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once.
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        self.io
            .io(Direction::Write, |socket| socket.send(buf))
            .await
    }

    /// Like [`send`](Self::send), for one waiter at a time.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub fn poll_send(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.io
            .poll_io(cx, Direction::Write, |socket| socket.send(buf))
    }

    /// Like [`send`](Self::send), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room, else as [`send`](Self::send).
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.io.try_io(Direction::Write, |socket| socket.send(buf))
    }

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

    /// Like [`writable`](Self::writable), for one waiter at a time; shares it with
    /// [`poll_send`](Self::poll_send).
    ///
    /// # Errors
    ///
    /// The runtime is shutting down.
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, Direction::Write)
    }
}

/// Receiving.
impl UnixDatagram {
    /// Receives one datagram, and returns its length.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once; each datagram goes to one of them.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.io(Direction::Read, |socket| socket.recv(buf)).await
    }

    /// Like [`recv`](Self::recv), for one waiter at a time, into the unfilled part of `buf`.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.io.poll_io(cx, Direction::Read, |socket| {
            read::recv(socket, buf).map(drop)
        })
    }

    /// Like [`recv`](Self::recv), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else the system's.
    pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.io.try_io(Direction::Read, |socket| socket.recv(buf))
    }

    /// Receives one datagram and returns its length and its sender.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once; each datagram goes to one of them.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io
            .io(Direction::Read, |socket| socket.recv_from(buf))
            .await
    }

    /// Like [`recv_from`](Self::recv_from), for one waiter at a time, into the unfilled part of
    /// `buf`.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let from = self
            .io
            .poll_io(cx, Direction::Read, |socket| read::recv_from(socket, buf));
        Poll::Ready(named(&ready!(from)?))
    }

    /// Like [`recv_from`](Self::recv_from), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else the system's.
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.io
            .try_io(Direction::Read, |socket| socket.recv_from(buf))
    }

    /// Like [`recv`](Self::recv), but appends to `buf`, which may be a `Vec<u8>` or a buffer of the
    /// `bytes` crate.
    ///
    /// The datagram is truncated to the room that the buffer has at the time; a buffer that can
    /// grow makes room for 64 bytes if it has none.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    ///
    /// # Cancel safety
    ///
    /// As [`recv`](Self::recv).
    pub async fn recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.io
            .io(Direction::Read, |socket| read::recv_buf(socket, buf))
            .await
    }

    /// Like [`recv_buf`](Self::recv_buf), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else as [`recv`](Self::recv).
    pub fn try_recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.io
            .try_io(Direction::Read, |socket| read::recv_buf(socket, buf))
    }

    /// Like [`recv_buf`](Self::recv_buf), and also returns the sender.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    ///
    /// # Cancel safety
    ///
    /// As [`recv_from`](Self::recv_from).
    pub async fn recv_buf_from<B: BufMut>(&self, buf: &mut B) -> io::Result<(usize, SocketAddr)> {
        let received = self
            .io
            .io(Direction::Read, |socket| read::recv_buf_from(socket, buf))
            .await;
        received.and_then(|(len, from)| Ok((len, named(&from)?)))
    }

    /// Like [`recv_buf_from`](Self::recv_buf_from), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else the system's.
    pub fn try_recv_buf_from<B: BufMut>(&self, buf: &mut B) -> io::Result<(usize, SocketAddr)> {
        let received = self
            .io
            .try_io(Direction::Read, |socket| read::recv_buf_from(socket, buf));
        received.and_then(|(len, from)| Ok((len, named(&from)?)))
    }

    /// Like [`recv`](Self::recv), and leaves the datagram to be received again.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once, and see the same datagram.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let mut buf = ReadBuf::new(buf);
        self.io
            .io(Direction::Read, |socket| read::peek(socket, &mut buf))
            .await
    }

    /// Like [`recv_from`](Self::recv_from), and leaves the datagram to be received again.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once, and see the same datagram.
    pub async fn peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        let mut buf = ReadBuf::new(buf);
        let from = self
            .io
            .io(Direction::Read, |socket| read::peek_from(socket, &mut buf))
            .await?;
        Ok((buf.filled().len(), named(&from)?))
    }

    /// Like [`readable`](Self::readable), for one waiter at a time; shares it with
    /// [`poll_recv`](Self::poll_recv) and [`poll_recv_from`](Self::poll_recv_from).
    ///
    /// # Errors
    ///
    /// The runtime is shutting down.
    pub fn poll_recv_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, Direction::Read)
    }
}

methods::descriptor!(
    UnixDatagram,
    mio::net::UnixDatagram,
    std::os::unix::net::UnixDatagram
);
methods::readiness!(UnixDatagram);

/// The sender's address. The system reports none for a sender that is not bound, which the standard
/// library calls an unnamed address.
fn named(address: &SockAddr) -> io::Result<SocketAddr> {
    address
        .as_unix()
        .map_or_else(|| SocketAddr::from_pathname(""), Ok)
}
