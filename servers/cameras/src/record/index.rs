//! The index beside a segment: a head, and then a line for each fragment and each gap. Lines are
//! appended, never changed, and each has a checksum of its own and one of its fragment.
//!
//! ```text
//! head   0 magic 8 │ 8 version 2 │ 10 cause 1 │ 11 - 1 │ 12 init length 4 │ 16 init checksum 4 │
//!       20 - 4 │ 24 start 8 │ 32 monotonic 8 │ 40 origin 8 │ 48 boot 8 │ 56 - 4 │ 60 checksum 4
//! line   0 kind 1 │ 1 flags or reason 1 │ 2 - 2 │ 4 number or gops 4 │ 8 offset or bytes 8 │
//!       16 length 4 │ 20 checksum of the fragment 4 │ 24 start 8 │ 32 duration 8 │
//!       40 monotonic 8 │ 48 synced 4 │ 52 wall 8 │ 60 checksum of the line 4
//! ```
//!
//! Numbers are little-endian, times microseconds. A fragment's line is written after its bytes, so
//! what has a line was written, though it may not have reached the disk before the power failed.
//! `synced` says which fragments surely had when the line was written.

use super::gap::{Gap, Reason};
use super::timeline::Cause;

/// Bytes of the head, and of each line.
pub const LINE: usize = 64;
const MAGIC: &[u8; 8] = b"EVKNCAMS";
const VERSION: u16 = 1;
const FRAGMENT: u8 = 1;
const GAP: u8 = 2;

/// The beginning of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Why the segment began.
    pub cause: Cause,
    /// Bytes in front of the first fragment.
    pub init_len: u32,
    /// Their checksum.
    pub init_checksum: u32,
    /// When the first sample is shown, by the calendar.
    pub start_us: i64,
    /// The same since the process began, by a clock that nobody sets.
    pub monotonic_us: u64,
    /// The calendar's time at which the times of the camera's session were zero.
    pub origin_us: i64,
    /// Says which process that was: its beginning, by the calendar.
    pub boot_us: i64,
}

/// A fragment in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// From 1 on, without holes.
    pub number: u32,
    /// Whether decoding can begin with it.
    pub begins_with_key: bool,
    /// Where it is in the file.
    pub offset: u64,
    /// Its bytes.
    pub len: u32,
    /// Their checksum.
    pub checksum: u32,
    /// When its first sample is shown.
    pub start_us: i64,
    /// How long it lasts.
    pub duration_us: u64,
    /// When its first sample came, since the process began.
    pub monotonic_us: u64,
    /// The same by the system's clock.
    pub wall_us: i64,
    /// Fragments up to this number were on the disk when this was written.
    pub synced: u32,
}

impl Line {
    /// When it ends.
    pub fn end_us(&self) -> i64 {
        let duration = i64::try_from(self.duration_us).unwrap_or(i64::MAX);
        self.start_us.saturating_add(duration)
    }

    /// Where in the file it ends.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(u64::from(self.len))
    }
}

/// A line of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A fragment.
    Fragment(Line),
    /// Something is missing here.
    Gap(Gap),
}

/// What an index says, up to the first line that is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// Its head.
    pub head: Head,
    /// Its lines.
    pub entries: Vec<Entry>,
    /// Whether something follows that is no line.
    pub has_rest: bool,
}

impl Index {
    /// The fragments.
    pub fn fragments(&self) -> impl Iterator<Item = &Line> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Fragment(line) => Some(line),
            Entry::Gap(_) => None,
        })
    }

    /// The gaps.
    pub fn gaps(&self) -> impl Iterator<Item = &Gap> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Fragment(_) => None,
            Entry::Gap(gap) => Some(gap),
        })
    }

    /// Reads one. `None` if its head is damaged.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (head, mut rest) = bytes.split_at_checked(LINE)?;
        let head = Head::read(head.try_into().ok()?)?;
        let (mut entries, mut number, mut end) = (Vec::new(), 1, u64::from(head.init_len));
        while let Some((line, after)) = rest.split_at_checked(LINE) {
            let Some(entry) = line.try_into().ok().and_then(Entry::read) else {
                break;
            };
            if let Entry::Fragment(line) = &entry {
                // One that was left by a longer file of this name would be no continuation.
                if line.number != number || line.offset < end {
                    break;
                }
                number += 1;
                end = line.end();
            }
            entries.push(entry);
            rest = after;
        }
        Some(Self {
            head,
            entries,
            has_rest: !rest.is_empty(),
        })
    }
}

impl Head {
    /// Its bytes.
    pub fn write(&self) -> [u8; LINE] {
        let mut to = [0; LINE];
        to[..8].copy_from_slice(MAGIC);
        to[8..10].copy_from_slice(&VERSION.to_le_bytes());
        to[10] = self.cause.code();
        to[12..16].copy_from_slice(&self.init_len.to_le_bytes());
        to[16..20].copy_from_slice(&self.init_checksum.to_le_bytes());
        to[24..32].copy_from_slice(&self.start_us.to_le_bytes());
        to[32..40].copy_from_slice(&self.monotonic_us.to_le_bytes());
        to[40..48].copy_from_slice(&self.origin_us.to_le_bytes());
        to[48..56].copy_from_slice(&self.boot_us.to_le_bytes());
        sealed(to)
    }

    fn read(from: &[u8; LINE]) -> Option<Self> {
        let is_ours = is_whole(from) && from.starts_with(MAGIC);
        if !is_ours || u16::from_le_bytes(at(from, 8)) != VERSION {
            return None;
        }
        Some(Self {
            cause: Cause::from_code(from[10])?,
            init_len: u32::from_le_bytes(at(from, 12)),
            init_checksum: u32::from_le_bytes(at(from, 16)),
            start_us: i64::from_le_bytes(at(from, 24)),
            monotonic_us: u64::from_le_bytes(at(from, 32)),
            origin_us: i64::from_le_bytes(at(from, 40)),
            boot_us: i64::from_le_bytes(at(from, 48)),
        })
    }
}

impl Entry {
    /// Its bytes.
    pub fn write(&self) -> [u8; LINE] {
        let mut to = [0; LINE];
        match self {
            Self::Fragment(line) => {
                to[0] = FRAGMENT;
                to[1] = u8::from(line.begins_with_key);
                to[4..8].copy_from_slice(&line.number.to_le_bytes());
                to[8..16].copy_from_slice(&line.offset.to_le_bytes());
                to[16..20].copy_from_slice(&line.len.to_le_bytes());
                to[20..24].copy_from_slice(&line.checksum.to_le_bytes());
                to[24..32].copy_from_slice(&line.start_us.to_le_bytes());
                to[32..40].copy_from_slice(&line.duration_us.to_le_bytes());
                to[40..48].copy_from_slice(&line.monotonic_us.to_le_bytes());
                to[48..52].copy_from_slice(&line.synced.to_le_bytes());
                to[52..60].copy_from_slice(&line.wall_us.to_le_bytes());
            }
            Self::Gap(gap) => {
                to[0] = GAP;
                to[1] = gap.reason.code();
                to[4..8].copy_from_slice(&gap.gops.to_le_bytes());
                to[8..16].copy_from_slice(&gap.bytes.to_le_bytes());
                to[24..32].copy_from_slice(&gap.from_us.to_le_bytes());
                to[32..40].copy_from_slice(&gap.until_us.to_le_bytes());
            }
        }
        sealed(to)
    }

    fn read(from: &[u8; LINE]) -> Option<Self> {
        if !is_whole(from) {
            return None;
        }
        match from[0] {
            FRAGMENT => Some(Self::Fragment(Line {
                begins_with_key: from[1] & 1 != 0,
                number: u32::from_le_bytes(at(from, 4)),
                offset: u64::from_le_bytes(at(from, 8)),
                len: u32::from_le_bytes(at(from, 16)),
                checksum: u32::from_le_bytes(at(from, 20)),
                start_us: i64::from_le_bytes(at(from, 24)),
                duration_us: u64::from_le_bytes(at(from, 32)),
                monotonic_us: u64::from_le_bytes(at(from, 40)),
                synced: u32::from_le_bytes(at(from, 48)),
                wall_us: i64::from_le_bytes(at(from, 52)),
            })),
            GAP => Some(Self::Gap(Gap {
                reason: Reason::from_code(from[1])?,
                gops: u32::from_le_bytes(at(from, 4)),
                bytes: u64::from_le_bytes(at(from, 8)),
                from_us: i64::from_le_bytes(at(from, 24)),
                until_us: i64::from_le_bytes(at(from, 32)),
            })),
            _ => None,
        }
    }
}

/// With the checksum of what is in front of it.
fn sealed(mut line: [u8; LINE]) -> [u8; LINE] {
    let checksum = crc32fast::hash(&line[..LINE - 4]);
    line[LINE - 4..].copy_from_slice(&checksum.to_le_bytes());
    line
}

fn is_whole(line: &[u8; LINE]) -> bool {
    u32::from_le_bytes(at(line, LINE - 4)) == crc32fast::hash(&line[..LINE - 4])
}

/// Bytes at a place, which is a constant within the line.
fn at<const N: usize>(line: &[u8; LINE], place: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&line[place..place + N]);
    bytes
}

#[cfg(test)]
mod tests;
