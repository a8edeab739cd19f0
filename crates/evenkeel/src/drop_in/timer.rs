//! A timer of a given runtime.

use std::task::{Context, Poll};
use std::time::Instant;

use crate::clock;
use crate::runtime::Handle;
use crate::sched::context::TimerHome;
use crate::timer::timers::Key;

/// Wakes a task when its deadline has come. The timer stays with the worker on which a task first
/// waited for it.
#[derive(Debug)]
pub struct Timer {
    deadline: Instant,
    set: Option<(TimerHome, Key)>,
}

impl Timer {
    pub fn new(deadline: Instant) -> Self {
        Self {
            deadline,
            set: None,
        }
    }

    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    pub fn is_elapsed(&self) -> bool {
        clock::now() >= self.deadline
    }

    pub fn reset(&mut self, deadline: Instant) {
        self.deadline = deadline;
        let Some((home, key)) = &mut self.set else {
            return;
        };
        match home.timers().reschedule(*key, home.tick_at(deadline)) {
            Some((new_key, call)) => {
                *key = new_key;
                if call {
                    home.unpark();
                }
            }
            // It has fired, so the task has been woken and will poll.
            None => self.set = None,
        }
    }

    /// Waits for the deadline. Returns false if the runtime has ended, where nothing would wake the
    /// task.
    pub fn poll_elapsed(&mut self, handle: &Handle, cx: &mut Context<'_>) -> Poll<bool> {
        if self.is_elapsed() {
            self.cancel();
            return Poll::Ready(true);
        }
        let waits = (self.set.as_ref())
            .is_some_and(|(home, key)| home.timers().update_waker(*key, cx.waker()));
        if !waits {
            let home = TimerHome::of(handle.shared());
            let (key, call) =
                (home.timers()).insert(home.tick_at(self.deadline), cx.waker().clone());
            if call {
                home.unpark();
            }
            self.set = Some((home, key));
        }
        // After the insertion: an end that came before it is seen here, a later one wakes the task.
        if handle.shared().is_stopping() {
            self.cancel();
            return Poll::Ready(false);
        }
        Poll::Pending
    }

    fn cancel(&mut self) {
        if let Some((home, key)) = self.set.take() {
            home.timers().cancel(key);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.cancel();
    }
}
