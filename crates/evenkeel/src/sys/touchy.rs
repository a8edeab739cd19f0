//! For tests: a waker that runs code when it is cloned, woken or dropped, as any waker may.

use std::mem::ManuallyDrop;
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};

struct Touchy {
    touched: Box<dyn Fn() + Send + Sync>,
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

/// A waker that calls a function whenever it is cloned, woken or dropped.
pub(crate) fn touchy(touched: impl Fn() + Send + Sync + 'static) -> Waker {
    let touchy = Arc::new(Touchy {
        touched: Box::new(touched),
    });
    // SAFETY: the functions of the vtable take `data` for the reference that `into_raw` gave away
    // here, or in `clone`: `clone` and `wake_by_ref` leave it, `wake` and `drop_waker` take it
    // back. `Touchy` is `Send` and `Sync`.
    unsafe { Waker::from_raw(RawWaker::new(Arc::into_raw(touchy).cast(), &VTABLE)) }
}

/// Wakers of different tasks, and how often any was touched while `is_free` returned false.
pub(crate) fn touchy_wakers<const N: usize>(
    is_free: impl Fn() -> bool + Send + Sync + 'static,
) -> ([Waker; N], Arc<AtomicUsize>) {
    let (is_free, misplaced) = (Arc::new(is_free), Arc::new(AtomicUsize::new(0)));
    let wakers = std::array::from_fn(|_| {
        let (is_free, misplaced) = (Arc::clone(&is_free), Arc::clone(&misplaced));
        touchy(move || {
            // Relaxed: a count.
            misplaced.fetch_add(usize::from(!is_free()), Ordering::Relaxed);
        })
    });
    (wakers, misplaced)
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: see `touchy`; the reference stays the caller's.
    let touchy = ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<Touchy>()) });
    (touchy.touched)();
    RawWaker::new(Arc::into_raw(Arc::clone(&touchy)).cast(), &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: see `touchy`.
    let touchy = unsafe { Arc::from_raw(data.cast::<Touchy>()) };
    (touchy.touched)();
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: as in `clone`.
    let touchy = ManuallyDrop::new(unsafe { Arc::from_raw(data.cast::<Touchy>()) });
    (touchy.touched)();
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: see `touchy`.
    let touchy = unsafe { Arc::from_raw(data.cast::<Touchy>()) };
    (touchy.touched)();
}
