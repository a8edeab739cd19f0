//! The turn of one file, or its place in line.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::clock::Clock;
use crate::sched::context;
use crate::sync::Arc;
use crate::time::{Sleep, sleep};

use crate::blocking::turns::{LEASE_MS, Turns};

/// How many bytes a file writes before it goes to the end of the line. Turns of half or a quarter
/// of it gain less, as caches are refilled more often; longer ones make others wait.
pub(crate) const TURN: usize = 16 << 20;

/// A file has either nothing, or a place in line, or a turn, or, after it has waited for the bound,
/// permission to write as much without a turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    place: Option<Place>,
    /// `Some` while the file waits in line.
    patience: Option<Sleep>,
    /// How many bytes may be written before it waits again.
    left: usize,
    /// Whether the line has been told that nothing is written for now.
    paused: bool,
}

/// A turn or a place in line, which is given up when this is dropped. That may wake tasks, so it is
/// done without a lock.
#[derive(Debug)]
pub(crate) struct Place {
    turns: Arc<Turns>,
    clock: Clock,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.turns.leave(self.number, self.clock.tick());
    }
}

impl Turn {
    /// Waits until `length` bytes may be written, but not longer than the bound. It gives back a
    /// used-up turn, so it is called without a lock.
    pub(crate) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        turns: &Arc<Turns>,
        clock: Clock,
        length: usize,
    ) -> Poll<()> {
        let is_in_line = self.place.is_some() && self.left == 0;
        debug_assert!(self.patience.is_none() || is_in_line, "{self:?}");
        if self.left == 0 {
            if self.patience.is_none() {
                // Give back the used-up turn before asking for the next.
                self.place = None;
                let number = turns.join(clock.tick());
                self.place = Some(Place {
                    turns: Arc::clone(turns),
                    clock,
                    number,
                });
            }
            ready!(self.poll_line(cx));
            self.patience = None;
            self.left = TURN;
            self.paused = true;
        }
        if self.paused
            && let Some(place) = &self.place
        {
            place.turns.go_on(place.number);
        }
        self.paused = false;
        self.left = self.left.saturating_sub(length);
        Poll::Ready(())
    }

    fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(place) = &self.place else {
            return Poll::Ready(());
        };
        if !place.turns.waits(place.number, cx.waker()) {
            return Poll::Ready(());
        }
        // A task of a foreign runtime has no timer to end the wait.
        if context::current().is_ok() {
            let bound = || sleep(Duration::from_millis(LEASE_MS));
            let patience = self.patience.get_or_insert_with(bound);
            ready!(patience.poll_elapsed(cx));
        }
        self.place = None;
        Poll::Ready(())
    }

    /// Tells the line that nothing is written for now. The task is about to go on.
    pub(crate) fn pause(&mut self) {
        if self.patience.is_none()
            && let Some(place) = &self.place
        {
            place.turns.pause(place.number, place.clock.tick());
            self.paused = true;
        }
    }

    /// Takes the file's turn, if it has one, to be dropped outside every lock. A place in line is
    /// kept.
    #[must_use = "it is given back when it is dropped, which is not to be under a lock"]
    pub(crate) fn give_back(&mut self) -> Option<Place> {
        if self.patience.is_some() || self.place.is_none() {
            return None;
        }
        self.left = 0;
        self.place.take()
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
