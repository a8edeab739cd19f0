//! The log's mark: how far its records are known to be durable, in a file beside the segments.
//!
//! A log whose newest segment was deleted, or cut between two records, looks like one that never
//! had the records behind. The mark tells them apart: a log that ends before its mark has lost
//! records, and is refused.
//!
//! All integers are little-endian.
//!
//! ```text
//! slot, at the offsets 0 and 4096
//!  0  8  "EKTXMRK" and a zero                   40  8  number of the next record
//!  8  4  version, 1                             48  8  offset of the next record in the segment
//! 12  4  the log's id                           56  4  kind of the directory: 0 a log, 1 a backup,
//! 16  8  the log's epoch                               2 a copy that has not ended
//! 24  8  serial number of the mark              60  4  crc of the bytes 0 to 59
//! 32  8  number of the segment's first record
//! ```
//!
//! # Why it can be trusted
//!
//! - It is written after the sync of the records that it covers. So whatever a crash does to the
//!   write of a mark, no mark ever covers a record that a crash can lose.
//! - The slots are written in turns, and each is synced before the other is written: at any time
//!   one of them is on the disk. The one with the greater serial number counts.
//! - It exists before the first segment whose head says so. A log with such a segment and without
//!   a mark has lost it.
//!
//! # What it costs, and what it cannot see
//!
//! No append waits for it: it is written when [`Log::maintain`](super::Log::maintain) is called, at
//! the log's opening and close, and when a new segment begins. So the loss of records that became
//! durable after the last of these cannot be told from a torn end: with a server, those of the last
//! second before it was killed. Neither is it seen if all files were deleted, or if the mark and
//! the segments were put back to an earlier state together. Marks of a log that an earlier release
//! began are missed from its next segment on.

use std::fmt;
use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use evenkeel::fs::write_all_at;

use super::scan::Window;
use super::{Disk, DiskFile};

/// The name of the file.
pub const MARK_NAME: &str = "MARK";

/// The bytes of a slot.
pub const SLOT_BYTES: usize = 64;

/// The offsets of the slots: in pages of their own, so that no write of one can tear the other.
pub const SLOTS_AT: [u64; 2] = [0, 4096];

const MAGIC: [u8; 8] = *b"EKTXMRK\0";
const VERSION: u32 = 1;

/// How far a log is known to be durable, and which log it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The log's id.
    pub log_id: u32,
    /// Grows when durable records were lost or replaced.
    pub epoch: u64,
    /// The first record of the segment where the log ended.
    pub segment: u64,
    /// All records before this number were durable.
    pub next: u64,
    /// The offset of record `next` in the segment.
    pub bytes: u64,
    /// What the directory holds.
    pub kind: Kind,
}

/// What a directory holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A log that can be served.
    Log,
    /// A backup, of which [`restore`](super::restore) makes a log.
    Backup,
    /// A backup or a restored log that is being copied, or whose copying was interrupted.
    Unfinished,
}

/// Why a log's mark cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MarkDefect {
    /// There is none, and there has to be one.
    Missing,
    /// Neither of its slots is valid.
    Damaged,
    /// It belongs to another log.
    OtherLog,
    /// A later version of txlog wrote it.
    Newer,
}

impl fmt::Display for MarkDefect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MarkDefect::Missing => "is missing",
            MarkDefect::Damaged => "is damaged",
            MarkDefect::OtherLog => "belongs to another log",
            MarkDefect::Newer => "was written by a later version of txlog",
        })
    }
}

impl Mark {
    /// The slot with this serial number as bytes.
    pub fn encode(&self, serial: u64) -> Bytes {
        let mut buffer = BytesMut::with_capacity(SLOT_BYTES);
        buffer.put_slice(&MAGIC);
        buffer.put_u32_le(VERSION);
        buffer.put_u32_le(self.log_id);
        buffer.put_u64_le(self.epoch);
        buffer.put_u64_le(serial);
        buffer.put_u64_le(self.segment);
        buffer.put_u64_le(self.next);
        buffer.put_u64_le(self.bytes);
        buffer.put_u32_le(match self.kind {
            Kind::Log => 0,
            Kind::Backup => 1,
            Kind::Unfinished => 2,
        });
        let crc = crc32fast::hash(&buffer);
        buffer.put_u32_le(crc);
        buffer.freeze()
    }

    /// The mark that a whole file says.
    pub(super) fn of_file(bytes: &[u8]) -> Result<Self, MarkDefect> {
        let slot = |at: u64| Self::decode(bytes.get(at as usize..).unwrap_or_default());
        let [one, other] = SLOTS_AT.map(slot);
        better(one, other).map(|(mark, _)| mark)
    }

    /// Decodes a slot; returns the mark and its serial number.
    ///
    /// # Errors
    ///
    /// [`MarkDefect`]: the slot is damaged or of a later version.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u64), MarkDefect> {
        let Some(mut fields) = bytes.get(..SLOT_BYTES) else {
            return Err(MarkDefect::Damaged);
        };
        let crc = crc32fast::hash(&fields[..SLOT_BYTES - 4]);
        if fields[SLOT_BYTES - 4..] != crc.to_le_bytes() || fields[..MAGIC.len()] != MAGIC {
            return Err(MarkDefect::Damaged);
        }
        fields.advance(MAGIC.len());
        if fields.get_u32_le() != VERSION {
            return Err(MarkDefect::Newer);
        }
        let (log_id, epoch, serial) = (
            fields.get_u32_le(),
            fields.get_u64_le(),
            fields.get_u64_le(),
        );
        let mark = Self {
            log_id,
            epoch,
            segment: fields.get_u64_le(),
            next: fields.get_u64_le(),
            bytes: fields.get_u64_le(),
            kind: match fields.get_u32_le() {
                0 => Kind::Log,
                1 => Kind::Backup,
                2 => Kind::Unfinished,
                _ => return Err(MarkDefect::Newer),
            },
        };
        Ok((mark, serial))
    }
}

/// Which of two slots counts.
fn better(
    best: Result<(Mark, u64), MarkDefect>,
    found: Result<(Mark, u64), MarkDefect>,
) -> Result<(Mark, u64), MarkDefect> {
    match (best, found) {
        // Whatever else there is: a later version may have gone on from it.
        (Err(MarkDefect::Newer), _) | (_, Err(MarkDefect::Newer)) => Err(MarkDefect::Newer),
        (best, Err(_)) => best,
        (Ok(best), Ok(found)) if best.1 > found.1 => Ok(best),
        (_, found) => found,
    }
}

/// The file of a mark, to be written again and again.
#[derive(Debug)]
pub(super) struct MarkFile<F> {
    file: F,
    /// The serial number of the mark that counts. Its slot is on the disk.
    serial: u64,
    last: Mark,
}

impl<F: DiskFile> MarkFile<F> {
    /// Reads the mark. `None` if there is no file.
    pub(super) async fn read<D: Disk<File = F>>(
        disk: &D,
    ) -> io::Result<Option<Result<Self, MarkDefect>>> {
        let file = match disk.open(MARK_NAME).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut best = Err(MarkDefect::Damaged);
        for at in SLOTS_AT {
            let bytes = Window::with_bytes(&file, at, SLOT_BYTES)
                .at(at, SLOT_BYTES)
                .await?;
            best = better(best, Mark::decode(&bytes));
        }
        Ok(Some(best.map(|(last, serial)| Self { file, serial, last })))
    }

    /// Creates the file, or begins anew in an existing one, so that it survives a crash.
    pub(super) async fn create<D: Disk<File = F>>(disk: &D, mark: Mark) -> io::Result<Self> {
        let file = match disk.create(MARK_NAME).await {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                disk.open(MARK_NAME).await?
            }
            created => created?,
        };
        let serial = 0;
        write_all_at(&file, mark.encode(serial), SLOTS_AT[0]).await?;
        // Both have their place on the device, so that a full one does not prevent later marks.
        write_all_at(&file, Bytes::from_static(&[0; SLOT_BYTES]), SLOTS_AT[1]).await?;
        file.sync_data().await?;
        disk.sync_names().await?;
        let last = mark;
        Ok(Self { file, serial, last })
    }

    /// Makes the mark that was read durable. It may have been only in the system's memory, also
    /// after a failed sync, and the other slot is to be written next.
    pub(super) async fn settle(&self) -> io::Result<()> {
        self.put(self.last, self.serial).await
    }

    /// Writes a mark and syncs it, if it is a new one. The records that it covers have to be
    /// durable.
    pub(super) async fn write(&mut self, mark: Mark) -> io::Result<()> {
        if mark == self.last {
            return Ok(());
        }
        let serial = self.serial + 1;
        // If this fails or is dropped, the next mark goes into the same slot, and the other stays.
        self.put(mark, serial).await?;
        (self.serial, self.last) = (serial, mark);
        Ok(())
    }

    /// Writes the mark that counts once more, and syncs it.
    pub(super) async fn rewrite(&mut self) -> io::Result<()> {
        let serial = self.serial + 1;
        self.put(self.last, serial).await?;
        self.serial = serial;
        Ok(())
    }

    pub(super) fn last(&self) -> Mark {
        self.last
    }

    async fn put(&self, mark: Mark, serial: u64) -> io::Result<()> {
        let at = SLOTS_AT[(serial % 2) as usize];
        write_all_at(&self.file, mark.encode(serial), at).await?;
        self.file.sync_data().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: Mark = Mark {
        log_id: 7,
        epoch: 3,
        segment: 101,
        next: 120,
        bytes: 4_000,
        kind: Kind::Log,
    };

    #[test]
    fn a_slot_is_what_was_written_or_damaged() {
        for kind in [Kind::Log, Kind::Backup, Kind::Unfinished] {
            let mark = Mark { kind, ..MARK };
            assert_eq!(Mark::decode(&mark.encode(9)), Ok((mark, 9)));
        }
        let bytes = MARK.encode(9);
        assert_eq!(bytes.len(), SLOT_BYTES);
        for bit in 0..SLOT_BYTES * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                Mark::decode(&flipped),
                Err(MarkDefect::Damaged),
                "bit {bit}"
            );
        }
        for cut in 0..SLOT_BYTES {
            assert_eq!(Mark::decode(&bytes[..cut]), Err(MarkDefect::Damaged));
        }
    }

    #[test]
    fn of_two_marks_in_a_file_the_later_one_counts() {
        let later = Mark { next: 130, ..MARK };
        let file = |slots: [Bytes; 2]| {
            let mut bytes = vec![0; SLOTS_AT[1] as usize];
            bytes[..SLOT_BYTES].copy_from_slice(&slots[0]);
            bytes.extend_from_slice(&slots[1]);
            bytes
        };
        let both = [later.encode(8), MARK.encode(7)];
        let torn = [MARK.encode(8).slice(..60), Bytes::from_static(&[0; 4])].concat();
        for (slots, expected) in [
            ([both[0].clone(), both[1].clone()], Ok(later)),
            ([both[1].clone(), both[0].clone()], Ok(later)),
            ([torn.clone().into(), both[0].clone()], Ok(later)),
            ([torn.clone().into(), torn.into()], Err(MarkDefect::Damaged)),
        ] {
            assert_eq!(Mark::of_file(&file(slots)), expected);
        }
        assert_eq!(Mark::of_file(&both[0]), Ok(later), "the other is missing");
        assert_eq!(Mark::of_file(&[]), Err(MarkDefect::Damaged));
    }

    #[test]
    fn a_slot_of_a_later_version_is_not_called_damaged() {
        for (at, value) in [(8, 2), (56, 3)] {
            let mut bytes = MARK.encode(9).to_vec();
            bytes[at] = value;
            let crc = crc32fast::hash(&bytes[..SLOT_BYTES - 4]);
            bytes[SLOT_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(Mark::decode(&bytes), Err(MarkDefect::Newer));
        }
    }
}
