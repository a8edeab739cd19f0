//! How many messages a read requests before the first of them has arrived.
//!
//! Each message needs a request, so a read makes several at once. It does not know how large the
//! messages are, and messages beyond its limit are requested in vain. So it assumes the size of the
//! largest message so far, and begins with that of the previous read.
//!
//! That is a guess. This bound always holds: the answers to the pending requests of all reads, of
//! all streams, fit into [`ANSWERS_KIB`], even if each is as large as the server allows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{Semaphore, SemaphorePermit};

use super::room::ANSWERS_KIB;
use crate::log::ReadLimits;

/// The most messages that one read requests at a time.
const MESSAGES_MAX: usize = 32;

/// The state that the reads of a store share.
#[derive(Debug)]
pub(super) struct Ahead {
    /// In KiB; also for the reads of other streams.
    room: Arc<Semaphore>,
    /// The largest message of the previous read, in bytes.
    largest: AtomicUsize,
}

impl Ahead {
    /// Assumes messages of at most this many bytes until one has been seen.
    pub(super) fn new(room: Arc<Semaphore>, message_bytes_max: usize) -> Self {
        Self {
            room,
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

    /// Reserves room for one more answer of up to so many bytes, until it has been taken. A read
    /// without a pending answer waits for room; others continue with the answers they have.
    pub(super) async fn room(
        &self,
        message_bytes_max: usize,
        waits: bool,
    ) -> Option<SemaphorePermit<'_>> {
        let kib = message_bytes_max.div_ceil(1024).clamp(1, ANSWERS_KIB) as u32;
        if waits {
            return self.room.try_acquire_many(kib).ok();
        }
        // It is never closed.
        self.room.acquire_many(kib).await.ok()
    }
}

/// The state of one read.
#[derive(Debug)]
pub(super) struct Window<'a> {
    ahead: &'a Ahead,
    limits: ReadLimits,
    /// The largest message so far, in bytes.
    met: usize,
}

impl Window<'_> {
    /// How many messages the read may request at a time, if it has room for this many records and
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

    /// A message of this many bytes has arrived.
    pub(super) fn came(&mut self, bytes: usize) {
        self.met = self.met.max(bytes);
        // Relaxed: as above.
        self.ahead.largest.store(self.met, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
