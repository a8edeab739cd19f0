//! A timer of either. A rule adds `Deadline` and `instant`, which depend on the version, and the
//! module with what a sleep asks of its timer.

use crate::runtime::scheduler;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

#[derive(Debug)]
pub(crate) enum Timer {
    Evenkeel {
        timer: evenkeel::drop_in::Timer,
        handle: scheduler::Handle,
    },
    Upstream(crate::runtime::Timer),
}

use Timer::{Evenkeel, Upstream};

impl Timer {
    #[track_caller]
    pub(crate) fn new(handle: scheduler::Handle, deadline: Deadline) -> Self {
        if handle.evenkeel().is_none() {
            return Upstream(crate::runtime::Timer::new(handle, deadline));
        }
        Evenkeel {
            timer: evenkeel::drop_in::Timer::new(instant(&handle, deadline)),
            handle,
        }
    }

    /// The one that is Tokio's, which is pinned as this is.
    fn upstream(self: Pin<&mut Self>) -> Option<Pin<&mut crate::runtime::Timer>> {
        // SAFETY: nothing is moved out, and what is pinned stays where it is.
        match unsafe { self.get_unchecked_mut() } {
            // SAFETY: it is pinned as this is, by the comment above, and has no other way out.
            Upstream(timer) => Some(unsafe { Pin::new_unchecked(timer) }),
            Evenkeel { .. } => None,
        }
    }

    /// The one that is Evenkeel's, which may be moved.
    fn native(
        self: Pin<&mut Self>,
    ) -> Option<(&mut evenkeel::drop_in::Timer, &scheduler::Handle)> {
        // SAFETY: only what need not be pinned is handed out.
        match unsafe { self.get_unchecked_mut() } {
            Evenkeel { timer, handle } => Some((timer, handle)),
            Upstream(_) => None,
        }
    }

    pub(crate) fn is_elapsed(&self) -> bool {
        match self {
            Evenkeel { timer, .. } => timer.is_elapsed(),
            Upstream(timer) => timer.is_elapsed(),
        }
    }

    pub(crate) fn poll_elapsed(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), crate::time::error::Error>> {
        if let Some((timer, handle)) = self.as_mut().native() {
            let on = handle.evenkeel().expect("made in its runtime");
            let elapsed = std::task::ready!(timer.poll_elapsed(on, cx));
            if !elapsed && crate::evenkeel::is_own_task(on) {
                // The runtime drops the task now.
                return Poll::Pending;
            }
            // As Tokio's own timer says it.
            assert!(elapsed, "{}", crate::util::error::RUNTIME_SHUTTING_DOWN_ERROR);
            return Poll::Ready(Ok(()));
        }
        match self.upstream() {
            Some(timer) => timer.poll_elapsed(cx),
            None => unreachable!("it is one of the two"),
        }
    }
}
