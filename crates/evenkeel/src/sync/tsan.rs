//! Ordering that ThreadSanitizer cannot see by itself.
//!
//! It sees ordering only in instrumented code. The standard library is not instrumented, except
//! where it is inlined into this crate: the slow path of a lock and condition variables are not.
//! Nor does it support fences. So under `--cfg evenkeel_tsan`
//!
//! - every lock has an atomic beside it, which is written before unlocking and read after locking:
//!   two instrumented accesses that make the same order;
//! - a fence is a read-modify-write of one atomic that all fences share, which orders a little more
//!   than fences do: also if nothing is read between those of two threads;
//! - a cell that is set once is read under such a lock;
//! - a decrement with Release also acquires, as `Arc` releases with its count, and
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

/// The place of a use of a lock, which only `preempt` needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site;

impl Site {
    pub(super) fn here() -> Self {
        Self
    }
}

/// Shows ThreadSanitizer the order that a lock makes.
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

/// A cell that is set once, accessed under a lock: the standard library's code, which sets it, is
/// not instrumented.
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

/// The sanitizer's encoding of memory orders.
const RELEASE: i32 = 3;
const ACQUIRE_RELEASE: i32 = 4;

/// Replaces the sanitizer's subtraction in all code that is linked with
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
