//! Lines that wait to be written.
//!
//! Who adds one never waits for who writes: the lock is held for a copy of the line alone.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Lines, up to a number of bytes.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    lines: u64,
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Added {
    /// It is the first one that waits.
    First,
    /// Others wait before it.
    More,
    /// There is no room for it.
    Full,
}

impl Queue {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            waiting: Mutex::default(),
            bytes_max,
        }
    }

    /// Adds a line, with its end.
    pub(super) fn add(&self, line: &[u8]) -> Added {
        let mut waiting = self.waiting();
        if waiting.bytes.len() + line.len() > self.bytes_max {
            return Added::Full;
        }
        waiting.bytes.extend_from_slice(line);
        waiting.lines += 1;
        if waiting.lines == 1 {
            Added::First
        } else {
            Added::More
        }
    }

    /// Takes all, and how many they are; what is given is used for those to come.
    pub(super) fn take(&self, mut empty: Vec<u8>) -> (Vec<u8>, u64) {
        empty.clear();
        let mut waiting = self.waiting();
        let lines = std::mem::take(&mut waiting.lines);
        (std::mem::replace(&mut waiting.bytes, empty), lines)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting().lines == 0
    }

    pub(super) fn bytes(&self) -> usize {
        self.waiting().bytes.len()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // At worst the count is one less than there are lines.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_left_out_whole() {
        let queue = Queue::new(10);
        assert_eq!(queue.add(b"1234\n"), Added::First);
        assert_eq!(queue.add(b"123456\n"), Added::Full);
        assert_eq!(queue.add(b"5678\n"), Added::More);
        assert_eq!(queue.add(b"\n"), Added::Full);
        assert!(!queue.is_empty());
        let (bytes, lines) = queue.take(b"left".to_vec());
        assert_eq!((bytes.as_slice(), lines), (&b"1234\n5678\n"[..], 2));
        assert!(queue.is_empty());
        assert_eq!(queue.add(b"1\n"), Added::First);
        assert_eq!(queue.take(Vec::new()), (b"1\n".to_vec(), 1));
    }
}
