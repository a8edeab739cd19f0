//! Appending: batches of records to the last segment, and a new segment when it is full.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use evenkeel::fs::{CommitFile, CommitLog, Position, write_all_at};
use tokio::sync::OwnedMutexGuard;

use super::record::{HEAD_BYTES, Head, Header};
use super::segment::{Segment, name_of};
use super::{Disk, End, LogError, Shared, now_ms};

/// The segment that grows, and its end. Who has it locked is between two batches: the writer keeps
/// the lock from a batch's write to its sync.
pub(super) struct Active<F> {
    pub(super) segment: Arc<Segment<F>>,
    /// The offset of the next batch.
    pub(super) end: u64,
    /// The length of the file, as far as it is known to be written.
    pub(super) len: u64,
    /// The number after the last record that was written.
    pub(super) next: u64,
    /// When the first record of the segment was accepted; `None` if it has none.
    pub(super) oldest_ms: Option<u64>,
    /// Set between batches. Cleared when a batch or a new segment begins, and set again when that
    /// has succeeded; so it stays cleared after a failure. Cleared for good when the log closes.
    pub(super) is_sound: bool,
}

impl<F> Active<F> {
    pub(super) fn has_records(&self) -> bool {
        self.end > HEAD_BYTES as u64
    }

    fn ended(&self) -> End {
        End {
            segment: self.segment.first,
            next: self.next,
            bytes: self.end,
        }
    }
}

pub(super) struct Writer<D: Disk> {
    shared: Arc<Shared<D>>,
    /// From a batch's write to its sync.
    active: Option<OwnedMutexGuard<Active<D::File>>>,
    buffer: BytesMut,
}

impl<D: Disk> Writer<D> {
    /// Continues after the records that recovery found.
    pub(super) fn new(shared: Arc<Shared<D>>) -> Self {
        Self {
            shared,
            active: None,
            buffer: BytesMut::new(),
        }
    }

    fn encode(
        &mut self,
        active: &Active<D::File>,
        first: u64,
        records: &[Bytes],
        time_ms: u64,
    ) -> Bytes {
        let mut offset = active.end;
        for (back, payload) in records.iter().enumerate() {
            let header = Header {
                sequence: first + back as u64,
                time_ms,
                batch_back: back as u32,
                length: payload.len() as u32,
                payload_crc: crc32fast::hash(payload),
                log_id: self.shared.log_id,
            };
            active.segment.remember(header.sequence, offset);
            header.encode(payload, &mut self.buffer);
            offset += header.record_bytes() as u64;
        }
        self.buffer.split().freeze()
    }
}

impl<D: Disk> Shared<D> {
    /// Whether the segment is to be followed by a new one, by its size or its age.
    pub(super) fn is_full(&self, active: &Active<D::File>, now_ms: u64) -> bool {
        let retention = &self.config.retention;
        let is_old = |oldest_ms| retention.is_too_old(oldest_ms, now_ms);
        active.has_records()
            && (active.end >= self.config.segment_bytes || active.oldest_ms.is_some_and(is_old))
    }

    /// Truncates the segment after its last record, and begins a new one. All its records are
    /// durable by now, since batches are written one at a time.
    pub(super) async fn rotate(&self, active: &mut Active<D::File>) -> io::Result<()> {
        // Else the new segment would be made in the directory that has taken the log's place.
        self.stay_in_place().await.map_err(io::Error::other)?;
        if active.len > active.end {
            // Not synced: after a crash there may be zeros behind the records, which is allowed.
            active.segment.file.set_len(active.end).await?;
        }
        let segment = create(&self.disk, active.next, self.log_id).await?;
        active.segment = Arc::new(segment);
        active.end = HEAD_BYTES as u64;
        active.len = active.end;
        active.oldest_ms = None;
        self.segments().push(Arc::clone(&active.segment));
        self.set_end(active.ended());
        // A segment that is missing later is missed from now on.
        self.write_mark().await?;
        // A failed removal is tried again later, and is no reason to refuse records.
        let _ = self.retain_unless_under_way().await;
        Ok(())
    }
}

impl<D: Disk> CommitLog for Writer<D> {
    async fn write(&mut self, first: Position, records: &[Bytes]) -> io::Result<()> {
        let mut active = Arc::clone(&self.shared.active).lock_owned().await;
        if let Some(halt) = self.shared.halt.get() {
            return Err(io::Error::other(halt.clone()));
        }
        if !active.is_sound {
            return Err(io::Error::other(LogError::Closed));
        }
        active.is_sound = false;
        let time_ms = now_ms();
        if self.shared.is_full(&active, time_ms) {
            self.shared.rotate(&mut active).await?;
        }
        let bytes = self.encode(&active, first.index, records, time_ms);
        let end = active.end + bytes.len() as u64;
        let ahead = self.shared.config.ahead_bytes;
        if ahead > 0 && end > active.len {
            let len = end + ahead;
            active.segment.file.set_len(len).await?;
            active.len = len;
        }
        write_all_at(&active.segment.file, bytes, active.end).await?;
        active.end = end;
        active.next = first.index + records.len() as u64;
        active.segment.set_newest_ms(time_ms);
        active.oldest_ms.get_or_insert(time_ms);
        self.active = Some(active);
        Ok(())
    }

    async fn sync(&mut self) -> io::Result<()> {
        let Some(mut active) = self.active.take() else {
            // Nothing was written since the last sync.
            return Ok(());
        };
        active.segment.file.sync_data().await?;
        active.segment.set_bytes(active.end);
        // Now, and not before: readers see only durable records, and the mark covers no others.
        self.shared.set_end(active.ended());
        self.shared.next.send_replace(active.next);
        active.is_sound = true;
        Ok(())
    }
}

/// Creates a segment whose head and name survive a crash. The log has its mark by then.
pub(super) async fn create<D: Disk>(
    disk: &D,
    first: u64,
    log_id: u32,
) -> io::Result<Segment<D::File>> {
    let created_ms = now_ms();
    let head = Head {
        log_id,
        first,
        created_ms,
        marked: true,
    };
    let file = disk.create(&name_of(first)).await?;
    write_all_at(&file, head.encode(), 0).await?;
    file.sync_data().await?;
    disk.sync_names().await?;
    Ok(Segment::new(first, created_ms, file, HEAD_BYTES as u64))
}
