//! Memory that is free, and not yet the system's again.

/// What gives free memory back to the system, if anything does.
#[cfg(all(target_os = "linux", target_env = "gnu", feature = "hog-stacks"))]
pub(crate) const TRIM: Option<fn()> = Some(trim);
#[cfg(not(all(target_os = "linux", target_env = "gnu", feature = "hog-stacks")))]
pub(crate) const TRIM: Option<fn()> = None;

/// Has glibc's allocator give its free pages back to the system, from the middle of its heaps as
/// well, which it does not do on its own. Nothing happens if the program has another allocator. It
/// holds the allocator's locks meanwhile, so threads that allocate wait: not for a thread of low
/// priority.
#[cfg(all(target_os = "linux", target_env = "gnu", feature = "hog-stacks"))]
fn trim() {
    // SAFETY: an argument by value. It takes the allocator's locks one after the other, as `free`
    // does.
    unsafe { libc::malloc_trim(0) };
}
