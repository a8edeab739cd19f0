//! Appending: batches of records to the last segment, and a new segment when it is full.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use evenkeel::fs::{CommitFile, Position, ReceiptLog, write_all_at};
use tokio::sync::OwnedMutexGuard;
use txlog_client::frame::Produced;

use super::append::{Item, Receipt, Refusal, Stored};
use super::producers::Producers;
use super::record::{HEAD_BYTES, Head, Header, PRODUCED_BYTES, Seal};
use super::segment::{Segment, name_of, new_key};
use super::{Disk, End, Limits, LogError, Shared, now_ms};
use crate::advice;

/// When a new segment is tried again for which there was no descriptor. Each try costs a failing
/// system call or two.
const TRIED_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// The segment that grows, and its end. Who has it locked is between two batches: the writer keeps
/// the lock from a batch's write to its sync.
pub(super) struct Active<F> {
    pub(super) segment: Arc<Segment<F>>,
    pub(super) file: Arc<F>,
    /// The offset of the next batch.
    pub(super) end: u64,
    /// The length of the file, as far as it is known to be written.
    pub(super) len: u64,
    /// The number after the last record that was written.
    pub(super) next: u64,
    /// When the first record of the segment was accepted; `None` if it has none.
    pub(super) oldest_ms: Option<u64>,
    /// As of the records before `next`.
    pub(super) producers: Producers,
    /// Until when no new segment is tried: there was no descriptor for one.
    pub(super) put_off_until: Option<Instant>,
    /// Set between batches. Cleared when a batch or a new segment begins, and set again when that
    /// has succeeded; so it stays cleared after a failure. Cleared for good when the log closes.
    pub(super) is_sound: bool,
}

/// What became of a segment that was to be followed by a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum Rotated {
    /// It was.
    Followed,
    /// The system has no descriptor for another file: it goes on as it is.
    PutOff,
}

impl<F> Active<F> {
    pub(super) fn has_records(&self) -> bool {
        self.end > self.segment.head.bytes()
    }

    /// Whether it has records of an earlier version of the format, and is to get no more.
    fn is_of_old_version(&self) -> bool {
        self.has_records() && !self.segment.head.is_newest()
    }

    fn is_put_off(&self) -> bool {
        self.put_off_until
            .is_some_and(|until| Instant::now() < until)
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
    /// What became of the appends of the batch, in their order.
    receipts: VecDeque<Receipt>,
}

impl<D: Disk> Writer<D> {
    /// Continues after the records that recovery found.
    pub(super) fn new(shared: Arc<Shared<D>>) -> Self {
        Self {
            shared,
            active: None,
            buffer: BytesMut::new(),
            receipts: VecDeque::new(),
        }
    }

    /// Decides on an append, in the order of all appends: `next` is the number that its first
    /// record gets. All records before the batch are durable, and what comes before it in the batch
    /// is written with it; so nothing that fails can make the decision wrong.
    fn decide(active: &mut Active<D::File>, next: u64, item: &Item) -> Receipt {
        let Item::Many(batch) = item else {
            return Ok(next.into());
        };
        let count = batch.records.count();
        // A repetition first: what it expects was so when it was stored.
        if let Some(produced) = batch.producer
            && let Some(first) = active.producers.find(produced, count, batch.not_before)?
        {
            let repeated = true;
            return Ok(Stored {
                first,
                count,
                repeated,
            });
        }
        if let Some(expected) = batch.expected.filter(|&expected| expected != next) {
            return Err(Refusal::NotExpected { expected, next });
        }
        if let Some(produced) = batch.producer {
            active.producers.store(produced, count, next);
        }
        Ok(Stored {
            first: next,
            count,
            repeated: false,
        })
    }

    /// Decides on all appends, and encodes those that are stored. Returns their bytes and the
    /// number after them.
    fn encode(
        &mut self,
        active: &mut Active<D::File>,
        items: &[Item],
        time_ms: u64,
    ) -> (Bytes, u64) {
        let mut encoder = Encoder {
            seal: active.segment.head.seal(),
            time_ms,
            begin: active.next,
            next: active.next,
            buffer: &mut self.buffer,
        };
        for item in items {
            let receipt = Self::decide(active, encoder.next, item);
            if receipt.is_ok_and(|stored| !stored.repeated) {
                let offset = active.end + encoder.buffer.len() as u64;
                active.segment.remember(encoder.next, offset);
                encoder.add(item);
            }
            self.receipts.push_back(receipt);
        }
        let next = encoder.next;
        let bytes = self.buffer.split().freeze();
        if bytes.len() > self.shared.config.buffer_bytes {
            // What is left of it would keep all of it alive.
            self.buffer = BytesMut::new();
        }
        (bytes, next)
    }
}

/// Encodes the records of a batch.
struct Encoder<'a> {
    seal: Seal,
    time_ms: u64,
    /// The number of the batch's first record.
    begin: u64,
    next: u64,
    buffer: &'a mut BytesMut,
}

impl Encoder<'_> {
    fn add(&mut self, item: &Item) {
        match item {
            Item::One(payload) => self.record(payload, 0, false),
            Item::Many(batch) => {
                let mut left = batch.records.count();
                let mut producer = batch.producer;
                for payload in batch.records.iter() {
                    left -= 1;
                    match producer.take() {
                        None => self.record(payload, left, false),
                        Some(Produced { producer, number }) => {
                            let mut body = BytesMut::with_capacity(PRODUCED_BYTES + payload.len());
                            body.put_u128_le(producer);
                            body.put_u64_le(number);
                            body.put_slice(payload);
                            self.record(&body, left, true);
                        }
                    }
                }
            }
        }
    }

    fn record(&mut self, body: &[u8], append_left: u32, is_produced: bool) {
        let header = Header {
            sequence: self.next,
            time_ms: self.time_ms,
            batch_back: (self.next - self.begin) as u32,
            append_left,
            is_produced,
            length: body.len() as u32,
            payload_crc: crc32fast::hash(body),
        };
        header.encode(body, self.seal, self.buffer);
        self.next += 1;
    }
}

impl<D: Disk> Shared<D> {
    /// Whether the segment is to be followed by a new one, by its size or its age, or as it is
    /// large beside what is kept.
    pub(super) fn is_full(&self, active: &Active<D::File>, now_ms: u64) -> bool {
        let Limits {
            segment_bytes,
            retention,
        } = self.limits();
        let is_old = |oldest_ms| retention.is_too_old(oldest_ms, now_ms);
        let records = active.next.saturating_sub(active.segment.first);
        active.has_records()
            && (active.end >= segment_bytes
                || retention.is_large(records, active.end)
                || active.oldest_ms.is_some_and(is_old))
    }

    /// Truncates the segment after its last record, and begins a new one. All its records are
    /// durable by now, since batches are written one at a time.
    ///
    /// If there is no descriptor for the new one, nothing has changed: that passes, and is no
    /// reason to end a log. The next [`Log::maintain`](super::Log::maintain) says so.
    pub(super) async fn rotate(&self, active: &mut Active<D::File>) -> io::Result<Rotated> {
        // Else the new segment would be made in the directory that has taken the log's place.
        self.stay_in_place().await.map_err(io::Error::other)?;
        if active.len > active.end {
            // Not synced: after a crash there may be zeros behind the records, which is allowed.
            active.file.set_len(active.end).await?;
            active.len = active.end;
        }
        let has_producers = !active.producers.is_empty();
        let head = Head::new(
            self.log_id,
            active.next,
            now_ms(),
            has_producers,
            new_key()?,
        );
        let (segment, file) = match create(&self.disk, head).await {
            Err(error) if advice::is_out_of_descriptors(&error) => {
                active.put_off_until = Some(Instant::now() + TRIED_AGAIN_AFTER);
                let failed = LogError::io("make", &name_of(active.next));
                self.set_put_off(Some(failed(error)));
                return Ok(Rotated::PutOff);
            }
            created => created?,
        };
        active.put_off_until = None;
        self.set_put_off(None);
        let sealed = std::mem::replace(&mut active.segment, Arc::new(segment));
        active.file = file;
        active.end = HEAD_BYTES as u64;
        active.len = active.end;
        active.oldest_ms = None;
        self.segments().push(Arc::clone(&active.segment));
        // From here on it is opened by who reads it.
        sealed.keep(None);
        if has_producers {
            let known = active.producers.encode(self.log_id, active.next);
            self.roster.set_due(known);
        }
        self.set_end(active.ended());
        // A segment that is missing later is missed from now on.
        self.write_mark().await?;
        // A failed removal is tried again later, and is no reason to refuse records.
        let _ = self.retain_unless_under_way().await;
        Ok(Rotated::Followed)
    }

    /// Begins a new segment, if the next batch is to be in one.
    async fn rotate_if_due(&self, active: &mut Active<D::File>, now_ms: u64) -> io::Result<()> {
        let is_old = active.is_of_old_version();
        if !(is_old || self.is_full(active, now_ms)) {
            return Ok(());
        }
        if !active.is_put_off() && self.rotate(active).await? == Rotated::Followed {
            return Ok(());
        }
        if active.segment.head.has_appends() {
            return Ok(());
        }
        let what = "a new segment is needed, and there is no descriptor for one: allow more open \
                    files, as by `ulimit -n`";
        Err(io::Error::other(what))
    }

    /// Makes a segment without records one of the newest version of the format, durably.
    ///
    /// A crash meanwhile may leave a head that is damaged. It is made anew by the next start,
    /// unless the log has no other segment and has been trimmed; then that takes a `repair`.
    async fn renew(&self, active: &mut Active<D::File>) -> io::Result<()> {
        if active.has_records() || active.segment.head.is_newest() {
            return Ok(());
        }
        let head = active.segment.head.renewed(new_key()?);
        write_all_at(&*active.file, head.encode(), 0).await?;
        active.file.sync_data().await?;
        let file = Some(Arc::clone(&active.file));
        active.segment = Arc::new(Segment::new(head, file, head.bytes()));
        (active.end, active.len) = (head.bytes(), head.bytes());
        if let Some(last) = self.segments().last_mut() {
            *last = Arc::clone(&active.segment);
        }
        self.set_end(active.ended());
        Ok(())
    }
}

impl<D: Disk> ReceiptLog for Writer<D> {
    type Record = Item;
    type Receipt = Receipt;

    async fn write(&mut self, _: Position, items: &[Item]) -> io::Result<()> {
        let mut active = Arc::clone(&self.shared.active).lock_owned().await;
        if let Some(halt) = self.shared.halt.get() {
            return Err(io::Error::other(halt.clone()));
        }
        if !active.is_sound {
            return Err(io::Error::other(LogError::Closed));
        }
        active.is_sound = false;
        let time_ms = now_ms();
        self.shared.rotate_if_due(&mut active, time_ms).await?;
        self.shared.renew(&mut active).await?;
        let (bytes, next) = self.encode(&mut active, items, time_ms);
        if bytes.is_empty() {
            // All were refused or repeated.
            active.is_sound = true;
            return Ok(());
        }
        let end = active.end + bytes.len() as u64;
        let ahead = self.shared.config.ahead_bytes;
        if ahead > 0 && end > active.len {
            let len = end + ahead;
            active.file.set_len(len).await?;
            active.len = len;
        }
        write_all_at(&*active.file, bytes, active.end).await?;
        active.end = end;
        active.next = next;
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
        let began = Instant::now();
        active.file.sync_data().await?;
        self.shared.syncs.observe(began.elapsed());
        active.segment.set_bytes(active.end);
        // Now, and not before: readers see only durable records, and the mark covers no others.
        self.shared.set_end(active.ended());
        self.shared.next.send_replace(active.next);
        active.is_sound = true;
        Ok(())
    }

    fn receipt(&mut self, _: Position) -> Receipt {
        self.receipts
            .pop_front()
            .expect("there is one for each append")
    }
}

/// Creates a segment whose head and name survive a crash. The log has its mark by then.
pub(super) async fn create<D: Disk>(
    disk: &D,
    head: Head,
) -> io::Result<(Segment<D::File>, Arc<D::File>)> {
    let file = Arc::new(disk.create(&name_of(head.first)).await?);
    write_all_at(&*file, head.encode(), 0).await?;
    file.sync_data().await?;
    disk.sync_names().await?;
    let segment = Segment::new(head, Some(Arc::clone(&file)), head.bytes());
    Ok((segment, file))
}
