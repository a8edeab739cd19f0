//! A session: appends and reads that outlive connections.
// The files: `link` connects, again and again; `carrier` is the task that sends records and tells
// what became of each; `portion` is what it has sent, and decides what an error means for that;
// `change` says that the log is another one;
// `follower` reads, and `consumer` remembers how far.

mod backoff;
mod carrier;
mod change;
mod consumer;
mod follower;
mod link;
mod outcome;
mod portion;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use self::carrier::{Carrier, Start};
pub use self::change::LogChange;
pub use self::consumer::{Consumer, ConsumerOptions};
pub use self::follower::SessionFollower;
use self::link::Link;
pub use self::outcome::AppendError;
use self::outcome::{Outcome, closed};
use self::portion::Entry;
use crate::client::ServerInfo;
use crate::connect::Connect;
use crate::cursor::Cursor;
use crate::error::ClientError;
use crate::follow::{Follower, ReadFrom};

/// The bounds of a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// How long a record, or a read, is tried for; 60 seconds by default. For a record the time
    /// begins when it is submitted, for a read when the trouble begins.
    pub give_up_after: Duration,
    /// How many records may be pending; more wait to be submitted. 16 384 by default.
    pub pending_max: usize,
    /// How many bytes of records may be pending; 8 MiB by default. A larger record is taken alone.
    pub pending_bytes_max: usize,
    /// Whether records are tried on when the server says that its log has failed; by default they
    /// are. That passes if somebody starts the server again. If not, they are settled at once, with
    /// what the server says: as [not stored](AppendError::NotStored) if the log had failed before
    /// they were sent the first time, else as unknown. A log that only is
    /// [away](ClientError::LogAway) comes back by itself, and is waited for in any case.
    pub wait_for_failed_log: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            give_up_after: Duration::from_secs(60),
            pending_max: 16_384,
            pending_bytes_max: 8 << 20,
            wait_for_failed_log: true,
        }
    }
}

/// Appends and reads that outlive connections, and servers that start again. Clones share it.
///
/// Each record comes to one of three ends, and which one is known: stored, with its number; surely
/// [not stored](AppendError::NotStored); or [unknown](AppendError::Unknown).
///
/// - Records of many tasks are gathered: while batches are under way, what is submitted becomes the
///   next batch. When none is, a record is sent at once.
/// - When a connection ends, the session connects again, to any of its addresses, and repeats what
///   was not answered. The server knows a repeated batch by its producer and number, so it is
///   neither lost nor stored twice.
/// - It is never repeated blindly. Where the server could not tell, the outcome is
///   [`Unknown`](AppendError::Unknown): if it speaks version 2 or less of the protocol, if its
///   store knows no producers, if it has another log than the one to which the batch was sent, or a
///   later epoch of it, or if it has forgotten the producer.
/// - A server over NATS knows a repeated record for half of the stream's `duplicate_window`, which
///   is two minutes by default. Later it looks for it among the records since; if there are too
///   many, the outcome is [`Unknown`](AppendError::Unknown).
/// - Records are in the log in the order in which they were submitted, but for those that are not
///   stored.
///   Over NATS there is one more exception: if NATS refuses a record for the moment, and takes
///   those that were sent behind it, it comes behind them.
///
/// If all clones are dropped, pending records are still sent, for as long as the runtime lives;
/// [`flush`](Session::flush) and [`close`](Session::close) wait for
/// them.
///
/// ```no_run
/// use txlog_client::{AppendError, Connect, Session, SessionOptions};
///
/// # async fn f() -> Result<(), Box<dyn std::error::Error>> {
/// let servers = ["10.0.0.7:7010", "10.0.0.8:7010"];
/// let session = Session::open(Connect::new(), servers, SessionOptions::default())?;
/// match session.append("an entry").await {
///     Ok(sequence) => println!("stored as {sequence}"),
///     Err(AppendError::NotStored { why }) => println!("not stored: {why}"),
///     Err(AppendError::Unknown { why }) => println!("stored or not: {why}"),
/// }
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Session {
    queue: mpsc::UnboundedSender<Entry>,
    /// Units of pending records: see `units`.
    room: Arc<Semaphore>,
    link: Arc<Link>,
    given_up: mpsc::UnboundedSender<oneshot::Sender<()>>,
    changes: watch::Receiver<Option<LogChange>>,
    options: SessionOptions,
}

/// A unit of room: so many records may be pending as there are units, if they are small.
fn unit_bytes(options: &SessionOptions) -> usize {
    (options.pending_bytes_max / options.pending_max.max(1)).max(1)
}

fn units_max(options: &SessionOptions) -> usize {
    (options.pending_bytes_max / unit_bytes(options)).clamp(1, u32::MAX as usize >> 1)
}

/// How many units a record takes: what is divided among the most records is its share of bytes, so
/// that one number bounds both.
fn units(bytes: usize, options: &SessionOptions) -> u32 {
    let units = bytes.div_ceil(unit_bytes(options)).max(1);
    units.min(units_max(options)) as u32
}

impl Session {
    /// A session with these servers, which are host and port, and serve the same log. It connects
    /// when there is something to do.
    ///
    /// # Errors
    ///
    /// [`ClientError::Unusable`]: there is no server among them, or the system has no random bytes
    /// from which to make a producer's id.
    ///
    /// # Panics
    ///
    /// Outside a runtime.
    pub fn open<A: Into<String>>(
        connect: Connect,
        servers: impl IntoIterator<Item = A>,
        options: SessionOptions,
    ) -> Result<Self, ClientError> {
        let servers = servers.into_iter().map(Into::into).collect();
        let link = Arc::new(Link::new(connect, servers)?);
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|error| ClientError::Unusable {
            what: format!("no random bytes for a producer's id: {error}").into(),
        })?;
        let (queue, items) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(units_max(&options)));
        let (given_up, give_up) = mpsc::unbounded_channel();
        let (change, changes) = watch::channel(None);
        let carrier = Carrier::new(Start {
            link: Arc::clone(&link),
            queue: items,
            room: Arc::clone(&room),
            give_up,
            change,
            give_up_after: options.give_up_after,
            waits_for_log: options.wait_for_failed_log,
            producer: u128::from_le_bytes(id),
        });
        drop(evenkeel::spawn(carrier.run()));
        Ok(Self {
            queue,
            room,
            link,
            given_up,
            changes,
            options,
        })
    }

    /// Connects, if it is not connected, and says what the server said about itself.
    ///
    /// # Errors
    ///
    /// That of one attempt at each server; the session goes on all the same.
    pub async fn connect(&self) -> Result<ServerInfo, ClientError> {
        Ok(self.link.client().await?.info())
    }

    /// Why there is no connection, if connecting has failed, or why the log takes no records for
    /// now; changes as that does. While nobody appends, it is asked for each second as long as it
    /// lasts.
    pub fn trouble(&self) -> watch::Receiver<Option<ClientError>> {
        self.link.trouble()
    }

    /// That the servers have another log than the one that acknowledged records, or a later epoch
    /// of it. It is told when the session connects again, before anything is sent to that log;
    /// the latest change stays. Appends go on.
    pub fn log_change(&self) -> watch::Receiver<Option<LogChange>> {
        self.changes.clone()
    }

    /// Appends a record; returns its number when it is durable.
    ///
    /// # Errors
    ///
    /// [`AppendError`]: whether it is surely not stored.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the record is appended whole or not at all.
    pub async fn append(&self, record: impl Into<Bytes>) -> Result<u64, AppendError> {
        self.submit(record).await?.await
    }

    /// Takes a record, after waiting for room. The returned future completes when it is known what
    /// became of the record, also if there is no connection for a while.
    ///
    /// # Errors
    ///
    /// [`AppendError::NotStored`]: the session was closed, or the record is larger than the server
    /// takes, as far as that is known from a connection.
    ///
    /// # Cancel safety
    ///
    /// If this future is dropped, the record was not taken, unless it had completed. If the
    /// returned one is, the record is appended all the same.
    pub async fn submit(&self, record: impl Into<Bytes>) -> Result<Appending, AppendError> {
        let record = record.into();
        self.link.check_record(&record)?;
        let units = units(record.len(), &self.options);
        // It is closed when the session is.
        let room = self.room.acquire_many(units).await.map_err(|_| closed())?;
        let (answer, outcome) = oneshot::channel();
        let entry = Entry {
            record,
            answer,
            units,
            since: Instant::now(),
        };
        self.queue.send(entry).map_err(|_| closed())?;
        // The carrier gives it back.
        room.forget();
        Ok(Appending(outcome))
    }

    /// Waits until it is known what became of each record that was submitted before. Meanwhile no
    /// more are taken.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn flush(&self) {
        // All room is free when nothing is pending, and it is given in the order of the requests.
        // An error says that the session was closed, which had waited for the same.
        let all = units_max(&self.options) as u32;
        drop(self.room.acquire_many(all).await);
    }

    /// Waits until it is known what became of each record that was submitted before, and takes no
    /// more, in no clone.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, the session is not closed, unless it had completed.
    pub async fn close(&self) {
        let all = units_max(&self.options) as u32;
        let room = self.room.acquire_many(all).await;
        self.room.close();
        drop(room);
    }

    /// Settles all pending records now, as what is known of them: those that were sent and not
    /// answered are [unknown](AppendError::Unknown), the others not stored. The session goes on.
    ///
    /// # Cancel safety
    ///
    /// If it is dropped, they are settled all the same.
    pub async fn give_up(&self) {
        let (told, settled) = oneshot::channel();
        if self.given_up.send(told).is_ok() {
            // It is dropped if the carrier ends, and then nothing is pending.
            let _ = settled.await;
        }
    }

    /// Reads records in order from there on, and waits for new ones; on a connection of its own.
    pub fn follow(&self, from: ReadFrom) -> SessionFollower {
        SessionFollower::new(self.link.another(), self.options.give_up_after, from)
    }

    /// Reads on where this follower is, on its connection for as long as that lasts.
    pub fn adopt(&self, follower: Follower) -> SessionFollower {
        SessionFollower::adopt(self.link.another(), self.options.give_up_after, follower)
    }

    /// Reads records in order from where the consumer of this name is, and remembers how far they
    /// were acknowledged: see [`Consumer`].
    ///
    /// # Errors
    ///
    /// [`ClientError`], if the server could not be asked where that is.
    pub async fn consume(
        &self,
        name: &str,
        options: ConsumerOptions,
    ) -> Result<Consumer, ClientError> {
        Consumer::open(self, name, options).await
    }

    /// Reads records in order from a cursor on, and waits for new ones; on a connection of its own.
    pub fn resume(&self, cursor: Cursor) -> SessionFollower {
        SessionFollower::resume(self.link.another(), self.options.give_up_after, cursor)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pending = units_max(&self.options).saturating_sub(self.room.available_permits());
        f.debug_struct("Session")
            .field("link", &self.link)
            .field("options", &self.options)
            .field("pending_units", &pending)
            .finish()
    }
}

/// A pending record; completes with its number when it is durable. From [`Session::submit`].
#[must_use = "what became of the record is not known before this completes"]
#[derive(Debug)]
pub struct Appending(oneshot::Receiver<Outcome>);

impl Future for Appending {
    type Output = Result<u64, AppendError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = ready!(Pin::new(&mut self.get_mut().0).poll(cx));
        // The carrier ends only with its runtime, if records are pending.
        let why = ClientError::Closed;
        Poll::Ready(outcome.unwrap_or(Err(AppendError::Unknown { why })))
    }
}

#[cfg(test)]
mod tests;
