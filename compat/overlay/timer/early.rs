//! A sleep has its timer from the start, and asks it for the deadline. Before Tokio 1.53.

use super::{instant, Deadline, Timer};
use crate::runtime::TimerFlavor;
use std::pin::Pin;

impl Timer {
    pub(crate) fn deadline(&self) -> Deadline {
        match self {
            Timer::Evenkeel { timer, .. } => Deadline::from_std(timer.deadline()),
            Timer::Upstream(timer) => timer.deadline(),
        }
    }

    pub(crate) fn flavor(self: Pin<&Self>) -> TimerFlavor {
        TimerFlavor::Traditional
    }

    pub(crate) fn reset(mut self: Pin<&mut Self>, deadline: Deadline, reregister: bool) {
        let Some((timer, handle)) = self.as_mut().native() else {
            if let Some(timer) = self.upstream() {
                timer.reset(deadline, reregister);
            }
            return;
        };
        let deadline = instant(handle, deadline);
        if reregister {
            timer.reset(deadline);
        } else {
            // It wakes nobody until it is polled again.
            *timer = evenkeel::drop_in::Timer::new(deadline);
        }
    }
}
