//! One process alone records into a directory: two would complete and delete each other's files.
//!
//! What it has is a name among the abstract sockets of Linux, which the system takes back however
//! the process ends. A lock of a file would be held open on the file system, which could not be
//! unmounted any more. Processes in another network namespace, or on another machine, are not seen.

use std::fs::Metadata;
use std::io;

/// A directory that no other process has, until this is dropped.
#[derive(Debug)]
pub struct Sole {
    #[cfg(target_os = "linux")]
    _socket: std::os::unix::net::UnixListener,
}

impl Sole {
    /// Takes the directory with this metadata.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::AddrInUse`] if another process has it, and what else the system says.
    #[cfg(target_os = "linux")]
    pub fn of(directory: &Metadata) -> io::Result<Self> {
        use std::os::linux::net::SocketAddrExt;
        use std::os::unix::fs::MetadataExt;
        use std::os::unix::net::{SocketAddr, UnixListener};

        let name = format!("evenkeel-cameras/{}/{}", directory.dev(), directory.ino());
        let address = SocketAddr::from_abstract_name(name)?;
        let _socket = UnixListener::bind_addr(&address)?;
        Ok(Self { _socket })
    }

    /// Other systems have no such names.
    #[cfg(not(target_os = "linux"))]
    pub fn of(_: &Metadata) -> io::Result<Self> {
        Ok(Self {})
    }
}
