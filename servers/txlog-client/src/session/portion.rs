//! Records that are sent together, and what an error means for them.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};

use super::outcome::{AppendError, Outcome};
use crate::client::{Batch, Client, ServerInfo, Stored, Submitted, SubmittedBatch};
use crate::cursor::Identity;
use crate::error::ClientError;
use crate::frame::{BATCHED_OVERHEAD, Batched, Code, Produced};

/// How many batches are under way: while the answer to one is on its way, the server has the next.
const BATCHES_MAX: usize = 2;

/// How many appends of one record each are under way.
const SINGLES_MAX: usize = 256;

/// How many records a batch has at most.
const RECORDS_MAX: usize = 8_192;

/// A record, and who waits for its outcome.
pub(super) struct Entry {
    pub(super) record: Bytes,
    pub(super) answer: oneshot::Sender<Outcome>,
    /// The room that it takes.
    pub(super) units: u32,
    pub(super) since: Instant,
}

impl Entry {
    pub(super) fn settle(self, outcome: Outcome, room: &Semaphore) {
        // Nobody may wait for it any more.
        let _ = self.answer.send(outcome);
        room.add_permits(self.units as usize);
    }
}

/// In which way records are sent; the later ones need less of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// Batches of a producer, which may be repeated.
    Batches,
    /// Batches of one record each, which may be repeated.
    Singles,
    /// Batches without a producer, which the server would store twice.
    Unnamed,
    /// Appends, which it would store twice as well.
    Appends,
}

impl Way {
    /// The best way that the server's version has.
    pub(super) fn of(info: &ServerInfo) -> Self {
        match info.batch_bytes_max {
            Some(_) => Way::Batches,
            None => Way::Appends,
        }
    }

    /// The way to try if the server's store does not support this one.
    pub(super) fn less(self) -> Option<Self> {
        match self {
            Way::Batches => Some(Way::Singles),
            Way::Singles => Some(Way::Unnamed),
            Way::Unnamed => Some(Way::Appends),
            Way::Appends => None,
        }
    }

    /// Whether the server knows what is repeated.
    pub(super) fn may_repeat(self) -> bool {
        self < Way::Unnamed
    }

    pub(super) fn portions_max(self, info: &ServerInfo) -> usize {
        match self {
            Way::Batches | Way::Unnamed => BATCHES_MAX,
            Way::Singles | Way::Appends => SINGLES_MAX,
        }
        .min(info.appends_max)
        .max(1)
    }

    pub(super) fn records_max(self) -> usize {
        match self {
            Way::Batches | Way::Unnamed => RECORDS_MAX,
            Way::Singles | Way::Appends => 1,
        }
    }

    /// The bytes that a batch may have; each record counts with its length.
    pub(super) fn bytes_max(self, info: &ServerInfo) -> usize {
        match (self, info.batch_bytes_max) {
            (Way::Batches | Way::Singles | Way::Unnamed, Some(bytes_max)) => bytes_max,
            _ => usize::MAX,
        }
    }
}

/// The largest record that the server takes: in a batch, if it takes batches.
pub(super) fn record_bytes_max(info: &ServerInfo) -> usize {
    let in_batch = info.batch_bytes_max.unwrap_or(usize::MAX);
    info.record_bytes_max
        .min(in_batch.saturating_sub(BATCHED_OVERHEAD))
}

fn bytes(entry: &Entry) -> usize {
    BATCHED_OVERHEAD + entry.record.len()
}

/// Records that are sent together.
pub(super) struct Portion {
    pub(super) entries: Vec<Entry>,
    /// The records as they are sent, from the first time on.
    pub(super) records: Option<Batched>,
    pub(super) produced: Produced,
    /// Since when the first record is pending.
    pub(super) since: Instant,
    /// On how many connections it was sent.
    pub(super) attempts: u32,
    /// In which way it was sent last.
    pub(super) way: Way,
    /// To which log it was sent the first time, and the lowest number that its records may have
    /// there.
    pub(super) of: Option<Identity>,
    pub(super) not_before: u64,
    /// Its answer on this connection.
    pub(super) answer: Option<Answer>,
}

impl Portion {
    /// Sends it once more on this connection. `next` is a number below which nothing is stored any
    /// more.
    pub(super) async fn send(
        &mut self,
        client: &Client,
        way: Way,
        next: u64,
    ) -> Result<(), ClientError> {
        let is_repeated = self.attempts > 0;
        let mut records = self.entries.iter().map(|entry| &entry.record);
        let answer = match way {
            Way::Batches | Way::Singles | Way::Unnamed => {
                let records = self.records.get_or_insert_with(|| records.collect());
                let batch = Batch {
                    records: records.clone(),
                    expected: None,
                    producer: way.may_repeat().then_some(self.produced),
                    not_before: is_repeated.then_some(self.not_before),
                };
                Answer::Batch(client.submit_batch(batch).await?)
            }
            Way::Appends => {
                let record = records.next().cloned().unwrap_or_default();
                Answer::Append(client.submit(record).await?)
            }
        };
        if !is_repeated {
            self.of = client.info().identity;
            self.not_before = next;
        }
        self.attempts += 1;
        self.way = way;
        self.answer = Some(answer);
        Ok(())
    }

    /// Its bytes, as they count for a server's limit.
    pub(super) fn bytes(&self) -> usize {
        self.entries.iter().map(bytes).sum()
    }

    /// Several portions of up to so many bytes each, in the same order and with the same numbers. A
    /// record that is larger is in one of its own.
    pub(super) fn split(self, bytes_max: usize) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        let (mut number, mut left) = (self.produced.number, 0);
        for entry in self.entries {
            let bytes = bytes(&entry);
            match parts.last_mut().filter(|_| bytes <= left) {
                Some(part) => {
                    part.entries.push(entry);
                    left -= bytes;
                }
                None => {
                    left = bytes_max.saturating_sub(bytes);
                    parts.push(Self {
                        since: entry.since,
                        entries: vec![entry],
                        records: None,
                        produced: Produced {
                            number,
                            ..self.produced
                        },
                        answer: None,
                        ..self
                    });
                }
            }
            number += 1;
        }
        parts
    }

    /// Tells all who wait that the records are stored.
    pub(super) fn stored(self, first: u64, room: &Semaphore) {
        let mut units = 0;
        for (sequence, entry) in (first..).zip(self.entries) {
            units += entry.units as usize;
            let _ = entry.answer.send(Ok(sequence));
        }
        room.add_permits(units);
    }

    /// Tells all who wait that the records have failed so.
    pub(super) fn failed(self, error: &AppendError, room: &Semaphore) {
        for entry in self.entries {
            entry.settle(Err(error.clone()), room);
        }
    }
}

/// A pending answer to a portion.
pub(super) enum Answer {
    Batch(SubmittedBatch),
    Append(Submitted),
}

impl Future for Answer {
    /// The number of the first record, and how many are stored.
    type Output = Result<(u64, usize), ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match self.get_mut() {
            Answer::Batch(batch) => {
                let stored = ready!(Pin::new(batch).poll(cx));
                stored.map(|Stored { first, count, .. }| (first, count as usize))
            }
            Answer::Append(append) => ready!(Pin::new(append).poll(cx)).map(|first| (first, 1)),
        })
    }
}

/// What is to be done about a portion that was answered with an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Repeat it, on another connection.
    Repeat,
    /// It is not stored; send it as a new producer's, which has no numbers yet.
    Renew,
    /// It is not stored; send it in a way that needs less of the server.
    Less,
    /// It is not stored.
    NotStored,
    /// It is stored or not.
    Unknown,
}

/// Decides that, for a portion that was sent on so many connections.
#[must_use]
pub(super) fn verdict(error: &ClientError, way: Way, attempts: u32) -> Verdict {
    // What one refusal says of this attempt says nothing of an earlier one.
    let once = attempts <= 1;
    let (ClientError::Refused { code, .. } | ClientError::LogAway { code, .. }) = error else {
        // There is no answer.
        return match way.may_repeat() {
            true => Verdict::Repeat,
            false => Verdict::Unknown,
        };
    };
    match code {
        Code::Unsupported if once && way.less().is_some() => Verdict::Less,
        // The server has forgotten an idle producer, or refused the batch before.
        Code::ProducerGap | Code::ProducerUnknown if once => Verdict::Renew,
        Code::LogFailed | Code::LogFailedBefore | Code::Closing | Code::Busy
            if way.may_repeat() =>
        {
            Verdict::Repeat
        }
        Code::LogFailed | Code::LogFailedBefore => verdict_of_failed_log(*code, attempts),
        _ if once => Verdict::NotStored,
        _ => Verdict::Unknown,
    }
}

/// What is to be done about a portion if a log that has failed is not waited for.
#[must_use]
pub(super) fn verdict_of_failed_log(code: Code, attempts: u32) -> Verdict {
    match code {
        Code::LogFailedBefore if attempts <= 1 => Verdict::NotStored,
        // The log may have it all the same.
        _ => Verdict::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_before_is_never_said_to_be_surely_not_stored() {
        for number in 0..=u16::MAX {
            let code = Code::of(number);
            let text: std::sync::Arc<str> = "refused".into();
            let refused = ClientError::Refused {
                code,
                text: text.clone(),
            };
            let away = ClientError::LogAway { code, text };
            for (error, way) in [Way::Batches, Way::Singles, Way::Unnamed, Way::Appends]
                .into_iter()
                .flat_map(|way| [(&refused, way), (&away, way)])
            {
                let again = verdict(error, way, 2);
                assert!(
                    matches!(again, Verdict::Unknown | Verdict::Repeat),
                    "{code:?}: {again:?}"
                );
                assert!(
                    way.may_repeat() || verdict(error, way, 1) != Verdict::Repeat,
                    "{code:?}"
                );
            }
        }
        let ended = crate::client::disconnected("by a test");
        assert_eq!(verdict(&ended, Way::Appends, 1), Verdict::Unknown);
        assert_eq!(verdict(&ended, Way::Batches, 1), Verdict::Repeat);
    }
}
