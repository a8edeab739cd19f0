//! What ThreadSanitizer cannot see by itself.
//!
//! It sees ordering only in instrumented code, and the standard library is not instrumented. What
//! is inlined from there into this crate it sees; the slow path of a lock, and what a condition
//! variable does, it does not. Nor does it know fences at all. So under `--cfg evenkeel_tsan`
//!
//! - every lock has an atomic beside it, which is written before the lock is released and read
//!   after it was taken: two instrumented accesses that order what the lock orders;
//! - a fence is a read-modify-write of one atomic that all fences share, which orders a little more
//!   than fences do: those of two threads also if nothing is read between them;
//! - a cell that is set once is read under such a lock;
//! - what is released by counting down is acquired by it, too. `Arc` releases with its count, and
//!   acquires with a fence before it drops what it holds.
#![allow(unsafe_code, reason = "ThreadSanitizer is called in C")]

use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) mod atomic {
    pub(crate) use std::sync::atomic::{
        AtomicBool, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
        AtomicUsize, Ordering, compiler_fence,
    };

    pub(crate) use super::fence;
}

/// Where a lock is used; of interest to builds that pause there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site;

impl Site {
    pub(super) fn here() -> Self {
        Self
    }
}

/// What a lock orders, for ThreadSanitizer to see.
#[derive(Debug, Default)]
pub(super) struct Edge(AtomicUsize);

impl Edge {
    pub(super) const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    pub(super) fn before(&self, _: Site) {}

    pub(super) fn acquire(&self, _: Site) {
        // Acquire pairs with the Release in `release`.
        self.0.load(Ordering::Acquire);
    }

    pub(super) fn release(&self, _: Site) {
        // Release pairs with the Acquire in `acquire`.
        self.0.fetch_add(1, Ordering::Release);
    }

    pub(super) fn after(&self, _: Site) {}
}

pub(crate) fn fence(order: Ordering) {
    static ALL: AtomicUsize = AtomicUsize::new(0);
    std::sync::atomic::fence(order);
    // AcqRel pairs with itself in other threads.
    ALL.fetch_add(1, Ordering::AcqRel);
}

/// A cell that is set once, read under a lock: the standard library's own sets it in code that is
/// compiled already, where ThreadSanitizer does not see it.
#[derive(Debug)]
pub(crate) struct OnceLock<T> {
    gate: super::Mutex<()>,
    cell: std::sync::OnceLock<T>,
}

impl<T> OnceLock<T> {
    pub(crate) const fn new() -> Self {
        Self {
            gate: super::Mutex::new(()),
            cell: std::sync::OnceLock::new(),
        }
    }

    pub(crate) fn get(&self) -> Option<&T> {
        let _gate = self.gate.lock();
        self.cell.get()
    }

    pub(crate) fn set(&self, value: T) -> Result<(), T> {
        let _gate = self.gate.lock();
        self.cell.set(value)
    }

    pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
        let _gate = self.gate.lock();
        self.cell.get_or_init(init)
    }
}

unsafe extern "C" {
    #[link_name = "__real___tsan_atomic64_fetch_sub"]
    fn fetch_sub(atomic: *mut u64, value: u64, order: i32) -> u64;
}

/// The sanitizer's own numbers of the orders.
const RELEASE: i32 = 3;
const ACQUIRE_RELEASE: i32 = 4;

/// Stands for the sanitizer's subtraction in all code that is linked with
/// `--wrap=__tsan_atomic64_fetch_sub`.
///
/// # Safety
///
/// As of the wrapped function, which only the compiler calls: `atomic` is one.
#[unsafe(export_name = "__wrap___tsan_atomic64_fetch_sub")]
unsafe extern "C" fn fetch_sub_and_acquire(atomic: *mut u64, value: u64, order: i32) -> u64 {
    let order = if order == RELEASE {
        ACQUIRE_RELEASE
    } else {
        order
    };
    // SAFETY: the caller's promise; the order is one of the sanitizer's.
    unsafe { fetch_sub(atomic, value, order) }
}
