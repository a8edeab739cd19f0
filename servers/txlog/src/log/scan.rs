//! Reads the records of a segment, up to its end or the first damage, and finds out what the damage
//! means.
//!
//! A crash may leave any part of the *last batch* on the disk, in any order: its first record torn
//! and its last one intact, since the system writes pages in any order. It cannot affect data that
//! were durable before. So, if there is damage where record `n` has to be:
//!
//! - If it is followed by an intact record whose batch began after `n`, then `n` was durable once,
//!   and has been damaged since. That is an error, and nothing is cut off.
//! - Otherwise `n` belongs to the last batch, which was never acknowledged as a whole: the end is
//!   torn, and is cut off at `n`.
//! - Bytes in a payload that look like such a record are none, as they have not the segment's key.
//!   Segments of versions 1 and 2 have no key. In them, and in all others, a record does not count
//!   if those between `n` and it would not fit between them.
//!
//! Either way the log goes on where the append of `n` began: the records of an append are there
//!   all, or none of them. The records of the last append that are before `n` had not been
//!   acknowledged.
//!
//! One case cannot be told apart here: damage to the very last batch *after* a clean end looks like
//! a torn end. The [mark](super::mark) tells them apart, if it covers the batch.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use txlog_client::frame::Produced;

use super::disk::DiskFile;
use super::record::{Damage, HEADER_BYTES, Head, Header, PRODUCED_BYTES, Seal};

/// How much is read at a time.
const WINDOW_BYTES: usize = 1 << 20;

/// A window that moves along a file.
#[derive(Debug)]
pub struct Window<'a, F> {
    file: &'a F,
    /// Where in the file `bytes` begins.
    offset: u64,
    bytes: Bytes,
    window_bytes: usize,
}

/// A record and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The offset at which it begins.
    pub offset: u64,
    /// Its header.
    pub header: Header,
    /// Its payload, with the producer.
    pub body: Bytes,
}

impl Found {
    /// The offset at which the next record begins.
    pub fn end(&self) -> u64 {
        self.offset + self.header.record_bytes() as u64
    }

    /// The bytes that were appended.
    pub fn payload(&self) -> Bytes {
        match self.header.is_produced {
            true => self.body.slice(PRODUCED_BYTES..),
            false => self.body.clone(),
        }
    }

    /// The producer of its append, and that one's number of this record.
    pub fn produced(&self) -> Option<Produced> {
        let mut body = &self.body[..];
        self.header.is_produced.then(|| Produced {
            producer: body.get_u128_le(),
            number: body.get_u64_le(),
        })
    }
}

/// The bytes at a place where a record may begin.
#[derive(Debug)]
pub enum At {
    /// A record.
    Record(Found),
    /// The file's end, or nothing but zeros up to it.
    End,
    /// Neither.
    Damage(Damage),
}

/// What damage means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The end is torn: no record behind the damage had been acknowledged.
    Torn,
    /// A record that had been durable is damaged. An intact one follows at this offset.
    Corrupt {
        /// The offset of an intact record that was written later.
        later_at: u64,
        /// Its number.
        later: u64,
    },
}

impl<'a, F: DiskFile> Window<'a, F> {
    /// A window from `offset` on.
    pub fn new(file: &'a F, offset: u64) -> Self {
        Self::with_bytes(file, offset, WINDOW_BYTES)
    }

    /// The same, reading at least this many bytes at a time.
    pub fn with_bytes(file: &'a F, offset: u64, window_bytes: usize) -> Self {
        Self {
            file,
            offset,
            bytes: Bytes::new(),
            window_bytes,
        }
    }

    /// Up to `len` bytes at `offset`, fewer only at the file's end.
    pub async fn at(&mut self, offset: u64, len: usize) -> io::Result<Bytes> {
        let end = offset + len as u64;
        if offset < self.offset || end > self.offset + self.bytes.len() as u64 {
            self.bytes = read_full(self.file, len.max(self.window_bytes), offset).await?;
            self.offset = offset;
        }
        // At the file's end there is less than was asked for.
        let begin = (offset - self.offset) as usize;
        let end = (begin + len).min(self.bytes.len());
        Ok(self.bytes.slice(begin.min(end)..end))
    }

    /// The bytes at `offset`, where record `sequence` has to be.
    ///
    /// # Errors
    ///
    /// An error of the file.
    pub async fn look(&mut self, offset: u64, sequence: u64, seal: Seal) -> io::Result<At> {
        let bytes = self.at(offset, HEADER_BYTES).await?;
        let header = match Header::decode(&bytes, seal) {
            Ok(header) => header,
            Err(damage) if bytes.iter().all(|&byte| byte == 0) => {
                return Ok(match self.first_not_zero(offset).await? {
                    None => At::End,
                    Some(_) => At::Damage(damage),
                });
            }
            Err(damage) => return Ok(At::Damage(damage)),
        };
        if header.sequence != sequence {
            let (expected, found) = (sequence, header.sequence);
            return Ok(At::Damage(Damage::Sequence { expected, found }));
        }
        let payload_at = offset + HEADER_BYTES as u64;
        let payload = self.at(payload_at, header.length as usize).await?;
        Ok(match header.payload(&payload) {
            Ok(body) => At::Record(Found {
                offset,
                header,
                body,
            }),
            Err(damage) => At::Damage(damage),
        })
    }

    /// The meaning of damage at `offset`, where record `sequence` has to be.
    ///
    /// # Errors
    ///
    /// An error of the file.
    pub async fn judge(&mut self, offset: u64, sequence: u64, seal: Seal) -> io::Result<Verdict> {
        let mut at = offset + 1;
        loop {
            let bytes = self.at(at, self.window_bytes).await?;
            if bytes.len() < HEADER_BYTES {
                return Ok(Verdict::Torn);
            }
            for (candidate, header) in candidates(&bytes, (at - offset, sequence), seal) {
                if header.batch_first() <= sequence {
                    continue;
                }
                let (later_at, later) = (at + candidate as u64, header.sequence);
                if let At::Record(_) = self.look(later_at, later, seal).await? {
                    return Ok(Verdict::Corrupt { later_at, later });
                }
            }
            at += (bytes.len() - (HEADER_BYTES - 1)) as u64;
        }
    }

    async fn first_not_zero(&mut self, mut offset: u64) -> io::Result<Option<u64>> {
        loop {
            let bytes = self.at(offset, self.window_bytes).await?;
            if let Some(at) = bytes.iter().position(|&byte| byte != 0) {
                return Ok(Some(offset + at as u64));
            }
            if bytes.is_empty() {
                return Ok(None);
            }
            offset += bytes.len() as u64;
        }
    }
}

/// Intact headers in `bytes`, with their offsets. Damage is `behind` bytes before these, where
/// record `sequence` has to be: only headers of records that can be so near to it.
pub(super) fn candidates(
    bytes: &[u8],
    (behind, sequence): (u64, u64),
    seal: Seal,
) -> Vec<(usize, Header)> {
    let fits = |at: usize, header: &Header| {
        let between = header.sequence.saturating_sub(sequence);
        between <= (behind + at as u64) / HEADER_BYTES as u64
    };
    (0..=bytes.len() - HEADER_BYTES)
        // This excludes nearly all places, without a checksum.
        .filter(|&at| seal.may_be_at(&bytes[at..]))
        .filter_map(|at| Some((at, Header::decode(&bytes[at..], seal).ok()?)))
        .filter(|(at, header)| fits(*at, header))
        .collect()
}

/// Up to `len` bytes, fewer only at the file's end.
async fn read_full<F: DiskFile>(file: &F, len: usize, offset: u64) -> io::Result<Bytes> {
    let first = file.read_at(len, offset).await?;
    if first.len() == len || first.is_empty() {
        return Ok(first);
    }
    let mut bytes = BytesMut::from(&first[..]);
    while bytes.len() < len {
        let more = file
            .read_at(len - bytes.len(), offset + bytes.len() as u64)
            .await?;
        if more.is_empty() {
            break;
        }
        bytes.extend_from_slice(&more);
    }
    Ok(bytes.freeze())
}

/// The result of reading a segment.
#[derive(Debug)]
#[non_exhaustive]
pub struct Walked {
    /// Where the last batch begins. 0 if there is none: then the head may not be durable.
    pub batch_at: u64,
    /// The number of the first record of the last batch: all before it had been durable when it was
    /// written. The segment's first, if it has no record.
    pub batch_first: u64,
    /// Where the records of whole appends end.
    pub end: u64,
    /// The number of the next record.
    pub next: u64,
    /// The damage at which reading ended.
    pub damage: Option<Damage>,
    /// The length of the file.
    pub file_bytes: u64,
    /// When the first record was accepted, if there is one.
    pub oldest_ms: Option<u64>,
    /// When the last record was accepted; 0 if there is none.
    pub newest_ms: u64,
    /// Whether there is a record with a producer.
    pub has_producers: bool,
}

impl Walked {
    /// A segment with this head, and no records yet.
    pub(super) fn new(head: &Head, file_bytes: u64) -> Self {
        Self {
            batch_at: 0,
            batch_first: head.first,
            end: head.bytes(),
            next: head.first,
            damage: None,
            file_bytes,
            oldest_ms: None,
            newest_ms: 0,
            has_producers: false,
        }
    }

    /// Moves on behind a whole append with this first header at this offset.
    fn pass(&mut self, first: &Header, offset: u64, end: u64, next: u64) {
        if first.batch_back == 0 {
            self.batch_at = offset;
            self.batch_first = first.sequence;
        }
        self.newest_ms = first.time_ms;
        self.has_producers |= first.is_produced;
        self.oldest_ms.get_or_insert(first.time_ms);
        self.end = end;
        self.next = next;
    }
}

/// The append whose records are being read.
struct Reading {
    /// Its first record.
    first: Found,
    /// How many of its records are still to come.
    left: u32,
}

impl Reading {
    /// Takes its next record. False if that is of another append.
    fn takes(&mut self, header: &Header) -> bool {
        let is_next = header.append_left + 1 == self.left && !header.is_produced;
        self.left = header.append_left;
        is_next
    }

    fn count(&self) -> u32 {
        self.first.header.append_left + 1
    }
}

/// Reads all records of a segment with this head. Calls `visit` with the first record of
/// each append that is whole, and with the number of its records.
///
/// # Errors
///
/// An error of the file.
pub async fn walk<F: DiskFile>(
    file: &F,
    head: &Head,
    mut visit: impl FnMut(&Found, u32),
) -> io::Result<Walked> {
    let (mut window, seal) = (Window::new(file, head.bytes()), head.seal());
    let mut walked = Walked::new(head, file.size().await?);
    let (mut at, mut sequence) = (walked.end, walked.next);
    let mut reading: Option<Reading> = None;
    loop {
        let found = match window.look(at, sequence, seal).await? {
            At::Record(found) => found,
            At::End => break,
            At::Damage(damage) => {
                walked.damage = Some(damage);
                break;
            }
        };
        if (reading.as_mut()).is_some_and(|append| !append.takes(&found.header)) {
            break;
        }
        (at, sequence) = (found.end(), sequence + 1);
        let append = reading.take().unwrap_or(Reading {
            left: found.header.append_left,
            first: found,
        });
        match append.left {
            0 => {
                visit(&append.first, append.count());
                walked.pass(&append.first.header, append.first.offset, at, sequence);
            }
            _ => reading = Some(append),
        }
        // Millions of records must not keep the worker.
        evenkeel::task::checkpoint().await;
    }
    if reading.is_some() && walked.damage.is_none() {
        let have = sequence - walked.next;
        let sequence = walked.next;
        walked.damage = Some(Damage::CutAppend { sequence, have });
    }
    Ok(walked)
}
