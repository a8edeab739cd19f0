//! The server's memory for requests and answers: one budget for all connections, divided into
//! parts.
//!
//! - A fixed amount for each connection that there may be: its tasks, and buffers up to a few KiB.
//! - A fixed amount for each log with a name that may be open: its tasks, and a buffer for a batch.
//! - A part for appends, from the first bytes of a frame until the record's answer is on its way.
//! - A part for reads: a read takes room for the most that it may return, before it reads, keeps
//!   what its answer has, and gives that back when the client has taken it.
//!
//! Room is given first come, first served. A connection gets only a share of the part for reads, so
//! one that asks much and takes little holds up few others. Readers cannot starve appends, as these
//! have a part of their own. When somebody has waited for [`PATIENCE`], those who hold room of that
//! part and have made no progress for [`GRACE`] are cut off, the slowest first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use evenkeel::time::sleep;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use txlog_client::Record;
use txlog_client::frame::{BATCHED_OVERHEAD, RECORD_OVERHEAD, RECORDS_OVERHEAD};

use super::complaints::Complaints;
use super::peers::{Part, Peer, Peers};
use super::{BindError, ServerConfig};
use crate::log::ReadLimits;

/// How much each connection may take besides its large requests and answers: a buffer for each
/// direction, tasks, and reads that wait.
const CONNECTION_BYTES: usize = 64 * 1024;

/// How much TLS may take for each connection besides: 64 KiB for messages of a handshake, 18 and
/// 16 for a record and what was in it, 16 for what is sent, and its state.
const TLS_BYTES: usize = 128 * 1024;

/// How much is set aside for each connection.
pub(super) fn connection_bytes(with_tls: bool) -> usize {
    CONNECTION_BYTES + if with_tls { TLS_BYTES } else { 0 }
}

/// How much a log with a name may take besides the records that are pending, which have room of the
/// appends: its tasks, the index of its files, a buffer for batches, its producers and cursors.
const LOG_BYTES: usize = 1 << 20;

/// What a pending append takes besides its record.
const APPEND_BYTES: usize = 512;

/// What a buffer for requests takes besides a large frame.
const BUFFER_BYTES: usize = 32 * 1024;

/// What a store reads at a time. A record that is returned may keep that much alive.
const WINDOW_BYTES: usize = 128 * 1024;

/// The part of the room that is for appends; the others are for reads. A read returns many records,
/// and an append has one.
const APPENDS_PART: usize = 4;

/// No read takes more than this part of the room for reads, unless a single record needs it.
const READ_PART: usize = 8;

/// No connection holds more than this part of the room for reads, unless a single read needs it.
const SHARE: usize = 16;

/// How long somebody waits before others are cut off for it: longer than a burst of reads takes.
const PATIENCE: Duration = Duration::from_millis(500);

/// How long a connection may make no progress while others wait for what it holds. Networks recover
/// from a lost packet in less.
const GRACE: Duration = Duration::from_secs(2);

/// How often this is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The memory that all connections share.
#[derive(Debug)]
pub(super) struct Memory {
    reads: Shared,
    appends: Shared,
}

#[derive(Debug)]
struct Shared {
    bytes: usize,
    room: Arc<Semaphore>,
    line: Mutex<Line>,
}

/// Those who wait for room.
#[derive(Debug, Default)]
struct Line {
    bytes: usize,
    waiting: usize,
    /// Since when there has always been somebody.
    since: Option<Instant>,
}

/// Room that a connection holds, until it is dropped.
#[derive(Debug)]
pub(super) struct Room {
    permit: OwnedSemaphorePermit,
    /// As much of the connection's share, if this is for a read.
    of_share: Option<OwnedSemaphorePermit>,
    part: Part,
    peer: Arc<Peer>,
}

impl Memory {
    /// Divides the memory.
    ///
    /// # Errors
    ///
    /// [`BindError::Memory`]: it is too little for one record and the connections.
    pub(super) fn new(
        config: &ServerConfig,
        connection_bytes: usize,
        (record_bytes_max, logs): (usize, usize),
    ) -> Result<Self, BindError> {
        let connections = config.connections_max.saturating_add(config.reserve_max);
        let fixed = connections
            .saturating_mul(connection_bytes)
            .saturating_add(logs.saturating_mul(LOG_BYTES));
        let least = (WINDOW_BYTES + RECORDS_OVERHEAD)
            .saturating_add(read_bytes(1, 1, record_bytes_max))
            .saturating_mul(APPENDS_PART)
            .div_ceil(APPENDS_PART - 1)
            .max(APPENDS_PART.saturating_mul(frame_bytes(
                record_bytes_max.saturating_add(BATCHED_OVERHEAD),
            )))
            .saturating_add(fixed);
        if config.memory_bytes < least {
            return Err(BindError::Memory {
                bytes: config.memory_bytes,
                least,
                connections,
                logs,
                record_bytes_max,
            });
        }
        let room = (config.memory_bytes - fixed).min(Semaphore::MAX_PERMITS);
        let appends = room / APPENDS_PART;
        Ok(Self {
            reads: Shared::new(room - appends),
            appends: Shared::new(appends),
        })
    }

    /// The most bytes of a batch for which there is room.
    pub(super) fn batch_bytes_max(&self) -> usize {
        self.appends.bytes.saturating_sub(frame_bytes(0))
    }

    /// The limits of a read, so that many others have room as well.
    pub(super) fn limit(&self, limits: ReadLimits) -> ReadLimits {
        let most = self.reads.bytes / READ_PART;
        ReadLimits {
            records_max: limits
                .records_max
                .min(most / 2 / read_bytes(1, 0, 0))
                .max(1),
            bytes_max: limits.bytes_max.min(most / 2 / read_bytes(0, 1, 0)),
        }
    }

    /// A connection's share of the room for reads.
    pub(super) fn share(&self) -> Arc<Semaphore> {
        Arc::new(Semaphore::new((self.reads.bytes / SHARE).max(1)))
    }

    /// Waits for room for the most that such a read may take, in the connection's share first.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: who waits loses its place in the line.
    pub(super) async fn for_read(
        &self,
        peer: &Arc<Peer>,
        share: &Arc<Semaphore>,
        limits: ReadLimits,
        record_bytes_max: usize,
    ) -> Room {
        let bytes = all_bytes(limits, record_bytes_max);
        let own = self.of_share(share, bytes).await;
        self.of_reads(peer, own, bytes).await
    }

    /// Waits for a turn, and for room to look at a record at a time. Whoever waits for its own
    /// share has no turn, and whoever waits for a turn has no room: it would keep that from others.
    ///
    /// # Cancel safety
    ///
    /// As [`for_read`](Memory::for_read).
    pub(super) async fn for_seek<'a>(
        &self,
        peer: &Arc<Peer>,
        share: &Arc<Semaphore>,
        turns: &'a Semaphore,
        record_bytes_max: usize,
    ) -> (Room, Option<SemaphorePermit<'a>>) {
        let limits = ReadLimits {
            records_max: 1,
            bytes_max: 0,
        };
        let bytes = all_bytes(limits, record_bytes_max);
        let own = self.of_share(share, bytes).await;
        // It is never closed.
        let turn = turns.acquire().await.ok();
        (self.of_reads(peer, own, bytes).await, turn)
    }

    /// A read that needs more than the share has all of it.
    async fn of_share(&self, share: &Arc<Semaphore>, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let own = permits(bytes.min(self.reads.bytes / SHARE));
        Arc::clone(share).acquire_many_owned(own).await.ok()
    }

    async fn of_reads(
        &self,
        peer: &Arc<Peer>,
        own: Option<OwnedSemaphorePermit>,
        bytes: usize,
    ) -> Room {
        let mut room = self.reads.take(Part::Reads, peer, bytes).await;
        room.of_share = own;
        room
    }

    /// Waits for room for the rest of a frame with this many bytes, and its record.
    ///
    /// # Cancel safety
    ///
    /// As [`for_read`](Memory::for_read).
    pub(super) async fn for_frame(&self, peer: &Arc<Peer>, bytes: usize) -> Room {
        let bytes = bytes.saturating_add(BUFFER_BYTES + APPEND_BYTES);
        self.appends.take(Part::Appends, peer, bytes).await
    }

    /// Waits for room for a record that came in a small frame.
    ///
    /// # Cancel safety
    ///
    /// As [`for_read`](Memory::for_read).
    pub(super) async fn for_append(&self, peer: &Arc<Peer>, bytes: usize) -> Room {
        let bytes = bytes.saturating_add(APPEND_BYTES);
        self.appends.take(Part::Appends, peer, bytes).await
    }

    /// Of each part, how many bytes are held, how many there are, and who waits.
    pub(super) fn figures(&self) -> [(&'static str, usize, usize, usize); 2] {
        [("appends", &self.appends), ("reads", &self.reads)].map(|(part, shared)| {
            let held = shared.bytes.saturating_sub(shared.room.available_permits());
            (part, held, shared.bytes, shared.line().waiting)
        })
    }

    /// Cuts off slow connections when others wait for what they hold. Does not return.
    pub(super) async fn guard(&self, peers: &Peers) {
        let mut complaints = Complaints::default();
        loop {
            sleep(LOOK_EVERY).await;
            let cut = self.relieve(peers, Instant::now());
            if cut > 0 {
                complaints.say(
                    "cutting off connections that make no progress, as others wait for the memory \
                     that they hold; give more by --memory-bytes, if clients are merely slow"
                        .to_owned(),
                );
            }
        }
    }

    fn relieve(&self, peers: &Peers, now: Instant) -> usize {
        let mut cut = 0;
        for (part, shared) in [(Part::Reads, &self.reads), (Part::Appends, &self.appends)] {
            let line = shared.line();
            let (bytes, since) = (line.bytes, line.since);
            drop(line);
            let waited = since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
            if waited >= PATIENCE
                && let Some(before) = now.checked_sub(GRACE)
            {
                cut += peers.relieve(part, bytes, before);
            }
        }
        cut
    }
}

/// What a read takes at most.
fn all_bytes(limits: ReadLimits, record_bytes_max: usize) -> usize {
    let ReadLimits {
        records_max,
        bytes_max,
    } = limits;
    WINDOW_BYTES
        .saturating_add(RECORDS_OVERHEAD)
        .saturating_add(read_bytes(records_max, bytes_max, record_bytes_max))
}

/// What records take while they are read and encoded: windows of the file, which they share, the
/// list of them, and the frame.
fn read_bytes(records: usize, bytes: usize, record_bytes_max: usize) -> usize {
    // A window is at most twice as large as the records that are used of it, and the list doubles.
    let payload = bytes.max(record_bytes_max).saturating_mul(3);
    let of_each = RECORD_OVERHEAD + 2 * size_of::<Record>();
    payload.saturating_add(records.saturating_mul(of_each))
}

/// What the largest append takes.
fn frame_bytes(record_bytes_max: usize) -> usize {
    record_bytes_max.saturating_add(BUFFER_BYTES + 2 * APPEND_BYTES)
}

/// A permit for each byte.
fn permits(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX).max(1)
}

impl Shared {
    fn new(bytes: usize) -> Self {
        Self {
            bytes,
            room: Arc::new(Semaphore::new(bytes)),
            line: Mutex::default(),
        }
    }

    async fn take(&self, part: Part, peer: &Arc<Peer>, bytes: usize) -> Room {
        // The whole part is as much as anybody gets: the largest record fits by then.
        let bytes = bytes.clamp(1, self.bytes.max(1));
        let permits = permits(bytes);
        let permit = match Arc::clone(&self.room).try_acquire_many_owned(permits) {
            Ok(permit) => permit,
            Err(_) => {
                let _waiter = Waiter::new(self, bytes);
                let permit = Arc::clone(&self.room).acquire_many_owned(permits).await;
                permit.expect("it is never closed")
            }
        };
        peer.hold(part, permit.num_permits());
        Room {
            permit,
            of_share: None,
            part,
            peer: Arc::clone(peer),
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who waits for room.
struct Waiter<'a> {
    shared: &'a Shared,
    bytes: usize,
}

impl<'a> Waiter<'a> {
    fn new(shared: &'a Shared, bytes: usize) -> Self {
        let mut line = shared.line();
        line.bytes += bytes;
        line.waiting += 1;
        line.since.get_or_insert_with(Instant::now);
        Self { shared, bytes }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut line = self.shared.line();
        line.bytes -= self.bytes;
        line.waiting -= 1;
        if line.waiting == 0 {
            line.since = None;
        }
    }
}

impl Room {
    /// Gives back what is more than this.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        let more = self.permit.num_permits().saturating_sub(bytes);
        if let Some(rest) = self.permit.split(more) {
            self.peer.release(self.part, more);
            drop(rest);
        }
        if let Some(own) = &mut self.of_share {
            drop(own.split(own.num_permits().saturating_sub(bytes)));
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.peer.release(self.part, self.permit.num_permits());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: ReadLimits = ReadLimits {
        records_max: 1,
        bytes_max: 1 << 20,
    };

    fn memory() -> Memory {
        let config = ServerConfig::default();
        Memory::new(&config, connection_bytes(false), (1 << 20, 0)).unwrap()
    }

    fn peer() -> Arc<Peer> {
        let peers = Arc::new(Peers::new(8, 0));
        Arc::clone(&peers.join(Instant::now()).unwrap().peer)
    }

    #[test]
    fn who_waits_for_a_turn_holds_no_room_and_who_waits_for_its_share_has_no_turn() {
        let runtime = evenkeel::runtime::Builder::new()
            .workers(1)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (memory, turns, peer) = (memory(), Semaphore::new(1), peer());
            let (mine, other) = (memory.share(), memory.share());
            // All that the connection may have.
            let most = memory.for_read(&peer, &mine, ALL, usize::MAX).await;
            drop(most);
            let free = memory.reads.room.available_permits();
            let turn = turns.acquire().await.unwrap();
            let seek = memory.for_seek(&peer, &mine, &turns, 1 << 20);
            let mut seek = std::pin::pin!(seek);
            let now = evenkeel::time::timeout(Duration::from_millis(5), &mut seek).await;
            assert!(now.is_err(), "there is no turn");
            assert_eq!(memory.reads.room.available_permits(), free);
            drop(turn);
            let (room, turn) = seek.await;
            assert!(turn.is_some() && memory.reads.room.available_permits() < free);
            drop((room, turn));
            let own = mine.acquire_many(mine.available_permits() as u32).await;
            let seek = memory.for_seek(&peer, &mine, &turns, 1 << 20);
            let mut seek = std::pin::pin!(seek);
            let now = evenkeel::time::timeout(Duration::from_millis(5), &mut seek).await;
            assert!(now.is_err(), "it has no share left");
            assert_eq!(turns.available_permits(), 1);
            let seek = memory.for_seek(&peer, &other, &turns, 1 << 20);
            assert!(seek.await.1.is_some());
            drop(own);
        });
    }
}
