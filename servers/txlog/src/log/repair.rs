//! Giving up what is lost at a log's end, so that the log can be opened again.
//!
//! What is cut off is kept, and the mark goes back to the new end before anything is cut: if a
//! repair is interrupted, the next one finds the same damage.

use evenkeel::fs::{CommitFile, write_all_at};

use super::error::DIRECTORY;
use super::list::{Listed, list};
use super::mark::{Kind, MARK_NAME, Mark, MarkDefect, MarkFile};
use super::record::{HEAD_BYTES, HEADER_BYTES, Head};
use super::recover::{new_id, next_epoch, rewrite, write_mark};
use super::scan::{Verdict, Walked, Window, candidates, walk};
use super::segment::{Segment, cut_name, name_of, new_key};
use super::write::create;
use super::{Disk, DiskFile, LogError, now_ms};

/// How much is copied at a time.
const CHUNK_BYTES: usize = 1 << 20;

/// How many files there may be that keep what was cut off at one place.
const CUTS_MAX: u32 = 1_000;

/// What a repair has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The number that the next record gets. The records from here on are lost.
    pub next: u64,
    /// All lost records that are known of are below this number. It is `next` if only the mark had
    /// to be written anew; then records may be missing that nothing tells of.
    pub lost_end: u64,
    /// The files that keep what was cut off.
    pub kept: Vec<String>,
    /// The log's new epoch.
    pub epoch: u64,
}

/// What is to be done, found without changing anything.
struct Plan {
    /// Where the log is to end: the segment by its first record, the next number and its offset.
    segment: u64,
    next: u64,
    end: u64,
    lost_end: u64,
    /// Where the last batch before the end begins.
    batch_at: u64,
    /// Whether the last whole segment has bytes behind `end` that are to be kept.
    cuts: bool,
}

/// Makes a log whose end is damaged or lost usable again, and gives the log a new epoch. Returns
/// `None` if there was nothing to do: a torn end, which was never acknowledged, is cut off when the
/// log is opened.
///
/// It mends damage in the last segment, a missing end, and a missing or damaged mark. Damage before
/// the last segment stays: [`Log::trim`](super::Log::trim) gives up old records.
///
/// # Errors
///
/// [`LogError::NoLog`], [`LogError::Copy`], [`LogError::Foreign`], [`LogError::Io`];
/// [`LogError::Corrupt`] and [`LogError::Mark`] for files of a later version.
///
/// # Cancel safety
///
/// If the future is dropped, the log can be repaired again.
pub async fn repair<D: Disk>(disk: &D) -> Result<Option<Repair>, LogError> {
    let mut listed = list(disk).await?;
    let is_defective = match listed.mark {
        Err(defect @ MarkDefect::Newer) => return Err(LogError::Mark { defect }),
        Err(_) => true,
        Ok(_) => false,
    };
    let mark_file = std::mem::replace(&mut listed.mark, Ok(None)).unwrap_or(None);
    let known = mark_file.as_ref().map(MarkFile::last);
    if let Some(kind) = known.map(|mark| mark.kind)
        && kind != Kind::Log
    {
        return Err(LogError::Copy { kind });
    }
    if known.is_none() && listed.segments.is_empty() && listed.headless.is_none() {
        return Err(LogError::NoLog);
    }
    let end = match listed.segments.last() {
        Some(last) => {
            let file = last.open(disk).await;
            Some((last, file.map_err(LogError::io("open", &last.name))?))
        }
        None => None,
    };
    let end = end.as_ref().map(|(last, file)| (*last, &**file));
    let plan = plan(&listed, end, known, is_defective).await?;
    if plan.next >= plan.lost_end && !plan.cuts && listed.headless.is_none() && !is_defective {
        return Ok(None);
    }
    let mut kept = Vec::new();
    if plan.cuts {
        kept.extend(keep_end(disk, end, plan.end).await?);
    }
    if let Some((last, file)) = end {
        // The mark is to cover them.
        let rewritten = rewrite(file, plan.batch_at, plan.end).await;
        rewritten.map_err(LogError::io("write", &last.name))?;
    }
    let log_id = match (listed.log_id, known) {
        (0, Some(mark)) => mark.log_id,
        (0, None) => new_id(),
        (log_id, _) => log_id,
    };
    let mark = Mark {
        log_id,
        epoch: next_epoch(known.map_or(0, |mark| mark.epoch)),
        segment: plan.segment,
        next: plan.next,
        bytes: plan.end,
        kind: Kind::Log,
    };
    let written = write_mark(disk, mark_file, mark).await;
    written.map_err(LogError::io("write", MARK_NAME))?;
    kept.extend(cut(disk, &listed, end, &plan, log_id).await?);
    Ok(Some(Repair {
        next: plan.next,
        lost_end: plan.lost_end,
        kept,
        epoch: mark.epoch,
    }))
}

async fn plan<F: DiskFile>(
    listed: &Listed<F>,
    end: Option<(&Segment<F>, &F)>,
    known: Option<Mark>,
    is_defective: bool,
) -> Result<Plan, LogError> {
    let marked = known.map_or(0, |mark| mark.next);
    // The records before a segment had been durable when it was made.
    let headless = listed.headless.map_or(0, |(first, _)| first);
    let Some((last, file)) = end else {
        // Its records cannot be told from others without their head.
        let first = match listed.headless {
            Some((first, _)) => first,
            None => known.map_or(1, |mark| mark.segment),
        };
        return Ok(Plan {
            segment: first,
            next: first,
            end: HEAD_BYTES as u64,
            lost_end: marked.max(first),
            batch_at: HEAD_BYTES as u64,
            cuts: false,
        });
    };
    let failed = LogError::io("read", &last.name);
    let walked = walk(file, &last.head, |_, _| ()).await;
    let walked = walked.map_err(&failed)?;
    let mut plan = Plan {
        segment: last.first,
        next: walked.next,
        end: walked.end,
        lost_end: marked.max(headless).max(walked.next),
        batch_at: walked.batch_at,
        cuts: false,
    };
    if walked.damage.is_some() {
        let judged = Window::new(file, walked.end)
            .judge(walked.end, walked.next, last.head.seal())
            .await;
        let is_torn = judged.map_err(&failed)? == Verdict::Torn;
        // Else it is cut off when the log is opened, as ever.
        let was_durable = plan.lost_end > walked.next || listed.unfinished.is_some();
        if !is_torn || was_durable || is_defective {
            let later = last_number(file, &last.head, &walked).await;
            plan.lost_end = plan.lost_end.max(later.map_err(failed)? + 1);
            plan.cuts = true;
        }
    }
    Ok(plan)
}

/// The greatest number of a record whose header is intact behind the damage; 0 if there is none.
async fn last_number<F: DiskFile>(file: &F, head: &Head, walked: &Walked) -> std::io::Result<u64> {
    let mut window = Window::with_bytes(file, walked.end, CHUNK_BYTES);
    let (mut at, mut last) = (walked.end, 0);
    loop {
        let bytes = window.at(at, CHUNK_BYTES).await?;
        if bytes.len() < HEADER_BYTES {
            return Ok(last);
        }
        let behind = (at - walked.end, walked.next);
        for (_, header) in candidates(&bytes, behind, head.seal()) {
            last = last.max(header.sequence);
        }
        at += (bytes.len() - (HEADER_BYTES - 1)) as u64;
    }
}

/// Copies what is behind the end of the last segment to a file of its own, durably.
async fn keep_end<D: Disk>(
    disk: &D,
    last: Option<(&Segment<D::File>, &D::File)>,
    end: u64,
) -> Result<Option<String>, LogError> {
    let Some((last, of)) = last else {
        return Ok(None);
    };
    let (name, file) = create_cut(disk, &last.name, end).await?;
    let failed = LogError::io("write", &name);
    let mut window = Window::with_bytes(of, end, CHUNK_BYTES);
    let mut at = end;
    loop {
        let bytes = window.at(at, CHUNK_BYTES).await;
        let bytes = bytes.map_err(LogError::io("read", &last.name))?;
        if bytes.is_empty() {
            break;
        }
        let length = bytes.len() as u64;
        write_all_at(&file, bytes, at - end)
            .await
            .map_err(&failed)?;
        at += length;
    }
    file.sync_data().await.map_err(&failed)?;
    disk.sync_names().await.map_err(failed)?;
    Ok(Some(name))
}

async fn create_cut<D: Disk>(
    disk: &D,
    segment: &str,
    offset: u64,
) -> Result<(String, D::File), LogError> {
    let mut nth = 1;
    loop {
        let name = cut_name(segment, offset, nth);
        match disk.create(&name).await {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && nth < CUTS_MAX => {
                nth += 1;
            }
            created => return Ok((name.clone(), created.map_err(LogError::io("make", &name))?)),
        }
    }
}

/// Ends the log where the mark says. Returns the name that keeps a segment without a head.
async fn cut<D: Disk>(
    disk: &D,
    listed: &Listed<D::File>,
    end: Option<(&Segment<D::File>, &D::File)>,
    plan: &Plan,
    log_id: u32,
) -> Result<Option<String>, LogError> {
    if let Some((last, file)) = end
        && plan.cuts
    {
        let failed = LogError::io("end", &last.name);
        file.set_len(plan.end).await.map_err(&failed)?;
        file.sync_data().await.map_err(failed)?;
    }
    let mut kept = None;
    if let Some((first, _)) = listed.headless {
        let from = name_of(first);
        let mut nth = 1;
        let to = loop {
            let to = cut_name(&from, 0, nth);
            match disk.rename(&from, &to).await {
                Err(error)
                    if error.kind() == std::io::ErrorKind::AlreadyExists && nth < CUTS_MAX =>
                {
                    nth += 1;
                }
                renamed => {
                    renamed.map_err(LogError::io("rename", &from))?;
                    break to;
                }
            }
        };
        // Before a new segment takes the name.
        let failed = LogError::io("sync the names in", DIRECTORY);
        disk.sync_names().await.map_err(failed)?;
        kept = Some(to);
    }
    let failed = LogError::io("make", &name_of(plan.segment));
    if listed.segments.is_empty() {
        if let Some(unfinished) = &listed.unfinished {
            disk.remove(&unfinished.name).await.map_err(&failed)?;
        }
        let key = new_key().map_err(&failed)?;
        let head = Head::new(log_id, plan.segment, now_ms(), true, key);
        create(disk, head).await.map_err(&failed)?;
    }
    disk.sync_names().await.map_err(failed)?;
    Ok(kept)
}
