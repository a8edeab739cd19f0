//! Opening a log: finding its segments, its end, and records that a crash has torn.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use evenkeel::fs::{CommitFile, write_all_at};

use super::list::{Unfinished, list, lost_tail};
use super::mark::{Kind, MARK_NAME, Mark, MarkFile};
use super::producers::Producers;
use super::record::{Damage, HEAD_BYTES, Head};
use super::roster::{self, Roster};
use super::scan::{Verdict, Walked, Window, walk};
use super::segment::{Segment, name_of, new_key};
use super::write::{Active, create};
use super::{Disk, DiskFile, LogError, now_ms};

/// The epoch of a log that never lost a durable record.
pub(super) const FIRST_EPOCH: u64 = 1;

/// How much is written again at a time.
const REWRITTEN_BYTES: u64 = 1 << 20;

/// The result of opening or verifying a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The number of the oldest record.
    pub first: u64,
    /// The number of the next record.
    pub next: u64,
    /// All records before this number are known to be durable. Of an open log these are all;
    /// [`verify`](super::verify) cannot know that of the last ones.
    pub durable: u64,
    /// How many segments there are.
    pub segments: usize,
    /// The torn end that was cut off, if there was one.
    pub torn: Option<Torn>,
}

/// The log's end, torn by a crash in the middle of a write that was never acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The file.
    pub segment: String,
    /// The offset in it.
    pub offset: u64,
    /// How many bytes were cut off.
    pub bytes: u64,
    /// The damage at this offset.
    pub damage: Damage,
}

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            segment,
            offset,
            bytes,
            damage,
        } = self;
        write!(
            f,
            "{segment} is torn at byte {offset} ({damage}), {bytes} bytes before its end"
        )
    }
}

pub(super) struct Recovered<F> {
    pub(super) segments: Vec<Arc<Segment<F>>>,
    pub(super) active: Active<F>,
    /// The mark, which covers all records.
    pub(super) mark: MarkFile<F>,
    /// What is known of producers covers all records.
    pub(super) roster: Roster,
    pub(super) report: Recovery,
}

/// Opens the existing segments, and creates the first one if there is none.
pub(super) async fn recover<D: Disk>(
    disk: &D,
    producers_max: usize,
) -> Result<Recovered<D::File>, LogError> {
    let mut listed = list(disk).await?;
    let mark = listed.take_mark()?;
    if let Some(kind) = mark.as_ref().map(|mark| mark.last().kind)
        && kind != Kind::Log
    {
        return Err(LogError::Copy { kind });
    }
    let Some(last) = listed.segments.last() else {
        lost_tail(mark.as_ref(), 1, None)?;
        let torn = remove(disk, listed.unfinished).await?;
        return begin(disk, mark, torn, producers_max).await;
    };
    let walked = look_at(disk, last, listed.unfinished.is_some(), None).await?;
    lost_tail(mark.as_ref(), walked.next, walked.damage)?;
    let file = last.open(disk).await;
    let file = file.map_err(LogError::io("open", &last.name))?;
    last.keep(Some(Arc::clone(&file)));
    // Files are changed from here on.
    let torn = remove(disk, listed.unfinished).await?;
    let torn = torn.or_else(|| torn_at(last, &walked));
    let failed = LogError::io("end", &last.name);
    settle(disk, &*file, &walked).await.map_err(failed)?;
    last.set_bytes(walked.end);
    last.set_newest_ms(walked.newest_ms);
    let end = Mark {
        log_id: listed.log_id,
        epoch: mark.as_ref().map_or(FIRST_EPOCH, |mark| mark.last().epoch),
        segment: last.first,
        next: walked.next,
        bytes: walked.end,
        kind: Kind::Log,
    };
    let mark = write_mark(disk, mark, end).await;
    let mark = mark.map_err(LogError::io("write", MARK_NAME))?;
    let report = Recovery {
        first: listed.segments[0].first,
        next: walked.next,
        durable: walked.next,
        segments: listed.segments.len(),
        torn,
    };
    let (next, is_used) = (walked.next, walked.has_producers);
    let (log_id, segments) = (listed.log_id, &listed.segments[..]);
    let producers = roster::recover(disk, log_id, segments, next, is_used, producers_max).await?;
    let segments = listed.segments.into_iter().map(Arc::new).collect();
    Ok(recovered(
        (segments, file),
        &walked,
        mark,
        producers,
        report,
    ))
}

fn recovered<F>(
    (segments, file): (Vec<Arc<Segment<F>>>, Arc<F>),
    walked: &Walked,
    mark: MarkFile<F>,
    (producers, roster): (Producers, Roster),
    report: Recovery,
) -> Recovered<F> {
    let last = segments.last().map(Arc::clone);
    Recovered {
        active: Active {
            segment: last.expect("recovery leaves a segment, or makes one"),
            file,
            end: walked.end,
            len: walked.end,
            next: walked.next,
            oldest_ms: walked.oldest_ms,
            producers,
            put_off_until: None,
            is_sound: true,
        },
        segments,
        mark,
        roster,
        report,
    }
}

/// Makes records durable that were read. They may be only in the system's memory.
pub(super) async fn rewrite<F: DiskFile>(file: &F, batch_at: u64, end: u64) -> std::io::Result<()> {
    // After a failed sync, Linux treats the unwritten data as written, and the next sync succeeds.
    // So the last batch is written again as it is. The batches before it were durable when it was
    // written.
    let mut window = Window::new(file, batch_at);
    let mut at = batch_at;
    while at < end {
        let length = (end - at).min(REWRITTEN_BYTES);
        let bytes = window.at(at, length as usize).await?;
        if bytes.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let written = bytes.len() as u64;
        write_all_at(file, bytes, at).await?;
        at += written;
    }
    file.sync_data().await
}

/// Removes a segment whose creation was interrupted.
async fn remove<D: Disk>(
    disk: &D,
    unfinished: Option<Unfinished>,
) -> Result<Option<Torn>, LogError> {
    let Some(unfinished) = unfinished else {
        return Ok(None);
    };
    let failed = LogError::io("remove", &unfinished.name);
    disk.remove(&unfinished.name).await.map_err(&failed)?;
    disk.sync_names().await.map_err(&failed)?;
    Ok(Some(unfinished.torn()))
}

/// Writes a mark, into a new file if there is none. The records that it covers are durable.
pub(super) async fn write_mark<D: Disk>(
    disk: &D,
    known: Option<MarkFile<D::File>>,
    mark: Mark,
) -> std::io::Result<MarkFile<D::File>> {
    let Some(mut file) = known else {
        return MarkFile::create(disk, mark).await;
    };
    file.settle().await?;
    file.write(mark).await?;
    Ok(file)
}

/// The epoch after a loss of durable records. It is the time, if that is later: a backup that is
/// restored twice has two histories with different epochs.
pub(super) fn next_epoch(epoch: u64) -> u64 {
    now_ms().max(epoch.saturating_add(1))
}

/// Truncates a segment after its last record, and makes its records durable: they may be only in
/// the system's memory, and must be on the disk before they are reported.
async fn settle<D: Disk>(disk: &D, file: &D::File, walked: &Walked) -> std::io::Result<()> {
    // Also without damage: the rest are zeros, written ahead of new records.
    if walked.file_bytes > walked.end {
        file.set_len(walked.end).await?;
    }
    rewrite(file, walked.batch_at, walked.end).await?;
    // A process may have created the segment and ended before it synced the name.
    disk.sync_names().await
}

/// Random numbers of the standard library; zero would look like a place never written.
pub(super) fn new_id() -> u32 {
    (RandomState::new().hash_one("a log") as u32).max(1)
}

/// Begins a new log. Its mark exists before its first segment.
async fn begin<D: Disk>(
    disk: &D,
    known: Option<MarkFile<D::File>>,
    torn: Option<Torn>,
    producers_max: usize,
) -> Result<Recovered<D::File>, LogError> {
    let earlier = known.as_ref().map(MarkFile::last);
    let mark = Mark {
        log_id: earlier.map_or_else(new_id, |mark| mark.log_id),
        epoch: earlier.map_or(FIRST_EPOCH, |mark| mark.epoch),
        segment: 1,
        next: 1,
        bytes: HEAD_BYTES as u64,
        kind: Kind::Log,
    };
    let written = write_mark(disk, known, mark).await;
    let mark_file = written.map_err(LogError::io("write", MARK_NAME))?;
    let failed = LogError::io("make", &name_of(1));
    let key = new_key().map_err(&failed)?;
    let head = Head::new(mark.log_id, 1, now_ms(), false, key);
    let (segment, file) = create(disk, head).await.map_err(failed)?;
    let report = Recovery {
        first: 1,
        next: 1,
        durable: 1,
        segments: 1,
        torn,
    };
    Ok(recovered(
        (vec![Arc::new(segment)], file),
        &Walked::new(&head, head.bytes()),
        mark_file,
        (Producers::new(producers_max), Roster::default()),
        report,
    ))
}

/// Reads a segment, and fails if records that had been durable are damaged. In a `sealed` segment,
/// which is followed by another, all records had been durable. `following` is the first record of
/// the next one, if that is whole.
pub(super) async fn look_at<D: Disk>(
    disk: &D,
    segment: &Segment<D::File>,
    sealed: bool,
    following: Option<u64>,
) -> Result<Walked, LogError> {
    let failed = LogError::io("open", &segment.name);
    let file = segment.open(disk).await.map_err(failed)?;
    let failed = LogError::io("read", &segment.name);
    let mut seen = None;
    loop {
        let visit = |found: &super::scan::Found, _| {
            segment.remember(found.header.sequence, found.offset);
        };
        let walked = walk(&*file, &segment.head, visit).await;
        let walked = walked.map_err(&failed)?;
        let Some(damage) = walked.damage else {
            return Ok(walked);
        };
        let verdict = Window::new(&*file, walked.end)
            .judge(walked.end, walked.next, segment.head.seal())
            .await
            .map_err(&failed)?;
        let later = match verdict {
            Verdict::Torn if !sealed => return Ok(walked),
            Verdict::Torn => " (another segment follows)".to_owned(),
            // A server may have written the record, and a later one, while both were looked for.
            Verdict::Corrupt { .. } if seen.replace(walked.next) != Some(walked.next) => continue,
            Verdict::Corrupt { later_at, later } => {
                format!(" (record {later} follows at byte {later_at})")
            }
        };
        return Err(LogError::Corrupt {
            segment: segment.name.clone(),
            offset: walked.end,
            sequence: walked.next,
            damage,
            later,
            following,
        });
    }
}

pub(super) fn torn_at<F>(segment: &Segment<F>, walked: &Walked) -> Option<Torn> {
    walked.damage.map(|damage| Torn {
        segment: segment.name.clone(),
        offset: walked.end,
        bytes: walked.file_bytes - walked.end,
        damage,
    })
}
