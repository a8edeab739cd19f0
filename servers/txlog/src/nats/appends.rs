//! Records on their way into the stream, in the order in which they were submitted.
//!
//! A record stays here until NATS has acknowledged it, refused it, or been silent for too long. One
//! task sends all records of a store in the order of their ids. When the connection breaks, it
//! sends those that are still here again over the next one, in the same order and before any new
//! ones. NATS knows each by its message id, and stores it once: it acknowledges the copy with the
//! number of the first. A record that was sent before is stored before those sent after it, however
//! often the connection breaks between them, so the numbers keep the order. With a record that its
//! producer is to send again, those that it sent behind it over the same connection are given up.
//!
//! NATS knows ids for a limited time. A record is not sent again, nor one whose producer may have
//! sent it before, when an earlier copy may be older than three quarters of that time; what is left
//! is for its way to NATS. For the store's own copies it is half of the time.

mod given_up;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_nats::{Message, StatusCode};
use bytes::Bytes;
use evenkeel::time::Instant;
use serde_json::Value;
use tokio::sync::{Notify, OwnedSemaphorePermit, oneshot};
use txlog_client::frame::{Code, Produced};

pub(super) use self::given_up::Numbered;
use self::given_up::{GivenUp, tell};
use super::connection::json_of;
use super::error::NatsError;
use super::history::{History, Known};
use super::inner::lock;
use super::stream::of_jetstream;
use super::window::Window;
use crate::store::StoreError;

/// What became of a record: its number and whether NATS had it already, or why it has none.
pub(super) type Outcome = Result<(u64, bool), StoreError>;

/// A record that is to be sent.
#[derive(Clone, Debug)]
pub(super) struct Sendable {
    pub(super) id: u64,
    pub(super) payload: Bytes,
    /// By which NATS knows it, also from another store.
    pub(super) produced: Option<Produced>,
    /// The number that it is to get.
    pub(super) expected: Option<u64>,
}

/// What is known of earlier copies of a record, which its producer may have sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copies {
    /// When it was made out.
    pub(super) at: Instant,
    /// None of them was older.
    pub(super) age_max: Duration,
}

/// The room that a record takes up while it is here.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) _place: OwnedSemaphorePermit,
    /// In the stream, and among all of the server.
    pub(super) _bytes: [OwnedSemaphorePermit; 2],
}

/// All records on their way.
#[derive(Debug)]
pub(super) struct Appends {
    stream: String,
    pub(super) history: Arc<History>,
    /// How long an acknowledgement may take, across connections that break.
    answer_max: Duration,
    /// For how long NATS knows records that are sent again.
    window: Mutex<Window>,
    state: Mutex<State>,
    /// A record was added, the last one was answered, or the store is gone.
    pub(super) news: Notify,
}

#[derive(Debug, Default)]
struct State {
    by_id: BTreeMap<u64, Entry>,
    id_last: u64,
    closed: bool,
}

#[derive(Debug)]
struct Entry {
    payload: Bytes,
    produced: Option<Numbered>,
    expected: Option<u64>,
    began: Instant,
    /// How old an earlier copy, by its producer, was then at most; `None` if there can be none.
    copy_age: Option<Duration>,
    sent: Option<Sent>,
    done: oneshot::Sender<Outcome>,
    room: Room,
}

/// When a record was last sent: over which connection, and what was known then.
#[derive(Clone, Copy, Debug)]
struct Sent {
    generation: u64,
    known: Known,
    /// Whether it was sent before, so that NATS may have an earlier copy.
    again: bool,
}

impl Appends {
    pub(super) fn new(
        stream: &str,
        history: Arc<History>,
        answer_max: Duration,
        window: Duration,
    ) -> Self {
        Self {
            stream: stream.to_owned(),
            history,
            answer_max,
            window: Mutex::new(Window::new(window)),
            state: Mutex::default(),
            news: Notify::new(),
        }
    }

    /// The stream's `duplicate_window` is so long now.
    pub(super) fn see_window(&self, window: Duration) {
        lock(&self.window).see(window, Instant::now());
    }

    /// NATS knows all message ids that are no older than this.
    pub(super) fn reach(&self) -> Duration {
        lock(&self.window).reach(Instant::now())
    }

    /// Adds a record behind all others, and says what is known of earlier copies if its producer
    /// may have sent it before.
    ///
    /// # Errors
    ///
    /// Its producer has to send an earlier one again.
    pub(super) fn add(
        &self,
        payload: Bytes,
        (produced, expected): (Option<Numbered>, Option<u64>),
        copies: Option<Copies>,
        room: Room,
    ) -> Result<oneshot::Receiver<Outcome>, StoreError> {
        let (done, receiver) = oneshot::channel();
        let mut state = self.lock();
        // With the lock, or an earlier one might be given up behind this look.
        if let Some(produced) = &produced {
            produced.pass()?;
        }
        state.id_last += 1;
        let id = state.id_last;
        let entry = Entry {
            payload,
            produced,
            expected,
            began: copies.map_or_else(Instant::now, |copies| copies.at),
            copy_age: copies.map(|copies| copies.age_max),
            sent: None,
            done,
            room,
        };
        state.by_id.insert(id, entry);
        drop(state);
        self.news.notify_one();
        Ok(receiver)
    }

    /// The first record behind `id` that is to be sent over this connection, which is noted. Those
    /// end of which NATS may have forgotten an earlier copy.
    pub(super) fn next_after(&self, id: u64, generation: u64) -> Option<Sendable> {
        // Before the lock, as they have their own.
        let (known, reach) = (self.history.known(), self.reach());
        let mut given_up = GivenUp::default();
        let mut state = self.lock();
        let mut found = None;
        for (&id, entry) in state.by_id.range_mut(id + 1..) {
            if given_up.add_behind(id, entry) || found.is_some() {
                continue;
            }
            let again = entry.sent.is_some();
            let most = entry.wait_max(reach).map(|most| most.min(self.answer_max));
            if most.is_some_and(|most| entry.began.elapsed() > most) {
                given_up.add(id, entry);
                continue;
            }
            entry.sent = Some(Sent {
                generation,
                known,
                again,
            });
            found = Some(Sendable {
                id,
                payload: entry.payload.clone(),
                produced: entry.produced.as_ref().map(|numbered| numbered.produced),
                expected: entry.expected,
            });
            if given_up.is_empty() {
                break;
            }
        }
        let given_up = given_up.take(&mut state);
        drop(state);
        tell(given_up, "NATS may have forgotten an earlier copy by now");
        found
    }

    /// NATS answered a record that was sent over this connection.
    pub(super) fn answered(&self, id: u64, generation: u64, message: &Message) {
        let mut state = self.lock();
        let Some(entry) = state.by_id.get(&id) else {
            return;
        };
        let Some(sent) = entry.sent else { return };
        let outcome = self.outcome(message, sent.again);
        // A refusal over an earlier connection says nothing of the copy that is under way.
        if outcome.is_err() && sent.generation != generation {
            return;
        }
        let entry = state.by_id.remove(&id);
        let has_to_come_again = outcome.as_ref().is_err_and(StoreError::may_pass);
        let behind = match &entry {
            Some(entry) if has_to_come_again => state.take_unsent_behind(id, entry),
            _ => Vec::new(),
        };
        let is_last = state.by_id.is_empty();
        drop(state);
        let outcome = outcome.map(|(sequence, is_duplicate)| {
            // Numbered before others read on, who are woken by this.
            self.history.stored(sent.known, sequence, is_duplicate);
            (sequence, is_duplicate)
        });
        if let Some(entry) = entry {
            entry.end(outcome);
        }
        tell(behind, "");
        if is_last {
            self.news.notify_one();
        }
    }

    /// This record is larger than NATS takes now. An earlier copy may be stored.
    pub(super) fn too_large(&self, id: u64) {
        let mut state = self.lock();
        let Some(entry) = state.by_id.remove(&id) else {
            return;
        };
        let error = NatsError::TooLarge;
        let (error, behind) = match entry.sent.is_some_and(|sent| sent.again) {
            true => (of_copy(&error), state.take_unsent_behind(id, &entry)),
            false => {
                let error = StoreError::new(Code::RecordTooLarge, error.to_string());
                (error, Vec::new())
            }
        };
        drop(state);
        entry.end(Err(error));
        tell(behind, "");
    }

    /// Gives up records that have waited for too long. Returns when the next one will have, `None`
    /// without any.
    pub(super) fn expire(&self) -> Option<Instant> {
        let limit = self.answer_max;
        let mut given_up = GivenUp::default();
        let mut state = self.lock();
        // The oldest are first.
        let mut is_old = true;
        for (&id, entry) in &state.by_id {
            is_old = is_old && entry.began.elapsed() >= limit;
            if is_old {
                given_up.add(id, entry);
            } else if given_up.is_empty() {
                break;
            } else {
                given_up.add_behind(id, entry);
            }
        }
        let given_up = given_up.take(&mut state);
        let next = state.by_id.values().next();
        let next = next.map(|entry| entry.began + limit);
        drop(state);
        let why = format!("NATS did not acknowledge within {} s", limit.as_secs_f64());
        tell(given_up, &why);
        next
    }

    /// Nothing will be added any more.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.news.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// What an answer says: the record's number, and whether it had been stored before.
    fn outcome(&self, message: &Message, again: bool) -> Result<(u64, bool), StoreError> {
        // In a cluster, some servers may have stored what their leader could not.
        let refused = |error: NatsError, surely: bool| match again {
            true => of_copy(&error),
            false => StoreError::away(surely, format!("NATS did not store the record: {error}")),
        };
        if message.status == Some(StatusCode::NO_RESPONDERS) {
            let stream = self.stream.clone();
            return Err(refused(NatsError::NoStream { stream }, true));
        }
        let ack = json_of(message).map_err(StoreError::from)?;
        if let Some(error) = ack.get("error") {
            // NATS looks for an earlier copy before it looks at the number.
            return Err(match of_jetstream(error, &self.stream) {
                NatsError::NotExpected { last } => not_expected(last.saturating_add(1)),
                error => refused(error, false),
            });
        }
        let Some(sequence) = ack["seq"].as_u64() else {
            let text = format!("an acknowledgement without a number: {ack}");
            return Err(NatsError::Nonsense(text).into());
        };
        Ok((sequence, ack["duplicate"] == Value::Bool(true)))
    }
}

impl State {
    /// Takes out what a record's producer sent behind it, and what was not sent on: it would be
    /// stored before that record, which has to come again.
    fn take_unsent_behind(&mut self, id: u64, entry: &Entry) -> Vec<(Entry, bool)> {
        let mut given_up = GivenUp::default();
        given_up.note(entry);
        // What is not sent yet came last.
        let behind = self.by_id.range(id + 1..).rev();
        for (&id, entry) in behind.take_while(|(_, entry)| entry.sent.is_none()) {
            given_up.add_behind(id, entry);
        }
        given_up.take(self)
    }
}

impl Entry {
    /// How long it may wait until it is sent, since NATS has to know an earlier copy when it comes.
    /// What is left is for its way there.
    fn wait_max(&self, reach: Duration) -> Option<Duration> {
        match self.copy_age {
            Some(age) => Some((reach * 3 / 4).saturating_sub(age)),
            None => self.sent.map(|_| reach / 2),
        }
    }

    fn end(self, outcome: Outcome) {
        // Free before the outcome is known, so that whoever waited for it finds room.
        drop(self.room);
        // The client may be gone.
        let _ = self.done.send(outcome);
    }

    fn give_up(self, why: &str) {
        let what = match self.sent {
            None if self.copy_age.is_some() => {
                "the record was not sent again; append it again, which finds out what became of it"
            }
            None => "the record is not stored; append it again when NATS is back",
            Some(_) => "the record may be stored or not",
        };
        let text = format!("{why}; {what}");
        let error = StoreError::away(self.sent.is_none(), text);
        self.end(Err(error));
    }
}

/// NATS refused a copy of a record that was sent before.
fn of_copy(error: &NatsError) -> StoreError {
    let text = format!(
        "NATS refused the record when it was sent again ({error}); it was sent before, and may be \
         stored or not"
    );
    StoreError::away(false, text)
}

/// A record was to get another number than the next one.
pub(super) fn not_expected(next: u64) -> StoreError {
    let text = format!("the log's next number is {next}, and the record was to get another one");
    StoreError {
        numbers: Some([next, 0]),
        ..StoreError::new(Code::NotExpected, text)
    }
}

#[cfg(test)]
mod tests;
