//! What was recorded of a camera, and what is missing: from the names of its files.

use std::io;
use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::gap::{Gap, Reason};
use super::index::{Entry, Index, Line};
use super::names::{Closed, DAY_MS, Name, day};
use super::recover::Listed;
use super::retention::day_of;
use super::volume::Volume;

/// The longest time that is listed at once.
pub const LISTED_MAX_MS: u64 = 32 * DAY_MS;
/// A segment that begins before a time may reach into it. None is longer than this, unless its
/// camera has sent no key frame.
const SEGMENT_MAX_MS: u64 = 2 * 60 * 60 * 1000;
/// Pauses between recordings that are no gaps: what a camera's clock drifts, and a late group.
pub const PAUSE_MAX_MS: u64 = 1_000;
/// How many bytes of an index are read.
const INDEX_BYTES_MAX: usize = 4 << 20;

/// A segment in a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The directory of its day.
    pub directory: PathBuf,
    /// The name of its file.
    pub name: Name,
    /// When it begins.
    pub start_ms: u64,
    /// When it ends, so far.
    pub end_ms: u64,
    /// Its bytes, so far.
    pub bytes: u64,
    /// Whether its index has gaps.
    pub has_gaps: bool,
    /// Its lines, if they are in memory.
    pub entries: Option<Vec<Entry>>,
    /// Whether it is in the volume's store alone.
    pub is_copy: bool,
}

/// Recorded time without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Range {
    /// When it begins.
    pub from_ms: u64,
    /// When it ends.
    pub until_ms: u64,
    /// Bytes of the segments that begin in it.
    pub bytes: u64,
}

/// Time between two ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Missing {
    /// When it begins.
    pub from_ms: u64,
    /// When it ends.
    pub until_ms: u64,
    /// Why.
    pub reason: Reason,
    /// How many groups are known to be missing.
    pub gops: u32,
}

/// Segments of a camera that have a part between two times, in their order.
///
/// # Errors
///
/// The disk's.
pub async fn segments<D: Disk>(
    volume: &Volume<D>,
    camera: &str,
    from_ms: u64,
    until_ms: u64,
) -> io::Result<Vec<Found>> {
    // Asked first: one that is completed meanwhile is then in both, and not in none.
    let open = volume.open_of(camera);
    let mut found = Vec::new();
    for progress in &open {
        let entries = progress.entries();
        let lines = entries.iter().filter_map(line);
        let (end_us, bytes) = lines.fold((0, 0), |(end_us, _), line: &Line| {
            (line.end_us().max(end_us), line.end())
        });
        found.push(Found {
            directory: Path::new(camera).join(day(progress.start_ms)),
            name: Name::Open(progress.start_ms),
            start_ms: progress.start_ms,
            end_ms: u64::try_from(end_us / 1000).unwrap_or(0),
            bytes,
            has_gaps: entries.iter().any(|entry| matches!(entry, Entry::Gap(_))),
            entries: Some(entries),
            is_copy: false,
        });
    }
    let mut day_ms = day_of(from_ms.saturating_sub(SEGMENT_MAX_MS));
    while day_ms < until_ms {
        let directory = Path::new(camera).join(day(day_ms));
        let listed = Listed::of(&volume.disk().list(&directory).await?);
        let known = |start_ms: u64| open.iter().any(|it| it.start_ms == start_ms);
        if let Some(tier) = volume.tier() {
            let is_here = |copy: &Closed| {
                let of_closed = |closed: &Closed| closed.start_ms;
                let mut here = listed
                    .closed
                    .iter()
                    .map(of_closed)
                    .chain(listed.open.clone());
                here.any(|start_ms| start_ms == copy.start_ms)
            };
            let copies = tier.segments(camera, day_ms).await;
            for copy in copies.iter().filter(|copy| !is_here(copy)) {
                found.push(Found {
                    is_copy: true,
                    ..Found::of(directory.clone(), *copy)
                });
            }
        }
        for closed in listed.closed.into_iter().filter(|it| !known(it.start_ms)) {
            found.push(Found::of(directory.clone(), closed));
        }
        let Some(next) = day_ms.checked_add(DAY_MS) else {
            break;
        };
        day_ms = next;
    }
    found.retain(|it| it.start_ms < until_ms && it.end_ms > from_ms);
    found.sort_by_key(|it| (it.start_ms, it.end_ms));
    Ok(found)
}

impl Found {
    fn of(directory: PathBuf, closed: Closed) -> Self {
        Self {
            directory,
            name: Name::Closed(closed),
            start_ms: closed.start_ms,
            end_ms: closed.end_ms(),
            bytes: closed.bytes,
            has_gaps: closed.gaps > 0,
            entries: None,
            is_copy: false,
        }
    }

    /// Its index, from memory, from the disk or from the store. `None` if it is damaged.
    ///
    /// # Errors
    ///
    /// The disk's, or the store's.
    pub async fn entries<D: Disk>(&self, volume: &Volume<D>) -> io::Result<Option<Vec<Entry>>> {
        if let Some(entries) = &self.entries {
            return Ok(Some(entries.clone()));
        }
        let path = self.directory.join(Name::Index(self.start_ms).to_string());
        let file = volume.open(&path, self.is_copy).await?;
        let bytes = file.read(INDEX_BYTES_MAX, 0).await?;
        Ok(Index::read(&bytes).map(|index| index.entries))
    }
}

/// What was recorded between two times, and what is missing there. Indexes are read where names say
/// that there are gaps.
///
/// # Errors
///
/// The disk's.
pub async fn ranges<D: Disk>(
    volume: &Volume<D>,
    camera: &str,
    from_ms: u64,
    until_ms: u64,
) -> io::Result<(Vec<Range>, Vec<Missing>)> {
    let mut pieces = Vec::new();
    for found in segments(volume, camera, from_ms, until_ms).await? {
        if !found.has_gaps {
            pieces.push(Piece {
                range: Range {
                    from_ms: found.start_ms,
                    until_ms: found.end_ms,
                    bytes: found.bytes,
                },
                before: None,
            });
            continue;
        }
        match found.entries(volume).await {
            Ok(entries) => add(&mut pieces, &entries.unwrap_or_default()),
            // It was deleted meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let (ranges, mut missing) = joined(pieces);
    missing.retain(|it| it.from_ms < until_ms && it.until_ms > from_ms);
    Ok((ranges, missing))
}

/// Recorded time, with what is known to be missing before it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    range: Range,
    before: Option<Gap>,
}

/// Adds a segment that has gaps, fragment by fragment. A gap stands in front of what came after it.
fn add(pieces: &mut Vec<Piece>, entries: &[Entry]) {
    let mut before: Option<Gap> = None;
    for entry in entries {
        match entry {
            Entry::Gap(gap) => before = Some(before.map_or(*gap, |earlier| earlier.and(*gap))),
            Entry::Fragment(line) => pieces.push(Piece {
                range: Range {
                    from_ms: ms(line.start_us),
                    until_ms: ms(line.end_us()),
                    bytes: u64::from(line.len),
                },
                before: before.take(),
            }),
        }
    }
}

/// Pieces that touch become one range. What is before the first one and after the last one is not
/// known to be missing: the camera may not have been there.
fn joined(mut pieces: Vec<Piece>) -> (Vec<Range>, Vec<Missing>) {
    pieces.sort_by_key(|piece| piece.range.from_ms);
    let (mut ranges, mut missing): (Vec<Range>, Vec<Missing>) = (Vec::new(), Vec::new());
    for Piece { range, before } in pieces {
        let Some(last) = ranges.last_mut() else {
            ranges.push(range);
            continue;
        };
        let pause = range.from_ms.saturating_sub(last.until_ms);
        if pause == 0 || before.is_none() && pause <= PAUSE_MAX_MS {
            last.until_ms = last.until_ms.max(range.until_ms);
            last.bytes = last.bytes.saturating_add(range.bytes);
            continue;
        }
        missing.push(Missing {
            from_ms: last.until_ms,
            until_ms: range.from_ms,
            reason: before.map_or(Reason::NoStream, |gap| gap.reason),
            gops: before.map_or(0, |gap| gap.gops),
        });
        ranges.push(range);
    }
    (ranges, missing)
}

fn line(entry: &Entry) -> Option<&Line> {
    match entry {
        Entry::Fragment(line) => Some(line),
        Entry::Gap(_) => None,
    }
}

/// Microseconds since 1970 as milliseconds; earlier ones as 0.
pub fn ms(us: i64) -> u64 {
    u64::try_from(us / 1000).unwrap_or(0)
}

#[cfg(test)]
mod tests;
