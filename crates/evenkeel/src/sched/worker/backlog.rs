//! The tasks that wait at a worker, and when another worker is woken for them.
//!
//! A wake-up costs about 5 us of processor time, the woken worker begins about 50 us later, and the
//! tasks that it takes are cold in its caches. Where polls are long, that is soon made up for.
//! Where they are short, two workers that share the work of one spend more time on it than the one
//! alone, so a worker does it alone while it serves each class in time.
//!
//! **Invariant:** another worker is woken, if there is one to wake, when tasks of a class would
//! wait here for half of the class's latency target, and when any waits after 10 ms without a
//! sleep.

use std::cell::Cell;

use super::Worker;
use super::coping::{Coping, Fill};

/// For which part of a latency target tasks may wait before another worker is woken: half of it.
const HELP_PART: u64 = 2;
/// The same before this worker has no room for the work of another: with as much again it would
/// still be below half.
const MUCH_PART: u64 = 8;

/// What is known of the waiting tasks without a look at the run queues.
pub(super) struct Backlog {
    /// Set while a run queue may have more tasks, or longer ones, than when it was last looked at.
    /// To ask all of them costs a tenth of a short poll.
    has_news: Cell<bool>,
    lengths: Lengths,
    /// The longest wait among the woken tasks that were polled since the pressure was last noted.
    oldest: Cell<u64>,
}

impl Backlog {
    /// `poll_length` is the estimate until polls have been seen.
    pub(super) fn new(poll_length: u64) -> Self {
        Self {
            has_news: Cell::new(false),
            lengths: Lengths::new(poll_length),
            oldest: Cell::new(0),
        }
    }

    #[inline]
    pub(super) fn note_ready(&self) {
        self.has_news.set(true);
    }

    #[inline]
    pub(super) fn note_poll(&self, length: u64) {
        if self.lengths.note(length) {
            self.has_news.set(true);
        }
    }

    pub(super) fn poll_length(&self) -> u64 {
        self.lengths.estimate.get()
    }

    #[inline]
    pub(super) fn note_wait(&self, waited: u64) {
        self.oldest.set(self.oldest.get().max(waited));
    }
}

/// How long a poll takes here, in cycles. A single long one counts for little: the kernel may have
/// given its processor to another thread. Two in a row count fully.
struct Lengths {
    estimate: Cell<u64>,
    last: Cell<u64>,
}

impl Lengths {
    fn new(estimate: u64) -> Self {
        Self {
            estimate: Cell::new(estimate),
            last: Cell::new(0),
        }
    }

    /// Returns whether the estimate has grown.
    #[inline]
    fn note(&self, length: u64) -> bool {
        let before = self.estimate.get();
        let counted = length.min(before.saturating_mul(8));
        let average = before - before / 8 + counted / 8;
        let estimate = average.max(length.min(self.last.replace(length)));
        self.estimate.set(estimate);
        estimate > before
    }
}

impl Worker {
    /// Wakes another worker if the waiting tasks are worth a wake-up, or if any task waits behind a
    /// poll on guard.
    #[inline]
    pub(super) fn ask_for_help(&self, on_guard: bool) {
        let may_be_worth = self.backlog.has_news.get() || on_guard;
        if may_be_worth && self.shared.idle.has_help() {
            self.look_at_backlog(on_guard);
        }
    }

    fn look_at_backlog(&self, on_guard: bool) {
        let waits = !self.desk.run_queues.is_empty();
        let is_worth = waits
            && (on_guard
                || self.polls_are_long()
                || self.coping.borrow().is_saturated(self.now.get())
                || self.waits_for_a_part(HELP_PART));
        self.backlog.has_news.set(is_worth);
        if is_worth {
            self.wake_helper();
        }
    }

    fn wake_helper(&self) {
        self.accounts().helps.add(1);
        self.shared.wake_one();
    }

    fn polls_are_long(&self) -> bool {
        self.backlog.poll_length() >= self.bounds.long
    }

    /// Whether tasks of a class would wait here for this part of its latency target, such as half
    /// of it for 2.
    fn waits_for_a_part(&self, part: u64) -> bool {
        let length = self.backlog.poll_length();
        let run_queues = &self.desk.run_queues;
        let shares = self.shares.borrow();
        shares.targets().any(|(class, target)| {
            let waiting = run_queues.len_of(class) as u64;
            waiting.saturating_mul(length) >= target / part
        })
    }

    /// How much waits here.
    fn fill(&self) -> Fill {
        let is_long = self.polls_are_long();
        let waits = is_long && !self.desk.run_queues.is_empty();
        if waits || self.waits_for_a_part(HELP_PART) {
            Fill::TooMuch
        } else if is_long || self.waits_for_a_part(MUCH_PART) {
            Fill::Much
        } else {
            Fill::Little
        }
    }

    /// Records how much waits, and how this worker copes. Wakes another worker if it is too much:
    /// the next task is about to be taken, and one that waits alone will not be seen in the queue.
    pub(super) fn note_fill(&self) {
        let fill = self.fill();
        if fill == Fill::TooMuch && self.shared.idle.has_help() {
            self.wake_helper();
        }
        let mut coping = self.coping.borrow_mut();
        if coping.is_saturated(self.now.get()) {
            self.backlog.has_news.set(true);
        }
        coping.look(self.now.get(), fill);
        self.judge_coping(&mut coping);
    }

    /// The worker has slept.
    pub(super) fn note_sleep(&self, length: u64) {
        let mut coping = self.coping.borrow_mut();
        coping.sleep(self.now.get(), length);
        self.judge_coping(&mut coping);
    }

    #[inline]
    fn judge_coping(&self, coping: &mut Coping) {
        let now = self.now.get();
        if let Some(level) = coping.judge(now) {
            self.shared.placement.note(self.index, level, now);
        }
    }

    /// Records the longest wait since the last call.
    pub(super) fn note_pressure(&self, was_awake: bool) {
        let oldest = self.backlog.oldest.take();
        let pressure = &self.seat().driver.pressure;
        pressure.note(self.now.get(), oldest, was_awake);
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_single_long_poll_counts_for_little_and_two_in_a_row_count_fully() {
        let lengths = Lengths::new(80);
        assert!(lengths.note(100_000));
        assert!(lengths.estimate.get() < 160, "{}", lengths.estimate.get());
        assert!(!lengths.note(80));
        lengths.note(1_000);
        assert!(lengths.note(900));
        assert_eq!(lengths.estimate.get(), 900);
    }

    #[test]
    fn the_estimate_follows_lengths_that_alternate() {
        let lengths = Lengths::new(5);
        for _ in 0..100 {
            lengths.note(5);
            lengths.note(105);
        }
        assert!(lengths.estimate.get().abs_diff(55) < 10);
    }
}
