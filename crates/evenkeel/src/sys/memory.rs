//! Memory that is free, and not yet the system's again.

/// Has glibc's allocator give its free pages back to the system, from the middle of its heaps as
/// well, which it does not do on its own. Nothing happens if the program has another allocator.
#[cfg(all(target_os = "linux", target_env = "gnu", feature = "hog-stacks"))]
pub(crate) fn trim() {
    // SAFETY: an argument by value. It takes the allocator's locks one after the other, as `free`
    // does.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", feature = "hog-stacks")))]
pub(crate) fn trim() {}
