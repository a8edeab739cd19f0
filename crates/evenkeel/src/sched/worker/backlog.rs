//! What waits at a worker, and when another is woken for it.

use std::cell::Cell;

use super::Worker;

/// What is known of the work that waits here, without asking the run queues.
pub(super) struct Backlog {
    /// Set while something may wait in the run queues: to ask all of them costs a tenth of a short
    /// poll.
    has_ready: Cell<bool>,
    /// A moving average of the length of polls, in cycles.
    poll_length: Cell<u64>,
    /// The longest wait among the woken tasks that were polled since the pressure was last noted.
    oldest: Cell<u64>,
}

impl Backlog {
    /// Polls are taken to be so long until some have been seen.
    pub(super) fn new(poll_length: u64) -> Self {
        Self {
            has_ready: Cell::new(false),
            poll_length: Cell::new(poll_length),
            oldest: Cell::new(0),
        }
    }

    #[inline]
    pub(super) fn note_ready(&self) {
        self.has_ready.set(true);
    }

    #[inline]
    pub(super) fn note_poll(&self, length: u64) {
        let average = self.poll_length.get();
        self.poll_length.set(average - average / 8 + length / 8);
    }

    pub(super) fn poll_length(&self) -> u64 {
        self.poll_length.get()
    }

    /// A woken task that is polled had waited for so long.
    #[inline]
    pub(super) fn note_wait(&self, waited: u64) {
        self.oldest.set(self.oldest.get().max(waited));
    }
}

impl Worker {
    /// Wakes another worker if more waits here than is worth a wake-up, or anything behind a poll
    /// that is on guard.
    #[inline]
    pub(super) fn ask_for_help(&self, on_guard: bool) {
        if !self.backlog.has_ready.get() || !self.shared.idle.has_help() {
            return;
        }
        let waiting = self.desk.run_queues.len() as u64;
        self.backlog.has_ready.set(waiting > 0);
        let is_enough = on_guard && waiting > 0;
        let length = waiting.saturating_mul(self.backlog.poll_length());
        if is_enough || length >= self.bounds.help {
            self.accounts().helps.add(1);
            self.shared.wake_one();
        }
    }

    /// Notes how old this worker's queues were since it last did so.
    pub(super) fn note_pressure(&self, was_awake: bool) {
        let oldest = self.backlog.oldest.take();
        let pressure = &self.seat().driver.pressure;
        pressure.note(self.now.get(), oldest, was_awake);
    }
}
