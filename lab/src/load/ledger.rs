//! Which requests are due, sent, answered. Pure: moments are passed in as time since the start.
//!
//! Request `i` goes over connection `i mod connections`, and a connection answers in the order it
//! was asked, so an answer needs no search. At the end every measured request has one latency:
//! those without an answer count with the time waited so far, so that a server that stops answering
//! cannot look fast.

use std::time::Duration;

use super::latency::Latencies;
use super::pace::Pace;

/// The accounts of one open-loop run.
pub(crate) struct Ledger {
    pace: Pace,
    connections: u64,
    /// Requests before this one are warm-up.
    first_measured: u64,
    /// The next request to send.
    next: u64,
    /// Answers so far on each connection: the next answer there is to request `answers *
    /// connections + connection`.
    answers: Vec<u64>,
    /// The time from due to answered.
    latencies: Latencies,
    /// The time from due to sent: how late the generator itself was.
    lateness: Latencies,
    /// When each measured request was due and, if it was, answered; where that is asked.
    times: Option<Vec<(Duration, Option<Duration>)>>,
}

/// What a finished run comes to.
pub(crate) struct Closed {
    /// Measured requests, answered or not.
    pub(crate) requests: u64,
    /// Those of them that were never answered.
    pub(crate) unanswered: u64,
    /// One for each measured request.
    pub(crate) latencies: Latencies,
    /// One for each measured request that was sent.
    pub(crate) lateness: Latencies,
    /// When each measured request was due and, if it was, answered; where that was asked.
    pub(crate) times: Option<Vec<(Duration, Option<Duration>)>>,
}

impl Ledger {
    pub(crate) fn new(pace: Pace, warmup: Duration, connections: u32) -> Self {
        let connections = connections.max(1);
        // The first request that is due at or after the end of the warm-up.
        let before = warmup.saturating_sub(Duration::from_nanos(1));
        let first_measured = if warmup.is_zero() {
            0
        } else {
            pace.due_by(before)
        };
        Ledger {
            pace,
            connections: connections.into(),
            first_measured,
            next: 0,
            answers: vec![0; connections as usize],
            latencies: Latencies::new(),
            lateness: Latencies::new(),
            times: None,
        }
    }

    /// Has the times of each request kept.
    pub(crate) fn keep_times(&mut self) {
        let requests = self.pace.total().saturating_sub(self.first_measured);
        self.times = Some(Vec::with_capacity(requests as usize));
    }

    /// The next request that is due by `elapsed`, and its connection; it counts as sent at
    /// `elapsed`.
    pub(crate) fn send_next(&mut self, elapsed: Duration) -> Option<(u64, usize)> {
        let index = self.next;
        if index >= self.pace.due_by(elapsed) {
            return None;
        }
        self.next += 1;
        if index >= self.first_measured {
            self.lateness
                .record(elapsed.saturating_sub(self.pace.due_at(index)));
        }
        Some((index, (index % self.connections) as usize))
    }

    /// Whether every request of the schedule was sent.
    pub(crate) fn all_sent(&self) -> bool {
        self.next >= self.pace.total()
    }

    /// Whether every request that was sent was answered.
    pub(crate) fn all_answered(&self) -> bool {
        self.answers.iter().sum::<u64>() >= self.next
    }

    /// The request that the next answer on `connection` belongs to, if one is outstanding there.
    pub(crate) fn expected(&self, connection: usize) -> Option<u64> {
        let index = self.answers[connection] * self.connections + connection as u64;
        (index < self.next).then_some(index)
    }

    /// Counts the answer to the request that [`expected`](Self::expected) names.
    pub(crate) fn answered(&mut self, connection: usize, elapsed: Duration) {
        if let Some(index) = self.expected(connection) {
            self.answers[connection] += 1;
            self.record(index, elapsed, true);
        }
    }

    /// Ends the run: every request that was due by `elapsed` and has no answer counts with the time
    /// waited so far.
    pub(crate) fn close(mut self, elapsed: Duration) -> Closed {
        let due = self.pace.due_by(elapsed);
        let answered = self.latencies.len();
        for connection in 0..self.connections {
            let mut index = self.answers[connection as usize] * self.connections + connection;
            while index < due {
                self.record(index, elapsed, false);
                index += self.connections;
            }
        }
        Closed {
            requests: self.latencies.len(),
            unanswered: self.latencies.len() - answered,
            latencies: self.latencies,
            lateness: self.lateness,
            times: self.times,
        }
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

    fn ledger(requests: u32, warmup: Duration, connections: u32) -> Ledger {
        Ledger::new(Pace::new(1_000.0, requests * MS), warmup, connections)
    }

    #[test]
    fn latency_counts_from_when_a_request_was_due() {
        let mut ledger = ledger(3, Duration::ZERO, 1);
        // The generator slept through all three moments, then sent them at once; the answers took
        // no time.
        for index in 0..3 {
            assert_eq!(ledger.send_next(10 * MS), Some((index, 0)));
        }
        assert_eq!(ledger.send_next(10 * MS), None);
        for _ in 0..3 {
            ledger.answered(0, 10 * MS);
        }
        let closed = ledger.close(10 * MS);
        assert_eq!((closed.requests, closed.unanswered), (3, 0));
        let summary = closed.latencies.summary();
        assert!((summary.max_us - 10_000.0).abs() < 20.0, "{summary:?}");
        assert!((summary.p50_us - 9_000.0).abs() < 20.0, "{summary:?}");
        assert!((closed.lateness.summary().max_us - 10_000.0).abs() < 20.0);
    }

    #[test]
    fn no_request_is_sent_before_its_time() {
        let mut ledger = ledger(5, Duration::ZERO, 1);
        assert_eq!(ledger.send_next(Duration::ZERO), Some((0, 0)));
        assert_eq!(ledger.send_next(MS / 2), None);
        assert_eq!(ledger.send_next(MS), Some((1, 0)));
        assert!(!ledger.all_sent());
    }

    #[test]
    fn unanswered_requests_count_with_the_time_waited_so_far() {
        let mut ledger = ledger(4, Duration::ZERO, 1);
        while ledger.send_next(3 * MS).is_some() {}
        assert!(ledger.all_sent());
        ledger.answered(0, 3 * MS);
        assert!(!ledger.all_answered());
        let closed = ledger.close(100 * MS);
        assert_eq!((closed.requests, closed.unanswered), (4, 3));
        // Requests 1, 2, 3 have waited for 99, 98 and 97 ms; request 0 was answered after 3.
        let summary = closed.latencies.summary();
        assert!((summary.max_us - 99_000.0).abs() < 200.0, "{summary:?}");
        assert!((summary.mean_us - (3 + 99 + 98 + 97) as f64 / 4.0 * 1_000.0).abs() < 200.0);
    }

    #[test]
    fn requests_that_were_never_sent_count_too() {
        let ledger = ledger(10, Duration::ZERO, 3);
        let closed = ledger.close(20 * MS);
        assert_eq!((closed.requests, closed.unanswered), (10, 10));
        assert_eq!(closed.lateness.len(), 0);
    }

    #[test]
    fn what_was_not_yet_due_at_the_end_does_not_count() {
        let ledger = ledger(10, Duration::ZERO, 1);
        assert_eq!(ledger.close(4 * MS).requests, 5);
    }

    #[test]
    fn warm_up_is_sent_and_answered_but_not_measured() {
        let mut ledger = ledger(10, 4 * MS, 1);
        while ledger.send_next(10 * MS).is_some() {}
        for _ in 0..10 {
            ledger.answered(0, 10 * MS);
        }
        assert!(ledger.all_answered());
        let closed = ledger.close(10 * MS);
        assert_eq!((closed.requests, closed.unanswered), (6, 0));
        assert_eq!(closed.lateness.len(), 6);
    }

    #[test]
    fn connections_take_turns_and_answer_each_in_order() {
        let mut ledger = ledger(5, Duration::ZERO, 2);
        let sent: Vec<_> = std::iter::from_fn(|| ledger.send_next(5 * MS)).collect();
        assert_eq!(sent, [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)]);
        assert_eq!((ledger.expected(0), ledger.expected(1)), (Some(0), Some(1)));
        ledger.answered(1, 5 * MS);
        ledger.answered(1, 5 * MS);
        assert_eq!((ledger.expected(0), ledger.expected(1)), (Some(0), None));
        ledger.answered(0, 5 * MS);
        assert_eq!(ledger.expected(0), Some(2));
        let closed = ledger.close(6 * MS);
        assert_eq!((closed.requests, closed.unanswered), (5, 2));
    }

    #[test]
    fn an_answer_that_nobody_asked_for_is_ignored() {
        let mut ledger = ledger(2, Duration::ZERO, 1);
        ledger.answered(0, MS);
        assert_eq!(ledger.expected(0), None);
        assert_eq!(ledger.send_next(MS), Some((0, 0)));
        assert_eq!(ledger.expected(0), Some(0));
    }
}
