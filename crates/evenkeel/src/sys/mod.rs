//! What differs between operating systems, and what needs `unsafe` to ask them.
#![allow(unsafe_code, reason = "this is where the system is called in C")]
#![allow(
    clippy::disallowed_methods,
    reason = "a seam: cycles are told in the clock's time"
)]

pub(crate) mod cpus;
pub(crate) mod cycles;
#[cfg(feature = "drop-in")]
pub(crate) mod exit;
#[cfg(all(feature = "hog-stacks", target_os = "linux"))]
pub(crate) mod mapped;
pub(crate) mod memory;
pub(crate) mod peer;
pub(crate) mod prefetch;
pub(crate) mod recv_batch;
#[cfg(target_os = "linux")]
pub(crate) mod ring;
pub(crate) mod signal;
pub(crate) mod socket;
pub(crate) mod stack;
pub(crate) mod thread;
#[cfg(all(test, not(evenkeel_loom)))]
pub(crate) mod touchy;
pub(crate) mod watermark;
