//! Credentials of the peer of a Unix socket.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

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
    let peer = option(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, nobody)?;
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
    let pid = Some(option(socket, libc::SOL_LOCAL, libc::LOCAL_PEERPID, 0)?);
    #[cfg(not(target_vendor = "apple"))]
    let pid = None;
    Ok(Credentials { pid, uid, gid })
}

/// Reads a socket option of type `T`. The system overwrites all of `value` or nothing.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn option<T: Copy>(
    socket: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    mut value: T,
) -> io::Result<T> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the system writes at most `len` bytes,
    // the size of the live and initialised `value`. The callers ask for plain numbers, of which any
    // bytes are a value.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value)
}
