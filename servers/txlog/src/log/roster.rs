//! What is known of the producers, in files beside the segments, so that a log is opened without
//! reading all of its records.
//!
//! When a segment begins, what is known then is put into one of two files, in turns, by the next
//! [`Log::maintain`](super::Log::maintain): no append waits for it. A file says which records it
//! covers, and has a checksum. A log that is opened takes the file that covers most, and reads the
//! records behind: those of the last segment, and of the segments that began in the second before
//! it ended.
//!
//! # Why it can be trusted
//!
//! - A file covers only durable records, since it is made between two batches.
//! - One file is synced before the other is written, so a crash leaves one of them.
//! - A segment is removed only after a file that covers it was written.
//! - A file that covers more records than the log has is of records that were given up by
//!   [`repair`](super::repair()). It is emptied when the log is opened, before these numbers are
//!   used again.
//! - If there is none, all records are read from the segment on whose head says that there were no
//!   producers before it. If a segment is damaged, its producers are unknown, and so are all that
//!   did not store anything behind it.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use evenkeel::fs::{CommitFile, write_all_at};

use super::mark::{MARK_NAME, MarkFile};
use super::producers::Producers;
use super::scan::{Window, walk};
use super::segment::Segment;
use super::{Disk, DiskFile, LogError};

/// The names of the files.
pub const ROSTER_NAMES: [&str; 2] = ["PRODUCERS-0", "PRODUCERS-1"];

/// The most bytes that are read of a file: twice of what the most producers take by default.
const BYTES_MAX: u64 = 256 << 20;

/// When a file that looks damaged is read again.
const LOOKED_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The files of an open log.
#[derive(Debug, Default)]
pub(super) struct Roster {
    /// What is to be written; the newest.
    due: Mutex<Option<Bytes>>,
    /// Which file is written next.
    slot: tokio::sync::Mutex<usize>,
}

impl Roster {
    /// Notes what is to be written. It covers durable records only.
    pub(super) fn set_due(&self, bytes: Bytes) {
        *self.due.lock().unwrap_or_else(PoisonError::into_inner) = Some(bytes);
    }

    /// Writes what is due, if anything is.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: what is due stays due, and the other file is left as it is.
    pub(super) async fn write<D: Disk>(&self, disk: &D) -> Result<(), LogError> {
        let mut slot = self.slot.lock().await;
        let due = || self.due.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bytes) = due().clone() else {
            return Ok(());
        };
        put(disk, ROSTER_NAMES[*slot], bytes.clone()).await?;
        *slot = 1 - *slot;
        // Unless something newer came meanwhile.
        let mut due = due();
        if due.as_ref() == Some(&bytes) {
            *due = None;
        }
        Ok(())
    }
}

/// Writes a file, durably.
async fn put<D: Disk>(disk: &D, name: &str, bytes: Bytes) -> Result<(), LogError> {
    let failed = LogError::io("write", name);
    let (file, is_new) = match disk.create(name).await {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            (disk.open(name).await.map_err(&failed)?, false)
        }
        created => (created.map_err(&failed)?, true),
    };
    let length = bytes.len() as u64;
    write_all_at(&file, bytes, 0).await.map_err(&failed)?;
    file.set_len(length).await.map_err(&failed)?;
    file.sync_data().await.map_err(&failed)?;
    if is_new {
        disk.sync_names().await.map_err(&failed)?;
    }
    Ok(())
}

/// What a file says.
struct Known {
    slot: usize,
    producers: Producers,
    /// It covers all records before this number.
    next: u64,
}

/// Which of the files are damaged, of a log that a server may have open.
///
/// That may be the work of a crash, and harms nobody: the log that is opened goes by the other one,
/// or by its records.
///
/// # Errors
///
/// [`LogError::Io`].
pub async fn damaged_rosters<D: Disk>(disk: &D) -> Result<Vec<&'static str>, LogError> {
    let mark = MarkFile::read(disk).await;
    let Some(Ok(mark)) = mark.map_err(LogError::io("read", MARK_NAME))? else {
        // Without a mark it is an old log, or one that has other troubles.
        return Ok(Vec::new());
    };
    let log_id = mark.last().log_id;
    let mut damaged = Vec::new();
    for name in ROSTER_NAMES {
        let mut seen = None;
        loop {
            // An empty one was given up by a log that was opened after a repair.
            let bytes = bytes_of(disk, name)
                .await?
                .filter(|bytes| !bytes.is_empty());
            let Some(bytes) = bytes else { break };
            if Producers::decode(&bytes, log_id, usize::MAX).is_some() {
                break;
            }
            // A server may be writing it.
            if seen.as_ref() == Some(&bytes) {
                damaged.push(name);
                break;
            }
            seen = Some(bytes);
            evenkeel::time::sleep(LOOKED_AGAIN_AFTER).await;
        }
    }
    Ok(damaged)
}

/// What is in a file, if there is one.
async fn bytes_of<D: Disk>(disk: &D, name: &str) -> Result<Option<Bytes>, LogError> {
    let failed = LogError::io("read", name);
    let file = match disk.open(name).await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(&failed)?,
    };
    let length = file.size().await.map_err(&failed)?.min(BYTES_MAX) as usize;
    let mut window = Window::with_bytes(&file, 0, length.max(1));
    window.at(0, length).await.map(Some).map_err(failed)
}

/// Reads the files that are not damaged.
async fn read<D: Disk>(disk: &D, log_id: u32, most: usize) -> Result<Vec<Known>, LogError> {
    let mut found = Vec::new();
    for (slot, name) in ROSTER_NAMES.into_iter().enumerate() {
        let Some(bytes) = bytes_of(disk, name).await? else {
            continue;
        };
        let known = Producers::decode(&bytes, log_id, most);
        found.extend(known.map(|(producers, next)| Known {
            slot,
            producers,
            next,
        }));
    }
    Ok(found)
}

/// The producers of a log that is opened, which has these segments and ends before `next`.
/// `is_used` says whether records of the last segment have a producer.
pub(super) async fn recover<D: Disk>(
    disk: &D,
    log_id: u32,
    segments: &[Segment<D::File>],
    next: u64,
    is_used: bool,
    count_max: usize,
) -> Result<(Producers, Roster), LogError> {
    let (Some(first), Some(last)) = (segments.first(), segments.last()) else {
        return Ok((Producers::new(count_max), Roster::default()));
    };
    let mut best: Option<Known> = None;
    for known in read(disk, log_id, count_max).await? {
        if known.next > next {
            put(disk, ROSTER_NAMES[known.slot], Bytes::new()).await?;
        } else if known.next >= first.first
            && best.as_ref().is_none_or(|best| best.next < known.next)
        {
            best = Some(known);
        }
    }
    if best.is_none() && !is_used && !last.head.has_producers {
        return Ok((none_since(last.first, count_max), Roster::default()));
    }
    let roster = Roster::default();
    *roster.slot.lock().await = best.as_ref().map_or(0, |best| 1 - best.slot);
    let (mut producers, from, begin) = match best {
        Some(Known {
            producers, next, ..
        }) => {
            let after = segments.partition_point(|segment| segment.first <= next);
            (producers, next, after.saturating_sub(1))
        }
        None => {
            let without = |segment: &Segment<D::File>| !segment.head.has_producers;
            let begin = segments.iter().rposition(without).unwrap_or(0);
            (none_since(segments[begin].first, count_max), 0, begin)
        }
    };
    for (at, segment) in segments.iter().enumerate().skip(begin) {
        let end = segments
            .get(at + 1)
            .map_or(next, |following| following.first);
        let failed = LogError::io("open", &segment.name);
        let file = segment.open(disk).await.map_err(failed)?;
        let walked = walk(&*file, &segment.head, |found, count| {
            if let Some(produced) = found.produced()
                && (from..next).contains(&found.header.sequence)
            {
                producers.store(produced, count, found.header.sequence);
            }
        });
        let walked = walked.await.map_err(LogError::io("read", &segment.name))?;
        if walked.next < end {
            producers.clear(end);
        }
    }
    if !producers.is_empty() {
        // Else segments that it does not cover could be removed. And what was read may be only in
        // the system's memory, after a sync that failed.
        roster.set_due(producers.encode(log_id, next));
    }
    Ok((producers, roster))
}

/// No producers, as far as the records from this one on say: all others may have been forgotten.
fn none_since(first: u64, count_max: usize) -> Producers {
    let mut producers = Producers::new(count_max);
    producers.forgot_before(first);
    producers
}

/// Copies what is known of the producers of a log's copy, which has the records from `first` on
/// and before `next`.
pub(super) async fn copy<A: Disk, B: Disk>(
    from: &A,
    to: &B,
    log_id: u32,
    (first, next): (u64, u64),
) -> Result<(), LogError> {
    let found = read(from, log_id, usize::MAX).await?;
    let known = found
        .into_iter()
        .filter(|known| (first..=next).contains(&known.next))
        .max_by_key(|known| known.next);
    match known {
        Some(known) => {
            let bytes = known.producers.encode(log_id, known.next);
            put(to, ROSTER_NAMES[0], bytes).await
        }
        // The records are read when the copy is opened.
        None => Ok(()),
    }
}
