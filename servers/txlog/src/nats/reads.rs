//! How records are read from a stream.

use std::collections::VecDeque;
use std::time::Duration;

use async_nats::{Message, StatusCode};
use evenkeel::time::sleep;
use serde_json::json;
use txlog_client::Record;
use txlog_client::frame::Code;

use super::connection::{Answer, Connection};
use super::error::NatsError;
use super::history::Known;
use super::inner::Inner;
use super::stamp::millis_of;
use super::stream;
use crate::log::{ReadLimits, now_ms};
use crate::store::StoreError;

/// How long a replica may take to learn of a record.
const LAG: Duration = Duration::from_millis(10);

/// How long a read waits before it looks whether the stream is still there.
const LOOK_AFTER: Duration = Duration::from_secs(1);

impl Inner {
    async fn ask_record(&self, connection: &Connection, number: u64) -> Result<Answer, NatsError> {
        let subject = format!("$JS.API.DIRECT.GET.{}", self.config.stream);
        let request = json!({ "seq": number }).to_string();
        connection.request(&subject, request.into()).await
    }

    /// Why there will be no answer to a read: about a stream that was deleted, nobody answers.
    async fn gone(&self) -> NatsError {
        loop {
            sleep(LOOK_AFTER).await;
            if let Err(error) = self.refresh().await {
                return error;
            }
        }
    }

    /// Reads records from `begin` on, of those that are known. Also says where to read on.
    pub(super) async fn records(
        &self,
        known: Known,
        begin: u64,
        limits: ReadLimits,
    ) -> Result<(Vec<Record>, u64), NatsError> {
        let (messages, reached) = self.messages(known, begin, limits).await?;
        let records = messages.into_iter();
        let records = records.map(|(sequence, message)| record(sequence, message));
        Ok((records.collect(), reached))
    }

    /// The same, as NATS has them.
    pub(super) async fn messages(
        &self,
        known: Known,
        begin: u64,
        limits: ReadLimits,
    ) -> Result<(Vec<(u64, Message)>, u64), NatsError> {
        let connection = self.connection().await?;
        let (mut records, mut bytes) = (Vec::new(), 0);
        let (mut reached, mut asked, mut answers) = (begin, begin, VecDeque::new());
        let mut window = self.ahead.begin(limits);
        while records.len() < limits.records_max {
            while asked < known.next && answers.len() < window.messages(records.len(), bytes) {
                let room = self.ahead.room(connection.payload_max, !answers.is_empty());
                let Some(room) = room.await else { break };
                let answer = self.ask_record(&connection, asked).await?;
                answers.push_back((asked, answer, room));
                asked += 1;
            }
            let Some((sequence, answer, _room)) = answers.pop_front() else {
                break;
            };
            let answered = tokio::select! {
                answered = answer.wait() => answered?,
                error = self.gone() => return Err(error),
            };
            let Some(message) = answered else {
                self.refresh().await?;
                let stream = self.config.stream.clone();
                return Err(NatsError::NoStream { stream });
            };
            if let Some(status) = message.status {
                if status != StatusCode::NOT_FOUND {
                    let text = format!("a read was answered by {status}");
                    return Err(NatsError::Nonsense(text));
                }
                // It is gone because it was removed, or because NATS has lost it.
                self.refresh().await?;
                if self.history.known().epoch != known.epoch {
                    break;
                }
                let later = stream::not_before(&connection, &self.config.stream, sequence).await?;
                reached = later.map_or(known.next, |later| later.min(known.next));
                if reached == sequence {
                    // The replica that was asked lags behind, so it is not asked again at once.
                    sleep(LAG).await;
                    break;
                }
                answers.retain(|(asked, ..)| *asked >= reached);
                asked = asked.max(reached);
                continue;
            }
            window.came(message.payload.len());
            bytes += message.payload.len();
            if bytes > limits.bytes_max && !records.is_empty() {
                break;
            }
            records.push((sequence, message));
            reached = sequence + 1;
        }
        Ok((records, reached))
    }

    /// Where a read begins, by what is known.
    pub(super) fn begin(&self, known: Known, from: u64) -> Result<u64, StoreError> {
        let Known { first, next, .. } = known;
        let begin = if from == 0 { first } else { from };
        if begin < first {
            let text = format!(
                "record {from} is no longer kept; the oldest is {first}: read from there on"
            );
            return Err(StoreError::new(Code::Trimmed, text));
        }
        if begin > next {
            let text = format!(
                "there is no record {from} yet: the log has {first} to {}, and its next is {next}; \
                 if you have read {from} or later ones, NATS has lost records: read again from \
                 one that you trust",
                next - 1
            );
            return Err(StoreError::new(Code::OutOfRange, text));
        }
        Ok(begin)
    }
}

fn record(sequence: u64, message: Message) -> Record {
    // NATS states the time as a date with a zone; without it, the best guess is now.
    let headers = message.headers.as_ref();
    let stamp = headers.and_then(|headers| headers.get("Nats-Time-Stamp"));
    let time_ms = stamp.and_then(|stamp| millis_of(stamp.as_str()));
    Record {
        sequence,
        time_ms: time_ms.unwrap_or_else(now_ms),
        payload: message.payload,
    }
}
