//! How many bytes a socket waits for before the kernel reports it as readable (`SO_RCVLOWAT`).

use std::os::fd::RawFd;

/// Whether streams over the Internet have a watermark that readiness queues heed. Other systems
/// may have the option; what their queues make of it nobody has checked.
pub(crate) const HAS_WATERMARK: bool = cfg!(target_os = "linux");

/// Has the kernel report `fd` as readable only once `bytes` are there, or reading is over. If as
/// many are there, it reports so anew. Returns false if it does not do that for this socket.
///
/// `fd` has to be the caller's, and open, or the call concerns somebody else's descriptor.
pub(crate) fn set(fd: RawFd, bytes: usize) -> bool {
    let bytes = libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let len = size_of_val(&bytes) as libc::socklen_t;
    // SAFETY: the pointer is to a live number of the length given, which the call only reads. Any
    // number may be passed as a descriptor; one that is not a descriptor makes the call fail.
    let result = unsafe {
        libc::setsockopt(
            fd,
            libc::SOL_SOCKET,
            libc::SO_RCVLOWAT,
            (&raw const bytes).cast(),
            len,
        )
    };
    result == 0
}
