//! What the C library's allocator keeps of memory that is free.
#![allow(unsafe_code, reason = "the allocator is set up in C")]

/// From how many bytes on memory is the kernel's again as soon as it is free; glibc's own default.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BYTES: libc::c_int = 128 * 1024;

/// Makes the allocator give large frames back to the kernel as soon as they are free.
///
/// By itself glibc does so only at first: once a large frame was freed, it takes all others of up
/// to 32 MiB from heaps, where small things above them keep their memory. A server beside a
/// thousand slow readers then had twice what it counted.
pub(super) fn set_up() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: `mallopt` may be called at any time, from any thread; it takes two numbers. If it
    // fails, nothing has changed.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES);
    }
}
