//! The one source of atomics, locks, threads and shared cells in this crate.
//!
//! Normally every name here is the standard library's, or a wrapper that compiles to it. With
//! `--cfg evenkeel_loom` every name is loom's, whose models then explore each interleaving of the
//! code that uses this module. No other module names `std::sync`, `std::sync::atomic` or
//! `std::thread` for these things, as a model would not see that.
//!
//! Two more configurations wrap the standard library's names. With `--cfg evenkeel_preempt` every
//! use may pause at random (`preempt`), and with `--cfg evenkeel_tsan` ThreadSanitizer sees the
//! order that the standard library makes (`tsan`).
//!
//! Three things differ from the standard library, so that the same code compiles with loom:
//!
//! - [`Mutex::lock`] returns the guard itself, and [`Condvar`] takes and returns it: see
//!   [`Mutex`] for why poison is ignored.
//! - [`cell::UnsafeCell`] has `with` and `with_mut`, as loom's does, since loom has to see where an
//!   access begins and ends.
//! - Under loom there are no `const` constructors. A `static` belongs to code that no model
//!   compiles.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the seam of locks, and of pauses"
)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the module offers one full set, whichever part its callers use in a given build"
)]

#[cfg(not(any(evenkeel_loom, evenkeel_preempt, evenkeel_tsan)))]
use std::sync as imp;

#[cfg(evenkeel_loom)]
use loom::sync as imp;

#[cfg(any(evenkeel_preempt, evenkeel_tsan))]
use instrumented as imp;

use std::sync::{PoisonError, TryLockError};

pub(crate) use imp::{Arc, MutexGuard};

#[cfg(not(evenkeel_loom))]
pub(crate) use imp::OnceLock;
#[cfg(not(evenkeel_loom))]
pub(crate) use std::{hint, thread};

#[cfg(any(evenkeel_preempt, evenkeel_tsan))]
mod instrumented;
#[cfg(evenkeel_preempt)]
pub(crate) mod preempt;
#[cfg(evenkeel_tsan)]
mod tsan;

#[cfg(evenkeel_loom)]
pub(crate) use loom::{hint, thread};

#[cfg(all(test, evenkeel_loom))]
pub(crate) mod models;

/// Atomic integers, their orderings and the fence between them.
pub(crate) mod atomic {
    pub(crate) use super::imp::atomic::{
        AtomicBool, AtomicI64, AtomicIsize, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
        AtomicUsize, Ordering, fence,
    };

    /// Keeps the compiler from moving accesses across. No model uses it.
    #[cfg(not(evenkeel_loom))]
    pub(crate) use super::imp::atomic::compiler_fence;
}

/// Lets threads of any lower priority have the processor for a moment.
#[cfg(not(evenkeel_loom))]
#[cold]
pub(crate) fn nap() {
    thread::sleep(std::time::Duration::from_micros(50));
}

#[cfg(evenkeel_loom)]
pub(crate) use loom::thread::yield_now as nap;

/// A point where a thread may pause in builds that look for races (`preempt`): beside a visible
/// effect that does not pass this module, such as a system call.
#[cfg(evenkeel_preempt)]
pub(crate) use preempt::point;

#[cfg(not(evenkeel_preempt))]
#[inline(always)]
pub(crate) fn point() {}

/// The cell for memory that threads share without a lock.
pub(crate) mod cell {
    #[cfg(evenkeel_loom)]
    pub(crate) use loom::cell::UnsafeCell;

    /// The standard library's cell behind loom's interface.
    #[cfg(not(evenkeel_loom))]
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T: ?Sized>(std::cell::UnsafeCell<T>);

    #[cfg(not(evenkeel_loom))]
    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner()
        }
    }

    #[cfg(not(evenkeel_loom))]
    impl<T: ?Sized> UnsafeCell<T> {
        /// Calls `access` with a pointer for reading, valid until it returns.
        #[inline(always)]
        pub(crate) fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
            access(self.0.get())
        }

        /// Calls `access` with a pointer for writing, valid until it returns.
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
            access(self.0.get())
        }
    }
}

/// Mutual exclusion without poison.
///
/// A lock is poisoned when its holder panics. The only code that may panic is the user's (a
/// future's `poll`, a waker, a blocking closure, a destructor), and none of it runs under a lock of
/// this crate. So a panic under a lock is a defect of ours, which the panic itself has reported.
/// Refusing the lock to all others would turn the loss of one task into the loss of the process, so
/// poison is ignored.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    #[cfg(not(evenkeel_loom))]
    pub(crate) const fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    #[cfg(evenkeel_loom)]
    pub(crate) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    #[inline]
    #[cfg_attr(evenkeel_preempt, track_caller)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    #[cfg_attr(evenkeel_preempt, track_caller)]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(imp::Condvar);

impl Condvar {
    #[cfg(not(evenkeel_loom))]
    pub(crate) const fn new() -> Self {
        Self(imp::Condvar::new())
    }

    #[cfg(evenkeel_loom)]
    pub(crate) fn new() -> Self {
        Self(imp::Condvar::new())
    }

    /// Waits for a notification. May also return spuriously.
    #[cfg_attr(evenkeel_preempt, track_caller)]
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a notification or a timeout. The flag is set if the time has passed.
    ///
    /// A model has no clock, so under loom this waits only for the notification.
    #[cfg_attr(evenkeel_preempt, track_caller)]
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: std::time::Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let waited = self.0.wait_timeout(guard, timeout);
        let (guard, result) = waited.unwrap_or_else(PoisonError::into_inner);
        (guard, result.timed_out())
    }

    #[cfg_attr(evenkeel_preempt, track_caller)]
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    #[cfg_attr(evenkeel_preempt, track_caller)]
    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_outlives_the_panic_of_its_holder() {
        let lock = Arc::new(Mutex::new(1));
        let other = Arc::clone(&lock);
        let panicked = thread::spawn(move || {
            *other.lock() = 2;
            let _guard = other.lock();
            panic!("the holder panics on purpose");
        })
        .join();
        assert!(panicked.is_err());
        assert_eq!(*lock.lock(), 2);
        assert_eq!(lock.try_lock().map(|guard| *guard), Some(2));
    }

    #[test]
    fn a_held_lock_cannot_be_tried() {
        let lock = Mutex::new(());
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(guard);
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn a_cell_gives_back_what_it_was_given() {
        let cell = cell::UnsafeCell::new(7);
        assert_eq!(cell.into_inner(), 7);
    }
}
