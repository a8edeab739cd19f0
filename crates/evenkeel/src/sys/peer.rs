//! Credentials of the peer of a Unix socket.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
use super::socket::option;

pub(crate) struct Credentials {
    pub(crate) pid: Option<libc::pid_t>,
    pub(crate) uid: libc::uid_t,
    pub(crate) gid: libc::gid_t,
}

/// Returns the credentials of the process that made the other end of a connected Unix socket.
///
/// # Errors
///
/// The socket is not connected, or not a Unix socket.
#[cfg(target_os = "linux")]
pub(crate) fn credentials(socket: BorrowedFd<'_>) -> io::Result<Credentials> {
    let nobody = libc::ucred {
        pid: 0,
        uid: libc::uid_t::MAX,
        gid: libc::gid_t::MAX,
    };
    let name = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    let peer = option(socket.as_raw_fd(), name, nobody)?;
    Ok(Credentials {
        // A peer in a namespace that this process cannot see has no process id here.
        pid: (peer.pid > 0).then_some(peer.pid),
        uid: peer.uid,
        gid: peer.gid,
    })
}

/// As on Linux.
///
/// # Errors
///
/// As on Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) fn credentials(socket: BorrowedFd<'_>) -> io::Result<Credentials> {
    let (mut uid, mut gid) = (libc::uid_t::MAX, libc::gid_t::MAX);
    // SAFETY: the descriptor is open while it is borrowed, and both pointers are to live numbers of
    // the types that the call writes.
    if unsafe { libc::getpeereid(socket.as_raw_fd(), &raw mut uid, &raw mut gid) } != 0 {
        return Err(io::Error::last_os_error());
    }
    #[cfg(target_vendor = "apple")]
    let pid = Some(option(
        socket.as_raw_fd(),
        (libc::SOL_LOCAL, libc::LOCAL_PEERPID),
        0,
    )?);
    #[cfg(not(target_vendor = "apple"))]
    let pid = None;
    Ok(Credentials { pid, uid, gid })
}
