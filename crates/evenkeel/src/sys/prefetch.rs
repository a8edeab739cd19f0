//! Prefetching memory that will be needed soon.
//!
//! A server that takes its connections one after the other finds little of each in the caches when
//! their number is great. What it will touch next is known, so the processor can fetch it
//! meanwhile.
#![allow(
    unsafe_code,
    reason = "the processor is asked by an intrinsic; models compile it alone"
)]

const LINE: usize = 64;

/// Prefetches a number of cache lines, from an address on. Any address will do, as nothing is
/// accessed. Does nothing on processors without a known instruction for it.
#[inline]
pub(crate) fn prefetch<T>(address: *const T, lines: usize) {
    for line in 0..lines {
        hint(address.cast::<u8>().wrapping_add(line * LINE));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn hint(address: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: the hint accesses nothing and faults at no address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn hint(_: *const u8) {}
