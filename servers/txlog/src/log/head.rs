//! A segment's head: which log it is of, where it begins, and the key of its records. Pure; the
//! format is in [`record`](super::record).

use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::record::{Damage, Seal};

/// The bytes before a segment's first record, in the newest version.
pub const HEAD_BYTES: usize = 56;

/// The same before there was a key. These are the same fields in all versions.
const HEAD_BYTES_BEFORE: usize = 40;

const MAGIC: [u8; 8] = *b"EKTXLOG\0";
const VERSION: u32 = 3;
const VERSION_MIN: u32 = 1;

/// The first version whose segments have a key.
const VERSION_WITH_KEY: u32 = 3;

/// The first version whose records say to which append they belong.
const VERSION_WITH_APPENDS: u32 = 2;

/// What a head of a later version is called in errors.
pub(super) const NEWER: &str = "of a later version of txlog; use that one";

/// The bit of a head that says that the log has a mark.
const MARKED: u32 = 1;

/// The bit of a head that says that the log had producers.
const PRODUCERS: u32 = 2;

/// A segment's head.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The format's version, in which its records are. New ones are of the newest.
    pub version: u32,
    /// The log's id.
    pub log_id: u32,
    /// The number of the first record.
    pub first: u64,
    /// When the segment was created, in milliseconds since 1970.
    pub created_ms: u64,
    /// Whether the log had a [mark](super::mark) when the segment was created. Before there were
    /// marks, this was zero.
    pub marked: bool,
    /// Whether records before the segment had [producers](super::producers).
    pub has_producers: bool,
    /// A secret; zero before version 3.
    key: u64,
}

impl Head {
    /// The head of a new segment, of a log that has its mark.
    pub fn new(log_id: u32, first: u64, created_ms: u64, has_producers: bool, key: u64) -> Self {
        Self {
            version: VERSION,
            log_id,
            first,
            created_ms,
            marked: true,
            has_producers,
            key,
        }
    }

    /// Where the first record is.
    pub fn bytes(&self) -> u64 {
        bytes_of(self.version) as u64
    }

    /// By what its records are known.
    pub fn seal(&self) -> Seal {
        match self.version {
            VERSION_WITH_KEY.. => Seal::of_key(self.key),
            _ => Seal::of_log(self.log_id),
        }
    }

    /// Whether it is as new ones are.
    pub fn is_newest(&self) -> bool {
        self.version == VERSION
    }

    /// Whether records behind it may say to which append they belong.
    pub(super) fn has_appends(&self) -> bool {
        self.version >= VERSION_WITH_APPENDS
    }

    /// The same of the newest version, of a log that has its mark.
    pub fn renewed(self, key: u64) -> Self {
        Self {
            version: VERSION,
            marked: true,
            key,
            ..self
        }
    }

    /// The head as bytes.
    pub fn encode(&self) -> Bytes {
        let mut buffer = BytesMut::with_capacity(HEAD_BYTES);
        buffer.put_slice(&MAGIC);
        buffer.put_u32_le(self.version);
        buffer.put_u32_le(self.log_id);
        buffer.put_u64_le(self.first);
        buffer.put_u64_le(self.created_ms);
        let marked = if self.marked { MARKED } else { 0 };
        buffer.put_u32_le(marked | if self.has_producers { PRODUCERS } else { 0 });
        buffer.put_u32_le(crc32fast::hash(&buffer));
        if self.version >= VERSION_WITH_KEY {
            buffer.put_u64_le(self.key);
            buffer.put_u32_le(0);
            buffer.put_u32_le(crc32fast::hash(&buffer));
        }
        buffer.freeze()
    }

    /// Decodes a head at the beginning of `bytes`.
    ///
    /// # Errors
    ///
    /// [`Damage::Head`]: the defect.
    pub fn decode(bytes: &[u8]) -> Result<Self, Damage> {
        let mut fields = checked(bytes, HEAD_BYTES_BEFORE)?;
        if fields[..MAGIC.len()] != MAGIC {
            return Err(Damage::Head("no segment's"));
        }
        fields.advance(MAGIC.len());
        let version = fields.get_u32_le();
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(Damage::Head(NEWER));
        }
        let (log_id, first) = (fields.get_u32_le(), fields.get_u64_le());
        let (created_ms, flags) = (fields.get_u64_le(), fields.get_u32_le());
        let key = match version {
            VERSION_WITH_KEY.. => {
                let mut more = &checked(bytes, bytes_of(version))?[HEAD_BYTES_BEFORE..];
                more.get_u64_le()
            }
            _ => 0,
        };
        Ok(Self {
            version,
            log_id,
            first,
            created_ms,
            marked: flags & MARKED != 0,
            has_producers: flags & PRODUCERS != 0,
            key,
        })
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the key, which is a secret.
        f.debug_struct("Head")
            .field("version", &self.version)
            .field("log_id", &self.log_id)
            .field("first", &self.first)
            .field("created_ms", &self.created_ms)
            .field("marked", &self.marked)
            .field("has_producers", &self.has_producers)
            .finish_non_exhaustive()
    }
}

fn bytes_of(version: u32) -> usize {
    match version {
        VERSION_WITH_KEY.. => HEAD_BYTES,
        _ => HEAD_BYTES_BEFORE,
    }
}

/// The first `length` bytes, which end with the checksum of those before.
fn checked(bytes: &[u8], length: usize) -> Result<&[u8], Damage> {
    let Some((fields, crc)) = bytes.get(..length).and_then(<[u8]>::split_last_chunk) else {
        return Err(Damage::Head("cut"));
    };
    if u32::from_le_bytes(*crc) != crc32fast::hash(fields) {
        return Err(Damage::Head("damaged, or not a segment's"));
    }
    Ok(&bytes[..length])
}
