//! Credentials of the peer of a Unix stream.

use std::io;
use std::os::fd::BorrowedFd;

use crate::sys::peer;

/// The process at the other end of a [`UnixStream`](super::UnixStream), as the system knew it when
/// the connection was made.
///
/// The process may have ended since, or passed its descriptor to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UCred {
    pid: Option<libc::pid_t>,
    uid: libc::uid_t,
    gid: libc::gid_t,
}

impl UCred {
    pub(super) fn of_peer(stream: BorrowedFd<'_>) -> io::Result<Self> {
        let peer::Credentials { pid, uid, gid } = peer::credentials(stream)?;
        Ok(Self { pid, uid, gid })
    }

    /// The process id, or `None` where the system does not report it.
    pub fn pid(&self) -> Option<i32> {
        self.pid
    }

    /// The effective user id of the process.
    pub fn uid(&self) -> u32 {
        self.uid
    }

    /// The effective group id of the process.
    pub fn gid(&self) -> u32 {
        self.gid
    }
}
