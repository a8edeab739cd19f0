//! What a server counts.

use std::sync::atomic::{AtomicU64, Ordering};

use txlog_client::frame::{Code, Response};

use crate::figures::Histogram;

/// Events since the server's start.
#[derive(Debug, Default)]
pub(super) struct Counters {
    /// Hellos with a token that nobody has.
    pub(super) failed_logins: Count,
    pub(super) handshakes: Handshakes,
    /// Requests of those who may do nothing.
    pub(super) strangers_refused: Count,
    /// Connections for which there was no place.
    pub(super) connections_refused: Count,
}

/// Handshakes of TLS, by how they ended.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    pub(super) done: Count,
    /// The client did not agree, its certificate was none, or it went away.
    pub(super) failed: Count,
    /// The client spoke something else.
    pub(super) plain: Count,
    pub(super) too_slow: Count,
    /// Others needed its place.
    pub(super) cut: Count,
}

/// Answers of a log since it was opened.
#[derive(Debug, Default)]
pub(super) struct LogCounters {
    /// Records that were stored, each once, however often it was sent.
    pub(super) records: Count,
    /// Bytes of what was sent to be stored, and was.
    pub(super) bytes: Count,
    pub(super) batches: Count,
    pub(super) repeated_batches: Count,
    /// From a request's arrival until its records were durable.
    pub(super) durable: Histogram,
    pub(super) reads: Count,
    /// Bytes of the answers to them.
    pub(super) read_bytes: Count,
    pub(super) refused: ByCode,
}

impl LogCounters {
    /// An answer is sent.
    pub(super) fn answered(&self, response: &Response) {
        match response {
            Response::Appended { .. } => self.records.add(1),
            Response::Stored {
                count, repeated, ..
            } => {
                self.batches.add(1);
                match repeated {
                    true => self.repeated_batches.add(1),
                    false => self.records.add(u64::from(*count)),
                }
            }
            Response::Refused { code, .. } | Response::RefusedAt { code, .. } => {
                self.refused.add(*code);
            }
            _ => {}
        }
    }
}

/// Counts events of one kind.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, count: u64) {
        // Relaxed: a statistic, which orders nothing.
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> u64 {
        // Relaxed: as above.
        self.0.load(Ordering::Relaxed)
    }
}

/// One more than the greatest number of a code.
const CODES: usize = 64;

/// Counts events by the code that was their reason.
#[derive(Debug)]
pub(super) struct ByCode([Count; CODES]);

impl Default for ByCode {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Count::default()))
    }
}

impl ByCode {
    pub(super) fn add(&self, code: Code) {
        self.0[usize::from(code.number()).min(CODES - 1)].add(1);
    }

    /// The codes that there were, as labels.
    pub(super) fn read(&self) -> impl Iterator<Item = (String, u64)> {
        let counts = self.0.iter().enumerate();
        let there = counts.map(|(number, count)| (number, count.read()));
        let there = there.filter(|(_, count)| *count > 0);
        there.map(|(number, count)| (label(Code::of(number as u16)), count))
    }
}

/// A code's name, as labels are written.
fn label(code: Code) -> String {
    let Code::Other(_) = code else {
        let mut label = String::new();
        for letter in format!("{code:?}").chars() {
            if letter.is_uppercase() && !label.is_empty() {
                label.push('_');
            }
            label.push(letter.to_ascii_lowercase());
        }
        return label;
    };
    "other".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_counted_by_their_codes() {
        let refused = ByCode::default();
        refused.add(Code::NotAllowed);
        refused.add(Code::NotAllowed);
        refused.add(Code::LogFailed);
        refused.add(Code::Other(60_000));
        let read: Vec<_> = refused.read().collect();
        let expected = [("log_failed", 1), ("not_allowed", 2), ("other", 1)];
        assert_eq!(
            read,
            expected.map(|(label, count)| (label.to_owned(), count))
        );
    }
}
