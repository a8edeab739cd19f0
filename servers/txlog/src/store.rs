//! Where the server keeps records: a log on this machine, or a store that several machines share.

mod seek;

use std::collections::BTreeMap;
use std::future::Future;

use bytes::Bytes;
use evenkeel::fs::CommitError;
use txlog_client::frame::{Code, CursorChange, MAY_PASS};
use txlog_client::{Cursor, Record, Trim};

use crate::advice;
use crate::figures::StoreFigures;
use crate::log::cursors::Place;
use crate::log::{Batch, Disk, Log, LogError, Pending, PendingBatch, ReadLimits, Refusal, Stored};

/// Which log a store holds, and which history of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The log's id.
    pub log: u64,
    /// Grows when durable records were lost or replaced; a reader's position in an earlier one
    /// means nothing.
    pub epoch: u64,
}

/// A log of records, numbered in order. There may be gaps, if the store lets its users delete
/// records.
pub trait Store: Clone + Send + Sync + 'static {
    /// A pending record.
    type Pending: Future<Output = Result<u64, StoreError>> + Send + Unpin + 'static;

    /// A pending batch.
    type PendingBatch: Future<Output = Result<Stored, StoreError>> + Send + Unpin + 'static;

    /// Waits for room, and submits a record. The returned future completes when the record is
    /// durable, with its number. Records that one task submits are numbered in that order.
    fn submit(
        &self,
        payload: Bytes,
    ) -> impl Future<Output = Result<Self::Pending, StoreError>> + Send;

    /// Waits for room, and submits records that get numbers in a row, all or none. In one order
    /// with the records of [`submit`](Self::submit).
    fn submit_batch(
        &self,
        batch: Batch,
    ) -> impl Future<Output = Result<Self::PendingBatch, StoreError>> + Send;

    /// The most bytes of records and their lengths that a batch may have.
    fn batch_bytes_max(&self) -> usize;

    /// Reads durable records from this number on, 0 for the oldest. Does not wait for more.
    fn read(
        &self,
        from: u64,
        limits: ReadLimits,
    ) -> impl Future<Output = Result<Found, StoreError>> + Send;

    /// The number from which on to read the records that were taken at this time or later, in
    /// milliseconds since 1970; that of the next one to come if there is none. If times of records
    /// step back, there may be records of that time or later before it.
    fn seek(&self, time_ms: u64) -> impl Future<Output = Result<u64, StoreError>> + Send {
        seek::by_halves(self, time_ms)
    }

    /// Where the named cursor is after this change, which is durable by then. The name is one that
    /// [`is_name`](txlog_client::frame::is_name) allows, and a new place is in this log.
    fn cursor(
        &self,
        _name: &str,
        _change: CursorChange,
    ) -> impl Future<Output = Result<Option<Cursor>, StoreError>> + Send {
        std::future::ready(Err(without_cursors()))
    }

    /// All named cursors.
    fn cursors(&self) -> impl Future<Output = Result<BTreeMap<String, Cursor>, StoreError>> + Send {
        std::future::ready(Err(without_cursors()))
    }

    /// Removes the oldest records, or says what would be left, and returns the number of the oldest
    /// one then. Fails if named cursors are at what would go, unless it is forced.
    fn trim(&self, _trim: Trim) -> impl Future<Output = Result<u64, StoreError>> + Send {
        let text = "this store is not trimmed by its server: see what removes its records";
        std::future::ready(Err(StoreError::new(Code::Unsupported, text)))
    }

    /// Waits until there may be a record of this number.
    fn wait_for(&self, sequence: u64) -> impl Future<Output = ()> + Send;

    /// The numbers of the oldest record and of the next one.
    fn bounds(&self) -> (u64, u64);

    /// Which log this is. It may change while the server runs.
    fn identity(&self) -> Identity;

    /// Why it takes no records now, if it is known that it does not.
    fn failure(&self) -> Option<StoreError> {
        None
    }

    /// Whether it will take no more records until it is opened again.
    fn has_failed_for_good(&self) -> bool {
        false
    }

    /// Whether it has failed as it is no longer where it was: opened there, it is another one.
    fn is_displaced(&self) -> bool {
        false
    }

    /// The largest record it takes, in bytes.
    fn record_bytes_max(&self) -> usize;

    /// What it knows of itself, for metrics. It is quick.
    fn figures(&self) -> StoreFigures {
        StoreFigures::default()
    }

    /// Sees whether a record could be stored, without storing one, as far as it can. False if this
    /// store has no way to see that.
    fn look(&self) -> impl Future<Output = Result<bool, StoreError>> + Send {
        std::future::ready(Ok(false))
    }

    /// Called from time to time, to remove records that need not be kept.
    fn maintain(&self) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Takes no more records, and returns when all accepted records are durable.
    fn close(&self) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// The result of a read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The records, in order.
    pub records: Vec<Record>,
    /// The number from which to read on. It is behind records that were removed, so that the
    /// reader does not ask for them again.
    pub next: u64,
}

/// Why a request to a store failed, as it is reported to a client.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub struct StoreError {
    /// Why.
    pub code: Code,
    /// What happened and what to do about it.
    pub text: String,
    /// Two numbers that the client is told with the code.
    pub numbers: Option<[u64; 2]>,
}

impl StoreError {
    /// An error with this reason.
    pub fn new(code: Code, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            numbers: None,
        }
    }

    /// Whether the store may take the same by itself later, so that its producer sends it again.
    pub(crate) fn may_pass(&self) -> bool {
        self.code.is_of_failed_log() && self.numbers == Some(MAY_PASS)
    }
}

impl From<LogError> for StoreError {
    fn from(error: LogError) -> Self {
        let code = match &error {
            LogError::Trimmed { .. } => Code::Trimmed,
            LogError::OutOfRange { .. } => Code::OutOfRange,
            LogError::TooManyCursors { .. } => Code::TooMany,
            LogError::CursorsBehind { .. } => Code::CursorsBehind,
            LogError::Commit(error) if error.is_too_large() => Code::RecordTooLarge,
            LogError::BadBatch { .. } => Code::RecordTooLarge,
            LogError::Refused(refusal) => return (*refusal).into(),
            LogError::Commit(error) if error.is_closed() => Code::Closing,
            LogError::Commit(error) if !error.maybe_written() => Code::LogFailedBefore,
            _ => Code::LogFailed,
        };
        let text = match &error {
            LogError::Commit(error) if error.is_poisoned() => failed(error),
            LogError::Io { what, name, source } => {
                format!("cannot {what} {name}: {}", advice::of_files(source))
            }
            error => error.to_string(),
        };
        StoreError::new(code, text)
    }
}

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> Self {
        let (code, next) = match refusal {
            Refusal::NotExpected { next, .. } => (Code::NotExpected, next),
            Refusal::Gap { next, .. } | Refusal::Past { next, .. } => (Code::ProducerGap, next),
            Refusal::Unknown { .. } => (Code::ProducerUnknown, 0),
        };
        StoreError {
            numbers: Some([next, 0]),
            ..StoreError::new(code, refusal.to_string())
        }
    }
}

/// Two servers of a stream would have to agree on its cursors.
fn without_cursors() -> StoreError {
    let text = "this store keeps no named cursors: let the reader keep its own, as by `txlog read \
                --show-cursor`, or serve a directory";
    StoreError::new(Code::Unsupported, text)
}

/// The message to a client when the log has failed: it cannot reopen the files itself.
fn failed(error: &CommitError) -> String {
    let records = match error.maybe_written() {
        true => "unacknowledged records may be in it or not",
        false => "this record is not in it",
    };
    format!("{}; {records}; {START_AGAIN}", what_failed(error))
}

const START_AGAIN: &str = "start `txlog serve` again, which finds the end of the log";

fn what_failed(error: &CommitError) -> String {
    match error.io_error() {
        Some(source) => {
            let why = advice::of_files(source);
            format!("the log failed, and can only be read now ({why})")
        }
        None => "the log's task has ended, and the log can only be read now".to_owned(),
    }
}

/// Why a log took no append, which is not in it.
fn not_taken(error: LogError) -> StoreError {
    let error = StoreError::from(error);
    match error.code {
        Code::LogFailed => StoreError {
            code: Code::LogFailedBefore,
            ..error
        },
        _ => error,
    }
}

/// A pending record of a [`Log`].
#[derive(Debug)]
pub struct LogPending(Pending);

impl Future for LogPending {
    type Output = Result<u64, StoreError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0)
            .poll(cx)
            .map_err(StoreError::from)
    }
}

/// A pending batch of a [`Log`].
#[derive(Debug)]
pub struct LogPendingBatch(PendingBatch);

impl Future for LogPendingBatch {
    type Output = Result<Stored, StoreError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0)
            .poll(cx)
            .map_err(StoreError::from)
    }
}

impl<D: Disk> Store for Log<D> {
    type Pending = LogPending;
    type PendingBatch = LogPendingBatch;

    async fn submit(&self, payload: Bytes) -> Result<LogPending, StoreError> {
        let taken = Log::submit(self, payload).await;
        taken.map(LogPending).map_err(not_taken)
    }

    async fn submit_batch(&self, batch: Batch) -> Result<LogPendingBatch, StoreError> {
        let taken = Log::submit_batch(self, batch).await;
        taken.map(LogPendingBatch).map_err(not_taken)
    }

    fn batch_bytes_max(&self) -> usize {
        Log::batch_bytes_max(self)
    }

    async fn read(&self, from: u64, limits: ReadLimits) -> Result<Found, StoreError> {
        let records = Log::read(self, from, limits).await?;
        let next = records.last().map_or(from, |record| record.sequence + 1);
        Ok(Found { records, next })
    }

    async fn seek(&self, time_ms: u64) -> Result<u64, StoreError> {
        Ok(Log::seek(self, time_ms).await?)
    }

    async fn cursor(&self, name: &str, change: CursorChange) -> Result<Option<Cursor>, StoreError> {
        let place = match change {
            CursorChange::Keep => Log::cursor(self, name).await?,
            CursorChange::Remove => {
                self.put_cursor(name, None).await?;
                None
            }
            CursorChange::Set(Cursor {
                epoch, sequence, ..
            }) => {
                let place = Place { epoch, sequence };
                self.put_cursor(name, Some(place)).await?;
                Some(place)
            }
        };
        let log = Log::identity(self).log;
        Ok(place.map(|place| cursor_of(log, place)))
    }

    async fn cursors(&self) -> Result<BTreeMap<String, Cursor>, StoreError> {
        let log = Log::identity(self).log;
        let places = Log::cursors(self).await?.into_iter();
        Ok(places
            .map(|(name, place)| (name, cursor_of(log, place)))
            .collect())
    }

    async fn trim(&self, trim: Trim) -> Result<u64, StoreError> {
        Ok(Log::trim_unless_read(self, trim).await?)
    }

    async fn wait_for(&self, sequence: u64) {
        Log::wait_for(self, sequence).await;
    }

    fn bounds(&self) -> (u64, u64) {
        (self.first(), self.next())
    }

    fn identity(&self) -> Identity {
        Log::identity(self)
    }

    fn has_failed_for_good(&self) -> bool {
        Log::failure(self).is_some()
    }

    fn is_displaced(&self) -> bool {
        matches!(Log::failure(self), Some(LogError::Displaced { .. }))
    }

    fn failure(&self) -> Option<StoreError> {
        let text = match Log::failure(self)? {
            LogError::Commit(error) => format!("{}; {START_AGAIN}", what_failed(&error)),
            error => error.to_string(),
        };
        Some(StoreError::new(Code::LogFailed, text))
    }

    fn record_bytes_max(&self) -> usize {
        Log::record_bytes_max(self)
    }

    fn figures(&self) -> StoreFigures {
        Log::figures(self)
    }

    async fn look(&self) -> Result<bool, StoreError> {
        Log::look(self).await?;
        Ok(true)
    }

    async fn maintain(&self) -> Result<(), StoreError> {
        Ok(Log::maintain(self).await?)
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(Log::close(self).await?)
    }
}

fn cursor_of(log: u64, Place { epoch, sequence }: Place) -> Cursor {
    Cursor {
        log,
        epoch,
        sequence,
    }
}
