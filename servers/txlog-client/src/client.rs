//! One connection, shared by many tasks: one task writes requests, another reads answers and passes
//! each to the task that waits for it.

mod batch;
mod places;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use evenkeel::net::ToSocketAddrs;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

pub use self::batch::{Batch, Stored, SubmittedBatch};
use crate::connect::Connect;
use crate::cursor::{Cursor, Identity};
use crate::error::ClientError;
use crate::follow::{Follower, ReadFrom};
use crate::frame::{
    APPEND_OVERHEAD, Code, MAY_PASS, RECORD_OVERHEAD, RECORDS_OVERHEAD, Record, Request, Response,
};
use crate::wire::FrameReader;

/// How many requests may wait to be sent; more wait for room.
const REQUESTS_QUEUED_MAX: usize = 1_024;

/// How many bytes of requests are gathered for one write.
const WRITE_BYTES: usize = 64 * 1024;

/// The most bytes of payload that [`Client::read`] asks for at a time.
pub(crate) const READ_BYTES_MAX: u32 = 1 << 20;

/// The most records that [`Client::read`] asks for at a time.
const READ_RECORDS_MAX: u32 = 10_000;

/// What a server says about itself when a client connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerInfo {
    /// The protocol's version.
    pub version: u16,
    /// The largest record that it takes, in bytes.
    pub record_bytes_max: usize,
    /// How many appends of one connection may be pending; further ones wait.
    pub appends_max: usize,
    /// The most bytes of records and their lengths that a batch may have; none if the server takes
    /// no batches, as it speaks version 2 or less.
    pub batch_bytes_max: Option<usize>,
    /// The oldest record's sequence number, when the client connected.
    pub first: u64,
    /// The number of the next record, when the client connected.
    pub next: u64,
    /// The log, when the client connected; unknown if the server speaks version 1.
    pub identity: Option<Identity>,
}

/// Whether a server would acknowledge an append in time; from [`Client::health`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// Whether it would, as far as the server can know.
    pub writable: bool,
    /// How long the oldest pending append has waited.
    pub pending: Option<Duration>,
    /// How long the last append took that has ended.
    pub took: Option<Duration>,
    /// How long ago that was.
    pub ago: Option<Duration>,
    /// What is known, and what to do about it.
    pub text: String,
}

/// A connection to a server. Clones share it; it is closed when the last one is dropped.
///
/// A broken connection stays broken, and every request on it fails: connect again.
#[derive(Clone, Debug)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    requests: mpsc::Sender<Request>,
    answers: Arc<Answers>,
    appends: Arc<Semaphore>,
    ids: AtomicU64,
    info: ServerInfo,
}

type Answer = Result<Response, ClientError>;

/// The requests that wait for an answer.
#[derive(Debug, Default)]
struct Answers {
    waiting: Mutex<Waiting>,
    /// Told when nobody wants the connection any more, which may be dead without an end.
    abandoned: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    by_id: HashMap<u64, Waiter>,
    /// Why there will be no more answers.
    end: Option<ClientError>,
}

#[derive(Debug)]
struct Waiter {
    sender: oneshot::Sender<Answer>,
    /// An append counts as pending until it is answered, also if the answer is not looked at; or
    /// until its future is dropped, which is a little early, but the server has a limit of its own.
    place: Option<OwnedSemaphorePermit>,
}

impl Client {
    /// Connects and says hello, for the log without a name, without a token and in the clear;
    /// [`Connect`] has the other ways.
    ///
    /// # Errors
    ///
    /// As [`Connect::connect`].
    pub async fn connect(address: impl ToSocketAddrs + ToString) -> Result<Self, ClientError> {
        Connect::new().connect(address).await
    }

    /// Begins to write requests and to read answers, after the server's welcome.
    pub(crate) fn begin<R, W>(frames: FrameReader<R>, write: W, info: ServerInfo) -> Self
    where
        R: AsyncRead + Unpin + Send + 'static,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let mut frames = frames;
        // One record, however large, comes whole; otherwise as many as were asked for.
        let payload_max = info.record_bytes_max.max(READ_BYTES_MAX as usize);
        let records_max = READ_RECORDS_MAX as usize * RECORD_OVERHEAD;
        frames.set_frame_bytes_max(RECORDS_OVERHEAD + records_max + payload_max + APPEND_OVERHEAD);
        let appends_max = info.appends_max.clamp(1, Semaphore::MAX_PERMITS);
        let (requests, queue) = mpsc::channel(REQUESTS_QUEUED_MAX);
        let answers = Arc::new(Answers::default());
        evenkeel::spawn(write_requests(write, queue, Arc::clone(&answers)));
        evenkeel::spawn(read_answers(frames, Arc::clone(&answers)));
        Self {
            inner: Arc::new(Inner {
                requests,
                answers,
                appends: Arc::new(Semaphore::new(appends_max)),
                ids: AtomicU64::new(1),
                info,
            }),
        }
    }

    /// What the server said about itself.
    pub fn info(&self) -> ServerInfo {
        self.inner.info
    }

    /// Appends a record; returns its sequence number when it is durable.
    ///
    /// # Errors
    ///
    /// [`ClientError`]. After [`Disconnected`](ClientError::Disconnected), or a refusal with
    /// [`Code::LogFailed`], the record may be in the log or not; with [`Code::LogFailedBefore`] it
    /// is not.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped the record is appended whole or not at all.
    pub async fn append(&self, record: impl Into<Bytes>) -> Result<u64, ClientError> {
        self.submit(record).await?.await
    }

    /// Sends a record, after waiting until the server takes another pending append. The returned
    /// future completes when the record is durable.
    ///
    /// Records are in the log in the order in which they were submitted.
    ///
    /// # Errors
    ///
    /// As [`append`](Client::append).
    ///
    /// # Cancel safety
    ///
    /// As [`append`](Client::append).
    pub async fn submit(&self, record: impl Into<Bytes>) -> Result<Submitted, ClientError> {
        let payload = record.into();
        let (bytes, bytes_max) = (payload.len(), self.inner.info.record_bytes_max);
        if bytes > bytes_max {
            return Err(ClientError::RecordTooLarge { bytes, bytes_max });
        }
        let place = Arc::clone(&self.inner.appends).acquire_owned().await;
        let place = Some(place.expect("it is never closed"));
        let mut asked = Asked::new(&self.inner);
        let request = |id| Request::Append { id, payload };
        let answer = asked.send(place, request).await?;
        Ok(Submitted { asked, answer })
    }

    /// Sends a batch, after waiting until the server takes another pending append: its records are
    /// stored with numbers in a row, or none of them is. The returned future completes when they
    /// are durable.
    ///
    /// # Errors
    ///
    /// As [`append`](Client::append); [`OldServer`](ClientError::OldServer) if the server takes no
    /// batches. [`Code::NotExpected`] and the codes after it say why none is stored.
    ///
    /// # Cancel safety
    ///
    /// As [`append`](Client::append).
    pub async fn submit_batch(&self, batch: Batch) -> Result<SubmittedBatch, ClientError> {
        let Some(bytes_max) = self.inner.info.batch_bytes_max else {
            let (version, what) = (self.inner.info.version, "batches");
            return Err(ClientError::OldServer { version, what });
        };
        let bytes = batch.records.bytes();
        if bytes > bytes_max {
            let what = "batch";
            return Err(ClientError::TooLong {
                what,
                bytes,
                bytes_max,
            });
        }
        let place = Arc::clone(&self.inner.appends).acquire_owned().await;
        let place = Some(place.expect("it is never closed"));
        let mut asked = Asked::new(&self.inner);
        let Batch {
            records,
            expected,
            producer,
            not_before,
        } = batch;
        let request = |id| Request::Batch {
            id,
            expected,
            producer,
            not_before,
            records,
        };
        let answer = asked.send(place, request).await?;
        Ok(SubmittedBatch { asked, answer })
    }

    /// Reads records from a sequence number on, 0 for the oldest. Waits up to `wait` for the first
    /// one, and returns the records that there are, at most about a MiB, with the number from which
    /// to read on.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; [`Code::Trimmed`] if the records are no longer kept,
    /// [`OutOfRange`](ClientError::OutOfRange) if `from` is beyond the next record.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn read(&self, from: u64, wait: Duration) -> Result<(Vec<Record>, u64), ClientError> {
        self.read_of(None, from, wait).await
    }

    /// Reads from this log and no other, if one is given.
    pub(crate) async fn read_of(
        &self,
        of: Option<Identity>,
        from: u64,
        wait: Duration,
    ) -> Result<(Vec<Record>, u64), ClientError> {
        let mut asked = Asked::new(&self.inner);
        let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        let request = |id| Request::Read {
            id,
            from,
            records_max: READ_RECORDS_MAX,
            bytes_max: READ_BYTES_MAX,
            wait_ms,
            of,
        };
        let answer = asked.send(None, request).await?;
        match asked.answer(answer).await? {
            Response::Records { next, records, .. } => Ok((records, next)),
            other => Err(unexpected(&other)),
        }
    }

    /// Reads records in order from there on, and waits for new ones.
    pub fn follow(&self, from: ReadFrom) -> Follower {
        Follower::new(self.clone(), from)
    }

    /// Reads records in order from a [cursor](Follower::cursor) on, and waits for new ones.
    ///
    /// If the server has another log, or an epoch in which the cursor means nothing, the follower's
    /// first read fails with [`OtherLog`](ClientError::OtherLog).
    ///
    /// # Errors
    ///
    /// [`ClientError::OldServer`]: the server could not tell.
    pub fn resume(&self, cursor: Cursor) -> Result<Follower, ClientError> {
        self.needs_version(2, "cursors")?;
        Ok(Follower::resume(self.clone(), cursor))
    }

    /// Whether the server would acknowledge an append within this time. No record is written.
    ///
    /// The server goes by whether its log has failed, by how long the oldest pending append has
    /// waited, and by how long the last one took, if that is less than 10 seconds ago. If an append
    /// is pending, it answers when that has ended or waited too long. If nobody appends, a disk
    /// that hangs is not noticed.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn health(&self, within: Duration) -> Result<Health, ClientError> {
        self.needs_version(2, "health")?;
        let within_ms = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
        let mut asked = Asked::new(&self.inner);
        let request = |id| Request::Health { id, within_ms };
        let answer = asked.send(None, request).await?;
        match asked.answer(answer).await? {
            Response::Health {
                writable,
                pending_ms,
                took_ms,
                ago_ms,
                text,
                ..
            } => Ok(Health {
                writable,
                pending: of_ms(pending_ms),
                took: of_ms(took_ms),
                ago: of_ms(ago_ms),
                text,
            }),
            other => Err(unexpected(&other)),
        }
    }

    /// Why the connection has ended, if it has.
    pub fn end(&self) -> Option<ClientError> {
        self.inner.answers.lock().end.clone()
    }

    /// Ends the connection without waiting for the server: whoever waits for an answer gets this
    /// error.
    pub(crate) fn abandon(&self, why: ClientError) {
        self.inner.answers.fail(why);
        self.inner.answers.abandoned.notify_waiters();
    }

    fn needs_version(&self, least: u16, what: &'static str) -> Result<(), ClientError> {
        let version = self.inner.info.version;
        if version < least {
            return Err(ClientError::OldServer { version, what });
        }
        Ok(())
    }

    /// How long the server takes to answer.
    ///
    /// A connection that only pings is served urgently; one that appends or reads is not.
    ///
    /// # Errors
    ///
    /// [`ClientError`].
    pub async fn ping(&self) -> Result<Duration, ClientError> {
        let began = Instant::now();
        let mut asked = Asked::new(&self.inner);
        let answer = asked.send(None, |id| Request::Ping { id }).await?;
        match asked.answer(answer).await? {
            Response::Pong { .. } => Ok(began.elapsed()),
            other => Err(unexpected(&other)),
        }
    }
}

/// A pending request. When it is dropped, its answer is ignored.
struct Asked {
    inner: Arc<Inner>,
    id: Option<u64>,
}

impl Asked {
    fn new(inner: &Arc<Inner>) -> Self {
        let inner = Arc::clone(inner);
        Self { inner, id: None }
    }

    async fn send(
        &mut self,
        place: Option<OwnedSemaphorePermit>,
        request: impl FnOnce(u64) -> Request,
    ) -> Result<oneshot::Receiver<Answer>, ClientError> {
        let room = self.inner.requests.reserve().await;
        let Ok(room) = room else {
            return Err(self.inner.answers.end());
        };
        // Relaxed: an id has to be unique, and orders nothing else.
        let id = self.inner.ids.fetch_add(1, Ordering::Relaxed);
        let answer = self.inner.answers.await_answer(id, place)?;
        self.id = Some(id);
        room.send(request(id));
        Ok(answer)
    }

    async fn answer(self, answer: oneshot::Receiver<Answer>) -> Answer {
        self.answered(answer.await)
    }

    fn answered(&self, answered: Result<Answer, oneshot::error::RecvError>) -> Answer {
        match answered {
            Ok(Ok(Response::Refused { code, text, .. })) => Err(ClientError::Refused {
                code,
                text: text.into(),
            }),
            Ok(Ok(Response::RefusedAt {
                code,
                numbers,
                text,
                ..
            })) => Err(refused_at(code, numbers, text.into())),
            Ok(answer) => answer,
            Err(_) => Err(self.inner.answers.end()),
        }
    }
}

/// A pending record; completes with its sequence number when it is durable. From
/// [`Client::submit`].
#[must_use = "whether the record is durable is not known before this completes"]
pub struct Submitted {
    asked: Asked,
    answer: oneshot::Receiver<Answer>,
}

impl Future for Submitted {
    type Output = Result<u64, ClientError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let submitted = self.get_mut();
        let answered = ready!(Pin::new(&mut submitted.answer).poll(cx));
        Poll::Ready(match submitted.asked.answered(answered) {
            Ok(Response::Appended { sequence, .. }) => Ok(sequence),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => Err(error),
        })
    }
}

impl fmt::Debug for Submitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitted").finish_non_exhaustive()
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            let waiter = self.inner.answers.lock().by_id.remove(&id);
            // Releasing a place wakes a task, so it happens without the lock.
            drop(waiter);
        }
    }
}

impl Answers {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn await_answer(
        &self,
        id: u64,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<oneshot::Receiver<Answer>, ClientError> {
        let mut waiting = self.lock();
        if let Some(end) = &waiting.end {
            return Err(end.clone());
        }
        let (sender, receiver) = oneshot::channel();
        waiting.by_id.insert(id, Waiter { sender, place });
        Ok(receiver)
    }

    fn deliver(&self, id: u64, response: Response) {
        let waiter = self.lock().by_id.remove(&id);
        if let Some(Waiter { sender, place }) = waiter {
            drop(place);
            // The request was dropped; its answer is not needed.
            let _ = sender.send(Ok(response));
        }
    }

    fn end(&self) -> ClientError {
        let end = self.lock().end.clone();
        end.unwrap_or_else(|| disconnected("it was closed"))
    }

    /// Records that there will be no more answers. The first reason is kept.
    fn fail(&self, error: ClientError) {
        let mut waiting = self.lock();
        let end = waiting.end.get_or_insert(error).clone();
        let waiters = std::mem::take(&mut waiting.by_id);
        drop(waiting);
        for Waiter { sender, place } in waiters.into_values() {
            drop(place);
            let _ = sender.send(Err(end.clone()));
        }
    }
}

fn refused_at(code: Code, [first, second]: [u64; 2], text: Arc<str>) -> ClientError {
    match code {
        Code::OutOfRange => ClientError::OutOfRange {
            first,
            next: second,
            text,
        },
        Code::OtherLog | Code::NewEpoch => ClientError::OtherLog {
            code,
            found: Identity {
                log: first,
                epoch: second,
            },
            text,
        },
        code if code.is_of_failed_log() && [first, second] == MAY_PASS => {
            ClientError::LogAway { code, text }
        }
        code => ClientError::Refused { code, text },
    }
}

fn of_ms(ms: u32) -> Option<Duration> {
    (ms != u32::MAX).then_some(Duration::from_millis(ms.into()))
}

pub(crate) fn disconnected(reason: impl Into<Arc<str>>) -> ClientError {
    ClientError::Disconnected {
        reason: reason.into(),
    }
}

fn unexpected(response: &Response) -> ClientError {
    disconnected(format!("an unexpected answer came: {response:?}"))
}

pub(crate) fn fault(code: Code, text: String) -> ClientError {
    ClientError::Fault {
        code,
        text: text.into(),
    }
}

/// Writes requests, all that are queued in one write, until no client is left.
async fn write_requests(
    mut stream: impl AsyncWrite + Unpin,
    mut requests: mpsc::Receiver<Request>,
    answers: Arc<Answers>,
) {
    let mut buffer = BytesMut::new();
    while let Some(request) = requests.recv().await {
        buffer.clear();
        request.encode(&mut buffer);
        while buffer.len() < WRITE_BYTES {
            let Ok(request) = requests.try_recv() else {
                break;
            };
            request.encode(&mut buffer);
        }
        let written = match stream.write_all(&buffer).await {
            // TLS may hold back the end of it.
            Ok(()) => stream.flush().await,
            error => error,
        };
        if let Err(error) = written {
            // The server's reason may still arrive, so the connection is not closed at once.
            evenkeel::time::sleep(Duration::from_millis(100)).await;
            answers.fail(disconnected(error.to_string()));
            return;
        }
    }
    // The server answers pending requests, and then closes as well.
    let _ = stream.shutdown().await;
}

/// Passes answers to the tasks that wait for them, until there are no more.
async fn read_answers<R: AsyncRead + Unpin>(mut frames: FrameReader<R>, answers: Arc<Answers>) {
    let mut abandoned = pin!(answers.abandoned.notified());
    let end = loop {
        let frame = tokio::select! {
            biased;
            frame = frames.next() => frame,
            () = &mut abandoned => return,
        };
        let frame = match frame {
            Ok(Some(frame)) => frame,
            Ok(None) => break disconnected("the server closed it"),
            Err(error) => break disconnected(error.to_string()),
        };
        match Response::decode(frame) {
            Ok(Response::Fault { code, text }) => break fault(code, text),
            Ok(response) => match id_of(&response) {
                Some(id) => answers.deliver(id, response),
                None => break unexpected(&response),
            },
            Err(error) => break disconnected(error.to_string()),
        }
    };
    answers.fail(end);
}

fn id_of(response: &Response) -> Option<u64> {
    match response {
        Response::Appended { id, .. }
        | Response::Records { id, .. }
        | Response::Pong { id }
        | Response::Refused { id, .. }
        | Response::RefusedAt { id, .. }
        | Response::Health { id, .. }
        | Response::Stored { id, .. }
        | Response::Sought { id, .. }
        | Response::Cursor { id, .. }
        | Response::Logs { id, .. }
        | Response::Cursors { id, .. }
        | Response::Trimmed { id, .. } => Some(*id),
        Response::Welcome { .. } | Response::Fault { .. } => None,
    }
}

#[cfg(test)]
mod tests;
