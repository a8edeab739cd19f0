//! What the log knows of its producers: which of their records it has stored, and where. Pure.
//!
//! A producer numbers its records 0, 1, 2 and so on. The log stores them in that order, each once:
//!
//! | a batch of the producer's numbers `n` to `n + count - 1`; its next is `p` | |
//! |---|---|
//! | `n = p`, or `n = 0` of a producer that is not known, sent for the first time | is stored |
//! | `n = 0` of a producer that is not known, sent again, and surely not stored before | is stored |
//! | `n + count <= p`, in one row in the log | has been stored: gets the same numbers again |
//! | `n + count <= p`, in several rows, or too long ago | refused as [`Past`](Refusal::Past) |
//! | `n < p < n + count` | refused as a [`Gap`](Refusal::Gap): send what begins with `p` |
//! | `n > p` | refused as a gap |
//! | anything else of a producer that is not known | refused as [`Unknown`](Refusal::Unknown) |
//!
//! What the records hold is not compared. Where they are is kept for the last [`ROWS_MAX`] rows of
//! a producer; batches that follow each other in the log without others between are one row.
//!
//! If there are too many producers, the one goes that has not stored anything for the longest time.
//! That depends only on the records, so the log that is opened again knows the same producers.
//!
//! A producer that is not known may have been forgotten. Whoever sends a first batch again says
//! which number a copy of it would have at least. A producer that was forgotten has stored nothing
//! after the last record of those that were, so if that comes before this number, there is no copy.

use std::collections::{BTreeMap, HashMap, VecDeque};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use txlog_client::frame::Produced;

use super::append::Refusal;

/// How many rows of a producer are known: more than a client has batches under way. A row takes 24
/// bytes.
pub const ROWS_MAX: usize = 128;

const MAGIC: [u8; 8] = *b"EKTXPRD\0";
const VERSION: u32 = 2;

/// The version that does not say which producers were forgotten.
const VERSION_MIN: u32 = 1;

/// The producers of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producers {
    count_max: usize,
    known: HashMap<u128, Known>,
    /// By the first record of their latest append.
    by_use: BTreeMap<u64, u128>,
    /// No producer that may have been forgotten has an append that begins behind this record.
    forgotten: u64,
}

/// A producer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    /// Its next number.
    next: u64,
    /// The first record of its latest append.
    latest: u64,
    /// Where its records are, in order.
    rows: VecDeque<Row>,
}

/// Records whose numbers are in a row, the producer's and the log's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    number: u64,
    first: u64,
    count: u64,
}

impl Producers {
    /// None yet, and so many at most.
    pub fn new(count_max: usize) -> Self {
        Self {
            count_max: count_max.max(1),
            ..Self::default()
        }
    }

    /// Whether the records of a batch have been stored, and the number of the first one then.
    ///
    /// # Errors
    ///
    /// [`Refusal`]: it cannot be stored.
    pub fn find(
        &self,
        produced: Produced,
        count: u32,
        not_before: Option<u64>,
    ) -> Result<Option<u64>, Refusal> {
        let Produced { producer, number } = produced;
        let Some(Known { next, rows, .. }) = self.known.get(&producer) else {
            let is_new = not_before.is_none_or(|number| number > self.forgotten);
            return match number {
                0 if is_new => Ok(None),
                _ => Err(Refusal::Unknown { number }),
            };
        };
        let (next, end) = (*next, number.saturating_add(count.into()));
        if number == next {
            return Ok(None);
        }
        if end > next {
            return Err(Refusal::Gap { number, next });
        }
        let row = rows.iter().rev().find(|row| row.number <= number);
        match row.filter(|row| end <= row.number + row.count) {
            Some(row) => Ok(Some(row.first + (number - row.number))),
            None => Err(Refusal::Past { number, end, next }),
        }
    }

    /// Notes that a batch is stored, the first of its records under this number.
    pub fn store(&mut self, produced: Produced, count: u32, first: u64) {
        let Produced { producer, number } = produced;
        let count = u64::from(count);
        if !self.known.contains_key(&producer) && self.known.len() >= self.count_max {
            self.forget_one();
        }
        let known = self.known.entry(producer).or_default();
        self.by_use.remove(&known.latest);
        self.by_use.insert(first, producer);
        known.latest = first;
        if known.next != number {
            // It was forgotten, and began anew.
            known.rows.clear();
        }
        known.next = number.saturating_add(count);
        match known.rows.back_mut() {
            Some(row) if row.first + row.count == first => row.count += count,
            _ => known.rows.push_back(Row {
                number,
                first,
                count,
            }),
        }
        if known.rows.len() > ROWS_MAX {
            known.rows.pop_front();
        }
    }

    /// Whether none is known.
    pub fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Forgets all, whose records come before `next`.
    pub fn clear(&mut self, next: u64) {
        self.known.clear();
        self.by_use.clear();
        self.forgot_before(next);
    }

    /// Notes that producers may have been forgotten, with records before `next`.
    pub fn forgot_before(&mut self, next: u64) {
        self.forgotten = self.forgotten.max(next.saturating_sub(1));
    }

    /// As bytes, as they are known after all records of this log before `next`.
    ///
    /// All integers are little-endian.
    ///
    /// ```text
    ///  0  8  "EKTXPRD" and a zero        for each producer, that of the oldest append first
    ///  8  4  version, 2                    0 16  its id
    /// 12  4  the log's id                 16  8  its next number
    /// 16  8  next                         24  8  the first record of its latest append
    /// 24  4  number of producers          32  4  number of rows, and for each
    /// 28     the producers                        its number of the first record:8
    ///     8  the last record that a               the record:8 how many:8
    ///        forgotten producer's latest
    ///        append may begin with; not
    ///        in version 1
    ///     4  crc of all before
    /// ```
    pub fn encode(&self, log_id: u32, next: u64) -> Bytes {
        let mut buffer = BytesMut::new();
        buffer.put_slice(&MAGIC);
        buffer.put_u32_le(VERSION);
        buffer.put_u32_le(log_id);
        buffer.put_u64_le(next);
        buffer.put_u32_le(self.by_use.len() as u32);
        for producer in self.by_use.values() {
            let known = &self.known[producer];
            buffer.put_u128_le(*producer);
            buffer.put_u64_le(known.next);
            buffer.put_u64_le(known.latest);
            buffer.put_u32_le(known.rows.len() as u32);
            for row in &known.rows {
                buffer.put_u64_le(row.number);
                buffer.put_u64_le(row.first);
                buffer.put_u64_le(row.count);
            }
        }
        buffer.put_u64_le(self.forgotten);
        let crc = crc32fast::hash(&buffer);
        buffer.put_u32_le(crc);
        buffer.freeze()
    }

    /// Reads what [`encode`](Self::encode) wrote; returns it and `next`. `None` if the bytes are
    /// damaged, of another log, or of a later version: then the records have to be read.
    pub fn decode(bytes: &[u8], log_id: u32, count_max: usize) -> Option<(Self, u64)> {
        let (mut fields, crc) = bytes.split_last_chunk::<4>()?;
        if crc32fast::hash(fields) != u32::from_le_bytes(*crc) {
            return None;
        }
        let head = fields.split_off(..MAGIC.len())?;
        let version = fields.try_get_u32_le().ok()?;
        let is_ours = head == MAGIC
            && (VERSION_MIN..=VERSION).contains(&version)
            && fields.try_get_u32_le().ok()? == log_id;
        if !is_ours {
            return None;
        }
        let mut producers = Self::new(count_max);
        let next = fields.try_get_u64_le().ok()?;
        for _ in 0..fields.try_get_u32_le().ok()? {
            producers.decode_one(&mut fields)?;
        }
        let forgotten = match version {
            VERSION_MIN => next.saturating_sub(1),
            _ => fields.try_get_u64_le().ok()?,
        };
        producers.forgotten = producers.forgotten.max(forgotten);
        fields.is_empty().then_some((producers, next))
    }

    fn decode_one(&mut self, fields: &mut &[u8]) -> Option<()> {
        let producer = fields.try_get_u128_le().ok()?;
        let (next, latest) = (fields.try_get_u64_le().ok()?, fields.try_get_u64_le().ok()?);
        let mut rows = VecDeque::new();
        for _ in 0..fields.try_get_u32_le().ok()? {
            rows.push_back(Row {
                number: fields.try_get_u64_le().ok()?,
                first: fields.try_get_u64_le().ok()?,
                count: fields.try_get_u64_le().ok()?,
            });
        }
        if self.known.len() >= self.count_max {
            self.forget_one();
        }
        self.by_use.insert(latest, producer);
        let known = Known { next, latest, rows };
        // Each is there once, and has an append of its own.
        let before = self.known.insert(producer, known);
        (before.is_none() && self.known.len() == self.by_use.len()).then_some(())
    }

    fn forget_one(&mut self) {
        if let Some((latest, producer)) = self.by_use.pop_first() {
            self.known.remove(&producer);
            self.forgotten = self.forgotten.max(latest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some producers, with several rows each.
    fn some() -> Producers {
        let mut producers = Producers::new(10);
        let mut first = 1;
        for number in 0..4 {
            for producer in [7, u128::MAX, 0] {
                let count = 1 + producer as u32 % 3;
                let number = number * u64::from(count);
                producers.store(Produced { producer, number }, count, first);
                first += u64::from(count) + 1;
            }
        }
        producers
    }

    #[test]
    fn what_was_written_is_read_and_nothing_that_is_damaged() {
        let mut producers = some();
        producers.forgot_before(20);
        let bytes = producers.encode(5, 100);
        let read = Producers::decode(&bytes, 5, 10);
        assert_eq!(read, Some((producers.clone(), 100)));
        assert_eq!(Producers::decode(&bytes, 6, 10), None, "of another log");
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.to_vec();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Producers::decode(&flipped, 5, 10), None, "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(Producers::decode(&bytes[..cut], 5, 10), None);
        }
        // Of a later version, with a valid checksum.
        let mut newer = bytes[..bytes.len() - 4].to_vec();
        newer[8] += 1;
        newer.extend(crc32fast::hash(&newer).to_le_bytes());
        assert_eq!(Producers::decode(&newer, 5, 10), None);
        // Of the earlier one, which does not say who was forgotten: all may be.
        let mut older = bytes[..bytes.len() - 4 - 8].to_vec();
        older[8] = 1;
        older.extend(crc32fast::hash(&older).to_le_bytes());
        producers.forgot_before(100);
        assert_eq!(Producers::decode(&older, 5, 10), Some((producers, 100)));
    }

    #[test]
    fn of_too_many_the_latest_are_read() {
        let (two, _) = Producers::decode(&some().encode(5, 100), 5, 2).unwrap();
        let find = |producer, number| two.find(Produced { producer, number }, 1, None);
        assert_eq!(find(7, 7), Err(Refusal::Unknown { number: 7 }));
        assert!(find(0, 3).unwrap().is_some() && find(u128::MAX, 3).unwrap().is_some());
    }
}
