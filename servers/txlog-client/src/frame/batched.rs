//! The records of a batch, one after the other in one piece of memory.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::BATCHED_OVERHEAD;

/// The records of a batch, each behind its length, as they are in a frame. They take as much memory
/// as the frame, however small they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batched {
    /// Only whole records.
    bytes: Bytes,
    count: u32,
}

impl Batched {
    /// Takes `count` records from the beginning of `bytes`. `None` if there are fewer.
    pub(super) fn take(bytes: &mut Bytes, count: u32) -> Option<Self> {
        let mut rest = &bytes[..];
        for _ in 0..count {
            next(&mut rest)?;
        }
        let end = bytes.len() - rest.len();
        let bytes = bytes.split_to(end);
        Some(Self { bytes, count })
    }

    /// How many records there are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The bytes of all records and their lengths.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The records, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || next(&mut rest))
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The next record, and moves on behind it.
fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    if rest.len() < BATCHED_OVERHEAD {
        return None;
    }
    let length = rest.get_u32_le() as usize;
    let (record, behind) = rest.split_at_checked(length)?;
    *rest = behind;
    Some(record)
}

impl<R: AsRef<[u8]>> FromIterator<R> for Batched {
    /// Copies the records.
    fn from_iter<I: IntoIterator<Item = R>>(records: I) -> Self {
        let (mut bytes, mut count) = (BytesMut::new(), 0);
        for record in records {
            let record = record.as_ref();
            bytes.put_u32_le(record.len() as u32);
            bytes.put_slice(record);
            count += 1;
        }
        Self {
            bytes: bytes.freeze(),
            count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_records_are_taken_and_no_others() {
        let records: Batched = [&b"one"[..], b"", b"three"].iter().collect();
        assert_eq!((records.count(), records.bytes()), (3, 8 + 12));
        assert!(records.iter().eq([&b"one"[..], b"", b"three"]));
        let mut two = records.bytes.clone();
        let taken = Batched::take(&mut two, 2).unwrap();
        assert!(taken.iter().eq([&b"one"[..], b""]));
        assert_eq!(&two[4..], b"three", "the third is left");
        assert_eq!(Batched::take(&mut records.bytes.clone(), 4), None);
        for cut in 0..records.bytes() {
            let mut cut = records.bytes.slice(..cut);
            assert_eq!(Batched::take(&mut cut, 3), None);
        }
        assert_eq!(Batched::take(&mut two.clone(), u32::MAX), None);
    }
}
