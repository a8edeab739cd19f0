//! A task's wakers: each but the one of a poll counts a reference.
#![allow(
    unsafe_code,
    reason = "a waker's data is a pointer to the task that it counts a reference to"
)]

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{RawWaker, RawWakerVTable};

use super::Reference;
use crate::sched::task::trace;

pub(super) static WAKER_VTABLE: RawWakerVTable =
    RawWakerVTable::new(clone_waker, wake, wake_by_ref, drop_waker);

/// That of a traced poll (`trace`). Its clones are ordinary wakers.
pub(super) static TRACED_VTABLE: RawWakerVTable =
    RawWakerVTable::new(clone_traced, wake, wake_by_ref, drop_waker);

/// The reference that a waker's data pointer stands for, without counting it.
///
/// # Safety
///
/// `data` must come from a waker of this vtable.
#[inline]
unsafe fn borrowed(data: *const ()) -> ManuallyDrop<Reference> {
    // SAFETY: wakers are made from non-null header pointers.
    ManuallyDrop::new(Reference(unsafe {
        NonNull::new_unchecked(data.cast_mut().cast())
    }))
}

unsafe fn clone_waker(data: *const ()) -> RawWaker {
    // SAFETY: the waker that is cloned keeps the task alive; the clone's count is its own.
    let reference = unsafe { borrowed(data) };
    reference.header().state.add_reference();
    RawWaker::new(data, &WAKER_VTABLE)
}

unsafe fn clone_traced(data: *const ()) -> RawWaker {
    trace::note_clone();
    // SAFETY: that of `clone_waker` is this function's.
    unsafe { clone_waker(data) }
}

unsafe fn wake(data: *const ()) {
    // SAFETY: the waker is consumed, so its reference is dropped at the end.
    let reference = ManuallyDrop::into_inner(unsafe { borrowed(data) });
    reference.wake();
}

unsafe fn wake_by_ref(data: *const ()) {
    // SAFETY: the waker keeps the task alive.
    let reference = unsafe { borrowed(data) };
    reference.wake();
}

unsafe fn drop_waker(data: *const ()) {
    // SAFETY: the waker is consumed, and its reference with it.
    drop(ManuallyDrop::into_inner(unsafe { borrowed(data) }));
}
