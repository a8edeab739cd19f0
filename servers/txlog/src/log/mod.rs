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
// The files: `append` is what is appended, `record` and `head` the format (pure), `producers` what
// is known of producers (pure), `roster` the same in files, `gaps` which of their records a
// connection has yet to repeat (pure); `scan` reads a segment, `mark` says how
// far the log was durable, `disk` is the seam to files, `local` a directory, `segment` one file,
// `readers` those that are open to be read;
// `recover` opens a log, `list` finds its files, `peek` looks at them from outside, `verify`
// checks them, `write` appends to the end, `read` reads, `seek` finds a time, `maintain` does
// what is to be done from time to time, `retain` decides which segments to remove (pure), `trim`
// removes what somebody wants removed;
// `cursors` keeps where consumers are, `lag` says how far they are behind (pure); `copy` makes
// backups and restores them, `repair` gives up what is lost, `error` has the errors.

mod append;
mod copy;
pub mod cursors;
mod disk;
mod error;
pub(crate) mod gaps;
mod head;
mod lag;
mod list;
mod local;
mod maintain;
pub mod mark;
mod peek;
pub mod producers;
mod read;
mod readers;
pub mod record;
mod recover;
mod repair;
mod retain;
mod roster;
pub mod scan;
mod seek;
mod segment;
mod trim;
mod verify;
mod write;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use evenkeel::fs::{GroupCommit, GroupCommitStats, Position};
use tokio::sync::watch;

pub use append::{Batch, Pending, PendingBatch, Refusal, Stored};
use append::{Item, Receipt};
pub use copy::{Copied, backup, can_be_copied, restore};
use cursors::{Cursors, Place, Places};
pub use disk::{Disk, DiskFile};
pub use error::LogError;
pub use local::LocalDisk;
use mark::MarkFile;
pub(crate) use peek::peek;
pub use read::ReadLimits;
use readers::Readers;
pub use recover::{Recovery, Torn};
pub use repair::{Repair, repair};
pub use retain::{Limits, Retention};
use roster::Roster;
pub use roster::{ROSTER_NAMES, damaged_rosters};
use segment::Segment;
pub use trim::{WouldTrim, would_trim};
pub use txlog_client::Record;
pub use verify::verify;
use write::Active;

use txlog_client::frame::BATCHED_OVERHEAD;

use crate::figures::{Histogram, StoreFigures};
use crate::store::Identity;

/// The most files that an open log has, beside the earlier segments that are read: the last
/// segment, and a new one; the directory, twice, and `LOCK`; the mark, the cursors, and one that is
/// open for a moment.
pub const FILES_OF_LOG: usize = 8;

/// The limits of a log, and how it writes.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// A segment that reaches this many bytes is followed by a new one; 64 MiB by default.
    pub segment_bytes: u64,
    /// The largest record, in bytes; 1 MiB by default, 64 MiB at most.
    pub record_bytes_max: usize,
    /// The most bytes of records that one sync makes durable; 1 MiB by default, and no less than
    /// the largest record with its length.
    pub batch_bytes: usize,
    /// The buffer for a batch is kept for the next one if the batch was not larger than this; 2 MiB
    /// by default.
    pub buffer_bytes: usize,
    /// How many producers are known; 1 024 by default, 3 KiB each at most, and one at least. If
    /// there are more, those are forgotten that have not stored anything for the longest time: see
    /// [`producers`].
    pub producers_max: usize,
    /// How many bytes of records may be queued; 8 MiB by default.
    pub queue_bytes: usize,
    /// How long a record that finds no running sync waits for others; not at all by default.
    pub delay: Duration,
    /// How many files of earlier segments may be open at a time, to be read; 16 by default, and one
    /// at least. So many reads of them are done at a time, and further ones wait.
    pub read_files_max: usize,
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
            buffer_bytes: 2 << 20,
            producers_max: 1_024,
            queue_bytes: 8 << 20,
            delay: Duration::ZERO,
            read_files_max: 16,
            ahead_bytes: 4 << 20,
            retention: Retention::default(),
        }
    }
}

/// An open log. Clones share it.
///
/// Record numbers begin with 1 and have no gaps. A record is readable once it is durable.
pub struct Log<D: Disk> {
    commit: GroupCommit<Item, Receipt>,
    shared: Arc<Shared<D>>,
}

/// The state that writers and readers share.
struct Shared<D: Disk> {
    disk: D,
    /// As it was opened; `limits` has what of it may change.
    config: LogConfig,
    limits: Mutex<Limits>,
    log_id: u32,
    epoch: u64,
    /// Why no more records are taken, apart from a failed batch.
    halt: OnceLock<LogError>,
    active: Arc<tokio::sync::Mutex<Active<D::File>>>,
    /// How far the records are durable: what the next mark says.
    end: Mutex<End>,
    mark: tokio::sync::Mutex<MarkFile<D::File>>,
    roster: Roster,
    /// In order; the last one grows.
    segments: Mutex<Vec<Arc<Segment<D::File>>>>,
    /// The files of the others that are open.
    readers: Readers<D::File>,
    /// Why the last one, which is full, is not followed by a new one.
    put_off: Mutex<Option<LogError>>,
    /// The names of removed segments whose files still exist, in order.
    doomed: tokio::sync::Mutex<VecDeque<String>>,
    /// The named cursors.
    cursors: Cursors<D::File>,
    /// The number of the first record that is not durable.
    next: watch::Sender<u64>,
    /// How long syncs took.
    syncs: Histogram,
    /// When the mark was last written, in milliseconds since 1970, and up to which record.
    marked: Mutex<(u64, u64)>,
}

/// The end of the durable records.
#[derive(Clone, Copy, Debug)]
struct End {
    /// The first record of the last segment.
    segment: u64,
    /// The number of the next record.
    next: u64,
    /// Its offset.
    bytes: u64,
}

impl<D: Disk> Log<D> {
    /// Opens the log in a directory, or creates one there. Finds its end, cuts off records that a
    /// crash has torn, and reports both.
    ///
    /// # Errors
    ///
    /// [`LogError::Corrupt`] if records of the last segment that had been durable are damaged,
    /// [`LogError::LostTail`] if such records are missing at the end, [`LogError::Mark`] if the
    /// [mark] cannot be used, [`LogError::Copy`] for a backup, and
    /// [`LogError::Foreign`] if there are files that are none of a log's; then nothing is changed.
    /// Damaged earlier segments and missing ones are found by [`verify`] and by reads.
    /// [`LogError::Io`] for errors of the system.
    pub async fn open(disk: D, config: LogConfig) -> Result<(Self, Recovery), LogError> {
        let config = LogConfig {
            record_bytes_max: config.record_bytes_max.min(record::PAYLOAD_BYTES_MAX),
            ..config
        };
        let recovered = recover::recover(&disk, config.producers_max).await?;
        let (next, mark) = (recovered.report.next, recovered.mark.last());
        let shared = Arc::new(Shared {
            disk,
            log_id: mark.log_id,
            epoch: mark.epoch,
            halt: OnceLock::new(),
            end: Mutex::new(End {
                segment: mark.segment,
                next: mark.next,
                bytes: mark.bytes,
            }),
            mark: tokio::sync::Mutex::new(recovered.mark),
            roster: recovered.roster,
            active: Arc::new(tokio::sync::Mutex::new(recovered.active)),
            segments: Mutex::new(recovered.segments),
            readers: Readers::new(config.read_files_max),
            put_off: Mutex::default(),
            doomed: tokio::sync::Mutex::default(),
            cursors: Cursors::default(),
            next: watch::Sender::new(next),
            syncs: Histogram::default(),
            marked: Mutex::new((now_ms(), mark.next)),
            limits: Mutex::new(Limits {
                segment_bytes: config.segment_bytes,
                retention: config.retention,
            }),
            config,
        });
        let writer = write::Writer::new(Arc::clone(&shared));
        let config = &shared.config;
        let commit = GroupCommit::builder()
            .batch_bytes(batch_bytes_max(config))
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
    /// [`LogError::Displaced`]: the log's directory is gone.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped the record is appended whole or not at all.
    pub async fn append(&self, payload: impl Into<Bytes>) -> Result<u64, LogError> {
        self.shared.halted().map_or(Ok(()), Err)?;
        let stored = self.commit.append(Item::One(payload.into())).await?;
        Ok(stored?.first)
    }

    /// Waits for room, and submits a record. The returned future completes when it is durable.
    /// Records are numbered in the order in which they were submitted.
    ///
    /// # Errors
    ///
    /// [`LogError::Commit`]: the record is too large, or the log closed or failed.
    /// [`LogError::Displaced`]: the log's directory is gone.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped the record is appended whole or not at all.
    pub async fn submit(&self, payload: impl Into<Bytes>) -> Result<Pending, LogError> {
        self.submit_item(Item::One(payload.into()))
            .await
            .map(Pending)
    }

    /// Waits for room, and submits a batch: its records get numbers in a row, or none is stored.
    /// The returned future completes when they are durable, with the first one's number.
    ///
    /// # Errors
    ///
    /// As [`submit`](Self::submit); [`LogError::BadBatch`] for one that has no records, or too many
    /// or too large ones. The future's are [`LogError::Refused`] as well.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped the batch is appended whole or not at all.
    pub async fn submit_batch(&self, batch: Batch) -> Result<PendingBatch, LogError> {
        batch.check(self.record_bytes_max(), self.batch_bytes_max())?;
        self.submit_item(Item::Many(Box::new(batch))).await
    }

    async fn submit_item(&self, item: Item) -> Result<PendingBatch, LogError> {
        self.shared.halted().map_or(Ok(()), Err)?;
        Ok(PendingBatch(self.commit.submit(item).await?))
    }

    /// The number of the oldest record, or of the next one if there is none.
    pub fn first(&self) -> u64 {
        self.shared.first()
    }

    /// The number of the next record: all before it are durable.
    pub fn next(&self) -> u64 {
        *self.shared.next.borrow()
    }

    /// Which log it is, and which history of it. The epoch grows when durable records were given up
    /// or replaced: by [`repair`] and [`restore`].
    pub fn identity(&self) -> Identity {
        Identity {
            log: u64::from(self.shared.log_id),
            epoch: self.shared.epoch,
        }
    }

    /// The largest record it takes, in bytes.
    pub fn record_bytes_max(&self) -> usize {
        self.shared.config.record_bytes_max
    }

    /// The most bytes of records and their lengths that a batch may have.
    pub fn batch_bytes_max(&self) -> usize {
        batch_bytes_max(&self.shared.config)
    }

    /// What it goes by when it begins segments and removes records.
    pub fn limits(&self) -> Limits {
        self.shared.limits()
    }

    /// Goes by these limits from now on. [`maintain`](Self::maintain), and the next append, do what
    /// follows from them.
    pub fn set_limits(&self, limits: Limits) {
        *self.shared.lock_limits() = limits;
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

    /// Reads durable records from this number on, 0 for the oldest, within limits. None if it is
    /// the next number.
    ///
    /// # Errors
    ///
    /// [`LogError::Trimmed`] if the records are no longer kept; [`LogError::OutOfRange`] if the
    /// number is beyond the next one; [`LogError::Corrupt`] if they are damaged; [`LogError::Io`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn read(&self, from: u64, limits: ReadLimits) -> Result<Vec<Record>, LogError> {
        read::read(&self.shared, from, limits).await
    }

    /// Where the [named cursor](cursors) is, if there is one.
    ///
    /// # Errors
    ///
    /// [`LogError::Cursors`] if the cursors cannot be read, [`LogError::Io`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn cursor(&self, name: &str) -> Result<Option<Place>, LogError> {
        self.shared.cursors.place(&self.shared, name).await
    }

    /// All named cursors.
    ///
    /// # Errors
    ///
    /// As [`cursor`](Self::cursor).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn cursors(&self) -> Result<Places, LogError> {
        self.shared.cursors.all(&self.shared).await
    }

    /// Puts a named cursor there, or removes it; returns when that is durable. Many that are put at
    /// the same time share a sync. The name has to be one that
    /// [`is_name`](txlog_client::frame::is_name) allows.
    ///
    /// # Errors
    ///
    /// As [`cursor`](Self::cursor); then the cursor may be moved or not.
    /// [`LogError::TooManyCursors`]; [`LogError::Displaced`] if the log's directory or the file of
    /// the cursors is gone.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the cursor is moved all the same.
    pub async fn put_cursor(&self, name: &str, place: Option<Place>) -> Result<(), LogError> {
        let (shared, name) = (Arc::clone(&self.shared), name.to_owned());
        // A write that was begun must not meet the next one.
        let put = async move { shared.cursors.put(&shared, &name, place).await };
        // Else the runtime has ended, and the log with it.
        evenkeel::spawn(put).await.unwrap_or(Err(LogError::Closed))
    }

    /// The number of the first durable record that was accepted at this time or later, in
    /// milliseconds since 1970; that of the next record to come if there is none.
    ///
    /// If the clock was put back, there may be records of that time or later before it, but not in
    /// its own segment.
    ///
    /// # Errors
    ///
    /// [`LogError::Corrupt`], [`LogError::Io`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn seek(&self, time_ms: u64) -> Result<u64, LogError> {
        seek::seek(&self.shared, time_ms).await
    }

    /// Takes no more records, and returns when all accepted records are durable, and the
    /// [mark] covers them.
    ///
    /// # Errors
    ///
    /// [`LogError::Commit`] if not all could be made durable; [`LogError::Displaced`] if the log's
    /// directory is gone; [`LogError::Io`] if the mark, or what is known of
    /// [producers], could not be written.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: can be called again.
    pub async fn close(&self) -> Result<(), LogError> {
        self.commit.close().await?;
        self.shared.active.lock().await.is_sound = false;
        self.shared.halted().map_or(Ok(()), Err)?;
        self.shared.note().await
    }

    /// The configuration of the group commit.
    pub fn stats(&self) -> GroupCommitStats {
        self.commit.stats()
    }

    /// What is known of it, for metrics.
    pub fn figures(&self) -> StoreFigures {
        let stats = self.commit.stats();
        let count = |count: usize| Some(count as u64);
        let marked = self.shared.marked.lock();
        let (marked_ms, marked_next) = *marked.unwrap_or_else(PoisonError::into_inner);
        // Before the segments are locked, which this locks as well.
        let bounds = (self.first(), self.next());
        let (consumers, are_cursors_unreadable) =
            (self.shared.cursors).figures(self.shared.epoch, bounds);
        let segments = self.shared.segments();
        StoreFigures {
            syncs: Some(self.shared.syncs.read()),
            queued: count(stats.queued + stats.writing),
            queued_bytes: count(stats.queued_bytes),
            waiting: count(stats.waiting),
            segments: count(segments.len()),
            bytes: Some(segments.iter().map(|segment| segment.bytes()).sum()),
            marked_at: Some(marked_ms as f64 / 1e3),
            unmarked: Some(self.next().saturating_sub(marked_next)),
            is_connected: None,
            consumers,
            are_cursors_unreadable,
        }
    }

    /// Why the log takes no more records, if a write or a sync has failed, or its directory is
    /// gone.
    pub fn failure(&self) -> Option<LogError> {
        let halted = self.shared.halted();
        halted.or_else(|| self.commit.failure().map(LogError::from))
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

    fn limits(&self) -> Limits {
        *self.lock_limits()
    }

    fn lock_limits(&self) -> MutexGuard<'_, Limits> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn first(&self) -> u64 {
        self.segments().first().map_or(1, |segment| segment.first)
    }
}

/// The largest record fits into a batch, with its length.
fn batch_bytes_max(config: &LogConfig) -> usize {
    let of_record = config.record_bytes_max.saturating_add(BATCHED_OVERHEAD);
    config.batch_bytes.max(of_record)
}

/// The time, in milliseconds since 1970.
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}
