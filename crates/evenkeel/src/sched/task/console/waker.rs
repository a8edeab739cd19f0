//! A waker that tells `tracing` of each use, and passes it on to another one.
//!
//! All clones of it share one allocation, with the other waker, which counts one reference to the
//! task for all of them. The task's future holds it too, so the two refer to each other until the
//! future is dropped, which happens to each task at its end, at the latest with its runtime.
#![allow(
    unsafe_code,
    reason = "std's safe interface tells nothing of clones and drops"
)]

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::task::{RawWaker, RawWakerVTable, Waker};

use tracing::trace;

use crate::sync::Arc;

/// What the wakers of one task share.
struct Told {
    inner: Waker,
    /// The span of the task.
    span: u64,
}

/// The task's end of it.
pub(super) struct Watch(Arc<Told>);

impl Watch {
    pub(super) fn new(inner: Waker, span: u64) -> Self {
        Self(Arc::new(Told { inner, span }))
    }

    pub(super) fn is_for(&self, inner: &Waker) -> bool {
        self.0.inner.will_wake(inner)
    }

    /// A waker for the time of one poll. It counts no reference, and its end is no event.
    pub(super) fn waker(&self) -> impl Deref<Target = Waker> {
        let data = Arc::as_ptr(&self.0).cast();
        // SAFETY: the table's functions keep the contract of `RawWakerVTable`. This waker is not
        // dropped, and `self`, which the caller keeps during the poll, keeps the pointer valid.
        ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(data, &VTABLE)) })
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

impl Told {
    fn tell(&self, op: &'static str) {
        trace!(target: "tokio::task::waker", op, task.id = self.span);
    }
}

/// What a waker's data pointer stands for, without counting it.
///
/// # Safety
///
/// `data` must come from a waker of this table.
unsafe fn borrowed(data: *const ()) -> ManuallyDrop<Arc<Told>> {
    // SAFETY: wakers are made from pointers of `Arc<Told>`.
    ManuallyDrop::new(unsafe { Arc::from_raw(data.cast()) })
}

unsafe fn clone(data: *const ()) -> RawWaker {
    // SAFETY: the waker that is cloned keeps what it points to; the clone's count is its own.
    let told = unsafe { borrowed(data) };
    told.tell("waker.clone");
    RawWaker::new(Arc::into_raw(Arc::clone(&told)).cast(), &VTABLE)
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the waker is consumed, so its count is dropped at the end.
    let told = ManuallyDrop::into_inner(unsafe { borrowed(data) });
    told.tell("waker.wake");
    told.inner.wake_by_ref();
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker keeps what it points to.
    let told = unsafe { borrowed(data) };
    told.tell("waker.wake_by_ref");
    told.inner.wake_by_ref();
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the waker is consumed, and its count with it.
    let told = ManuallyDrop::into_inner(unsafe { borrowed(data) });
    told.tell("waker.drop");
}
