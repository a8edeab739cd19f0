//! The one source of atomics, locks, threads and shared cells in this crate.
//!
//! Built normally, every name here is the standard library's, or a wrapper that compiles to it.
//! Built with `--cfg evenkeel_loom`, every name is loom's, whose models then explore each
//! interleaving of the code that stands on this module. No other module names `std::sync`,
//! `std::sync::atomic` or `std::thread` for these things: a model sees only what passes here.
//!
//! Two more configurations put something around the standard library's names. With
//! `--cfg evenkeel_preempt` every use may pause at random (`preempt`), and with
//! `--cfg evenkeel_tsan` ThreadSanitizer sees what the standard library orders (`tsan`).
//!
//! Three things differ from the standard library, so that code reads the same in both worlds:
//!
//! - [`Mutex::lock`] returns the guard itself, and [`Condvar`] takes and returns it: see
//!   [`Mutex`] for why poison is ignored.
//! - [`cell::UnsafeCell`] hands out its pointer through `with` and `with_mut`, as loom's does,
//!   since loom has to see where an access begins and where it ends.
//! - Nothing here has a `const` constructor, as loom has none. A `static` belongs to code that no
//!   model compiles.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "the seam of locks, and of pauses"
)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the façade offers one full set, whichever part its callers use in a given build"
)]

#[cfg(not(any(evenkeel_loom, evenkeel_preempt, evenkeel_tsan)))]
use std::sync as imp;

#[cfg(evenkeel_loom)]
use loom::sync as imp;

#[cfg(any(evenkeel_preempt, evenkeel_tsan))]
use instrumented as imp;

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

    /// Keeps the compiler from moving accesses across; no model is compiled from code that uses it.
    #[cfg(not(evenkeel_loom))]
    pub(crate) use super::imp::atomic::compiler_fence;
}

/// Where a thread may pause in builds that look for races (`preempt`): beside an effect that
/// others see and that does not pass this module, such as a system call.
#[cfg(evenkeel_preempt)]
pub(crate) use preempt::point;

/// Nothing, in ordinary builds.
#[cfg(not(evenkeel_preempt))]
#[inline(always)]
pub(crate) fn point() {}

/// The cell through which threads share memory that no lock guards.
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
        /// Calls `access` with a pointer that it may read through, and only until it returns.
        #[inline(always)]
        pub(crate) fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
            access(self.0.get())
        }

        /// Calls `access` with a pointer that it may write through, and only until it returns.
        #[inline(always)]
        pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
            access(self.0.get())
        }
    }
}

/// Mutual exclusion without poison.
///
/// A lock is poisoned when its holder panics, and the only code that is expected to panic here is
/// the user's: a future's `poll`, a waker, a blocking closure, a destructor. None of these runs
/// under a lock of this crate; wakers are collected under the lock and woken outside it. A panic
/// under a lock is therefore a defect of ours, which has been reported by the panic itself.
/// Refusing the lock to everyone else afterwards would turn the loss of one task into the loss of
/// the process, so the guard is handed out as if nothing had happened.
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

    /// Waits for the lock.
    #[inline]
    #[cfg_attr(evenkeel_preempt, track_caller)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Takes the lock if nobody holds it.
    #[inline]
    #[cfg_attr(evenkeel_preempt, track_caller)]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        match self.0.get_mut() {
            Ok(value) => value,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    pub(crate) fn into_inner(self) -> T {
        match self.0.into_inner() {
            Ok(value) => value,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

/// A place to wait, with a [`Mutex`] released, until another thread says that something changed.
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

    /// Waits for a notification. Wakes without one, too, now and then.
    #[cfg_attr(evenkeel_preempt, track_caller)]
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        match self.0.wait(guard) {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// Waits for a notification or for `timeout` to pass; the flag says that the time passed.
    ///
    /// A model has no clock, so under loom this waits for the notification alone.
    #[cfg_attr(evenkeel_preempt, track_caller)]
    pub(crate) fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: std::time::Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let (guard, result) = match self.0.wait_timeout(guard, timeout) {
            Ok(pair) => pair,
            Err(poisoned) => poisoned.into_inner(),
        };
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
