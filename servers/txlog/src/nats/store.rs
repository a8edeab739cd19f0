//! The store: a stream, its records by their sequence numbers.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use evenkeel::time::Instant;
use tokio::sync::{Semaphore, oneshot};
use txlog_client::Trim;
use txlog_client::frame::{BATCHED_OVERHEAD, Code};

use super::appends::{Copies, Numbered, Outcome, Room, not_expected};
use super::config::NatsConfig;
use super::error::NatsError;
use super::history::log_of;
use super::inner::{Inner, lock};
use super::repeats::Repeated;
use super::room::PENDING_KIB;
use crate::figures::StoreFigures;
use crate::log::{Batch, ReadLimits, Stored};
use crate::server::BATCH_BYTES_MAX;
use crate::store::{Found, Identity, Store, StoreError};

/// A JetStream as a [`Store`]. Clones share it. It needs a Tokio runtime beside the one of its
/// tasks: [`Builder::tokio_context`](evenkeel::runtime::Builder::tokio_context).
///
/// A record is as durable as the stream makes it before it acknowledges: on as many servers as it
/// has replicas, and on their disks if they are set to sync always.
///
/// If the connection breaks, pending records are sent again in their order, with the message ids by
/// which NATS stores each once, for [`answer_max`](NatsConfig::answer_max) and half of the stream's
/// `duplicate_window` at most; after that it is unknown whether they are stored. New records are
/// refused while there is no connection. Each request connects again. Records that other programs
/// publish are seen with a second's delay.
///
/// If the stream lost records that it had acknowledged, its [`Identity`] gets another epoch, which
/// is reported on standard error. That is noticed when NATS answers again, and within a second if
/// only another server of its cluster lost them; not if no store was connected before the loss.
///
/// A read requests up to 32 records at a time, and only as many as fit into its limit if they are
/// as large as those before. The pending answers of all reads together have at most 64 MiB, and so
/// have all pending records: of all stores that share a [`NatsRoom`](crate::nats::NatsRoom).
#[derive(Clone)]
pub struct NatsStore {
    inner: Arc<Inner>,
}

impl NatsStore {
    /// Connects, and creates the stream if it does not exist.
    ///
    /// # Errors
    ///
    /// [`StoreError`]: there is no server or no JetStream, it refuses the login, or the stream
    /// cannot keep what a [`Store`] promises.
    pub async fn connect(config: NatsConfig) -> Result<Self, StoreError> {
        Ok(Self {
            inner: Inner::connect(Self::checked(config)?, true).await?,
        })
    }

    /// As [`connect`](Self::connect), but `None` if the stream does not exist.
    pub(super) async fn find(config: NatsConfig) -> Result<Option<Self>, StoreError> {
        match Inner::connect(Self::checked(config)?, false).await {
            Ok(inner) => Ok(Some(Self { inner })),
            Err(NatsError::NoStream { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn checked(config: NatsConfig) -> Result<NatsConfig, StoreError> {
        if !is_stream_name(&config.stream) {
            let text = format!(
                "{:?} is no name for a stream: use letters, digits, - and _",
                config.stream
            );
            return Err(StoreError::new(Code::LogFailed, text));
        }
        Ok(config)
    }

    /// Submits a record, which has a producer or not.
    async fn add(
        &self,
        payload: Bytes,
        produced: Option<Numbered>,
        expected: Option<u64>,
        copies: Option<Copies>,
    ) -> Result<NatsPending, StoreError> {
        let inner = &self.inner;
        let bytes_max = inner.record_bytes_max;
        if payload.len() > bytes_max {
            let text = format!(
                "a record of {} bytes; {bytes_max} are allowed: send less, or start the server \
                 with a larger --record-bytes-max, as far as NATS allows it",
                payload.len()
            );
            return Err(StoreError::new(Code::RecordTooLarge, text));
        }
        let closed = |_| StoreError::new(Code::Closing, "the store is closed");
        let place = Arc::clone(&inner.places).acquire_owned().await;
        let place = place.map_err(closed)?;
        let kib = payload.len().div_ceil(1_024);
        let of_all_kib = kib.clamp(1, PENDING_KIB) as u32;
        let kib = kib.clamp(1, inner.config.pending_kib()) as u32;
        // That of the stream first: what waits there keeps nothing from other streams.
        let of_stream = Arc::clone(&inner.kib).acquire_many_owned(kib).await;
        let of_stream = of_stream.map_err(closed)?;
        let of_all = Arc::clone(&inner.config.room.pending);
        let of_all = of_all
            .acquire_many_owned(of_all_kib)
            .await
            .map_err(closed)?;
        inner.connection().await.map_err(|error| {
            let text = format!("{error}; the record is not stored");
            StoreError::away(true, text)
        })?;
        if let Some(unfit @ NatsError::Unfit { .. }) = &*lock(&inner.trouble) {
            let text = format!("the record is not stored: {unfit}");
            return Err(StoreError::away(true, text));
        }
        let room = Room {
            _place: place,
            _bytes: [of_stream, of_all],
        };
        Ok(NatsPending {
            outcome: inner
                .appends
                .add(payload, (produced, expected), copies, room)?,
            _inner: Arc::clone(inner),
        })
    }
}

impl NatsStore {
    pub(super) fn config(&self) -> &NatsConfig {
        &self.inner.config
    }

    /// A producer's record that is stored already.
    fn found(&self, sequence: u64) -> NatsPendingBatch {
        let (done, outcome) = oneshot::channel();
        // Its receiver is here.
        let _ = done.send(Ok((sequence, true)));
        let _inner = Arc::clone(&self.inner);
        NatsPendingBatch {
            record: NatsPending { outcome, _inner },
            is_produced: true,
        }
    }
}

/// Whether a stream may have this name here.
pub(super) fn is_stream_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.chars().all(allowed)
}

impl fmt::Debug for NatsStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsStore")
            .field("config", &self.inner.config)
            .finish_non_exhaustive()
    }
}

impl Store for NatsStore {
    type Pending = NatsPending;
    type PendingBatch = NatsPendingBatch;

    async fn submit(&self, payload: Bytes) -> Result<NatsPending, StoreError> {
        self.add(payload, None, None, None).await
    }

    /// NATS cannot store several records all or none, so a batch has one. Its producer's name and
    /// number are its message id: NATS does not store it again within the stream's
    /// `duplicate_window`. One that comes later is looked for in the stream, if its producer says
    /// that it was sent before. That is weaker than what a log in a directory promises: without
    /// that word it is stored again, and a gap in the numbers is not noticed, but for one that is
    /// left by a record which has to come again.
    ///
    /// An expected number is that of `Nats-Expected-Last-Sequence`, and so it is compared when NATS
    /// orders the record among all others, of other servers as well.
    async fn submit_batch(&self, batch: Batch) -> Result<NatsPendingBatch, StoreError> {
        let unsupported = |what| {
            let text = format!(
                "the server keeps its records in a JetStream, which {what}: use a server with a \
                 directory"
            );
            StoreError::new(Code::Unsupported, text)
        };
        let mut records = batch.records.iter();
        let (Some(record), None) = (records.next(), records.next()) else {
            return Err(unsupported("takes batches of one record only"));
        };
        let mut copies = None;
        if let (Some(produced), Some(from)) = (batch.producer, batch.not_before) {
            let at = Instant::now();
            copies = match self.inner.find_repeated(produced, from).await? {
                Repeated::Stored(sequence) => return Ok(self.found(sequence)),
                Repeated::Sendable(age_max) => Some(Copies { at, age_max }),
            };
        }
        if batch.expected == Some(0) {
            // No record has that number.
            self.inner.refresh().await?;
            return Err(not_expected(self.inner.history.known().next));
        }
        let payload = Bytes::copy_from_slice(record);
        let Batch {
            producer,
            expected,
            gaps,
            ..
        } = batch;
        let is_produced = producer.is_some();
        let produced = producer.map(|produced| Numbered { produced, gaps });
        let record = self.add(payload, produced, expected, copies).await?;
        Ok(NatsPendingBatch {
            record,
            is_produced,
        })
    }

    fn batch_bytes_max(&self) -> usize {
        BATCH_BYTES_MAX.max(self.inner.record_bytes_max + BATCHED_OVERHEAD)
    }

    async fn read(&self, from: u64, limits: ReadLimits) -> Result<Found, StoreError> {
        let inner = &self.inner;
        if from > inner.history.known().next {
            // Another server of the stream may have taken records since.
            inner.refresh().await?;
        }
        loop {
            let known = inner.history.known();
            let begin = inner.begin(known, from)?;
            let (records, reached) = inner.records(known, begin, limits).await?;
            // Records of two histories are not mixed.
            if inner.history.known().epoch != known.epoch {
                continue;
            }
            // A reader from the oldest record on continues to do so until there is one.
            let next = if reached == begin { from } else { reached };
            return Ok(Found { records, next });
        }
    }

    /// Others may use the stream as well, so it is not for this server to purge it.
    async fn trim(&self, trim: Trim) -> Result<u64, StoreError> {
        let (stream, before) = (&self.inner.config.stream, trim.before);
        let text = format!(
            "the server keeps its records in the JetStream {stream}, and removes none: set its \
             limits by --keep-bytes, --keep-records or --keep-seconds, or remove the records by \
             `nats stream purge {stream} --seq {before}`"
        );
        Err(StoreError::new(Code::Unsupported, text))
    }

    async fn wait_for(&self, sequence: u64) {
        self.inner.history.wait_for(sequence).await;
    }

    fn bounds(&self) -> (u64, u64) {
        let known = self.inner.history.known();
        (known.first, known.next)
    }

    fn identity(&self) -> Identity {
        Identity {
            log: log_of(&self.inner.config.stream),
            epoch: self.inner.history.known().epoch,
        }
    }

    /// While NATS does not answer or the stream is gone; passes by itself.
    fn failure(&self) -> Option<StoreError> {
        let ended = || lock(&self.inner.connection).end();
        let trouble = lock(&self.inner.trouble).clone().or_else(ended);
        let trouble = trouble.or_else(|| self.inner.silence())?;
        let text = format!("records cannot be appended now: {trouble}");
        Some(StoreError::new(Code::LogFailed, text))
    }

    fn figures(&self) -> StoreFigures {
        StoreFigures {
            is_connected: Some(lock(&self.inner.connection).is_open()),
            ..StoreFigures::default()
        }
    }

    fn record_bytes_max(&self) -> usize {
        self.inner.record_bytes_max
    }

    async fn maintain(&self) -> Result<(), StoreError> {
        Ok(self.inner.refresh().await?)
    }

    async fn close(&self) -> Result<(), StoreError> {
        // These permits are free when all pending records are acknowledged or given up.
        let places = self
            .inner
            .config
            .appends_max
            .clamp(1, Semaphore::MAX_PERMITS);
        let places = u32::try_from(places).unwrap_or(u32::MAX);
        let all = self.inner.places.acquire_many(places).await;
        drop(all);
        self.inner.places.close();
        Ok(())
    }
}

/// A pending record of NATS. It is sent, and keeps its place until it is acknowledged, also if this
/// is dropped.
#[derive(Debug)]
pub struct NatsPending {
    outcome: oneshot::Receiver<Outcome>,
    /// Records are sent as long as the store is there.
    _inner: Arc<Inner>,
}

impl NatsPending {
    fn poll_outcome(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let outcome = ready!(Pin::new(&mut self.outcome).poll(cx));
        Poll::Ready(outcome.unwrap_or_else(|_| {
            let text = "the task that sends records has ended; the record may be stored or not";
            Err(StoreError::new(Code::LogFailed, text))
        }))
    }
}

impl Future for NatsPending {
    type Output = Result<u64, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_outcome(cx).map_ok(|(sequence, _)| sequence)
    }
}

/// A pending batch of one record.
#[derive(Debug)]
pub struct NatsPendingBatch {
    record: NatsPending,
    is_produced: bool,
}

impl Future for NatsPendingBatch {
    type Output = Result<Stored, StoreError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let is_produced = self.is_produced;
        let outcome = ready!(self.record.poll_outcome(cx));
        Poll::Ready(outcome.map(|(first, is_duplicate)| Stored {
            first,
            count: 1,
            // It may also be a copy that this store has sent, when its connection broke.
            repeated: is_produced && is_duplicate,
        }))
    }
}
