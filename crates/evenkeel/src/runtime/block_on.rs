//! Running one future on a thread that is not a worker.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Wake, Waker};

use crate::clock::Pausable;
use crate::sched::context;
use crate::sched::presence::Inside;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::{self, Thread};
use crate::sync::{Arc, Mutex};

use super::handle::Handle;

struct Unpark {
    thread: Thread,
    notified: AtomicBool,
    /// Counts the thread as able to run from its notification on.
    pausable: Option<&'static Pausable>,
    /// With such a clock, held where `notified` changes, so that it and the count do so together.
    gate: Mutex<()>,
}

impl Unpark {
    /// Returns whether the thread has not been notified yet.
    fn notify(&self) -> bool {
        let _gate = self.pausable.map(|_| self.gate.lock());
        // Release pairs with the Acquire in `take`, so that the poll sees what happened before the
        // wake-up.
        let is_first = !self.notified.swap(true, Ordering::AcqRel);
        if is_first {
            self.pausable.into_iter().for_each(Pausable::begin_work);
        }
        is_first
    }

    /// Takes a notification, and what it counts for, if there is one.
    fn take(&self) -> bool {
        let _gate = self.pausable.map(|_| self.gate.lock());
        // Acquire pairs with the Release in `notify`.
        self.notified.swap(false, Ordering::AcqRel)
    }
}

impl Wake for Unpark {
    fn wake(self: std::sync::Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &std::sync::Arc<Self>) {
        if self.notify() {
            self.thread.unpark();
        }
    }
}

/// Takes a last notification when the future is over. Later ones find it there, and count for
/// nothing.
struct Over<'a>(&'a Unpark, Inside<'a>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let Self(unpark, inside) = self;
        if unpark.pausable.is_some() {
            // Whether it is there already or comes now, it counts, and is taken back.
            let _ = unpark.notify();
            inside.waits();
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
    let config = &handle.shared().config;
    config.surrounded(|| block_here(handle, future))
}

fn block_here<F: Future>(handle: &Handle, future: F) -> F::Output {
    let unpark = std::sync::Arc::new(Unpark {
        thread: thread::current(),
        notified: AtomicBool::new(false),
        pausable: handle.shared().clock.pausable(),
        gate: Mutex::new(()),
    });
    let over = Over(&unpark, Inside::new(handle.shared()));
    let waker = Waker::from(std::sync::Arc::clone(&unpark));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        over.1.waits();
        // Parking may end spuriously.
        while !unpark.take() {
            thread::park();
        }
    }
}
