//! The fields of frames, as bytes.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{
    Batched, COPIED_BYTES_MAX, FrameError, LENGTH_BYTES, RECORD_OVERHEAD, Record, SMALL_BYTES_MAX,
    TEXT_BYTES_MAX,
};
use crate::cursor::{Cursor, Identity};

/// Adds a frame whose fields have this many bytes.
pub(super) fn framed(
    buffer: &mut BytesMut,
    kind: u8,
    bytes: usize,
    fields: impl FnOnce(&mut BytesMut),
) {
    buffer.reserve(LENGTH_BYTES + 1 + bytes);
    let end = buffer.len() + LENGTH_BYTES + 1 + bytes;
    buffer.put_u32_le(1 + bytes as u32);
    buffer.put_u8(kind);
    fields(buffer);
    debug_assert_eq!(
        buffer.len(),
        end,
        "a frame of kind {kind:#04x} has its length"
    );
}

pub(super) fn put_identity(buffer: &mut BytesMut, identity: Option<Identity>) {
    if let Some(Identity { log, epoch }) = identity {
        buffer.put_u64_le(log);
        buffer.put_u64_le(epoch);
    }
}

/// Adds where a reader is.
pub(super) fn put_position(buffer: &mut BytesMut, cursor: Option<Cursor>) {
    if let Some(cursor) = cursor {
        buffer.put_u64_le(cursor.sequence);
        put_identity(buffer, Some(cursor.identity()));
    }
}

/// A text as long as it may be.
pub(super) fn cut(text: &str) -> &str {
    let end = text.len().min(TEXT_BYTES_MAX);
    let end = (0..=end).rev().find(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

fn owned(payload: Bytes) -> Bytes {
    if payload.len() <= COPIED_BYTES_MAX {
        Bytes::copy_from_slice(&payload)
    } else {
        payload
    }
}

/// A frame that is being decoded.
pub(super) struct Fields {
    pub(super) kind: u8,
    pub(super) rest: Bytes,
}

impl Fields {
    pub(super) fn new(mut frame: Bytes) -> Result<Self, FrameError> {
        if frame.is_empty() {
            return Err(FrameError::Empty);
        }
        let kind = frame.get_u8();
        Ok(Self { kind, rest: frame })
    }

    fn need(&self, bytes: usize, field: &'static str) -> Result<(), FrameError> {
        if self.rest.len() < bytes {
            let kind = self.kind;
            return Err(FrameError::Short { kind, field });
        }
        Ok(())
    }

    pub(super) fn u8(&mut self, field: &'static str) -> Result<u8, FrameError> {
        self.need(1, field)?;
        Ok(self.rest.get_u8())
    }

    pub(super) fn u16(&mut self, field: &'static str) -> Result<u16, FrameError> {
        self.need(2, field)?;
        Ok(self.rest.get_u16_le())
    }

    pub(super) fn u32(&mut self, field: &'static str) -> Result<u32, FrameError> {
        self.need(4, field)?;
        Ok(self.rest.get_u32_le())
    }

    pub(super) fn u64(&mut self, field: &'static str) -> Result<u64, FrameError> {
        self.need(8, field)?;
        Ok(self.rest.get_u64_le())
    }

    /// The log, unless the frame ends before it, as in version 1.
    pub(super) fn identity(&mut self) -> Result<Option<Identity>, FrameError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        Ok(Some(Identity {
            log: self.u64("log")?,
            epoch: self.u64("epoch")?,
        }))
    }

    pub(super) fn u128(&mut self, field: &'static str) -> Result<u128, FrameError> {
        self.need(16, field)?;
        Ok(self.rest.get_u128_le())
    }

    /// A number that may be missing at the frame's end.
    pub(super) fn optional_u32(&mut self, field: &'static str) -> Result<Option<u32>, FrameError> {
        match self.rest.is_empty() {
            true => Ok(None),
            false => self.u32(field).map(Some),
        }
    }

    /// Flags of which only these are known. Where two exclude each other, `known` is the largest.
    pub(super) fn flags(&mut self, known: u8) -> Result<u8, FrameError> {
        let flags = self.u8("flags")?;
        if flags > known {
            let kind = self.kind;
            return Err(FrameError::Flags { kind, flags });
        }
        Ok(flags)
    }

    /// Where a reader is.
    pub(super) fn cursor(&mut self) -> Result<Cursor, FrameError> {
        Ok(Cursor {
            sequence: self.u64("sequence number")?,
            log: self.u64("log")?,
            epoch: self.u64("epoch")?,
        })
    }

    pub(super) fn utf8(&mut self, bytes: usize, field: &'static str) -> Result<String, FrameError> {
        self.need(bytes, field)?;
        let kind = self.kind;
        String::from_utf8(self.rest.split_to(bytes).into())
            .map_err(|_| FrameError::Text { kind, field })
    }

    /// A name that ends with the frame. One that cannot be a name, by far, is not even copied: a
    /// server would have to keep it until its answer is sent.
    pub(super) fn rest_utf8(&mut self, field: &'static str) -> Result<String, FrameError> {
        if let Some(bytes @ 1..) = self.rest.len().checked_sub(SMALL_BYTES_MAX) {
            let kind = self.kind;
            return Err(FrameError::Long { kind, bytes });
        }
        self.utf8(self.rest.len(), field)
    }

    /// The rest, which is kept longer than the frame.
    pub(super) fn payload(&mut self) -> Bytes {
        owned(self.take_rest())
    }

    /// The records of a batch.
    pub(super) fn batched(&mut self) -> Result<Batched, FrameError> {
        let count = self.u32("number of records")?;
        self.rest = owned(self.take_rest());
        let (kind, field) = (self.kind, "record");
        Batched::take(&mut self.rest, count).ok_or(FrameError::Short { kind, field })
    }

    pub(super) fn take_rest(&mut self) -> Bytes {
        self.rest.split_off(0)
    }

    pub(super) fn text(&mut self) -> String {
        String::from_utf8_lossy(&self.take_rest()).into_owned()
    }

    pub(super) fn records(&mut self) -> Result<Vec<Record>, FrameError> {
        let count = self.u32("number of records")? as usize;
        // The count is not trusted: memory is reserved for as many records as the frame can hold.
        let mut records = Vec::with_capacity(count.min(self.rest.len() / RECORD_OVERHEAD));
        for _ in 0..count {
            let sequence = self.u64("sequence number")?;
            let time_ms = self.u64("time")?;
            let bytes = self.u32("length of a record")? as usize;
            self.need(bytes, "record")?;
            let payload = owned(self.rest.split_to(bytes));
            records.push(Record {
                sequence,
                time_ms,
                payload,
            });
        }
        Ok(records)
    }

    pub(super) fn end(&self) -> Result<(), FrameError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(FrameError::Long {
            kind: self.kind,
            bytes: self.rest.len(),
        })
    }
}
