//! The watermark of a socket (`SO_RCVLOWAT`): the bytes from which on it is reported as readable.

use std::os::fd::RawFd;

use super::socket::set_option;

/// Whether TCP streams have a watermark that readiness queues respect. Other systems may have the
/// option, but that is untested.
pub(crate) const HAS_WATERMARK: bool = cfg!(target_os = "linux");

/// Makes the kernel report `fd` as readable only once `bytes` are there, or reading is over. If as
/// many are there already, it reports them again. Returns false if this socket does not support it.
///
/// `fd` must be open and the caller's own, or the call affects another descriptor.
pub(crate) fn set(fd: RawFd, bytes: usize) -> bool {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    set_option(fd, (libc::SOL_SOCKET, libc::SO_RCVLOWAT), bytes)
}
