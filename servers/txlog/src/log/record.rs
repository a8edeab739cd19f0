//! The format of records in a segment. Pure: it decodes and encodes bytes.
//!
//! All integers are little-endian.
//!
//! ```text
//! record                                        segment's head
//!  0  4  crc of the bytes 4 to 39, begun         0  8  "EKTXLOG" and a zero
//!        with the key's upper half               8  4  version, 3
//!  4  4  length of the payload                  12  4  the log's id
//!  8  8  sequence number                        16  8  sequence number of the first record
//! 16  8  time, in milliseconds since 1970       24  8  time of its making
//! 24  4  crc of the payload                     32  4  flags: 1, the log has a mark; 2, it had
//! 28  4  the key's lower half                          producers when the segment was created
//! 32  4  how many records of its batch are      36  4  crc of the bytes 0 to 35
//!        before this one                        40  8  the segment's key
//! 36  4  how many records of its append         48  4  zero
//!        follow this one, and flags: bit 31,    52  4  crc of the bytes 0 to 51
//!        the payload begins with a producer
//! 40     payload: (producer:16 number:8) and
//!        the bytes that were appended
//! ```
//!
//! The header has a checksum of its own, so its length can be trusted before the payload is read.
//! The segment's key is random, and is in its file and nowhere else. With it, neither a record of
//! another segment, in a copied file or a reused disk block, nor bytes that a client has put into a
//! payload are taken for a record ([why](../../../../docs/decisions/records-have-a-key.md)). In
//! versions 1 and 2, a record has the log's id instead, and its checksum begins with zero.
//!
//! The records of one append have numbers in a row and are in one segment. A log that ends within
//! an append has none of it: it was never acknowledged, and recovery cuts it off. Only the first
//! record of an append says which producer sent it, and that producer's number of the record; those
//! of the others follow.
//!
//! A batch is written only when the one before it is durable. So a record's place in its batch
//! shows that all records before the batch have been durable once. That is how recovery can tell
//! damage in the middle from an end that a crash has torn: see [`scan`](super::scan). How far the
//! end had come is in a file of its own, the [mark](super::mark).
//!
//! # Versions
//!
//! - Every release reads the segments of all earlier versions, and writes those of the newest one
//!   that it knows. A log may have segments of several versions.
//! - A segment of a later version is refused with an error, and not changed. For that, the first 40
//!   bytes of the head stay as they are in all versions.
//! - The number grows when an older release would misread a segment. What an older release may
//!   ignore goes into a field of the head that was zero so far, and leaves the number as it is:
//!   readers ignore the bits of these fields that they do not know. So it was with the mark.
//! - Version 2 added what is at byte 36 of a record, where version 1 has zero and takes anything
//!   else for damage. Version 3 added the key. A segment of an earlier version gets no more
//!   records: a new one follows it.
//! - For every version there is a log in `tests/fixtures`, as bytes, which a test reads.

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

pub use super::head::{HEAD_BYTES, Head};

/// The bytes before a payload.
pub const HEADER_BYTES: usize = 40;

/// The largest payload that the format allows; a segment's limit is far lower.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// What a producer adds to the first payload of an append.
pub const PRODUCED_BYTES: usize = 16 + 8;

/// The most records that an append has.
pub const APPEND_RECORDS_MAX: u32 = 1 << 20;

/// The bit of a record whose payload begins with a producer.
const PRODUCED: u32 = 1 << 31;

/// The offset in a header of the log's id, or of what is there instead.
const ID_AT: usize = 28;

/// By what the records of a segment are known: their headers begin with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    id: u32,
    /// Zero in versions 1 and 2, and else not.
    seed: u32,
}

impl Seal {
    /// Of segments of versions 1 and 2: the log's id.
    pub fn of_log(log_id: u32) -> Self {
        let (id, seed) = (log_id, 0);
        Self { id, seed }
    }

    /// Of a segment with this key.
    pub(super) fn of_key(key: u64) -> Self {
        Self {
            // Zeros are no header of any segment.
            id: (key as u32).max(1),
            seed: ((key >> 32) as u32).max(1),
        }
    }

    /// Whether these bytes may begin with a header of such a record: a look without a checksum.
    pub(super) fn may_be_at(self, bytes: &[u8]) -> bool {
        bytes[ID_AT..].first_chunk() == Some(&self.id.to_le_bytes())
    }

    fn checksum(self, header: &[u8]) -> u32 {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.seed);
        hasher.update(header);
        hasher.finalize()
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It is a secret.
        f.debug_struct("Seal").finish_non_exhaustive()
    }
}

/// A record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The record's number.
    pub sequence: u64,
    /// When it was accepted, in milliseconds since 1970.
    pub time_ms: u64,
    /// How many records of its batch are before it.
    pub batch_back: u32,
    /// How many records of its append follow it.
    pub append_left: u32,
    /// Whether its payload begins with a producer.
    pub is_produced: bool,
    /// The bytes of its payload, with the producer.
    pub length: u32,
    /// Their checksum.
    pub payload_crc: u32,
}

/// Why bytes are not a valid record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file ends within the header.
    #[error("the file ends {have} bytes into a header")]
    CutHeader {
        /// How many bytes of it there are.
        have: usize,
    },
    /// The file ends within the payload.
    #[error("the file ends {have} bytes into a record of {bytes}")]
    CutPayload {
        /// How many bytes of it there are.
        have: usize,
        /// How many its header states.
        bytes: usize,
    },
    /// The header's checksum is wrong.
    #[error("a header's checksum is wrong")]
    HeaderChecksum,
    /// The payload's checksum is wrong.
    #[error("the checksum of record {sequence} is wrong")]
    PayloadChecksum {
        /// Which record.
        sequence: u64,
    },
    /// The record belongs to another log.
    #[error("a record of another log (id {id:08x})")]
    OtherLog {
        /// Its id.
        id: u32,
    },
    /// An append has not all of its records.
    #[error("the append of record {sequence} has only {have} of its records")]
    CutAppend {
        /// Its first record.
        sequence: u64,
        /// How many of its records there are.
        have: u64,
    },
    /// The record is not the next one.
    #[error("record {found} where {expected} has to be")]
    Sequence {
        /// The number of the record that has to be there.
        expected: u64,
        /// The number of the record that is there.
        found: u64,
    },
    /// The segment's head is wrong.
    #[error("the segment's head is {0}")]
    Head(&'static str),
}

impl Header {
    /// The number of the first record of this one's batch: all records before it had been durable
    /// when this one was written.
    pub fn batch_first(&self) -> u64 {
        self.sequence.saturating_sub(u64::from(self.batch_back))
    }

    /// The bytes of the whole record.
    pub fn record_bytes(&self) -> usize {
        HEADER_BYTES + self.length as usize
    }

    /// Adds the header and the payload, with the producer, to `buffer`.
    pub fn encode(&self, payload: &[u8], seal: Seal, buffer: &mut BytesMut) {
        debug_assert_eq!(payload.len(), self.length as usize);
        let begin = buffer.len();
        buffer.reserve(HEADER_BYTES + payload.len());
        buffer.put_u32_le(0);
        buffer.put_u32_le(self.length);
        buffer.put_u64_le(self.sequence);
        buffer.put_u64_le(self.time_ms);
        buffer.put_u32_le(self.payload_crc);
        buffer.put_u32_le(seal.id);
        buffer.put_u32_le(self.batch_back);
        buffer.put_u32_le(self.append_left | if self.is_produced { PRODUCED } else { 0 });
        let crc = seal.checksum(&buffer[begin + 4..begin + HEADER_BYTES]);
        buffer[begin..begin + 4].copy_from_slice(&crc.to_le_bytes());
        buffer.put_slice(payload);
    }

    /// Decodes a header at the beginning of `bytes`, which may be longer.
    ///
    /// # Errors
    ///
    /// [`Damage`]: it is incomplete, its checksum is wrong, or it belongs to another log.
    pub fn decode(bytes: &[u8], seal: Seal) -> Result<Self, Damage> {
        let Some(mut fields) = bytes.get(..HEADER_BYTES) else {
            return Err(Damage::CutHeader { have: bytes.len() });
        };
        let crc = seal.checksum(&fields[4..]);
        let stated_crc = fields.get_u32_le();
        let length = fields.get_u32_le();
        let (sequence, time_ms) = (fields.get_u64_le(), fields.get_u64_le());
        let (payload_crc, id) = (fields.get_u32_le(), fields.get_u32_le());
        let mut header = Self {
            length,
            sequence,
            time_ms,
            payload_crc,
            batch_back: fields.get_u32_le(),
            append_left: 0,
            is_produced: false,
        };
        let of_append = fields.get_u32_le();
        header.append_left = of_append & !PRODUCED;
        header.is_produced = of_append & PRODUCED != 0;
        if crc != stated_crc || !header.is_sound() {
            return Err(Damage::HeaderChecksum);
        }
        if id != seal.id {
            // What is there instead of a key is no id.
            return Err(match seal.seed {
                0 => Damage::OtherLog { id },
                _ => Damage::HeaderChecksum,
            });
        }
        Ok(header)
    }

    /// Whether its fields are within the format's limits.
    fn is_sound(&self) -> bool {
        let produced = if self.is_produced { PRODUCED_BYTES } else { 0 };
        let length = self.length as usize;
        self.append_left < APPEND_RECORDS_MAX
            && (produced..=produced + PAYLOAD_BYTES_MAX).contains(&length)
    }

    /// Takes the payload, with the producer, from the beginning of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Damage`]: it is incomplete, or its checksum is wrong.
    pub fn payload(&self, bytes: &Bytes) -> Result<Bytes, Damage> {
        let length = self.length as usize;
        if bytes.len() < length {
            return Err(Damage::CutPayload {
                have: bytes.len(),
                bytes: length,
            });
        }
        let payload = bytes.slice(..length);
        if crc32fast::hash(&payload) != self.payload_crc {
            let sequence = self.sequence;
            return Err(Damage::PayloadChecksum { sequence });
        }
        Ok(payload)
    }
}
