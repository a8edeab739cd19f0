//! Running one future on a thread that is not a worker.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

use crate::sched::context;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, Thread};

use super::handle::Handle;

struct Unpark {
    thread: Thread,
    notified: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &std::sync::Arc<Self>) {
        // Release pairs with the Acquire of the swap below, so that the poll sees what happened
        // before the wake-up.
        if !self.notified.swap(true, Ordering::AcqRel) {
            self.thread.unpark();
        }
    }
}

#[track_caller]
pub(crate) fn block_on<F: Future>(handle: &Handle, future: F) -> F::Output {
    let on_worker =
        context::with_worker(|worker| worker.is_some_and(|worker| !worker.is_in_place()));
    assert!(
        !on_worker,
        "`block_on` was called on a worker, which must not block: other tasks wait for it. \
         Await the future instead, or call `block_on` inside `block_in_place` or \
         `spawn_blocking`"
    );
    let _entered = context::enter(Arc::clone(handle.shared()));
    let unpark = std::sync::Arc::new(Unpark {
        thread: thread::current(),
        notified: AtomicBool::new(false),
    });
    let waker = Waker::from(std::sync::Arc::clone(&unpark));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        // Acquire pairs with the Release in `wake_by_ref`. Parking may end spuriously.
        while !unpark.notified.swap(false, Ordering::AcqRel) {
            thread::park();
        }
    }
}
