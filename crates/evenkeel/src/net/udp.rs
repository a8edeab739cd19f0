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
use crate::net::{Delivery, ToSocketAddrs, datagrams, methods, read};
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

    /// Receives or peeks by `op`, unless datagrams are merged, also if that began during the wait.
    async fn receive<R>(
        &self,
        mut op: impl FnMut(&mio::net::UdpSocket) -> io::Result<R>,
    ) -> io::Result<R> {
        self.one_by_one()?;
        let attempt = |socket: &_| self.one_by_one().and_then(|()| op(socket));
        self.io.io(Direction::Read, attempt).await
    }

    /// As [`receive`](Self::receive), for one waiter at a time.
    fn poll_receive<R>(
        &self,
        cx: &mut Context<'_>,
        mut op: impl FnMut(&mio::net::UdpSocket) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.one_by_one()?;
        let attempt = |socket: &_| self.one_by_one().and_then(|()| op(socket));
        self.io.poll_io(cx, Direction::Read, attempt)
    }

    /// As [`receive`](Self::receive), without waiting.
    fn try_receive<R>(
        &self,
        op: impl FnOnce(&mio::net::UdpSocket) -> io::Result<R>,
    ) -> io::Result<R> {
        self.one_by_one()?;
        self.io.try_io(Direction::Read, op)
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
}

/// Sending to any peer.
impl UdpSocket {
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
}

/// Peeking without an `async` method.
impl UdpSocket {
    /// Like [`peek`](Self::peek), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else as [`recv`](Self::recv).
    pub fn try_peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.try_receive(|socket| socket.peek(buf))
    }

    /// Like [`peek_from`](Self::peek_from), for one waiter at a time.
    ///
    /// # Errors
    ///
    /// As [`recv`](Self::recv).
    pub fn poll_peek_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let from = self.poll_receive(cx, |socket| read::peek_from(socket, buf));
        Poll::Ready(internet(&ready!(from)?))
    }

    /// Like [`peek_from`](Self::peek_from), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if nothing is there, else as [`recv`](Self::recv).
    pub fn try_peek_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.try_receive(|socket| socket.peek_from(buf))
    }
}

methods::options! {
    /// Options.
    UdpSocket, |socket| socket.io.get_ref();
    /// Whether datagrams may be sent to a broadcast address.
    broadcast, set_broadcast => broadcast, set_broadcast: bool;
    /// The time to live of the datagrams sent, in hops.
    ttl, set_ttl => ttl, set_ttl: u32;
    /// Whether this machine receives the IPv4 multicasts that it sends.
    multicast_loop_v4, set_multicast_loop_v4 => multicast_loop_v4, set_multicast_loop_v4: bool;
    /// The time to live of the IPv4 multicasts sent, in hops.
    multicast_ttl_v4, set_multicast_ttl_v4 => multicast_ttl_v4, set_multicast_ttl_v4: u32;
    /// Whether this machine receives the IPv6 multicasts that it sends.
    multicast_loop_v6, set_multicast_loop_v6 => multicast_loop_v6, set_multicast_loop_v6: bool;
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

methods::descriptor!(
    UdpSocket,
    mio::net::UdpSocket,
    std::net::UdpSocket,
    SocketAddr
);
methods::readiness!(UdpSocket);
datagrams::datagrams!(
    UdpSocket, SocketAddr, internet,
    sending fails by: "The error of the system call: the peer refused an earlier datagram, for \
        example, or `buf` is too long.",
    receiving fails by: "The error of the system call (the peer refused an earlier datagram, for \
        example), or `InvalidInput` if the socket [merges datagrams](Self::merge_datagrams).",
);

fn internet(address: &SockAddr) -> io::Result<SocketAddr> {
    address.as_socket().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "the sender's address is not an Internet address",
        )
    })
}
