//! Opening a log: finding its segments, its end, and records that a crash has torn.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use evenkeel::fs::{CommitFile, write_all_at};

use super::record::{Damage, HEAD_BYTES, Head};
use super::scan::{Verdict, Walked, Window, walk};
use super::segment::{Segment, first_of, name_of};
use super::write::create;
use super::{Disk, DiskFile, LogError};

/// How much is written again at a time.
const REWRITTEN_BYTES: u64 = 1 << 20;

/// The result of opening or verifying a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The number of the oldest record.
    pub first: u64,
    /// The number of the next record.
    pub next: u64,
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
    pub(super) log_id: u32,
    pub(super) segments: Vec<Arc<Segment<F>>>,
    /// The offset in the last segment for the next record.
    pub(super) end: u64,
    pub(super) report: Recovery,
}

/// The segments of a log, before their records are read.
struct Listed<F> {
    log_id: u32,
    segments: Vec<Segment<F>>,
    /// A last segment whose creation was interrupted by a crash.
    unfinished: Option<(String, u64, Damage)>,
}

/// Opens the existing segments, and creates the first one if there is none.
pub(super) async fn recover<D: Disk>(disk: &D) -> Result<Recovered<D::File>, LogError> {
    let mut listed = list(disk).await?;
    let mut torn = None;
    if let Some((name, bytes, damage)) = listed.unfinished.take() {
        let failed = LogError::io("remove", &name);
        disk.remove(&name).await.map_err(&failed)?;
        disk.sync_names().await.map_err(&failed)?;
        torn = Some(Torn {
            segment: name,
            offset: 0,
            bytes,
            damage,
        });
    }
    let Some(last) = listed.segments.last() else {
        return begin(disk, torn).await;
    };
    let walked = look_at(last, listed.log_id, torn.is_some()).await?;
    torn = torn.or_else(|| torn_at(last, &walked));
    let failed = LogError::io("end", &last.name);
    settle(disk, last, &walked).await.map_err(failed)?;
    last.set_bytes(walked.end);
    let report = Recovery {
        first: listed.segments[0].first,
        next: walked.next,
        segments: listed.segments.len(),
        torn,
    };
    Ok(Recovered {
        log_id: listed.log_id,
        segments: listed.segments.into_iter().map(Arc::new).collect(),
        end: walked.end,
        report,
    })
}

/// Truncates a segment after its last record, and makes its records durable: they may be only in
/// the system's memory, and must be on the disk before they are reported.
async fn settle<D: Disk>(
    disk: &D,
    last: &Segment<D::File>,
    walked: &Walked,
) -> std::io::Result<()> {
    // Also without damage: the rest are zeros, written ahead of new records.
    if walked.file_bytes > walked.end {
        last.file.set_len(walked.end).await?;
    }
    // After a failed sync, Linux treats the unwritten data as written, and the next sync succeeds.
    // So the last batch is written again as it is. The batches before it were durable when it was
    // written.
    let mut window = Window::new(&last.file, walked.batch_at);
    let mut at = walked.batch_at;
    while at < walked.end {
        let length = (walked.end - at).min(REWRITTEN_BYTES);
        let bytes = window.at(at, length as usize).await?;
        if bytes.is_empty() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let written = bytes.len() as u64;
        write_all_at(&last.file, bytes, at).await?;
        at += written;
    }
    last.file.sync_data().await?;
    // A process may have created the segment and ended before it synced the name.
    disk.sync_names().await
}

/// Checks every record of a log, and changes nothing. Calls `visit` with the name, the first
/// record and the number of records of each segment.
///
/// # Errors
///
/// As [`Log::open`](super::Log::open), for all segments.
pub async fn verify<D: Disk>(
    disk: &D,
    mut visit: impl FnMut(&str, u64, u64),
) -> Result<Recovery, LogError> {
    let listed = list(disk).await?;
    let mut report = Recovery {
        first: listed.segments.first().map_or(1, |segment| segment.first),
        next: 1,
        segments: listed.segments.len(),
        torn: listed.unfinished.map(|(segment, bytes, damage)| Torn {
            segment,
            offset: 0,
            bytes,
            damage,
        }),
    };
    for (at, segment) in listed.segments.iter().enumerate() {
        if at > 0 && segment.first != report.next {
            return Err(LogError::Gap {
                segment: segment.name.clone(),
                expected: report.next,
                found: segment.first,
            });
        }
        let sealed = at + 1 < listed.segments.len() || report.torn.is_some();
        let walked = look_at(segment, listed.log_id, sealed).await?;
        visit(&segment.name, segment.first, walked.next - segment.first);
        report.next = walked.next;
        report.torn = report.torn.or_else(|| torn_at(segment, &walked));
    }
    Ok(report)
}

/// The id of a new log.
async fn begin<D: Disk>(disk: &D, torn: Option<Torn>) -> Result<Recovered<D::File>, LogError> {
    // Random numbers of the standard library; zero would look like a place never written.
    let log_id = (RandomState::new().hash_one("a log") as u32).max(1);
    let failed = LogError::io("make", &name_of(1));
    let segment = create(disk, 1, log_id).await.map_err(failed)?;
    Ok(Recovered {
        log_id,
        segments: vec![Arc::new(segment)],
        end: HEAD_BYTES as u64,
        report: Recovery {
            first: 1,
            next: 1,
            segments: 1,
            torn,
        },
    })
}

async fn list<D: Disk>(disk: &D) -> Result<Listed<D::File>, LogError> {
    let failed = LogError::io("list", &disk.name());
    let names = disk.list().await.map_err(failed)?;
    let mut firsts: Vec<u64> = names.iter().filter_map(|name| first_of(name)).collect();
    firsts.sort_unstable();
    let mut listed = Listed {
        log_id: 0,
        segments: Vec::with_capacity(firsts.len()),
        unfinished: None,
    };
    for (at, &first) in firsts.iter().enumerate() {
        let name = name_of(first);
        let failed = LogError::io("open", &name);
        let file = disk.open(&name).await.map_err(&failed)?;
        let bytes = Window::with_bytes(&file, 0, HEAD_BYTES)
            .at(0, HEAD_BYTES)
            .await
            .map_err(&failed)?;
        let head = Head::decode(&bytes).and_then(|head| match head {
            Head { first: is, .. } if is != first => Err(Damage::Head("of another segment")),
            Head { log_id, .. } if at > 0 && log_id != listed.log_id => {
                Err(Damage::OtherLog { id: log_id })
            }
            head => Ok(head),
        });
        match head {
            Ok(head) => {
                listed.log_id = head.log_id;
                let bytes = file.size().await.map_err(&failed)?;
                let segment = Segment::new(first, head.created_ms, file, bytes);
                listed.segments.push(segment);
            }
            Err(damage) => {
                // The first segment of all, or one behind others: no other is ever created.
                let is_new = at + 1 == firsts.len() && (at > 0 || first == 1);
                let bytes = unfinished(&file, &name, first, damage, is_new, listed.log_id).await?;
                listed.unfinished = Some((name, bytes, damage));
            }
        }
    }
    Ok(listed)
}

/// A segment's head is made durable before any record is written behind it. So if a last segment
/// has no head, and nothing behind it, a crash interrupted its creation.
async fn unfinished<F: DiskFile>(
    file: &F,
    name: &str,
    first: u64,
    damage: Damage,
    is_new: bool,
    log_id: u32,
) -> Result<u64, LogError> {
    let failed = LogError::io("read", name);
    let bytes = file.size().await.map_err(&failed)?;
    let foreign = matches!(
        damage,
        Damage::OtherLog { .. } | Damage::Head("of another segment")
    );
    if is_new && !foreign && bytes <= HEAD_BYTES as u64 {
        return Ok(bytes);
    }
    Err(LogError::Corrupt {
        segment: name.to_owned(),
        offset: 0,
        sequence: first,
        damage,
        later: if log_id == 0 {
            " (it is the log's first)".to_owned()
        } else {
            String::new()
        },
    })
}

/// Reads a segment, and fails if records that had been durable are damaged. In a `sealed` segment,
/// which is followed by another, all records had been durable.
async fn look_at<F: DiskFile>(
    segment: &Segment<F>,
    log_id: u32,
    sealed: bool,
) -> Result<Walked, LogError> {
    let failed = LogError::io("read", &segment.name);
    let visit = |found: &super::scan::Found| segment.remember(found.header.sequence, found.offset);
    let walked = walk(&segment.file, segment.first, log_id, visit).await;
    let walked = walked.map_err(&failed)?;
    let Some(damage) = walked.damage else {
        return Ok(walked);
    };
    let verdict = Window::new(&segment.file, walked.end)
        .judge(walked.end, walked.next, log_id)
        .await
        .map_err(&failed)?;
    let later = match verdict {
        Verdict::Torn if !sealed => return Ok(walked),
        Verdict::Torn => " (another segment follows)".to_owned(),
        Verdict::Corrupt { later_at, later } => {
            format!(" (record {later} follows at byte {later_at})")
        }
    };
    Err(LogError::Corrupt {
        segment: segment.name.clone(),
        offset: walked.end,
        sequence: walked.next,
        damage,
        later,
    })
}

fn torn_at<F>(segment: &Segment<F>, walked: &Walked) -> Option<Torn> {
    walked.damage.map(|damage| Torn {
        segment: segment.name.clone(),
        offset: walked.end,
        bytes: walked.file_bytes - walked.end,
        damage,
    })
}
