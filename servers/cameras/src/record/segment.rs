//! A segment that is being written: its file and its index.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use super::disk::{Disk, DiskFile};
use super::gap::Gap;
use super::index::{Entry, Head, LINE, Line};
use super::names::{Closed, Name, day};
use super::timeline::Cause;
use crate::media::{Gop, Track};
use crate::mp4::origin::us_of;
use crate::mp4::{Fragment, Init, Mp4Error, Origin};

/// Segments that would begin in the same millisecond as one before: how many later ones are tried.
/// A clock that was set back meets names that are taken.
const STARTS_TRIED_MAX: u64 = 100;

/// Why a group was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk's error.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// It cannot be put into a file.
    #[error(transparent)]
    Unusable(#[from] Mp4Error),
}

/// What others see of a segment while it is being written.
#[derive(Debug, Default)]
pub struct Progress {
    /// When it begins, which is its name.
    pub start_ms: u64,
    /// The lines of its index that the system has taken.
    entries: Mutex<Vec<Entry>>,
    /// Fragments whose bytes and lines the system has taken. Set by the writer alone.
    written: AtomicU32,
    /// Those of them that are on the disk. Set by the sync round alone.
    synced: AtomicU32,
}

impl Progress {
    fn new(start_ms: u64) -> Arc<Self> {
        Arc::new(Self {
            start_ms,
            ..Self::default()
        })
    }

    /// How many fragments the system has.
    pub fn written(&self) -> u32 {
        // Pairs with the store in `append`: what was written before is seen by a sync after.
        self.written.load(Ordering::Acquire)
    }

    /// So many are on the disk.
    pub fn set_synced(&self, fragments: u32) {
        // Pairs with the load in `append`; a number that is a little old is true as well.
        self.synced.store(fragments, Ordering::Release);
    }

    /// The lines of its index.
    pub fn entries(&self) -> Vec<Entry> {
        self.lines().clone()
    }

    fn lines(&self) -> MutexGuard<'_, Vec<Entry>> {
        // A list to which lines are appended, which no panic leaves half-done.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A segment that was written to its end, and has not yet the name of a complete one.
#[derive(Debug)]
pub struct Ended {
    /// The directory of its day.
    pub directory: PathBuf,
    /// Its name, once it is on the disk.
    pub closed: Closed,
    /// What can be read of it until then.
    pub progress: Arc<Progress>,
}

impl Ended {
    /// Gives it its name.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub async fn complete<D: Disk>(&self, disk: &D) -> io::Result<()> {
        let open = Name::Open(self.closed.start_ms).to_string();
        let from = self.directory.join(open);
        disk.rename(&from, &self.directory.join(self.closed.to_string()))
            .await
    }
}

/// The segment.
pub struct Segment<D: Disk> {
    disk: D,
    directory: PathBuf,
    file: D::File,
    index: D::File,
    /// Where the next fragment goes, and the next line.
    end: u64,
    index_end: u64,
    number: u32,
    gaps: u32,
    end_us: i64,
    progress: Arc<Progress>,
    tracks: Arc<[Track]>,
    /// A write failed, and may have left bytes behind.
    has_rest: bool,
}

/// What a segment begins with.
#[derive(Clone, Copy, Debug)]
pub struct Beginning<'a> {
    /// The camera's directory.
    pub camera: &'a Path,
    /// The first group.
    pub gop: &'a Gop,
    /// When its session's times were zero.
    pub origin: Origin,
    /// Why it begins.
    pub cause: Cause,
    /// When the process began.
    pub boot_us: i64,
}

impl<D: Disk> Segment<D> {
    /// Makes the files. The directory of the day is made if it is not there.
    ///
    /// # Errors
    ///
    /// The disk's, and tracks that cannot be put into a file.
    pub async fn begin(disk: &D, beginning: Beginning<'_>) -> Result<Self, WriteError> {
        let Beginning { gop, origin, .. } = beginning;
        let init = Init::of(&gop.tracks)?;
        let start_us = start_us(gop, origin);
        let first_ms = u64::try_from(start_us / 1000).unwrap_or(0);
        let (start_ms, directory, index) = create(disk, beginning.camera, first_ms).await?;
        let head = Head {
            cause: beginning.cause,
            init_len: u32::try_from(init.bytes.len()).unwrap_or(u32::MAX),
            init_checksum: crc32fast::hash(&init.bytes),
            start_us,
            monotonic_us: us_of(gop.start.monotonic).unsigned_abs(),
            origin_us: origin.us,
            boot_us: beginning.boot_us,
        };
        let path = directory.join(Name::Open(start_ms).to_string());
        let began = async {
            let file = disk.create(&path).await?;
            file.write(vec![init.bytes.clone()], 0).await?;
            index
                .write(vec![Bytes::copy_from_slice(&head.write())], 0)
                .await?;
            io::Result::Ok(file)
        };
        let file = match began.await {
            Ok(file) => file,
            Err(error) => {
                // What was made is of no use; recovery removes what cannot be removed now.
                _ = disk.remove(&path).await;
                _ = disk
                    .remove(&directory.join(Name::Index(start_ms).to_string()))
                    .await;
                return Err(error.into());
            }
        };
        Ok(Self {
            disk: disk.clone(),
            directory,
            file,
            index,
            end: init.bytes.len() as u64,
            index_end: LINE as u64,
            number: 0,
            gaps: 0,
            end_us: start_us,
            progress: Progress::new(start_ms),
            tracks: Arc::clone(&gop.tracks),
            has_rest: false,
        })
    }

    /// Writes a group, with what is missing before it: first its bytes, then its lines. If it
    /// fails, nothing has changed, and it can be tried again.
    ///
    /// # Errors
    ///
    /// The disk's, and groups that cannot be put into a file. The segment can be closed then, and
    /// not be written on.
    pub async fn append(
        &mut self,
        gap: Option<Gap>,
        gop: &Gop,
        origin: Origin,
    ) -> Result<(), WriteError> {
        let number = self.number + 1;
        let fragment = Fragment::of(number, &self.tracks, &gop.samples, origin, gop.duration())?;
        let len = u32::try_from(fragment.len).map_err(|_| Mp4Error::TooLong {
            bytes: fragment.len,
        })?;
        let (start_us, duration_us) = span(gop, origin);
        let line = Line {
            number,
            begins_with_key: gop.begins_with_key,
            offset: self.end,
            len,
            checksum: fragment.checksum(),
            start_us,
            duration_us,
            monotonic_us: us_of(gop.start.monotonic).unsigned_abs(),
            wall_us: crate::mp4::origin::unix_us(gop.start.wall),
            // Pairs with the store in `set_synced`.
            synced: self.progress.synced.load(Ordering::Acquire),
        };
        self.has_rest = true;
        self.file.write(fragment.pieces, self.end).await?;
        let lines = gap
            .map(Entry::Gap)
            .into_iter()
            .chain([Entry::Fragment(line)]);
        let lines: Vec<Entry> = lines.collect();
        let bytes: Vec<u8> = lines.iter().flat_map(Entry::write).collect();
        let len = bytes.len() as u64;
        self.index.write(vec![bytes.into()], self.index_end).await?;
        self.index_end += len;
        self.gaps += u32::from(gap.is_some());
        self.progress.lines().extend(lines);
        self.has_rest = false;
        self.number = number;
        self.end = line.end();
        self.end_us = self.end_us.max(line.end_us());
        // Pairs with the load in `written`.
        self.progress.written.store(number, Ordering::Release);
        Ok(())
    }

    /// Ends it. `None` if it has no fragments; then it is removed.
    ///
    /// # Errors
    ///
    /// The disk's. Recovery then completes what is left.
    pub async fn end(self) -> io::Result<Option<Ended>> {
        let start_ms = self.progress.start_ms;
        if self.number == 0 {
            for name in [Name::Open(start_ms), Name::Index(start_ms)] {
                self.disk
                    .remove(&self.directory.join(name.to_string()))
                    .await?;
            }
            return Ok(None);
        }
        if self.has_rest {
            self.file.truncate(self.end).await?;
            self.index.truncate(self.index_end).await?;
        }
        let closed = Closed {
            start_ms,
            length_ms: length_ms(start_ms, self.end_us),
            bytes: self.end,
            gaps: self.gaps,
        };
        Ok(Some(Ended {
            directory: self.directory,
            closed,
            progress: self.progress,
        }))
    }

    /// What others see of it.
    pub fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

/// How long a segment is whose last sample ends then.
pub fn length_ms(start_ms: u64, end_us: i64) -> u64 {
    let end_ms = u64::try_from(end_us / 1000).unwrap_or(0);
    end_ms.saturating_sub(start_ms)
}

/// The index of a new segment, whose name no segment has: its start, its directory and itself.
async fn create<D: Disk>(
    disk: &D,
    camera: &Path,
    first_ms: u64,
) -> io::Result<(u64, PathBuf, D::File)> {
    let mut start_ms = first_ms;
    loop {
        let directory = camera.join(day(start_ms));
        let path = directory.join(Name::Index(start_ms).to_string());
        match disk.create(&path).await {
            Ok(index) => return Ok((start_ms, directory, index)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                disk.make_directory(&directory).await?;
                let index = disk.create(&path).await?;
                return Ok((start_ms, directory, index));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                start_ms += 1;
                if start_ms - first_ms > STARTS_TRIED_MAX {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
}

/// When a group's first sample is, by the calendar.
fn start_us(gop: &Gop, origin: Origin) -> i64 {
    span(gop, origin).0
}

/// When a group is, and how long it lasts: from its first sample to its last one, and as long as
/// that one is likely to last.
fn span(gop: &Gop, origin: Origin) -> (i64, u64) {
    let times = gop.samples.iter().filter_map(|sample| {
        let track = gop.tracks.get(usize::from(sample.track))?;
        Some((track, sample, origin.us_of(track, sample.dts)))
    });
    let (mut start, mut end, mut count) = (i64::MAX, i64::MIN, 0);
    let leading = gop.samples.first().map(|sample| sample.track);
    for (track, sample, us) in times {
        start = start.min(us);
        if Some(sample.track) == leading {
            count += 1;
            let lasts = sample.duration.map(i64::from);
            let lasts = lasts.map_or(0, |ticks| us_of(track.time_of(ticks)));
            end = end.max(us.saturating_add(lasts));
        }
    }
    if count == 0 {
        return (origin.us, 0);
    }
    let mean = |known: i64| {
        if count > 1 {
            known / (count - 1)
        } else {
            us_of(gop.duration())
        }
    };
    let known = end.saturating_sub(start).max(0);
    let is_known = gop
        .samples
        .first()
        .is_some_and(|sample| sample.duration.is_some());
    let lasts = if is_known {
        known
    } else {
        known.saturating_add(mean(known))
    };
    (start, lasts.unsigned_abs())
}
