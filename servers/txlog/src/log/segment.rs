//! One file of the log: its name, its head, and an index of some of its records.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::rand::{SecureRandom, SystemRandom};

use super::record::{Damage, Head};
use super::{Disk, DiskFile, LogError};

/// The least distance between two places in the index.
const INDEX_STEP_BYTES: u64 = 64 * 1024;

const SUFFIX: &str = ".seg";

/// What `repair` cuts off is kept in files with this suffix.
const CUT_SUFFIX: &str = ".cut";

#[derive(Debug)]
pub(super) struct Segment<F> {
    pub(super) name: String,
    pub(super) first: u64,
    pub(super) head: Head,
    /// Kept open as long as the segment is the last one: there may be more of the others than the
    /// system lets a process open.
    kept: Mutex<Option<Arc<F>>>,
    bytes: AtomicU64,
    /// When the newest record was accepted; 0 if that is not known.
    newest_ms: AtomicU64,
    /// Numbers of records and their offsets, in order: where to begin to look for a record.
    index: Mutex<Vec<(u64, u64)>>,
}

impl<F> Segment<F> {
    pub(super) fn new(head: Head, kept: Option<Arc<F>>, bytes: u64) -> Self {
        let first = head.first;
        Self {
            name: name_of(first),
            first,
            head,
            kept: Mutex::new(kept),
            bytes: AtomicU64::new(bytes),
            newest_ms: AtomicU64::new(0),
            index: Mutex::new(vec![(first, head.bytes())]),
        }
    }

    /// Its file, if that is kept open.
    pub(super) fn kept(&self) -> Option<Arc<F>> {
        self.lock_kept().clone()
    }

    /// Keeps its file open, or no longer.
    pub(super) fn keep(&self, file: Option<Arc<F>>) {
        *self.lock_kept() = file;
    }

    fn lock_kept(&self) -> MutexGuard<'_, Option<Arc<F>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn bytes(&self) -> u64 {
        // Relaxed: a figure for retention, which orders nothing else.
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_bytes(&self, bytes: u64) {
        // Relaxed: see `bytes`.
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// When the newest record was accepted, if that is known.
    pub(super) fn newest_ms(&self) -> Option<u64> {
        // Relaxed: see `bytes`.
        let newest_ms = self.newest_ms.load(Ordering::Relaxed);
        (newest_ms > 0).then_some(newest_ms)
    }

    pub(super) fn set_newest_ms(&self, newest_ms: u64) {
        // Relaxed: see `bytes`.
        self.newest_ms.store(newest_ms, Ordering::Relaxed);
    }

    /// A record at or before `sequence`, and its offset.
    pub(super) fn place_before(&self, sequence: u64) -> (u64, u64) {
        let index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let after = index.partition_point(|&(first, _)| first <= sequence);
        index[after.max(1) - 1]
    }

    /// Adds a record to the index, if it is far enough behind the last one.
    pub(super) fn remember(&self, sequence: u64, offset: u64) {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let last = index.last().map_or(0, |&(_, offset)| offset);
        if offset >= last + INDEX_STEP_BYTES {
            index.push((sequence, offset));
        }
    }
}

impl<F: DiskFile> Segment<F> {
    /// Its file, which is opened if it is not kept.
    pub(super) async fn open<D: Disk<File = F>>(&self, disk: &D) -> io::Result<Arc<F>> {
        match self.kept() {
            Some(file) => Ok(file),
            None => disk.open(&self.name).await.map(Arc::new),
        }
    }
}

impl<F> Segment<F> {
    /// The error of a read that finds no record where one has to be. `following` is the first
    /// record of the next segment.
    pub(super) fn corrupt(
        &self,
        (offset, sequence): (u64, u64),
        damage: Option<Damage>,
        following: Option<u64>,
    ) -> LogError {
        LogError::Corrupt {
            segment: self.name.clone(),
            offset,
            sequence,
            damage: damage.unwrap_or(Damage::CutHeader { have: 0 }),
            later: String::new(),
            following,
        }
    }
}

/// A key for a new segment, which nobody can guess.
pub(super) fn new_key() -> io::Result<u64> {
    let mut key = [0; 8];
    let filled = SystemRandom::new().fill(&mut key);
    filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
    Ok(u64::from_le_bytes(key))
}

/// The name of the segment that begins with this record; names sort like the numbers.
pub(super) fn name_of(first: u64) -> String {
    format!("{first:020}{SUFFIX}")
}

/// The number of the first record, if this is the name of a segment.
pub(super) fn first_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(SUFFIX)?;
    let all = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| digits.parse().ok())?
}

/// The name of the file that keeps what was cut off a segment from `offset` on, at the `nth` time.
pub(super) fn cut_name(segment: &str, offset: u64, nth: u32) -> String {
    format!("{segment}.{offset}-{nth}{CUT_SUFFIX}")
}

/// Whether this is the name of such a file.
pub(super) fn is_cut(name: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let place = name.strip_suffix(CUT_SUFFIX).and_then(|name| {
        let (segment, place) = name.rsplit_once('.')?;
        first_of(segment)?;
        place.split_once('-')
    });
    place.is_some_and(|(offset, nth)| digits(offset) && digits(nth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        assert_eq!(first_of(&name_of(17)), Some(17));
        assert!(is_cut(&cut_name(&name_of(17), 4_000, 1)));
        for strange in [
            "17.seg",
            "a.seg",
            "00000000000000000017.seg.x-1.cut",
            "1-1.cut",
            ".cut",
        ] {
            assert!(first_of(strange).is_none() && !is_cut(strange), "{strange}");
        }
    }
}
