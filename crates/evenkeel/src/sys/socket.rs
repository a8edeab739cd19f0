//! Options of sockets.

use std::io;
use std::mem::size_of;
use std::os::fd::RawFd;

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
