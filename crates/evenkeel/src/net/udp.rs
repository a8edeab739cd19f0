//! UDP.

mod batch;

use std::future;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::task::{Context, Poll, ready};

use bytes::BufMut;
use socket2::SockAddr;
use tokio::io::ReadBuf;

pub use self::batch::{Datagram, RecvBatch};
use crate::net::addr::{each_address, no_address, resolve};
use crate::net::source::{Direction, Source};
use crate::net::{Delivery, ToSocketAddrs, methods, read};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sys::recv_batch;

/// A UDP socket.
///
/// One socket serves any number of peers ([`send_to`](Self::send_to),
/// [`recv_from`](Self::recv_from)), or the one that it is connected to ([`send`](Self::send),
/// [`recv`](Self::recv)). There are no halves: all methods take `&self`, so tasks can share the
/// socket in an `Arc`.
///
/// A datagram that is longer than the receiver's buffer is truncated.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// use evenkeel::net::UdpSocket;
///
/// let server = UdpSocket::bind("127.0.0.1:0").await?;
/// let client = UdpSocket::bind("127.0.0.1:0").await?;
/// client.send_to(b"ping", server.local_addr()?).await?;
///
/// let mut buf = [0; 16];
/// let (len, from) = server.recv_from(&mut buf).await?;
/// assert_eq!(&buf[..len], b"ping");
/// assert_eq!(from, client.local_addr()?);
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
pub struct UdpSocket {
    io: Source<mio::net::UdpSocket>,
    /// Whether the kernel merges datagrams, which then can be received in batches only. `Relaxed`,
    /// since the user sets it before receiving.
    merges: AtomicBool,
}

impl UdpSocket {
    /// Binds to `addr`. Port 0 asks the system for a free port.
    ///
    /// Where a name has several addresses, the first that can be bound is.
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
            future::ready(mio::net::UdpSocket::bind(addr).and_then(Self::from_mio))
        })
        .await
    }

    fn from_mio(socket: mio::net::UdpSocket) -> io::Result<Self> {
        // A socket from elsewhere may have the option already.
        let merges = recv_batch::merges(socket.as_fd());
        Ok(Self {
            io: Source::new(socket)?,
            merges: AtomicBool::new(merges),
        })
    }

    fn merges(&self) -> bool {
        // Relaxed, here and below: see the field.
        self.merges.load(Ordering::Relaxed)
    }

    fn set_merges(&self) {
        self.merges.store(true, Ordering::Relaxed);
    }

    /// Fails if several datagrams would come as one.
    fn one_by_one(&self) -> io::Result<()> {
        if self.merges() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the socket merges datagrams; receive with `recv_batch`",
            ));
        }
        Ok(())
    }

    /// An attempt to receive one datagram. It also fails if merging began during the wait.
    fn unmerged<R>(
        &self,
        mut receive: impl FnMut(&mio::net::UdpSocket) -> io::Result<R>,
    ) -> impl FnMut(&mio::net::UdpSocket) -> io::Result<R> {
        move |socket| {
            self.one_by_one()?;
            receive(socket)
        }
    }

    /// Sets how the reader of this socket is woken.
    ///
    /// Datagrams have no watermark: [`Delivery::Coalesce`] asks for `bytes: usize::MAX` and goes by
    /// the delay alone. **Datagrams that arrive while the reader is held back have to fit the
    /// receive buffer: the kernel drops the rest.** Size it for the traffic of a delay (see
    /// [how](crate::net#options-that-have-no-method)), and receive with
    /// [`recv_batch`](Self::recv_batch).
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

    /// Makes `addr` the only peer that this socket sends to and receives from.
    ///
    /// Where a name has several addresses, the first that can be connected is. Nothing is sent, so
    /// success does not mean that the peer exists.
    ///
    /// # Errors
    ///
    /// The name cannot be resolved, or there is no route to the address.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the socket is connected or not.
    pub async fn connect<A: ToSocketAddrs>(&self, addr: A) -> io::Result<()> {
        each_address(addr, |addr| future::ready(self.io.get_ref().connect(addr))).await
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
}

/// Sending.
impl UdpSocket {
    /// Sends `buf` as one datagram to the connected peer, and returns its length.
    ///
    /// # Errors
    ///
    /// The error of the system call: the peer refused an earlier datagram, for example, or `buf` is
    /// too long.
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

    /// Sends `buf` as one datagram to `target` (if it has several addresses, to the first), and
    /// returns its length.
    ///
    /// # Errors
    ///
    /// The name cannot be resolved, or the error of the system call.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once.
    pub async fn send_to<A: ToSocketAddrs>(&self, buf: &[u8], target: A) -> io::Result<usize> {
        let target = resolve(target).await?.next().ok_or_else(no_address)?;
        self.io
            .io(Direction::Write, |socket| socket.send_to(buf, target))
            .await
    }

    /// Like [`send_to`](Self::send_to), for one waiter at a time.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        target: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.io
            .poll_io(cx, Direction::Write, |socket| socket.send_to(buf, target))
    }

    /// Like [`send_to`](Self::send_to), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is no room, else the system's.
    pub fn try_send_to(&self, buf: &[u8], target: SocketAddr) -> io::Result<usize> {
        self.io
            .try_io(Direction::Write, |socket| socket.send_to(buf, target))
    }

    /// Like [`writable`](Self::writable), for one waiter at a time; shares it with
    /// [`poll_send`](Self::poll_send) and [`poll_send_to`](Self::poll_send_to).
    ///
    /// # Errors
    ///
    /// The runtime is shutting down.
    pub fn poll_send_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.io.poll_ready(cx, Direction::Write)
    }
}

/// Receiving.
impl UdpSocket {
    /// Receives one datagram from the connected peer, and returns its length.
    ///
    /// # Errors
    ///
    /// The error of the system call (the peer refused an earlier datagram, for example), or
    /// `InvalidInput` if the socket [merges datagrams](Self::merge_datagrams).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once; each datagram goes to one of them.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.one_by_one()?;
        self.io
            .io(Direction::Read, self.unmerged(|socket| socket.recv(buf)))
            .await
    }

    /// Like [`recv`](Self::recv), for one waiter at a time, into the unfilled part of `buf`.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn poll_recv(&self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.one_by_one()?;
        self.io.poll_io(
            cx,
            Direction::Read,
            self.unmerged(|socket| read::recv(socket, buf).map(drop)),
        )
    }

    /// Like [`recv`](Self::recv), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else as [`recv`](Self::recv).
    pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.one_by_one()?;
        self.io
            .try_io(Direction::Read, self.unmerged(|socket| socket.recv(buf)))
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
        self.one_by_one()?;
        self.io
            .io(
                Direction::Read,
                self.unmerged(|socket| socket.recv_from(buf)),
            )
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
        self.one_by_one()?;
        let from = self.io.poll_io(
            cx,
            Direction::Read,
            self.unmerged(|socket| read::recv_from(socket, buf)),
        );
        Poll::Ready(internet(&ready!(from)?))
    }

    /// Like [`recv_from`](Self::recv_from), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else the system's.
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.one_by_one()?;
        self.io.try_io(
            Direction::Read,
            self.unmerged(|socket| socket.recv_from(buf)),
        )
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
        self.one_by_one()?;
        self.io
            .io(
                Direction::Read,
                self.unmerged(|socket| read::recv_buf(socket, buf)),
            )
            .await
    }

    /// Like [`recv_buf`](Self::recv_buf), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else as [`recv`](Self::recv).
    pub fn try_recv_buf<B: BufMut>(&self, buf: &mut B) -> io::Result<usize> {
        self.one_by_one()?;
        self.io.try_io(
            Direction::Read,
            self.unmerged(|socket| read::recv_buf(socket, buf)),
        )
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
        self.one_by_one()?;
        let received = self
            .io
            .io(
                Direction::Read,
                self.unmerged(|socket| read::recv_buf_from(socket, buf)),
            )
            .await;
        received.and_then(|(len, from)| Ok((len, internet(&from)?)))
    }

    /// Like [`recv_buf_from`](Self::recv_buf_from), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else the system's.
    pub fn try_recv_buf_from<B: BufMut>(&self, buf: &mut B) -> io::Result<(usize, SocketAddr)> {
        self.one_by_one()?;
        let received = self.io.try_io(
            Direction::Read,
            self.unmerged(|socket| read::recv_buf_from(socket, buf)),
        );
        received.and_then(|(len, from)| Ok((len, internet(&from)?)))
    }

    /// Like [`recv`](Self::recv), and leaves the datagram to be received again.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Any number of tasks may wait at once, and see the same datagram.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.one_by_one()?;
        self.io
            .io(Direction::Read, self.unmerged(|socket| socket.peek(buf)))
            .await
    }

    /// Like [`peek`](Self::peek), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else as [`recv`](Self::recv).
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.one_by_one()?;
        self.io
            .try_io(Direction::Read, self.unmerged(|socket| socket.peek(buf)))
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
        self.one_by_one()?;
        self.io
            .io(
                Direction::Read,
                self.unmerged(|socket| socket.peek_from(buf)),
            )
            .await
    }

    /// Like [`peek_from`](Self::peek_from), for one waiter at a time.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        self.one_by_one()?;
        let from = self.io.poll_io(
            cx,
            Direction::Read,
            self.unmerged(|socket| read::peek_from(socket, buf)),
        );
        Poll::Ready(internet(&ready!(from)?))
    }

    /// Like [`peek_from`](Self::peek_from), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else the system's.
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.one_by_one()?;
        self.io.try_io(
            Direction::Read,
            self.unmerged(|socket| socket.peek_from(buf)),
        )
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

/// Defines `$option` and `$set_option`, which pass on to the socket.
macro_rules! options {
    ($($(#[$doc:meta])* $option:ident, $set_option:ident: $type:ty;)*) => {
        /// Options.
        impl UdpSocket {$(
            $(#[$doc])*
            ///
            /// # Errors
            ///
            /// The error of the system call.
            pub fn $option(&self) -> io::Result<$type> {
                self.io.get_ref().$option()
            }

            #[doc = concat!("Sets the option; see [`Self::", stringify!($option), "`].")]
            ///
            /// # Errors
            ///
            /// The error of the system call.
            pub fn $set_option(&self, value: $type) -> io::Result<()> {
                self.io.get_ref().$set_option(value)
            }
        )*}
    };
}

options! {
    /// Whether datagrams may be sent to a broadcast address.
    broadcast, set_broadcast: bool;
    /// The time to live of the datagrams sent, in hops.
    ttl, set_ttl: u32;
    /// Whether this machine receives the IPv4 multicasts that it sends.
    multicast_loop_v4, set_multicast_loop_v4: bool;
    /// The time to live of the IPv4 multicasts sent, in hops.
    multicast_ttl_v4, set_multicast_ttl_v4: u32;
    /// Whether this machine receives the IPv6 multicasts that it sends.
    multicast_loop_v6, set_multicast_loop_v6: bool;
}

/// Multicast groups.
impl UdpSocket {
    /// Joins the IPv4 group `group` on the interface of address `interface`, or on one that the
    /// system chooses if that is [`Ipv4Addr::UNSPECIFIED`].
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn join_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.get_ref().join_multicast_v4(&group, &interface)
    }

    /// Leaves a group joined by [`join_multicast_v4`](Self::join_multicast_v4).
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn leave_multicast_v4(&self, group: Ipv4Addr, interface: Ipv4Addr) -> io::Result<()> {
        self.io.get_ref().leave_multicast_v4(&group, &interface)
    }

    /// Joins the IPv6 group `group` on the interface of index `interface`, or on one that the
    /// system chooses if that is 0.
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.get_ref().join_multicast_v6(group, interface)
    }

    /// Leaves a group joined by [`join_multicast_v6`](Self::join_multicast_v6).
    ///
    /// # Errors
    ///
    /// The error of the system call.
    pub fn leave_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.io.get_ref().leave_multicast_v6(group, interface)
    }
}

methods::descriptor!(UdpSocket, mio::net::UdpSocket, std::net::UdpSocket);
methods::readiness!(UdpSocket);

fn internet(address: &SockAddr) -> io::Result<SocketAddr> {
    address.as_socket().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the sender's address is not an Internet address",
        )
    })
}
