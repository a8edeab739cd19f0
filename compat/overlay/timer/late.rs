//! A sleep makes its timer late: when it is polled or reset. Since Tokio 1.53.

use super::{instant, Deadline, Timer};
use crate::runtime::scheduler;
use std::pin::Pin;

impl Timer {
    pub(crate) fn init(self: Pin<&mut Self>, deadline: Deadline) {
        if let Some(timer) = self.upstream() {
            timer.init(deadline);
        }
    }

    pub(crate) fn reset(mut self: Pin<&mut Self>, handle: scheduler::Handle, deadline: Deadline) {
        if let Some((timer, _)) = self.as_mut().native() {
            timer.reset(instant(&handle, deadline));
        } else if let Some(timer) = self.upstream() {
            timer.reset(handle, deadline);
        }
    }
}
