//! The task that sends records, over one connection after the other.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_nats::HeaderMap;
use evenkeel::time::{sleep, sleep_until, timeout_at};
use txlog_client::frame::Produced;

use super::appends::{Appends, Sendable};
use super::connection::Connection;
use super::error::NatsError;
use super::inner::Inner;

/// The header with the id by which NATS knows a record that comes again.
pub(super) const MESSAGE_ID: &str = "Nats-Msg-Id";

/// The header with the number of the last record, without which NATS refuses a record.
const EXPECTED_LAST: &str = "Nats-Expected-Last-Sequence";

/// How long it waits before it connects again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Which records are sent, and how they are marked.
#[derive(Debug)]
pub(super) struct Publisher {
    pub(super) appends: Arc<Appends>,
    pub(super) subject: String,
    pub(super) marks: Marks,
}

/// The headers of records.
#[derive(Clone, Debug)]
pub(super) struct Marks {
    stream: String,
    /// How the message ids of this store begin: no other store's do so.
    begin: String,
}

impl Marks {
    pub(super) fn new(stream: &str, begin: String) -> Self {
        Self {
            stream: stream.to_owned(),
            begin,
        }
    }

    /// The headers of a record: by which NATS knows it when it comes again, and one which reveals
    /// that another stream has taken over the subject.
    ///
    /// A record of a producer has that one's name and number, so that it is known from any store.
    fn headers(&self, id: u64, produced: Option<Produced>, expected: Option<u64>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in self.all(id, produced) {
            headers.insert(name, value);
        }
        if let Some(expected) = expected {
            let (name, last) = (EXPECTED_LAST, expected.saturating_sub(1));
            headers.insert(name, last.to_string());
        }
        headers
    }

    /// The most bytes that the headers take in a message. They count as the payload does.
    pub(super) fn bytes_max(&self) -> usize {
        let line = |(name, value): (&str, String)| name.len() + ": \r\n".len() + value.len();
        let bytes = |produced| {
            self.all(u64::MAX, produced)
                .into_iter()
                .map(line)
                .sum::<usize>()
        };
        let (producer, number) = (u128::MAX, u64::MAX);
        let of_producer = bytes(Some(Produced { producer, number }));
        let expected = line((EXPECTED_LAST, u64::MAX.to_string()));
        "NATS/1.0\r\n\r\n".len() + bytes(None).max(of_producer) + expected
    }

    fn all(&self, id: u64, produced: Option<Produced>) -> [(&'static str, String); 2] {
        let message = match produced {
            None => format!("{}-{id}", self.begin),
            Some(produced) => id_of(produced),
        };
        [
            ("Nats-Expected-Stream", self.stream.clone()),
            (MESSAGE_ID, message),
        ]
    }
}

/// The message id of a producer's record.
pub(super) fn id_of(Produced { producer, number }: Produced) -> String {
    format!("txlog-{producer:032x}-{number}")
}

impl Publisher {
    /// Sends records until the store is gone.
    pub(super) async fn run(self, store: Weak<Inner>) {
        let mut pause = PAUSE_MIN;
        // The last record that was sent, over which connection.
        let (mut generation, mut sent) = (0, 0);
        loop {
            let Some(until) = self.appends.expire() else {
                if self.appends.is_closed() {
                    return;
                }
                self.appends.news.notified().await;
                continue;
            };
            let Some(store) = store.upgrade() else { return };
            let Ok(Ok(connection)) = timeout_at(until, store.connection()).await else {
                drop(store);
                sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
                continue;
            };
            drop(store);
            pause = PAUSE_MIN;
            if connection.generation != generation {
                (generation, sent) = (connection.generation, 0);
            }
            self.send(&connection, &mut sent).await;
        }
    }

    /// Sends records over a connection until it ends, or none are left.
    async fn send(&self, connection: &Connection, sent: &mut u64) {
        while connection.is_open() {
            while let Some(next) = self.appends.next_after(*sent, connection.generation) {
                let Sendable {
                    id,
                    payload,
                    produced,
                    expected,
                } = next;
                let headers = self.marks.headers(id, produced, expected);
                let done = tokio::select! {
                    done = connection.append(id, &self.subject, headers, payload) => done,
                    () = connection.ended() => return,
                };
                match done {
                    Ok(()) => {}
                    Err(NatsError::TooLarge) => self.appends.too_large(id),
                    Err(_) => {
                        connection.ended().await;
                        return;
                    }
                }
                *sent = id;
            }
            let Some(until) = self.appends.expire() else {
                return;
            };
            tokio::select! {
                () = self.appends.news.notified() => {}
                () = connection.ended() => {}
                () = sleep_until(until) => {}
            }
        }
    }
}
