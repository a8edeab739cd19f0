//! Appending: batches of records to the last segment, and a new segment when it is full.

use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use evenkeel::fs::{CommitFile, CommitLog, Position, write_all_at};

use super::record::{HEAD_BYTES, Head, Header};
use super::segment::{Segment, name_of};
use super::{Disk, Shared, now_ms};

pub(super) struct Writer<D: Disk> {
    shared: Arc<Shared<D>>,
    active: Arc<Segment<D::File>>,
    /// The offset of the next batch.
    end: u64,
    /// The length of the file, as far as it is known to be written.
    len: u64,
    /// The number after the last record that was written.
    next: u64,
    buffer: BytesMut,
}

impl<D: Disk> Writer<D> {
    /// Continues after the records that recovery found.
    pub(super) fn new(shared: Arc<Shared<D>>, end: u64) -> Self {
        let active = shared.segments().last().map(Arc::clone);
        let next = *shared.next.borrow();
        Self {
            active: active.expect("recovery leaves a segment, or makes one"),
            end,
            len: end,
            next,
            buffer: BytesMut::new(),
            shared,
        }
    }

    /// Truncates the segment after its last record, and begins a new one. All its records are
    /// durable by now, since batches are written one at a time.
    async fn rotate(&mut self) -> io::Result<()> {
        if self.len > self.end {
            // Not synced: after a crash there may be zeros behind the records, which is allowed.
            self.active.file.set_len(self.end).await?;
        }
        let active = create(&self.shared.disk, self.next, self.shared.log_id).await?;
        self.active = Arc::new(active);
        self.end = HEAD_BYTES as u64;
        self.len = self.end;
        self.shared.segments().push(Arc::clone(&self.active));
        // A failed removal is tried again later, and is no reason to refuse records.
        let _ = self.shared.retain_unless_under_way().await;
        Ok(())
    }

    fn encode(&mut self, first: u64, records: &[Bytes]) -> Bytes {
        let time_ms = now_ms();
        let mut offset = self.end;
        for (back, payload) in records.iter().enumerate() {
            let header = Header {
                sequence: first + back as u64,
                time_ms,
                batch_back: back as u32,
                length: payload.len() as u32,
                payload_crc: crc32fast::hash(payload),
                log_id: self.shared.log_id,
            };
            self.active.remember(header.sequence, offset);
            header.encode(payload, &mut self.buffer);
            offset += header.record_bytes() as u64;
        }
        self.buffer.split().freeze()
    }
}

impl<D: Disk> CommitLog for Writer<D> {
    async fn write(&mut self, first: Position, records: &[Bytes]) -> io::Result<()> {
        if self.end >= self.shared.config.segment_bytes && self.end > HEAD_BYTES as u64 {
            self.rotate().await?;
        }
        let bytes = self.encode(first.index, records);
        let end = self.end + bytes.len() as u64;
        let ahead = self.shared.config.ahead_bytes;
        if ahead > 0 && end > self.len {
            let len = end + ahead;
            self.active.file.set_len(len).await?;
            self.len = len;
        }
        write_all_at(&self.active.file, bytes, self.end).await?;
        self.end = end;
        self.next = first.index + records.len() as u64;
        Ok(())
    }

    async fn sync(&mut self) -> io::Result<()> {
        self.active.file.sync_data().await?;
        self.active.set_bytes(self.end);
        // Now, and not before: readers see only durable records.
        self.shared.next.send_replace(self.next);
        Ok(())
    }
}

/// Creates a segment whose head and name survive a crash.
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
    };
    let file = disk.create(&name_of(first)).await?;
    write_all_at(&file, head.encode(), 0).await?;
    file.sync_data().await?;
    disk.sync_names().await?;
    Ok(Segment::new(first, created_ms, file, HEAD_BYTES as u64))
}
