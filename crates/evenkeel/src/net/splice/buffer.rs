//! Buffers for copying, of which each thread keeps one.
//!
//! A direction has a buffer only during a poll, or while bytes are in it that its receiver has no
//! room for.

use std::cell::Cell;

/// The length of a buffer: two records of TLS, or the most that one page fragment of a socket has.
/// Longer ones save few system calls, and each slow receiver keeps one.
pub(super) const BUFFER_LEN: usize = 32 * 1024;

thread_local! {
    static SPARE: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// The bytes that were read and not yet written.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Buffer {
    pub(super) fn take() -> Self {
        // A thread whose locals are gone has no spare one.
        let spare = SPARE.try_with(Cell::take).unwrap_or(None);
        Self {
            bytes: spare.unwrap_or_else(|| vec![0; BUFFER_LEN].into_boxed_slice()),
            start: 0,
            end: 0,
        }
    }

    /// Keeps an empty buffer for the next one on this thread.
    pub(super) fn give_back(self) {
        debug_assert!(self.is_empty(), "bytes would be lost");
        let _ = SPARE.try_with(|spare| spare.set(Some(self.bytes)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// What is to be written.
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Room to read into, if it is empty.
    pub(super) fn room(&mut self, len: usize) -> &mut [u8] {
        debug_assert!(self.is_empty(), "bytes would be overwritten");
        let len = len.min(self.bytes.len());
        &mut self.bytes[..len]
    }

    /// Room behind what is to be written.
    pub(super) fn room_behind(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    pub(super) fn note_filled_behind(&mut self, count: usize) {
        self.end = (self.end + count).min(self.bytes.len());
    }

    pub(super) fn note_filled(&mut self, count: usize) {
        (self.start, self.end) = (0, count.min(self.bytes.len()));
    }

    pub(super) fn note_drained(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }
}
