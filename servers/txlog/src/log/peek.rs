//! What a log's files say about it without being read: for a list of logs that nobody has open.

use std::io;
use std::path::Path;

use evenkeel::fs;

use super::mark::{MARK_NAME, Mark, SLOT_BYTES, SLOTS_AT};
use super::segment::first_of;
use super::{Disk, LocalDisk};
use crate::store::Identity;

/// The longest mark that is read.
const MARK_BYTES_MAX: u64 = SLOTS_AT[1] + SLOT_BYTES as u64;

/// The numbers of the oldest record and of the next one, and which log it is. The log may have more
/// records, if it was not closed properly; `None` if the files do not tell.
///
/// It has one descriptor at a time. No file stays open from one step to the next: that would be
/// closed later, when this has gone on to another log.
///
/// # Errors
///
/// Those of the system.
pub(crate) async fn peek(directory: &Path) -> io::Result<Option<(u64, u64, Identity)>> {
    let names = LocalDisk::borrow(directory).list().await?;
    let Some(first) = names.iter().filter_map(|name| first_of(name)).min() else {
        return Ok(None);
    };
    let path = directory.join(MARK_NAME);
    let about = fs::metadata(&path).await?;
    if !about.is_file() || about.len() > MARK_BYTES_MAX {
        return Ok(None);
    }
    let Ok(mark) = Mark::of_file(&fs::read(path).await?) else {
        return Ok(None);
    };
    let identity = Identity {
        log: mark.log_id.into(),
        epoch: mark.epoch,
    };
    Ok(Some((first, mark.next.max(first), identity)))
}
