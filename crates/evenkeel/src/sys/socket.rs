//! Options of sockets.

use std::io;
use std::mem::size_of;
use std::os::fd::{BorrowedFd, RawFd};

use socket2::{SockAddr, SockRef};

/// A level of the system, such as `SOL_SOCKET`, and an option of it.
pub(crate) type Name = (libc::c_int, libc::c_int);

/// Reads an option of type `T`. The system overwrites all of `value` or nothing.
///
/// # Errors
///
/// Those of the system call.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub(crate) fn option<T: Copy>(fd: RawFd, (level, name): Name, mut value: T) -> io::Result<T> {
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the system writes at most `len` bytes, the size of the live and initialised `value`.
    // The callers ask for plain numbers, of which any bytes are a value. Any number may be passed
    // as a descriptor; one that is not a descriptor makes the call fail.
    let result =
        unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut len) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value)
}

/// Sets an option that is a number. Returns false if the system refuses it.
pub(crate) fn set_option(fd: RawFd, (level, name): Name, value: libc::c_int) -> bool {
    let len = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the pointer is to a live number of the length given, which the call only reads. For
    // the descriptor see `option`.
    let result = unsafe { libc::setsockopt(fd, level, name, (&raw const value).cast(), len) };
    result == 0
}

/// How many bytes a stream socket has in its send queue: those that were written and that its peer
/// has not acknowledged. The descriptor has to be open.
///
/// # Errors
///
/// Those of the system call; `Unsupported` where there is none.
#[cfg(target_os = "linux")]
pub(crate) fn send_queue(fd: RawFd) -> io::Result<usize> {
    let mut queued: libc::c_int = 0;
    // SAFETY: this call writes one number of this type, through a pointer to a live one. Any number
    // may be passed as a descriptor; one of no socket makes the call fail.
    if unsafe { libc::ioctl(fd, libc::TIOCOUTQ, &raw mut queued) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(queued).unwrap_or(0))
}

/// As on Linux.
///
/// # Errors
///
/// As on Linux.
#[cfg(target_vendor = "apple")]
pub(crate) fn send_queue(fd: RawFd) -> io::Result<usize> {
    let queued: libc::c_int = option(fd, (libc::SOL_SOCKET, libc::SO_NWRITE), 0)?;
    Ok(usize::try_from(queued).unwrap_or(0))
}

/// As on Linux.
///
/// # Errors
///
/// As on Linux.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(crate) fn send_queue(_fd: RawFd) -> io::Result<usize> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The addresses of a socket and of its peer, as far as it has some that can be shown. The
/// descriptor has to be open.
pub(crate) fn names(fd: RawFd) -> [Option<String>; 2] {
    // SAFETY: the caller keeps the descriptor open; one that is none makes the calls fail.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let socket = SockRef::from(&fd);
    let name = |address: SockAddr| match address.as_socket() {
        Some(address) => Some(address.to_string()),
        None => address.as_pathname().map(|path| path.display().to_string()),
    };
    [socket.local_addr(), socket.peer_addr()].map(|address| address.ok().and_then(name))
}
