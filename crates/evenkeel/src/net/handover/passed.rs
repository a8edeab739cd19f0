//! A descriptor that came from another process.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::{SockRef, Type};

use super::error::{HandoverError, Problem};
use crate::net::{TcpListener, UdpSocket, UnixListener};

/// A descriptor that came from another process, and its name. It is closed when dropped.
#[derive(Debug)]
pub struct Passed {
    name: String,
    fd: OwnedFd,
}

/// What a descriptor is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kind {
    is_internet: bool,
    is_listener: bool,
    what: &'static str,
}

impl Passed {
    pub(super) fn new(name: String, fd: OwnedFd) -> Self {
        Self { name, fd }
    }

    /// The name that the sender gave it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The descriptor, whatever it is.
    pub fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Makes it a listener for TCP.
    ///
    /// # Errors
    ///
    /// It is not one, or there is no current runtime.
    pub fn into_tcp_listener(self) -> Result<TcpListener, HandoverError> {
        self.check(Kind {
            is_internet: true,
            is_listener: true,
            what: "a TCP socket that listens",
        })?;
        Ok(TcpListener::from_std(self.fd.into())?)
    }

    /// Makes it a listener for Unix streams.
    ///
    /// # Errors
    ///
    /// It is not one, or there is no current runtime.
    pub fn into_unix_listener(self) -> Result<UnixListener, HandoverError> {
        self.check(Kind {
            is_internet: false,
            is_listener: true,
            what: "a Unix socket that listens",
        })?;
        Ok(UnixListener::from_std(self.fd.into())?)
    }

    /// Makes it a UDP socket.
    ///
    /// # Errors
    ///
    /// It is not one, or there is no current runtime.
    pub fn into_udp_socket(self) -> Result<UdpSocket, HandoverError> {
        self.check(Kind {
            is_internet: true,
            is_listener: false,
            what: "a UDP socket",
        })?;
        Ok(UdpSocket::from_std(self.fd.into())?)
    }

    fn check(&self, kind: Kind) -> Result<(), HandoverError> {
        match self.is_of(kind) {
            Ok(true) => Ok(()),
            // An error of these calls says that it is no socket at all.
            Ok(false) | Err(_) => Err(Problem::Kind(self.name.clone(), kind.what).into()),
        }
    }

    fn is_of(&self, kind: Kind) -> io::Result<bool> {
        let socket = SockRef::from(&self.fd);
        let wanted = if kind.is_listener {
            Type::STREAM
        } else {
            Type::DGRAM
        };
        let address = socket.local_addr()?;
        let is_family = if kind.is_internet {
            address.as_socket().is_some()
        } else {
            address.is_unix()
        };
        // Elsewhere it cannot be asked for; `accept` will fail.
        #[cfg(target_os = "linux")]
        let listens = socket.is_listener()?;
        #[cfg(not(target_os = "linux"))]
        let listens = kind.is_listener;
        Ok(socket.r#type()? == wanted && is_family && listens == kind.is_listener)
    }
}

impl AsFd for Passed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
