//! Copies of a log: a backup, and a log that is restored from one.
//!
//! The copy has its mark before its first segment, and the mark says that the copy is unfinished
//! until all of it is durable. So a copy that was interrupted is not taken for a whole one.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use evenkeel::fs::{CommitFile, write_all_at};
use evenkeel::time::{Instant, sleep};

use super::list::{Listed, list, lost_tail};
use super::local::LOCK_NAME;
use super::mark::{Kind, MARK_NAME, Mark, MarkFile};
use super::record::{HEAD_BYTES, Head};
use super::recover::{FIRST_EPOCH, look_at, next_epoch};
use super::scan::{At, Walked, Window};
use super::segment::{Segment, name_of, new_key};
use super::verify::is_removed;
use super::{Disk, DiskFile, LogError, roster};

/// What the directory of the copy is called in errors.
const COPY: &str = "the copy's directory";

/// How much is written at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// How often the mark of a live log is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a copy holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The number of the oldest record.
    pub first: u64,
    /// The number of the next record.
    pub next: u64,
    /// How many segments it has.
    pub segments: usize,
    /// How many records at the log's end were left out, since they were not known to be durable.
    pub left_out: u64,
}

/// Copies the durable records of a log into an empty directory, which [`verify`](super::verify)
/// accepts and which no server opens. Every record is checked.
///
/// A server may have the log open: `live` says for how long to wait at most until its mark covers
/// the records that are there at the beginning. Then all records that were acknowledged before are
/// in the backup, but for the oldest ones that the log removes meanwhile; else those of the last
/// moments may be left out, too. `None` for a log that no server
/// has open: all whole records are copied.
///
/// # Errors
///
/// [`LogError::NotEmpty`] for the target; [`LogError::NoLog`], and as `verify` for the log;
/// [`LogError::Io`].
///
/// # Cancel safety
///
/// If the future is dropped, the target holds a copy that did not end.
pub async fn backup<A: Disk, B: Disk>(
    from: &A,
    to: &B,
    live: Option<Duration>,
) -> Result<Copied, LogError> {
    copy(from, to, live, Kind::Backup).await
}

/// Makes a log of a backup in an empty directory, with a new epoch. Every record is checked. Other
/// logs that no server has open can be copied as well.
///
/// # Errors
///
/// As [`backup`].
///
/// # Cancel safety
///
/// As [`backup`].
pub async fn restore<A: Disk, B: Disk>(from: &A, to: &B) -> Result<Copied, LogError> {
    copy(from, to, None, Kind::Log).await
}

async fn copy<A: Disk, B: Disk>(
    from: &A,
    to: &B,
    live: Option<Duration>,
    kind: Kind,
) -> Result<Copied, LogError> {
    let failed = LogError::io("list", COPY);
    let names = to.list().await.map_err(failed)?;
    if let Some(name) = names.into_iter().find(|name| !is_of_empty(name)) {
        return Err(LogError::NotEmpty { name });
    }
    let (listed, mark) = list_source(from).await?;
    let known = mark.as_ref().map(MarkFile::last);
    let Some(last) = listed.segments.last() else {
        return Err(LogError::NoLog);
    };
    // It was opened already, unless it is followed by one that is just being made.
    let file = last.open(from).await;
    last.keep(Some(file.map_err(LogError::io("open", &last.name))?));
    let walked = look_at(from, last, listed.unfinished.is_some(), None).await?;
    lost_tail(mark.as_ref(), walked.next, walked.damage)?;
    let next = match live {
        None => walked.next,
        Some(wait_max) => durable(from, &walked, known, wait_max).await?,
    };
    let epoch = known.map_or(FIRST_EPOCH, |mark| mark.epoch);
    let unfinished = Mark {
        log_id: listed.log_id,
        epoch: match kind {
            Kind::Log => next_epoch(epoch),
            _ => epoch,
        },
        segment: listed.segments[0].first,
        next: listed.segments[0].first,
        bytes: HEAD_BYTES as u64,
        kind: Kind::Unfinished,
    };
    let failed = LogError::io("write", MARK_NAME);
    let mut mark = MarkFile::create(to, unfinished).await.map_err(&failed)?;
    let made = copy_segments(from, &listed, next, to).await?;
    let Made {
        first,
        segment,
        bytes,
        segments,
    } = made;
    roster::copy(from, to, listed.log_id, (first, next)).await?;
    let whole = Mark {
        segment,
        next,
        bytes,
        kind,
        ..unfinished
    };
    mark.write(whole).await.map_err(failed)?;
    Ok(Copied {
        first,
        next,
        segments,
        left_out: walked.next - next,
    })
}

/// Whether there is a log or a backup to copy, by its names and heads: so that nothing is made for
/// a copy that cannot be.
///
/// # Errors
///
/// As [`backup`], but for the records.
pub async fn can_be_copied<A: Disk>(from: &A) -> Result<(), LogError> {
    list_source(from).await.map(|_| ())
}

/// The files of a log with at least one segment, and its mark.
async fn list_source<A: Disk>(
    from: &A,
) -> Result<(Listed<A::File>, Option<MarkFile<A::File>>), LogError> {
    let mut listed = list(from).await?;
    let mark = listed.take_mark()?;
    if listed.segments.is_empty() {
        lost_tail(mark.as_ref(), 1, None)?;
        return Err(LogError::NoLog);
    }
    Ok((listed, mark))
}

/// Whether a directory with a file of this name still counts as empty: it was locked.
fn is_of_empty(name: &str) -> bool {
    [LOCK_NAME, "lost+found"].contains(&name)
}

/// The number up to which the records of a live log are known to be durable, as soon as that is all
/// that were found, or when the time is up.
async fn durable<D: Disk>(
    disk: &D,
    walked: &Walked,
    known: Option<Mark>,
    wait_max: Duration,
) -> Result<u64, LogError> {
    let began = Instant::now();
    let mut durable = known.map_or(0, |mark| mark.next).max(walked.batch_first);
    while durable < walked.next && began.elapsed() < wait_max {
        sleep(LOOK_EVERY).await;
        let read = MarkFile::read(disk).await;
        // It may just be written: then the next look finds it.
        if let Some(Ok(mark)) = read.map_err(LogError::io("read", MARK_NAME))? {
            durable = durable.max(mark.last().next);
        }
    }
    Ok(durable.min(walked.next))
}

/// The segments of a copy.
struct Made {
    /// The first record of the first one.
    first: u64,
    /// The first record of the last one.
    segment: u64,
    /// The length of that one.
    bytes: u64,
    /// How many there are.
    segments: usize,
}

/// Copies the records before `next`, but for those that the log removes meanwhile.
async fn copy_segments<A: Disk, B: Disk>(
    from: &A,
    listed: &Listed<A::File>,
    next: u64,
    to: &B,
) -> Result<Made, LogError> {
    let (mut copied, mut bytes) = (Vec::new(), 0);
    for (at, segment) in listed.segments.iter().enumerate() {
        if !copied.is_empty() && segment.first >= next {
            break;
        }
        let following = listed.segments.get(at + 1).map(|segment| segment.first);
        let end = following.map_or(next, |following| following.min(next));
        let file = match segment.open(from).await {
            Err(error)
                if error.kind() == ErrorKind::NotFound
                    && is_removed(from, segment.first).await? =>
            {
                // Those before it are gone, too, and would have a gap behind them.
                for first in copied.drain(..) {
                    let name = name_of(first);
                    to.remove(&name)
                        .await
                        .map_err(LogError::io("remove", &name))?;
                }
                continue;
            }
            opened => opened.map_err(LogError::io("open", &segment.name))?,
        };
        bytes = copy_segment(&*file, segment, (end, following), to).await?;
        copied.push(segment.first);
    }
    let failed = LogError::io("sync the names in", COPY);
    to.sync_names().await.map_err(failed)?;
    let (Some(&first), Some(&segment)) = (copied.first(), copied.last()) else {
        // All that were listed have gone: the log is there, and a second attempt finds others.
        let name = listed.segments.last().map_or("", |last| &last.name);
        return Err(LogError::io("open", name)(ErrorKind::NotFound.into()));
    };
    let segments = copied.len();
    Ok(Made {
        first,
        segment,
        bytes,
        segments,
    })
}

/// Copies a segment's records up to `end`. Returns how long the copy is.
async fn copy_segment<F: DiskFile, B: Disk>(
    from: &F,
    segment: &Segment<F>,
    (end, following): (u64, Option<u64>),
    to: &B,
) -> Result<u64, LogError> {
    let failed = LogError::io("write", &segment.name);
    // Its records are of its version, or of an earlier one.
    let Head {
        log_id,
        created_ms,
        has_producers,
        ..
    } = segment.head;
    let key = new_key().map_err(&failed)?;
    let head = Head::new(log_id, segment.first, created_ms, has_producers, key);
    let file = to.create(&name_of(segment.first)).await.map_err(&failed)?;
    let mut buffer = BytesMut::from(&head.encode()[..]);
    let (begin, seal) = (segment.head.bytes(), segment.head.seal());
    let mut window = Window::new(from, begin);
    let (mut offset, mut written) = (begin, 0);
    for sequence in segment.first..end {
        let at = window.look(offset, sequence, seal).await;
        let found = match at.map_err(LogError::io("read", &segment.name))? {
            At::Record(found) => found,
            At::End => return Err(segment.corrupt((offset, sequence), None, following)),
            At::Damage(damage) => {
                return Err(segment.corrupt((offset, sequence), Some(damage), following));
            }
        };
        found.header.encode(&found.body, head.seal(), &mut buffer);
        offset = found.end();
        if buffer.len() >= CHUNK_BYTES {
            written = put(&file, &mut buffer, written).await.map_err(&failed)?;
        }
        evenkeel::task::checkpoint().await;
    }
    written = put(&file, &mut buffer, written).await.map_err(&failed)?;
    file.sync_data().await.map_err(failed)?;
    Ok(written)
}

/// Writes the buffer and empties it. Returns where the file ends.
async fn put<F: CommitFile>(file: &F, buffer: &mut BytesMut, at: u64) -> std::io::Result<u64> {
    let bytes: Bytes = buffer.split().freeze();
    let end = at + bytes.len() as u64;
    write_all_at(file, bytes, at).await?;
    Ok(end)
}
