//! How many messages are asked for before the first of them has come.
//!
//! They come one for each request, so a read asks for some at once. How large they are it does not
//! know, and what comes beyond its limit was asked for in vain. So it goes by the largest that it
//! has met, and begins with what the read before it met.
//!
//! That is a guess. What holds whatever comes: all reads of a store together have so much asked for
//! that the answers fit into [`ALL_KIB`], were each as large as the server lets a message be.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::log::ReadLimits;

/// The most messages that one read asks for at a time.
const MESSAGES_MAX: usize = 32;

/// How much the answers to all reads may be, in KiB.
const ALL_KIB: usize = 64 * 1024;

/// What the reads of a store share.
#[derive(Debug)]
pub(super) struct Ahead {
    /// In KiB.
    room: Semaphore,
    /// The largest message that the last read met, in bytes.
    largest: AtomicUsize,
}

impl Ahead {
    /// For messages of so many bytes at most, as long as none has been seen.
    pub(super) fn new(message_bytes_max: usize) -> Self {
        Self {
            room: Semaphore::new(ALL_KIB),
            largest: AtomicUsize::new(message_bytes_max),
        }
    }

    pub(super) fn begin(&self, limits: ReadLimits) -> Window<'_> {
        Window {
            ahead: self,
            limits,
            met: 0,
        }
    }

    /// Room for one more answer of so many bytes at most, to be held until it has been taken. A
    /// read that waits for none yet waits for room; another one does with what it has.
    pub(super) async fn room(
        &self,
        message_bytes_max: usize,
        waits: bool,
    ) -> Option<SemaphorePermit<'_>> {
        let kib = message_bytes_max.div_ceil(1024).clamp(1, ALL_KIB) as u32;
        if waits {
            return self.room.try_acquire_many(kib).ok();
        }
        // It is never closed.
        self.room.acquire_many(kib).await.ok()
    }
}

/// One read's view.
#[derive(Debug)]
pub(super) struct Window<'a> {
    ahead: &'a Ahead,
    limits: ReadLimits,
    /// The largest message so far, in bytes.
    met: usize,
}

impl Window<'_> {
    /// For how many messages the read may wait at a time, if it has so many records with so many
    /// bytes.
    pub(super) fn messages(&self, records: usize, bytes: usize) -> usize {
        let usual = match self.met {
            // Relaxed: a guess.
            0 => self.ahead.largest.load(Ordering::Relaxed),
            met => met,
        };
        let fit = self.limits.bytes_max.saturating_sub(bytes) / usual.max(1);
        let wanted = self.limits.records_max.saturating_sub(records);
        fit.clamp(1, MESSAGES_MAX).min(wanted)
    }

    /// A message of so many bytes has come.
    pub(super) fn came(&mut self, bytes: usize) {
        self.met = self.met.max(bytes);
        // Relaxed: as above.
        self.ahead.largest.store(self.met, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
