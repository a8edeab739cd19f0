//! What an earlier process left: segments that it had no time to complete.
//!
//! Only those are read. Complete segments say in their names all that is needed.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::disk::{Disk, DiskFile};
use super::index::{Entry, Index, LINE};
use super::names::{Closed, Name, day_start};
use super::retention::Day;
use super::segment::length_ms;

/// An index of a minute has some hundreds of lines. A longer one is not read to its end.
const INDEX_BYTES_MAX: usize = 4 << 20;

/// What the directory of a day has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Complete segments, by their start.
    pub closed: Vec<Closed>,
    /// Starts of open ones.
    pub open: Vec<u64>,
    /// Starts of indexes whose segment is not there.
    pub orphans: Vec<u64>,
}

impl Listed {
    /// Sorts names.
    pub fn of(names: &[String]) -> Self {
        let mut listed = Self::default();
        let mut indexes = BTreeSet::new();
        for name in names.iter().filter_map(|name| Name::parse(name)) {
            match name {
                Name::Closed(closed) => listed.closed.push(closed),
                Name::Open(start_ms) => listed.open.push(start_ms),
                Name::Index(start_ms) => _ = indexes.insert(start_ms),
            }
        }
        listed.closed.sort_unstable();
        listed.open.sort_unstable();
        for closed in &listed.closed {
            indexes.remove(&closed.start_ms);
        }
        for open in &listed.open {
            indexes.remove(open);
        }
        listed.orphans = indexes.into_iter().collect();
        listed
    }

    /// Their totals.
    pub fn day(&self) -> Day {
        Day {
            segments: u32::try_from(self.closed.len()).unwrap_or(u32::MAX),
            bytes: self.closed.iter().map(|closed| closed.bytes).sum(),
            first_ms: self.closed.first().map_or(0, |closed| closed.start_ms),
        }
    }
}

/// The days of a camera that have a directory, from the oldest on.
///
/// # Errors
///
/// The disk's.
pub async fn days<D: Disk>(disk: &D, camera: &Path) -> io::Result<Vec<u64>> {
    let names = disk.list(camera).await?;
    let mut days: Vec<u64> = names.iter().filter_map(|name| day_start(name)).collect();
    days.sort_unstable();
    Ok(days)
}

/// What was done in a day.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Segments that were completed.
    pub completed: Vec<Closed>,
    /// Starts of those that cannot be read or changed, with the first one's error. They are left as
    /// they are, and hold up nothing else.
    pub failed: Vec<u64>,
    /// What is wrong with the first of them.
    pub error: Option<io::Error>,
}

/// Completes the segments of a day that are open, and removes those of which nothing can be used.
/// `is_left` says of the start of each whether nobody writes it.
///
/// # Errors
///
/// The directory cannot be listed, or the disk has not begun, as it has too much to do.
pub async fn recover<D: Disk>(
    disk: &D,
    directory: &Path,
    is_left: impl Fn(u64) -> bool,
) -> io::Result<Recovered> {
    let listed = Listed::of(&disk.list(directory).await?);
    let mut recovered = Recovered::default();
    for &start_ms in listed.open.iter().filter(|&&start| is_left(start)) {
        match complete(disk, directory, start_ms).await {
            Ok(closed) => recovered.completed.extend(closed),
            Err(error) => recovered.fail(start_ms, error)?,
        }
    }
    for &start_ms in listed.orphans.iter().filter(|&&start| is_left(start)) {
        // Its segment was deleted, or never made.
        let index = directory.join(Name::Index(start_ms).to_string());
        if let Err(error) = disk.remove(&index).await {
            recovered.fail(start_ms, error)?;
        }
    }
    Ok(recovered)
}

impl Recovered {
    fn fail(&mut self, start_ms: u64, error: io::Error) -> io::Result<()> {
        if has_not_begun(&error) {
            return Err(error);
        }
        self.failed.push(start_ms);
        self.error.get_or_insert(error);
        Ok(())
    }
}

/// Whether a disk has done nothing, as it has too much to do: trying again may help.
pub(super) fn has_not_begun(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ResourceBusy | io::ErrorKind::TimedOut
    )
}

/// Completes one segment, which nobody writes. `None` if nothing of it can be used.
pub(super) async fn complete<D: Disk>(
    disk: &D,
    directory: &Path,
    start_ms: u64,
) -> io::Result<Option<Closed>> {
    let open = directory.join(Name::Open(start_ms).to_string());
    let index_path = directory.join(Name::Index(start_ms).to_string());
    let file = disk.open(&open).await?;
    let (index_file, kept) = match disk.open(&index_path).await {
        Ok(index_file) => {
            let bytes = index_file.read(INDEX_BYTES_MAX, 0).await?;
            let index = Index::read(&bytes);
            let kept = match &index {
                Some(index) => kept(&file, index).await?,
                None => None,
            };
            (Some(index_file), kept)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => (None, None),
        Err(error) => return Err(error),
    };
    let (Some(index_file), Some(kept)) = (index_file, kept) else {
        disk.remove(&open).await?;
        return match disk.remove(&index_path).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(None),
        };
    };
    file.truncate(kept.bytes).await?;
    index_file.truncate(kept.index_bytes).await?;
    let closed = Closed {
        start_ms,
        length_ms: length_ms(start_ms, kept.end_us),
        bytes: kept.bytes,
        gaps: kept.gaps,
    };
    disk.rename(&open, &directory.join(closed.to_string()))
        .await?;
    Ok(Some(closed))
}

/// The part of a segment that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    bytes: u64,
    index_bytes: u64,
    end_us: i64,
    gaps: u32,
}

/// Fragments that were surely on the disk are taken as they are; those after them are compared with
/// their checksums, up to the first one that is damaged. `None` if there is no whole fragment.
async fn kept<F: DiskFile>(file: &F, index: &Index) -> io::Result<Option<Kept>> {
    let size = file.size().await?;
    let synced = index.fragments().map(|line| line.synced).max().unwrap_or(0);
    let init_len = index.head.init_len;
    if u64::from(init_len) > size {
        return Ok(None);
    }
    let init = file.read(init_len as usize, 0).await?;
    if crc32fast::hash(&init) != index.head.init_checksum {
        return Ok(None);
    }
    let mut kept: Option<Kept> = None;
    let mut gaps = 0;
    for (place, entry) in index.entries.iter().enumerate() {
        let line = match entry {
            Entry::Gap(_) => {
                gaps += 1;
                continue;
            }
            Entry::Fragment(line) => line,
        };
        if line.end() > size {
            break;
        }
        if line.number > synced {
            let bytes = file.read(line.len as usize, line.offset).await?;
            if crc32fast::hash(&bytes) != line.checksum {
                break;
            }
        }
        kept = Some(Kept {
            bytes: line.end(),
            index_bytes: ((place + 2) * LINE) as u64,
            end_us: kept.map_or(line.end_us(), |kept| kept.end_us.max(line.end_us())),
            gaps,
        });
    }
    Ok(kept)
}

#[cfg(test)]
mod tests;
