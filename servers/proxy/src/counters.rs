//! What is counted of listeners and servers.

pub use servers_common::counters::Counter;
use servers_common::histogram::Histogram;

use crate::refusals::Refusals;
use crate::tls::Session;

/// Answers by the first digit of their status.
#[derive(Debug, Default)]
pub struct Statuses([Counter; 5]);

impl Statuses {
    /// What they are counted by.
    pub const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

    /// There is one with this status.
    pub fn note(&self, status: u16) {
        let class = usize::from(status / 100).wrapping_sub(1);
        // Statuses beyond are refused where heads are read.
        if let Some(counter) = self.0.get(class) {
            counter.one();
        }
    }

    /// How many there were, as in [`CLASSES`](Self::CLASSES).
    pub fn totals(&self) -> [u64; 5] {
        self.0.each_ref().map(Counter::total)
    }

    fn clear(&self) {
        self.0.iter().for_each(Counter::clear);
    }
}

/// What was counted of a listener.
#[derive(Debug, Default)]
pub struct OfListener {
    /// Connections that were taken.
    pub connections: Counter,
    /// Connections that were refused for a limit.
    pub refused: Counter,
    /// Requests whose head was read.
    pub requests: Counter,
    /// Requests that were answered with an error for what they say.
    pub bad_requests: Counter,
    /// The last of them.
    pub refusals: Refusals,
    /// Requests that rules answered: redirects, fixed answers, and rates that were exceeded.
    pub answered: Counter,
    /// Heads of answers, the proxy's own ones too.
    pub statuses: Statuses,
    /// How long requests took, from their head to the head of a server's answer.
    pub answers: Histogram,
    /// Bytes that clients sent.
    pub bytes_in: Counter,
    /// Bytes that clients were sent.
    pub bytes_out: Counter,
    /// Handshakes.
    pub tls: OfTls,
    /// Handshakes that had to make room for others.
    pub tls_shed: Counter,
}

impl OfListener {
    /// Begins anew.
    pub fn clear(&self) {
        let all = [
            &self.connections,
            &self.refused,
            &self.requests,
            &self.bad_requests,
            &self.answered,
            &self.bytes_in,
            &self.bytes_out,
            &self.tls_shed,
        ];
        all.into_iter().for_each(Counter::clear);
        self.refusals.clear();
        self.answers.clear();
        self.statuses.clear();
        self.tls.clear();
    }
}

/// What was counted of a server.
#[derive(Debug, Default)]
pub struct OfServer {
    /// Connections or requests that it was chosen for.
    pub chosen: Counter,
    /// Connections to it that failed.
    pub connect_errors: Counter,
    /// Heads of answers that it sent.
    pub statuses: Statuses,
    /// How long connections took, with handshakes.
    pub connects: Histogram,
    /// How long answers took, from the connection to their head.
    pub answers: Histogram,
    /// Answers that did not come, or could not be read.
    pub answer_errors: Counter,
    /// Attempts after which another one was made.
    pub retries: Counter,
    /// Requests that went over a connection which was there already.
    pub reused: Counter,
    /// Checks that failed.
    pub checks_failed: Counter,
    /// How often it went down.
    pub downs: Counter,
    /// How often it was ejected.
    pub ejections: Counter,
    /// Bytes that it was sent.
    pub bytes_in: Counter,
    /// Bytes that it sent.
    pub bytes_out: Counter,
    /// Handshakes, without those of checks.
    pub tls: OfTls,
}

impl OfServer {
    /// Begins anew.
    pub fn clear(&self) {
        let all = [
            &self.chosen,
            &self.connect_errors,
            &self.answer_errors,
            &self.retries,
            &self.reused,
            &self.checks_failed,
            &self.downs,
            &self.bytes_in,
            &self.bytes_out,
        ];
        all.into_iter().for_each(Counter::clear);
        self.connects.clear();
        self.answers.clear();
        self.statuses.clear();
        self.tls.clear();
    }
}

/// What was counted of handshakes.
#[derive(Debug, Default)]
pub struct OfTls {
    /// Those that were completed.
    pub done: Counter,
    /// Those of them that resumed a session.
    pub resumed: Counter,
    /// Those that failed.
    pub failed: Counter,
}

impl OfTls {
    fn clear(&self) {
        let all = [&self.done, &self.resumed, &self.failed];
        all.into_iter().for_each(Counter::clear);
    }

    /// One is completed.
    pub fn shaken(&self, session: &Session) {
        self.done.one();
        if session.is_resumed() {
            self.resumed.one();
        }
    }
}
