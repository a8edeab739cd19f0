//! Tasks that do nothing but compute.

use super::args::HogPoll;
use super::platform::Platform;
use super::work::compute;

pub(crate) fn spawn<P: Platform>(hogs: usize, poll: HogPoll) {
    for _ in 0..hogs {
        match poll {
            HogPoll::Micros(us) => P::spawn(async move {
                loop {
                    compute(us);
                    P::yield_now().await;
                }
            }),
            HogPoll::Never => P::spawn(async { never_yield() }),
        }
    }
}

/// Computes until the process ends.
pub(crate) fn never_yield() {
    loop {
        compute(1_000);
    }
}
