//! The tasks that wait at a worker, and when another worker is woken for them.

use std::cell::Cell;

use super::Worker;

/// What is known of the waiting tasks without a look at the run queues.
pub(super) struct Backlog {
    /// Set while a run queue may have a task. To ask all of them costs a tenth of a short poll.
    has_ready: Cell<bool>,
    /// A moving average of the length of polls, in cycles.
    poll_length: Cell<u64>,
    /// The longest wait among the woken tasks that were polled since the pressure was last noted.
    oldest: Cell<u64>,
}

impl Backlog {
    /// `poll_length` is the estimate until polls have been seen.
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

    #[inline]
    pub(super) fn note_wait(&self, waited: u64) {
        self.oldest.set(self.oldest.get().max(waited));
    }
}

impl Worker {
    /// Wakes another worker if the waiting tasks are worth a wake-up, or if any task waits behind a
    /// poll on guard.
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

    /// Records the longest wait since the last call.
    pub(super) fn note_pressure(&self, was_awake: bool) {
        let oldest = self.backlog.oldest.take();
        let pressure = &self.seat().driver.pressure;
        pressure.note(self.now.get(), oldest, was_awake);
    }
}
