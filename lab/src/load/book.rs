//! Which calls of an open loop are due, begun and answered, in whatever order they are answered.
//! Pure: moments are passed in as time since the start.

use std::collections::BTreeSet;
use std::time::Duration;

use super::echo::EchoSummary;
use super::latency::Latencies;
use super::pace::Pace;

/// The accounts of those calls of a loop that are of one kind.
pub(super) struct Book {
    pace: Pace,
    /// Which calls of the schedule are of this kind.
    part: fn(u64) -> bool,
    first_measured: u64,
    next: u64,
    /// Calls that are due and have no answer.
    open: BTreeSet<u64>,
    latencies: Latencies,
    lateness: Latencies,
    /// Calls that broke.
    lost: u64,
}

impl Book {
    pub(super) fn new(pace: Pace, warmup: Duration, part: fn(u64) -> bool) -> Self {
        let before = warmup.saturating_sub(Duration::from_nanos(1));
        Book {
            pace,
            part,
            first_measured: if warmup.is_zero() {
                0
            } else {
                pace.due_by(before)
            },
            next: 0,
            open: BTreeSet::new(),
            latencies: Latencies::new(),
            lateness: Latencies::new(),
            lost: 0,
        }
    }

    /// The next call that is due by `elapsed`; it counts as begun then.
    pub(super) fn begin(&mut self, elapsed: Duration) -> Option<u64> {
        let due = self.pace.due_by(elapsed);
        let index = (self.next..due).find(|&index| (self.part)(index));
        self.next = index.map_or(due.max(self.next), |index| index + 1);
        let index = index?;
        self.open.insert(index);
        if index >= self.first_measured {
            let late = elapsed.saturating_sub(self.pace.due_at(index));
            self.lateness.record(late);
        }
        Some(index)
    }

    pub(super) fn all_begun(&self) -> bool {
        self.next >= self.pace.total()
    }

    pub(super) fn answered(&mut self, index: u64, elapsed: Duration) {
        if self.open.remove(&index) {
            self.record(index, elapsed);
        }
    }

    /// Counts a call that broke; it stays without an answer.
    pub(super) fn lost(&mut self) {
        self.lost += 1;
    }

    /// Ends the run: a call without an answer counts with the time waited so far.
    pub(super) fn summary(mut self, elapsed: Duration) -> EchoSummary {
        let unanswered = self.close(elapsed);
        let lateness = self.lateness.summary();
        EchoSummary {
            requests: self.latencies.len(),
            unanswered,
            connections_lost: self.lost,
            latency: self.latencies.summary(),
            late_p50_us: lateness.p50_us,
            late_p99_us: lateness.p99_us,
            calm: None,
        }
    }

    /// Counts what has no answer, and says how many measured ones there were.
    fn close(&mut self, elapsed: Duration) -> u64 {
        while self.begin(elapsed).is_some() {}
        let open = std::mem::take(&mut self.open);
        let answered = self.latencies.len();
        for index in open {
            self.record(index, elapsed);
        }
        self.latencies.len() - answered
    }

    fn record(&mut self, index: u64, elapsed: Duration) {
        if index >= self.first_measured {
            let latency = elapsed.saturating_sub(self.pace.due_at(index));
            self.latencies.record(latency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn answers_count_from_when_they_were_due_in_any_order() {
        let mut book = Book::new(Pace::new(100.0, 40 * MS), Duration::ZERO, |_| true);
        assert_eq!(book.begin(Duration::ZERO), Some(0));
        assert_eq!(book.begin(9 * MS), None);
        assert_eq!(
            (book.begin(25 * MS), book.begin(25 * MS)),
            (Some(1), Some(2))
        );
        book.answered(2, 26 * MS);
        book.answered(0, 27 * MS);
        book.answered(0, 90 * MS);
        // Call 1 waited from 10 ms on, call 3 was due at 30 ms and never made.
        assert_eq!(book.close(100 * MS), 2);
        let summary = book.latencies.summary();
        assert_eq!(book.latencies.len(), 4);
        assert!((summary.max_us - 90_000.0).abs() < 200.0, "{summary:?}");
        let mean = (27 + 90 + 6 + 70) as f64 / 4.0 * 1e3;
        assert!((summary.mean_us - mean).abs() < 200.0, "{summary:?}");
    }

    #[test]
    fn warm_up_does_not_count() {
        let mut book = Book::new(Pace::new(100.0, 40 * MS), 20 * MS, |_| true);
        while book.begin(40 * MS).is_some() {}
        book.answered(1, 40 * MS);
        assert_eq!((book.close(40 * MS), book.latencies.len()), (2, 2));
    }

    #[test]
    fn each_kind_has_its_own_calls_of_one_schedule() {
        let pace = Pace::new(100.0, 60 * MS);
        let mut odd = Book::new(pace, 15 * MS, |index| index % 2 == 1);
        let mut even = Book::new(pace, 15 * MS, |index| index % 2 == 0);
        assert_eq!((odd.begin(5 * MS), even.begin(5 * MS)), (None, Some(0)));
        assert_eq!((odd.begin(35 * MS), odd.begin(35 * MS)), (Some(1), Some(3)));
        assert_eq!(odd.begin(35 * MS), None);
        odd.lost();
        odd.answered(3, 40 * MS);
        // Call 1 was due before the end of the warm-up, call 3 is answered, call 5 is not.
        let odd = odd.summary(60 * MS);
        assert_eq!(
            (odd.requests, odd.unanswered, odd.connections_lost),
            (2, 1, 1)
        );
        let even = even.summary(60 * MS);
        assert_eq!((even.requests, even.unanswered), (2, 2));
    }
}
