//! One file of the log: its name, its head, and an index of some of its records.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::record::HEAD_BYTES;

/// The least distance between two places in the index.
const INDEX_STEP_BYTES: u64 = 64 * 1024;

const SUFFIX: &str = ".seg";

#[derive(Debug)]
pub(super) struct Segment<F> {
    pub(super) name: String,
    pub(super) first: u64,
    pub(super) created_ms: u64,
    pub(super) file: F,
    bytes: AtomicU64,
    /// Numbers of records and their offsets, in order: where to begin to look for a record.
    index: Mutex<Vec<(u64, u64)>>,
}

impl<F> Segment<F> {
    pub(super) fn new(first: u64, created_ms: u64, file: F, bytes: u64) -> Self {
        Self {
            name: name_of(first),
            first,
            created_ms,
            file,
            bytes: AtomicU64::new(bytes),
            index: Mutex::new(vec![(first, HEAD_BYTES as u64)]),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        // Relaxed: a figure for retention, which orders nothing else.
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn set_bytes(&self, bytes: u64) {
        // Relaxed: see `bytes`.
        self.bytes.store(bytes, Ordering::Relaxed);
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
