//! What a log's files say about it without being read: for a list of logs that nobody has open.

use super::error::DIRECTORY;
use super::mark::{MARK_NAME, MarkFile};
use super::segment::first_of;
use super::{Disk, LogError};
use crate::store::Identity;

/// The numbers of the oldest record and of the next one, and which log it is. The log may have more
/// records, if it was not closed properly; `None` if the files do not tell.
///
/// # Errors
///
/// [`LogError::Io`].
pub(crate) async fn peek<D: Disk>(disk: &D) -> Result<Option<(u64, u64, Identity)>, LogError> {
    let failed = LogError::io("list", DIRECTORY);
    let names = disk.list().await.map_err(failed)?;
    let first = names.iter().filter_map(|name| first_of(name)).min();
    let mark = MarkFile::read(disk).await;
    let mark = mark.map_err(LogError::io("read", MARK_NAME))?;
    let (Some(first), Some(Ok(mark))) = (first, mark) else {
        return Ok(None);
    };
    let mark = mark.last();
    let identity = Identity {
        log: mark.log_id.into(),
        epoch: mark.epoch,
    };
    Ok(Some((first, mark.next.max(first), identity)))
}
