//! A reader whose place is kept by the server.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use evenkeel::time::{sleep, timeout};
use tokio::sync::watch;

use super::Session;
use super::backoff::Backoff;
use super::follower::SessionFollower;
use super::link::{Link, may_pass};
use crate::client::Client;
use crate::cursor::Cursor;
use crate::error::ClientError;
use crate::follow::ReadFrom;
use crate::frame::{Code, Record};

/// How long an answer about a cursor may take, before the connection is taken to be dead.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// How a consumer begins, and how often its place is written.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerOptions {
    /// Where to begin if the server knows no consumer of this name; by default with the oldest
    /// record. [`ReadFrom::End`] is the end at the time of [`Session::consume`], which then writes
    /// the place: a consumer that ends before its first acknowledgement goes on from there.
    pub from: ReadFrom,
    /// The place is written when so many records were acknowledged; 1 000 by default.
    pub flush_every: u64,
    /// The place is written when a record has been acknowledged for so long; a second by default.
    /// That happens in the methods of the consumer: while [`next`](Consumer::next) is awaited, and
    /// otherwise when one of them is called.
    pub flush_after: Duration,
}

impl Default for ConsumerOptions {
    fn default() -> Self {
        Self {
            from: ReadFrom::Oldest,
            flush_every: 1_000,
            flush_after: Duration::from_secs(1),
        }
    }
}

/// Reads records in order, beginning behind those that were acknowledged under its name; from
/// [`Session::consume`].
///
/// Its place is a [named cursor](crate::Client::cursor) of the log, durable at the server. Each
/// record is delivered **at least once**: a consumer that ends before it has acknowledged a record,
/// or before the acknowledgement was [flushed](Consumer::flush), gets the record again when it
/// begins the next time. None is left out.
///
/// Two consumers of one name that run at the same time each get all records, and the one that
/// flushes last decides where the name is.
///
/// ```no_run
/// # use txlog_client::{ConsumerOptions, Session};
/// # async fn f(session: Session) -> Result<(), Box<dyn std::error::Error>> {
/// let mut consumer = session.consume("billing", ConsumerOptions::default()).await?;
/// loop {
///     let record = consumer.next().await?;
///     println!("{record:?}"); // work that may be done twice
///     consumer.ack(record.sequence).await?;
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Consumer {
    link: Arc<Link>,
    give_up_after: Duration,
    name: String,
    options: ConsumerOptions,
    follower: SessionFollower,
    /// The number behind the last record that was delivered; 0 if there is none.
    delivered: u64,
    /// All records before this one are acknowledged; 0 if none was.
    acknowledged: u64,
    /// How many acknowledgements are not flushed, and since when there are some.
    pending: u64,
    since: Option<Instant>,
}

impl Consumer {
    pub(super) async fn open(
        session: &Session,
        name: &str,
        options: ConsumerOptions,
    ) -> Result<Self, ClientError> {
        let (link, give_up_after) = (Arc::clone(&session.link), session.options.give_up_after);
        let asking = |client: Client| async move { client.cursor(name).await };
        let follower = match tried(&link, give_up_after, asking).await? {
            Some(cursor) => session.resume(cursor),
            None => {
                let mut follower = session.follow(options.from);
                if let ReadFrom::End = options.from
                    && let Some(end) = follower.place().await?
                {
                    // The end is elsewhere when it begins the next time.
                    let setting =
                        |client: Client| async move { client.set_cursor(name, end).await };
                    tried(&link, give_up_after, setting).await?;
                }
                follower
            }
        };
        Ok(Self {
            link,
            give_up_after,
            name: name.to_owned(),
            options,
            follower,
            delivered: 0,
            acknowledged: 0,
            pending: 0,
            since: None,
        })
    }

    /// Waits for the next record. Writes the consumer's place meanwhile, when it is time to.
    ///
    /// # Errors
    ///
    /// As [`SessionFollower::next`]. [`Code::Trimmed`]: records that it has not read are no longer
    /// kept; [`OtherLog`](ClientError::OtherLog): the log has lost records, or is another one. The
    /// same happens again, until the cursor is [put elsewhere](Client::set_cursor) or removed. As
    /// [`flush`](Consumer::flush).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no record is lost.
    pub async fn next(&mut self) -> Result<Record, ClientError> {
        loop {
            self.flush_in_time().await?;
            let next = match self.left() {
                None => Ok(self.follower.next().await),
                Some(left) => timeout(left, self.follower.next()).await,
            };
            // Else it is time to write the place.
            if let Ok(record) = next {
                return record.map(|record| self.deliver(record));
            }
        }
    }

    /// The next record, if there is one now.
    ///
    /// # Errors
    ///
    /// As [`next`](Consumer::next).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no record is lost.
    pub async fn try_next(&mut self) -> Result<Option<Record>, ClientError> {
        self.flush_in_time().await?;
        let record = self.follower.try_next().await?;
        Ok(record.map(|record| self.deliver(record)))
    }

    /// Acknowledges this record and all before it. That is durable when it is flushed: after
    /// [`flush_every`](ConsumerOptions::flush_every) records, or after
    /// [`flush_after`](ConsumerOptions::flush_after).
    ///
    /// # Errors
    ///
    /// [`ClientError::Unusable`] for a record that it has not delivered. As
    /// [`flush`](Consumer::flush).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the record is acknowledged, and perhaps not flushed.
    pub async fn ack(&mut self, sequence: u64) -> Result<(), ClientError> {
        if sequence >= self.delivered {
            let what = format!("record {sequence} was not delivered, so it cannot be acknowledged");
            return Err(ClientError::Unusable { what: what.into() });
        }
        if sequence < self.acknowledged {
            return Ok(());
        }
        self.acknowledged = sequence + 1;
        self.pending += 1;
        self.since.get_or_insert_with(Instant::now);
        match self.pending >= self.options.flush_every {
            true => self.flush().await,
            false => self.flush_in_time().await,
        }
    }

    /// Writes the consumer's place, if it has changed; returns when that is durable.
    ///
    /// # Errors
    ///
    /// [`ClientError`]: the place may be written or not. What may pass is tried again for the time
    /// of [`give_up_after`](crate::SessionOptions::give_up_after).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next flush writes it.
    pub async fn flush(&mut self) -> Result<(), ClientError> {
        let Some(at) = self.follower.cursor().filter(|_| self.pending > 0) else {
            return Ok(());
        };
        let cursor = Cursor {
            sequence: self.acknowledged,
            ..at
        };
        let name = self.name.as_str();
        let setting = |client: Client| async move { client.set_cursor(name, cursor).await };
        tried(&self.link, self.give_up_after, setting).await?;
        (self.pending, self.since) = (0, None);
        Ok(())
    }

    /// How long the place need not be written yet, if it has changed.
    fn left(&self) -> Option<Duration> {
        let since = self.since?;
        Some(self.options.flush_after.saturating_sub(since.elapsed()))
    }

    /// Writes the place if a record has been acknowledged for long enough.
    async fn flush_in_time(&mut self) -> Result<(), ClientError> {
        match self.left() {
            Some(Duration::ZERO) => self.flush().await,
            _ => Ok(()),
        }
    }

    /// Why nothing can be read for now: see [`SessionFollower::trouble`].
    pub fn trouble(&self) -> watch::Receiver<Option<ClientError>> {
        self.follower.trouble()
    }

    /// Where the next record is read. `None` before the first connection.
    pub fn position(&self) -> Option<Cursor> {
        self.follower.cursor()
    }

    fn deliver(&mut self, record: Record) -> Record {
        self.delivered = record.sequence.saturating_add(1);
        record
    }
}

/// Asks again, over another connection if need be, for this long. What is asked may be asked twice.
async fn tried<T, F: Future<Output = Result<T, ClientError>>>(
    link: &Link,
    give_up_after: Duration,
    ask: impl Fn(Client) -> F,
) -> Result<T, ClientError> {
    let (since, mut backoff) = (Instant::now(), Backoff::default());
    loop {
        let asked = match link.client().await {
            Ok(client) => {
                let asked = timeout(ANSWER_MAX, ask(client.clone())).await;
                asked.unwrap_or_else(|_| {
                    let why = crate::client::disconnected("no answer about a cursor in time");
                    client.abandon(why.clone());
                    Err(why)
                })
            }
            Err(error) => Err(error),
        };
        let error = match asked {
            Ok(asked) => {
                link.works();
                return Ok(asked);
            }
            Err(error) => error,
        };
        // That the cursors cannot be read or written does not pass by itself.
        let passes = may_pass(&error) && error.code() != Some(Code::LogFailed);
        if !passes || since.elapsed() >= give_up_after {
            return Err(error);
        }
        // The link waits between connections; this is for a server that refuses.
        if matches!(
            error,
            ClientError::Refused { .. } | ClientError::LogAway { .. }
        ) {
            sleep(backoff.next()).await;
        }
    }
}
