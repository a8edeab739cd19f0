//! Tasks that do nothing but compute.

use std::future::poll_fn;
use std::task::Poll;

use super::args::{HogPoll, HogYield};
use super::platform::Platform;
use super::work::compute;

pub(crate) fn spawn<P: Platform>(hogs: usize, poll: HogPoll, yields: HogYield) {
    for _ in 0..hogs {
        match (poll, yields) {
            (HogPoll::Micros(us), HogYield::Runtime) => P::spawn(async move {
                loop {
                    compute(us);
                    P::yield_now().await;
                }
            }),
            (HogPoll::Micros(us), HogYield::Wake) => P::spawn(poll_fn(move |cx| {
                compute(us);
                cx.waker().wake_by_ref();
                Poll::Pending
            })),
            (HogPoll::Never, _) => P::spawn(async { never_yield() }),
        }
    }
}

/// Computes until the process ends.
pub(crate) fn never_yield() {
    loop {
        compute(1_000);
    }
}
