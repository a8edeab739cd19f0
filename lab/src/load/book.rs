//! Which requests of an open loop are due, sent and answered, in whatever order they are answered.
//! Pure: moments are passed in as time since the start.
//!
//! At the end every measured request has one latency: those without an answer count with the time
//! waited so far, so that a server that stops answering cannot look fast.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::pace::Pace;
use super::{Latencies, LatencySummary};

/// What an open loop found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct EchoSummary {
    /// Measured requests, answered or not.
    pub(crate) requests: u64,
    /// Those that were never answered; they count with the time waited so far.
    pub(crate) unanswered: u64,
    /// Connections that broke, or answered what was not asked.
    pub(crate) connections_lost: u64,
    /// From when a request was due to its answer.
    pub(crate) latency: LatencySummary,
    /// From when a request was due to when it was sent: the generator's own delay, part of the
    /// latency.
    pub(crate) late_p50_us: f64,
    pub(crate) late_p99_us: f64,
    /// Of the requests in whose time no processor stood still, where that was asked and can be
    /// told: how many there were, and their latency.
    #[serde(default)]
    pub(crate) calm: Option<(u64, LatencySummary)>,
}

/// When each measured request was due and, if it was, answered.
pub(super) type Times = Vec<(Duration, Option<Duration>)>;

/// The accounts of those requests of a schedule that are of one kind.
pub(super) struct Book {
    pace: Pace,
    /// Which requests of the schedule are of this kind.
    part: fn(u64) -> bool,
    /// Requests before this one are warm-up.
    first_measured: u64,
    next: u64,
    /// Requests that were due and have no answer.
    open: BTreeSet<u64>,
    /// From due to answered.
    latencies: Latencies,
    /// From due to sent: how late the generator itself was.
    lateness: Latencies,
    /// Requests or connections that broke.
    pub(super) lost: u64,
    /// Where they are asked for.
    times: Option<Times>,
}

impl Book {
    pub(super) fn new(pace: Pace, warmup: Duration, part: fn(u64) -> bool) -> Self {
        // The first request that is due at or after the end of the warm-up.
        let before = warmup.checked_sub(Duration::from_nanos(1));
        Book {
            pace,
            part,
            first_measured: before.map_or(0, |before| pace.due_by(before)),
            next: 0,
            open: BTreeSet::new(),
            latencies: Latencies::new(),
            lateness: Latencies::new(),
            lost: 0,
            times: None,
        }
    }

    pub(super) fn keep_times(&mut self) {
        let requests = self.pace.total().saturating_sub(self.first_measured);
        self.times = Some(Vec::with_capacity(requests as usize));
    }

    /// The next request that is due by `elapsed`; it counts as sent then.
    pub(super) fn begin(&mut self, elapsed: Duration) -> Option<u64> {
        let index = self.next_due(self.pace.due_by(elapsed))?;
        if index >= self.first_measured {
            let late = elapsed.saturating_sub(self.pace.due_at(index));
            self.lateness.record(late);
        }
        Some(index)
    }

    fn next_due(&mut self, due: u64) -> Option<u64> {
        let own = (self.next..due).find(|&index| (self.part)(index));
        self.next = own.map_or(self.next.max(due), |own| own + 1);
        self.open.extend(own);
        own
    }

    pub(super) fn all_begun(&self) -> bool {
        self.next >= self.pace.total()
    }

    pub(super) fn all_answered(&self) -> bool {
        self.open.is_empty()
    }

    /// Counts an answer; whether one was outstanding.
    pub(super) fn answered(&mut self, index: u64, elapsed: Duration) -> bool {
        let was_open = self.open.remove(&index);
        if was_open {
            self.record(index, elapsed, true);
        }
        was_open
    }

    /// Ends the run: every request that was due by `elapsed` and has no answer, sent or not, counts
    /// with the time waited so far. Says the times, too, where they were kept.
    pub(super) fn close(&mut self, elapsed: Duration) -> (EchoSummary, Option<Times>) {
        let answered = self.latencies.len();
        let due = self.pace.due_by(elapsed);
        while self.next_due(due).is_some() {}
        for index in std::mem::take(&mut self.open) {
            self.record(index, elapsed, false);
        }
        let lateness = self.lateness.summary();
        let summary = EchoSummary {
            requests: self.latencies.len(),
            unanswered: self.latencies.len() - answered,
            connections_lost: self.lost,
            latency: self.latencies.summary(),
            late_p50_us: lateness.p50_us,
            late_p99_us: lateness.p99_us,
            calm: None,
        };
        (summary, self.times.take())
    }

    fn record(&mut self, index: u64, elapsed: Duration, is_answered: bool) {
        if index >= self.first_measured {
            let due = self.pace.due_at(index);
            self.latencies.record(elapsed.saturating_sub(due));
            if let Some(times) = &mut self.times {
                times.push((due, is_answered.then_some(elapsed)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// All requests of a schedule of so many, one each millisecond.
    fn book(requests: u32, warmup: Duration) -> Book {
        Book::new(Pace::new(1_000.0, requests * MS), warmup, |_| true)
    }

    fn begin_all(book: &mut Book, elapsed: Duration) -> Vec<u64> {
        std::iter::from_fn(|| book.begin(elapsed)).collect()
    }

    /// `found` of requests, and those of them without an answer.
    fn counts(found: &EchoSummary) -> (u64, u64) {
        (found.requests, found.unanswered)
    }

    /// Within what the histogram is exact to.
    fn near(found_us: f64, ms: f64) -> bool {
        (found_us - ms * 1e3).abs() <= (ms * 2.0).max(20.0)
    }

    #[test]
    fn latency_counts_from_when_a_request_was_due() {
        let mut book = book(3, Duration::ZERO);
        // The generator slept through all three moments, then sent them at once; the answers took
        // no time.
        assert_eq!(begin_all(&mut book, 10 * MS), [0, 1, 2]);
        for index in 0..3 {
            assert!(book.answered(index, 10 * MS));
        }
        let lateness = book.lateness.summary();
        let found = book.close(10 * MS).0;
        assert_eq!(counts(&found), (3, 0));
        assert!(near(found.latency.max_us, 10.0), "{found:?}");
        assert!(near(found.latency.p50_us, 9.0), "{found:?}");
        assert!(near(lateness.max_us, 10.0), "{lateness:?}");
    }

    #[test]
    fn no_request_is_sent_before_its_time() {
        let mut book = book(5, Duration::ZERO);
        assert_eq!(book.begin(Duration::ZERO), Some(0));
        assert_eq!(book.begin(MS / 2), None);
        assert_eq!(book.begin(MS), Some(1));
        assert!(!book.all_begun());
    }

    #[test]
    fn unanswered_requests_count_with_the_time_waited_so_far() {
        let mut book = book(4, Duration::ZERO);
        begin_all(&mut book, 3 * MS);
        assert!(book.all_begun());
        assert!(book.answered(0, 3 * MS) && !book.all_answered());
        let found = book.close(100 * MS).0;
        assert_eq!(counts(&found), (4, 3));
        // Requests 1, 2, 3 have waited for 99, 98 and 97 ms; request 0 was answered after 3.
        assert!(near(found.latency.max_us, 99.0), "{found:?}");
        let mean = (3 + 99 + 98 + 97) as f64 / 4.0;
        assert!(near(found.latency.mean_us, mean), "{found:?}");
    }

    #[test]
    fn requests_that_were_never_sent_count_too() {
        let found = book(10, Duration::ZERO).close(20 * MS).0;
        assert_eq!(counts(&found), (10, 10));
        // How late they would have been sent is not known.
        assert_eq!((found.late_p50_us, found.late_p99_us), (0.0, 0.0));
    }

    #[test]
    fn what_was_not_yet_due_at_the_end_does_not_count() {
        assert_eq!(book(10, Duration::ZERO).close(4 * MS).0.requests, 5);
    }

    #[test]
    fn warm_up_is_sent_and_answered_but_not_measured() {
        let mut book = book(10, 4 * MS);
        for index in begin_all(&mut book, 10 * MS) {
            assert!(book.answered(index, 10 * MS));
        }
        assert!(book.all_answered());
        assert_eq!(book.lateness.len(), 6);
        assert_eq!(counts(&book.close(10 * MS).0), (6, 0));
    }

    #[test]
    fn of_warm_up_nothing_counts_as_unanswered() {
        let mut book = Book::new(Pace::new(100.0, 40 * MS), 20 * MS, |_| true);
        begin_all(&mut book, 40 * MS);
        assert!(book.answered(1, 40 * MS));
        assert_eq!(counts(&book.close(40 * MS).0), (2, 2));
    }

    #[test]
    fn answers_count_in_any_order() {
        let mut book = Book::new(Pace::new(100.0, 40 * MS), Duration::ZERO, |_| true);
        book.keep_times();
        assert_eq!(book.begin(Duration::ZERO), Some(0));
        assert_eq!(book.begin(9 * MS), None);
        assert_eq!(begin_all(&mut book, 25 * MS), [1, 2]);
        assert!(book.answered(2, 26 * MS) && book.answered(0, 27 * MS));
        // Call 1 waited from 10 ms on, call 3 was due at 30 ms and never made.
        let (found, times) = book.close(100 * MS);
        assert_eq!(counts(&found), (4, 2));
        assert!(near(found.latency.max_us, 90.0), "{found:?}");
        let mean = (27 + 90 + 6 + 70) as f64 / 4.0;
        assert!(near(found.latency.mean_us, mean), "{found:?}");
        let answers = [Some(26), Some(27), None, None].map(|ms| ms.map(|ms| ms * MS));
        let times = times.expect("they were kept");
        assert_eq!(
            times.iter().map(|t| t.0).collect::<Vec<_>>(),
            [20, 0, 10, 30].map(|ms| ms * MS)
        );
        assert_eq!(times.iter().map(|t| t.1).collect::<Vec<_>>(), answers);
    }

    #[test]
    fn an_answer_that_nobody_waits_for_is_ignored() {
        let mut book = book(2, Duration::ZERO);
        assert!(!book.answered(0, MS / 2));
        assert_eq!(book.begin(Duration::ZERO), Some(0));
        assert!(book.answered(0, MS / 2) && !book.answered(0, MS / 2));
        assert!(!book.answered(1, MS / 2));
        assert_eq!(book.begin(MS), Some(1));
        assert!(!book.answered(0, MS) && book.answered(1, MS));
        assert_eq!(book.close(MS).0.requests, 2);
    }

    #[test]
    fn each_kind_has_its_own_calls_of_one_schedule() {
        let pace = Pace::new(100.0, 60 * MS);
        let mut odd = Book::new(pace, 15 * MS, |index| index % 2 == 1);
        let mut even = Book::new(pace, 15 * MS, |index| index % 2 == 0);
        assert_eq!((odd.begin(5 * MS), even.begin(5 * MS)), (None, Some(0)));
        assert_eq!(begin_all(&mut odd, 35 * MS), [1, 3]);
        odd.lost += 1;
        assert!(!odd.answered(2, 40 * MS) && odd.answered(3, 40 * MS));
        // Call 1 was due before the end of the warm-up, call 3 is answered, call 5 is not.
        let odd = odd.close(60 * MS).0;
        assert_eq!((counts(&odd), odd.connections_lost), ((2, 1), 1));
        assert_eq!(counts(&even.close(60 * MS).0), (2, 2));
    }
}
