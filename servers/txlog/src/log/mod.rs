//! A log of records in a directory: appended durably, read by number, kept within limits.
//!
//! ```
//! use std::time::Duration;
//! use txlog::log::{LocalDisk, Log, LogConfig, ReadLimits};
//!
//! # let directory = std::env::temp_dir().join(format!("txlog-doc-{}", std::process::id()));
//! # let path = directory.clone();
//! # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
//! let disk = LocalDisk::hold(&path).await?;
//! let (log, recovery) = Log::open(disk, LogConfig::default()).await?;
//! assert_eq!(recovery.next, 1); // it is new
//!
//! assert_eq!(log.append("an entry").await?, 1); // durable
//! let records = log.read(1, ReadLimits::default()).await?;
//! assert_eq!(records[0].payload, "an entry");
//! log.close().await?;
//! # std::fs::remove_dir_all(&directory)?;
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
// The files: `record` is the format (pure), `scan` reads a segment, `disk` is the seam to files,
// `segment` one file, `recover` opens a log, `write` appends to its end, `read` reads from it,
// `retain` decides which segments to remove (pure), `error` has the errors.

mod disk;
mod error;
mod read;
pub mod record;
mod recover;
mod retain;
pub mod scan;
mod segment;
mod write;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use evenkeel::fs::{Commit, GroupCommit, GroupCommitStats, Position};
use tokio::sync::watch;

use crate::store::Identity;

pub use disk::{Disk, DiskFile, LocalDisk};
pub use error::LogError;
pub use read::ReadLimits;
pub use recover::{Recovery, Torn, verify};
pub use retain::Retention;
use segment::Segment;
pub use txlog_client::Record;

/// The limits of a log, and how it writes.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// A segment that reaches this many bytes is followed by a new one; 64 MiB by default.
    pub segment_bytes: u64,
    /// The largest record, in bytes; 1 MiB by default, 64 MiB at most.
    pub record_bytes_max: usize,
    /// The most bytes of records that one sync makes durable; 1 MiB by default, and no less than
    /// the largest record.
    pub batch_bytes: usize,
    /// How many bytes of records may be queued; 8 MiB by default.
    pub queue_bytes: usize,
    /// How long a record that finds no running sync waits for others; not at all by default.
    pub delay: Duration,
    /// By how many bytes a segment is extended at a time, so that most syncs need not write a new
    /// length; 4 MiB by default, 0 for none.
    pub ahead_bytes: u64,
    /// Which records are kept.
    pub retention: Retention,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 64 << 20,
            record_bytes_max: 1 << 20,
            batch_bytes: 1 << 20,
            queue_bytes: 8 << 20,
            delay: Duration::ZERO,
            ahead_bytes: 4 << 20,
            retention: Retention::default(),
        }
    }
}

/// An open log. Clones share it.
///
/// Record numbers begin with 1 and have no gaps. A record is readable once it is durable.
pub struct Log<D: Disk> {
    commit: GroupCommit,
    shared: Arc<Shared<D>>,
}

/// The state that writers and readers share.
struct Shared<D: Disk> {
    disk: D,
    config: LogConfig,
    log_id: u32,
    /// In order; the last one grows.
    segments: Mutex<Vec<Arc<Segment<D::File>>>>,
    /// The names of removed segments whose files still exist, in order.
    doomed: tokio::sync::Mutex<VecDeque<String>>,
    /// The number of the first record that is not durable.
    next: watch::Sender<u64>,
}

impl<D: Disk> Log<D> {
    /// Opens the log in a directory, or creates one there. Finds its end, cuts off records that a
    /// crash has torn, and reports both.
    ///
    /// # Errors
    ///
    /// [`LogError::Corrupt`] if records of the last segment that had been durable are damaged;
    /// then nothing is changed. Damaged earlier segments and missing ones are found by [`verify`]
    /// and by reads. [`LogError::Io`] for errors of the system.
    pub async fn open(disk: D, config: LogConfig) -> Result<(Self, Recovery), LogError> {
        let config = LogConfig {
            record_bytes_max: config.record_bytes_max.min(record::PAYLOAD_BYTES_MAX),
            ..config
        };
        let recovered = recover::recover(&disk).await?;
        let next = recovered.report.next;
        let shared = Arc::new(Shared {
            disk,
            log_id: recovered.log_id,
            segments: Mutex::new(recovered.segments),
            doomed: tokio::sync::Mutex::default(),
            next: watch::Sender::new(next),
            config,
        });
        let writer = write::Writer::new(Arc::clone(&shared), recovered.end);
        let config = &shared.config;
        let commit = GroupCommit::builder()
            .batch_bytes(config.batch_bytes.max(config.record_bytes_max))
            .queue_bytes(config.queue_bytes)
            .delay(config.delay)
            .open(
                writer,
                Position {
                    index: next,
                    offset: 0,
                },
            );
        Ok((Self { commit, shared }, recovered.report))
    }

    /// Appends a record; returns its number when it is durable.
    ///
    /// # Errors
    ///
    /// [`LogError::Commit`]: the record is too large, or the log closed or failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped the record is appended whole or not at all.
    pub async fn append(&self, payload: impl Into<Bytes>) -> Result<u64, LogError> {
        Ok(self.commit.append(payload).await?.index)
    }

    /// Waits for room, and submits a record. The returned future completes when it is durable.
    /// Records are numbered in the order in which they were submitted.
    ///
    /// # Errors
    ///
    /// [`LogError::Commit`]: the record is too large, or the log closed or failed.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped the record is appended whole or not at all.
    pub async fn submit(&self, payload: impl Into<Bytes>) -> Result<Pending, LogError> {
        Ok(Pending(self.commit.submit(payload).await?))
    }

    /// The number of the oldest record, or of the next one if there is none.
    pub fn first(&self) -> u64 {
        self.shared.first()
    }

    /// The number of the next record: all before it are durable.
    pub fn next(&self) -> u64 {
        *self.shared.next.borrow()
    }

    /// Which log it is.
    pub fn identity(&self) -> Identity {
        Identity {
            log: u64::from(self.shared.log_id),
            epoch: 0,
        }
    }

    /// The largest record it takes, in bytes.
    pub fn record_bytes_max(&self) -> usize {
        self.shared.config.record_bytes_max
    }

    /// Waits until the record of this number is durable.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn wait_for(&self, sequence: u64) {
        let mut next = self.shared.next.subscribe();
        // The sender is in `shared`, so this cannot fail.
        let _ = next.wait_for(|next| *next > sequence).await;
    }

    /// Reads durable records from this number on, 0 for the oldest, within limits.
    ///
    /// # Errors
    ///
    /// [`LogError::Trimmed`] if the records are no longer kept; [`LogError::Corrupt`] if they are
    /// damaged; [`LogError::Io`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn read(&self, from: u64, limits: ReadLimits) -> Result<Vec<Record>, LogError> {
        read::read(&self.shared, from, limits).await
    }

    /// Removes the segments that need not be kept. The log does this itself when a segment is
    /// full; call it from time to time if records are removed by their age.
    ///
    /// # Errors
    ///
    /// [`LogError::Io`]. The next call tries failed removals again.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the next call removes the rest.
    pub async fn retain(&self) -> Result<usize, LogError> {
        self.shared.retain().await
    }

    /// Takes no more records, and returns when all accepted records are durable.
    ///
    /// # Errors
    ///
    /// [`LogError::Commit`] if not all could be made durable.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: can be called again.
    pub async fn close(&self) -> Result<(), LogError> {
        self.commit.close().await?;
        Ok(())
    }

    /// The configuration of the group commit.
    pub fn stats(&self) -> GroupCommitStats {
        self.commit.stats()
    }

    /// Why the log takes no more records, if a write or a sync has failed.
    pub fn failure(&self) -> Option<LogError> {
        self.commit.failure().map(LogError::from)
    }
}

impl<D: Disk> Clone for Log<D> {
    fn clone(&self) -> Self {
        Self {
            commit: self.commit.clone(),
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<D: Disk> fmt::Debug for Log<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("disk", &self.shared.disk.name())
            .field("first", &self.first())
            .field("next", &self.next())
            .finish_non_exhaustive()
    }
}

impl<D: Disk> Shared<D> {
    fn segments(&self) -> MutexGuard<'_, Vec<Arc<Segment<D::File>>>> {
        self.segments.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> u64 {
        self.segments().first().map_or(1, |segment| segment.first)
    }

    async fn retain(&self) -> Result<usize, LogError> {
        self.remove_expired(self.doomed.lock().await).await
    }

    /// Does nothing if another call is doing this already.
    async fn retain_unless_under_way(&self) -> Result<usize, LogError> {
        match self.doomed.try_lock() {
            Ok(doomed) => self.remove_expired(doomed).await,
            Err(_) => Ok(0),
        }
    }

    /// Removes the oldest files one by one, each durably before the next: if a removal fails or is
    /// interrupted, the remaining files have no gap.
    async fn remove_expired(
        &self,
        mut doomed: tokio::sync::MutexGuard<'_, VecDeque<String>>,
    ) -> Result<usize, LogError> {
        {
            let mut segments = self.segments();
            let ages: Vec<retain::Kept> = segments
                .iter()
                .map(|segment| retain::Kept {
                    first: segment.first,
                    created_ms: segment.created_ms,
                    bytes: segment.bytes(),
                })
                .collect();
            let next = *self.next.borrow();
            let count = self.config.retention.expired(&ages, next, now_ms());
            doomed.extend(segments.drain(..count).map(|segment| segment.name.clone()));
        }
        let mut removed = 0;
        while let Some(name) = doomed.front() {
            match self.disk.remove(name).await {
                // An interrupted call may have removed it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                result => result.map_err(LogError::io("remove", name))?,
            }
            let failed = LogError::io("sync the names in", &self.disk.name());
            self.disk.sync_names().await.map_err(failed)?;
            doomed.pop_front();
            removed += 1;
        }
        Ok(removed)
    }
}

/// A pending record; completes with its number when it is durable. From [`Log::submit`].
#[derive(Debug)]
#[must_use = "whether the record is durable is not known before this completes"]
pub struct Pending(Commit);

impl Future for Pending {
    type Output = Result<u64, LogError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = ready!(Pin::new(&mut self.0).poll(cx));
        Poll::Ready(match result {
            Ok(position) => Ok(position.index),
            Err(error) => Err(error.into()),
        })
    }
}

/// The time, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
