//! TCP and Unix sockets behind one type, and what they connect to.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll};

use bytes::BytesMut;
use evenkeel::io::Interest;
use evenkeel::net::splice::{self, Meter, Moved, TransferError};
use evenkeel::net::{TcpSocket, TcpStream, UnixStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::within::Tuning;

/// Where to listen, or what to connect to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Address {
    /// `HOST:PORT`; a name is looked up when it is used.
    Tcp(String),
    /// `unix:PATH`.
    Unix(PathBuf),
    /// `srv:NAME`: servers that records of a service name.
    Service(String),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            if path.is_empty() || path.contains('\0') {
                return Err(format!("{text:?} names no file: write unix:/PATH"));
            }
            return Ok(Self::Unix(path.into()));
        }
        if let Some(name) = text.strip_prefix("srv:") {
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if !name.contains('.') || !name.bytes().all(is_of_name) {
                return Err(format!(
                    "{text:?} names no service: write srv:NAME, such as \
                     \"srv:_http._tcp.example.org\""
                ));
            }
            return Ok(Self::Service(name.to_owned()));
        }
        let wrong = || {
            format!(
                "{text:?} is no address: write HOST:PORT such as \"127.0.0.1:8080\" or \
                 \"[::1]:8080\", or \"unix:/PATH\""
            )
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bracketed = host.starts_with('[') && host.ends_with(']');
        let is_host = !host.is_empty() && (bracketed || !host.contains(':'));
        if !is_host || host.contains([' ', '/', '\0']) || port.parse::<u16>().is_err() {
            return Err(wrong());
        }
        Ok(Self::Tcp(text.to_owned()))
    }
}

impl Address {
    /// Whether it says where to connect, so that no name is to be looked up.
    pub fn is_known(&self) -> bool {
        match self {
            Self::Tcp(text) => text.parse::<SocketAddr>().is_ok(),
            Self::Unix(_) => true,
            Self::Service(_) => false,
        }
    }

    /// Whether the system chooses the port.
    pub fn takes_any_port(&self) -> bool {
        matches!(self, Self::Tcp(text) if text.ends_with(":0"))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Service(name) => write!(f, "srv:{name}"),
        }
    }
}

/// The two ends of a connection, as far as they have addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Who connected, and to which address; `None` on Unix sockets.
    pub addresses: Option<(SocketAddr, SocketAddr)>,
}

impl Ends {
    /// The client's address.
    pub fn client(&self) -> Option<IpAddr> {
        self.addresses.map(|(client, _)| client.ip().to_canonical())
    }
}

/// A connected socket.
#[derive(Debug)]
pub enum Socket {
    /// Over TCP.
    Tcp(TcpStream),
    /// Over a Unix socket.
    Unix(UnixStream),
}

impl Socket {
    /// Connects, and does not gather small writes.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub async fn connect(address: &Address) -> io::Result<Self> {
        Self::connect_by(address, None).await
    }

    /// The same, with a socket that has been given this, if the address needs no lookup.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub async fn connect_by(address: &Address, tuning: Option<Tuning<'_>>) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                // A literal address needs no lookup, which would go to another thread.
                let stream = match address.parse::<SocketAddr>() {
                    Ok(address) => connect_literal(address, tuning).await?,
                    Err(_) => TcpStream::connect(address.as_str()).await?,
                };
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
            Address::Service(_) => Err(not_found()),
        }
    }

    /// Writes what the socket takes without waiting; 0 if that is nothing.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Unix(stream) => stream.try_write(bytes),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            result => result,
        }
    }

    /// Reads what is there without waiting, into the room that the buffer has.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: nothing is there. Others are those of the system.
    pub fn read_now(&self, buffer: &mut BytesMut) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_read_buf(buffer),
            Self::Unix(stream) => stream.try_read_buf(buffer),
        }
    }

    /// Whether nothing has come. If the last read has found that, and no event has come since, it
    /// costs no system call.
    pub fn is_silent(&self) -> bool {
        let mut byte = [0];
        let read = match self {
            Self::Tcp(stream) => stream.try_read(&mut byte),
            Self::Unix(stream) => stream.try_read(&mut byte),
        };
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether something may have come, as far as the last read and the events after it say.
    pub fn is_readable(&self) -> bool {
        let look = || Ok(());
        let looked = match self {
            Self::Tcp(stream) => stream.try_io(Interest::READABLE, look),
            Self::Unix(stream) => stream.try_io(Interest::READABLE, look),
        };
        looked.is_ok()
    }

    /// Whether the peer has ended its direction, or the connection is broken, as far as events say.
    pub fn has_ended(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_read_closed(),
            Self::Unix(stream) => stream.is_read_closed(),
        }
    }

    /// Whether there is room to write, as far as the last write and the events after it say.
    pub fn is_writable(&self) -> bool {
        let look = || Ok(());
        let looked = match self {
            Self::Tcp(stream) => stream.try_io(Interest::WRITABLE, look),
            Self::Unix(stream) => stream.try_io(Interest::WRITABLE, look),
        };
        looked.is_ok()
    }

    /// How many bytes were written that the peer has not acknowledged; 0 if the system does not
    /// say.
    pub fn send_queue(&self) -> usize {
        let queued = match self {
            Self::Tcp(stream) => stream.send_queue(),
            Self::Unix(stream) => stream.send_queue(),
        };
        queued.unwrap_or(0)
    }

    /// Tells at each call how many bytes the peer has taken of the send buffer since the last one,
    /// and first 0. What is written meanwhile counts as not taken.
    ///
    /// The system says that there is room to write when a third of the buffer is free, and nothing
    /// before. That may be megabytes, for which a slow peer takes minutes.
    pub fn taken(&self) -> impl FnMut() -> u64 + Send + '_ {
        let mut queued = 0;
        move || {
            let before = std::mem::replace(&mut queued, self.send_queue());
            before.saturating_sub(queued) as u64
        }
    }

    /// Moves so many bytes to another connection, behind those of a head, or fewer if this one ends
    /// before.
    ///
    /// # Errors
    ///
    /// That of one of them.
    pub async fn splice(
        &self,
        (head, to): (&[u8], &Self),
        len: u64,
        meter: &Meter,
    ) -> Result<u64, TransferError> {
        use splice::splice_behind;
        match (self, to) {
            (Self::Tcp(from), Self::Tcp(to)) => splice_behind(head, from, to, len, meter).await,
            (Self::Tcp(from), Self::Unix(to)) => splice_behind(head, from, to, len, meter).await,
            (Self::Unix(from), Self::Tcp(to)) => splice_behind(head, from, to, len, meter).await,
            (Self::Unix(from), Self::Unix(to)) => splice_behind(head, from, to, len, meter).await,
        }
    }

    /// Moves bytes between two connections until both have ended. They are to be closed then, by
    /// which the last end is sent.
    ///
    /// # Errors
    ///
    /// That of one of them.
    pub async fn splice_both(
        one: &Self,
        other: &Self,
        meter: &Meter,
    ) -> Result<Moved, TransferError> {
        match (one, other) {
            (Self::Tcp(one), Self::Tcp(other)) => {
                splice::splice_bidirectional_closing(one, other, meter).await
            }
            (Self::Tcp(one), Self::Unix(other)) => {
                splice::splice_bidirectional_closing(one, other, meter).await
            }
            (Self::Unix(one), Self::Tcp(other)) => {
                splice::splice_bidirectional_closing(one, other, meter).await
            }
            (Self::Unix(one), Self::Unix(other)) => {
                splice::splice_bidirectional_closing(one, other, meter).await
            }
        }
    }

    /// Makes its end a reset, by which the peer sees that something is missing.
    pub fn reset(&self) {
        if let Self::Tcp(stream) = self {
            // Otherwise it ends in the ordinary way.
            let _ = stream.set_zero_linger();
        }
    }

    /// Waits until something is there to be read.
    ///
    /// # Errors
    ///
    /// The runtime is shutting down.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Self::Tcp(stream) => stream.poll_read_ready(cx),
            Self::Unix(stream) => stream.poll_read_ready(cx),
        }
    }

    /// Writes what the socket takes of several buffers without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock`: it takes nothing. Others are those of the system.
    pub fn write_vectored_now(&self, buffers: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.try_write_vectored(buffers),
            Self::Unix(stream) => stream.try_write_vectored(buffers),
        }
    }
}

/// Before it connects: a control begins its work with the connection, and cleans up little if it is
/// replaced later, and the size of a window that is open already changes little.
async fn connect_literal(address: SocketAddr, tuning: Option<Tuning<'_>>) -> io::Result<TcpStream> {
    let Some(tuning) = tuning else {
        return TcpStream::connect(address).await;
    };
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    tuning.give(&socket);
    socket.connect(address).await
}

/// A service whose servers are not known.
fn not_found() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotFound,
        "no server of this service is known",
    )
}

/// Reading and writing go through a shared reference, one task per direction.
impl AsyncRead for &Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match **self {
            Socket::Tcp(ref stream) => Pin::new(&mut &*stream).poll_read(cx, buffer),
            Socket::Unix(ref stream) => Pin::new(&mut &*stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for &Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match **self {
            Socket::Tcp(ref stream) => Pin::new(&mut &*stream).poll_write(cx, bytes),
            Socket::Unix(ref stream) => Pin::new(&mut &*stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match **self {
            Socket::Tcp(ref stream) => Pin::new(&mut &*stream).poll_write_vectored(cx, buffers),
            Socket::Unix(ref stream) => Pin::new(&mut &*stream).poll_write_vectored(cx, buffers),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match **self {
            Socket::Tcp(ref stream) => Pin::new(&mut &*stream).poll_shutdown(cx),
            Socket::Unix(ref stream) => Pin::new(&mut &*stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_what_is_none_is_said() {
        for text in [
            "127.0.0.1:80",
            "[::1]:80",
            "a.example:0",
            "unix:/run/a",
            "srv:_http._tcp.a.example",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "a",
            ":80",
            "::1:80",
            "a:b",
            "a:70000",
            "unix:",
            "a b:1",
            "a/b:1",
            "srv:",
            "srv:a",
            "srv:a.b:1",
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains("write"), "{error}");
        }
    }
}
