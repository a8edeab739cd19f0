//! Checking a log without changing it.

use super::error::DIRECTORY;
use super::list::{Unfinished, list, lost_tail};
use super::mark::MarkFile;
use super::recover::{Recovery, Torn, look_at, torn_at};
use super::segment::first_of;
use super::{Disk, LogError};

/// Checks every record of a log or of a backup, and changes nothing. Calls `visit` with the name,
/// the first record and the number of records of each segment.
///
/// A server may have the log open: then what it writes meanwhile may be found or not, and may look
/// like a torn end.
///
/// # Errors
///
/// As [`Log::open`](super::Log::open), for all segments; [`LogError::Gap`]. [`LogError::Copy`] only
/// for a copy that did not end.
pub async fn verify<D: Disk>(
    disk: &D,
    mut visit: impl FnMut(&str, u64, u64),
) -> Result<Recovery, LogError> {
    let mut listed = list(disk).await?;
    let mark = listed.take_mark()?;
    let mut report = Recovery {
        first: listed.segments.first().map_or(1, |segment| segment.first),
        next: 1,
        durable: 1,
        segments: listed.segments.len(),
        torn: listed.unfinished.map(Unfinished::torn),
    };
    let mut damage = None;
    for (at, segment) in listed.segments.iter().enumerate() {
        if at > 0 && segment.first != report.next {
            return Err(LogError::Gap {
                segment: segment.name.clone(),
                expected: report.next,
                found: segment.first,
            });
        }
        let following = listed.segments.get(at + 1).map(|segment| segment.first);
        let sealed = following.is_some() || report.torn.is_some();
        let walked = match look_at(disk, segment, sealed, following).await {
            Err(error) if error.is_not_found() && is_removed(disk, segment.first).await? => {
                report.first = following.unwrap_or(1);
                report.next = report.first;
                report.segments = listed.segments.len() - (at + 1);
                continue;
            }
            looked_at => looked_at?,
        };
        visit(&segment.name, segment.first, walked.next - segment.first);
        report.next = walked.next;
        report.durable = walked.batch_first;
        report.torn = report.torn.or_else(|| torn_at(segment, &walked));
        damage = walked.damage;
    }
    lost_tail(mark.as_ref(), report.next, damage)?;
    let marked = mark.as_ref().map_or(1, |mark| MarkFile::last(mark).next);
    report.durable = report.durable.max(marked);
    Ok(report)
}

/// Whether a server has removed this segment meanwhile, as it removes the oldest ones.
pub(super) async fn is_removed<D: Disk>(disk: &D, first: u64) -> Result<bool, LogError> {
    let failed = LogError::io("list", DIRECTORY);
    let names = disk.list().await.map_err(failed)?;
    let oldest = names.iter().filter_map(|name| first_of(name)).min();
    Ok(oldest.is_some_and(|oldest| oldest > first))
}

impl Unfinished {
    pub(super) fn torn(self) -> Torn {
        Torn {
            segment: self.name,
            offset: 0,
            bytes: self.bytes,
            damage: self.damage,
        }
    }
}
