//! The protocol: the contents of a frame, and its encoding.
//!
//! A frame is its length in 4 bytes, then that many bytes: one for the frame's kind, then fields.
//! All integers are little-endian; a field without a length of its own extends to the frame's end.
//!
//! ```text
//! kind  client to server                      kind  server to client
//! 01    hello    magic[4] min:2 max:2         81    welcome   version:2 record_max:4
//!                                                             appends_max:4 first:8 next:8
//!                                                             (log:8 epoch:8)
//! 02    append   id:8 record                  82    appended  id:8 sequence:8
//! 03    read     id:8 from:8 records_max:4    83    records   id:8 next:8 count:4 and for each
//!                bytes_max:4 wait_ms:4                        sequence:8 time_ms:8 length:4 bytes
//!                (log:8 epoch:8)
//! 04    ping     id:8                         84    pong      id:8
//!                                             85    refused   id:8 code:2 text
//!                                             86    fault     code:2 text, and the end
//! 05    health   id:8 within_ms:4             87    health    id:8 writable:1 pending_ms:4
//!                                                             took_ms:4 ago_ms:4 text
//!                                             88    refused   id:8 code:2 numbers:8,8 text
//! ```
//!
//! Version 2 added the kinds 05, 87 and 88, and the fields in brackets, which its `welcome` has and
//! its `read` may have. A server answers a client of version 1 with neither.
//!
//! A client says hello first, with the versions it speaks; the server answers with the one to use.
//! Then requests may follow each other without waiting. Appends are written, and answered, in the
//! order in which they came; other answers come when they are ready. `refused` answers one request;
//! after a `fault` the server closes the connection.
//!
//! A `read` is answered as soon as there is a record at `from`, which may be 0 for the oldest one,
//! or after `wait_ms` without any. So the reader decides how many records are under way. A read
//! from beyond the end is refused: the reader has been in another log, or in a longer one. A reader
//! that has been there before says in which log and which epoch of it, and is refused if it is
//! another.
//!
//! The numbers of `refused` (88) are the numbers of the oldest record and of the next one for
//! `OutOfRange`, and the log and its epoch for `OtherLog` and `NewEpoch`.

mod code;

use bytes::{Buf, BufMut, Bytes, BytesMut};

pub use self::code::Code;
use crate::cursor::Identity;

/// How a hello begins, so that neither side takes another protocol for this one.
pub const MAGIC: [u8; 4] = *b"EKTL";

/// The version described here.
pub const VERSION: u16 = 2;

/// The oldest version that is still spoken, with the fields and frames that it has.
pub const VERSION_MIN: u16 = 1;

/// The bytes of a frame's length.
pub const LENGTH_BYTES: usize = 4;

/// The most bytes that a request other than an append has.
pub const SMALL_BYTES_MAX: usize = 64;

/// What a frame adds to a record in an append.
pub const APPEND_OVERHEAD: usize = 1 + 8;

/// What a frame adds to each record in an answer to a read.
pub const RECORD_OVERHEAD: usize = 8 + 8 + 4;

/// What a frame adds to all records in an answer to a read.
pub const RECORDS_OVERHEAD: usize = 1 + 8 + 8 + 4;

/// The longest text in a `refused` or `fault`; longer ones are truncated.
pub const TEXT_BYTES_MAX: usize = 1_024;

/// A payload up to this size is copied out of the buffer in which it arrived, so that a small one
/// does not keep a large buffer alive.
const COPIED_BYTES_MAX: usize = 4_096;

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first frame: which versions the client speaks.
    Hello {
        /// The oldest.
        min: u16,
        /// The newest.
        max: u16,
    },
    /// Makes a record durable.
    Append {
        /// Repeated in the answer.
        id: u64,
        /// The record.
        payload: Bytes,
    },
    /// Reads records.
    Read {
        /// Repeated in the answer.
        id: u64,
        /// The sequence number of the first; 0 for the oldest there is.
        from: u64,
        /// How many at most.
        records_max: u32,
        /// How many bytes of payload at most; one record may exceed it.
        bytes_max: u32,
        /// How long to wait for the first one.
        wait_ms: u32,
        /// The log in which the reader was before; not in version 1.
        of: Option<Identity>,
    },
    /// Asks for a sign of life.
    Ping {
        /// Repeated in the answer.
        id: u64,
    },
    /// Asks whether an append would be acknowledged in time; not in version 1.
    Health {
        /// Repeated in the answer.
        id: u64,
        /// In which time.
        within_ms: u32,
    },
}

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// To hello.
    Welcome {
        /// The version to speak.
        version: u16,
        /// The largest record.
        record_bytes_max: u32,
        /// How many appends of one connection may be pending.
        appends_max: u32,
        /// The oldest record's sequence number.
        first: u64,
        /// The sequence number of the next record.
        next: u64,
        /// The log; not in version 1.
        of: Option<Identity>,
    },
    /// The record is durable.
    Appended {
        /// Of the request.
        id: u64,
        /// The record's number.
        sequence: u64,
    },
    /// Records in order.
    Records {
        /// Of the request.
        id: u64,
        /// The number from which to read on.
        next: u64,
        /// Empty if none came in time.
        records: Vec<Record>,
    },
    /// To ping.
    Pong {
        /// Of the request.
        id: u64,
    },
    /// One request failed.
    Refused {
        /// Of the request.
        id: u64,
        /// Why.
        code: Code,
        /// What happened and what to do about it.
        text: String,
    },
    /// One request failed, and two numbers say where the log is; not in version 1.
    RefusedAt {
        /// Of the request.
        id: u64,
        /// Why.
        code: Code,
        /// Their meaning depends on the code.
        numbers: [u64; 2],
        /// What happened and what to do about it.
        text: String,
    },
    /// To health; not in version 1. Times without a value are [`u32::MAX`].
    Health {
        /// Of the request.
        id: u64,
        /// Whether an append would be acknowledged in time, as far as the server can know.
        writable: bool,
        /// How long the oldest pending append has waited.
        pending_ms: u32,
        /// How long the last append took that has ended.
        took_ms: u32,
        /// How long ago that was.
        ago_ms: u32,
        /// What is known, and what to do about it.
        text: String,
    },
    /// The connection failed, and is closed.
    Fault {
        /// Why.
        code: Code,
        /// What happened and what to do about it.
        text: String,
    },
}

/// A record as it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number: one more than that of the record before, unless records between were removed.
    pub sequence: u64,
    /// When the server took it, in milliseconds since 1970.
    pub time_ms: u64,
    /// The bytes that were appended.
    pub payload: Bytes,
}

/// Why a frame is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It ends before its fields do.
    #[error("a frame of kind {kind:#04x} ends within its {field}")]
    Short {
        /// The frame's kind.
        kind: u8,
        /// The field that is incomplete.
        field: &'static str,
    },
    /// It has bytes after its fields.
    #[error("a frame of kind {kind:#04x} has {bytes} bytes too many")]
    Long {
        /// The frame's kind.
        kind: u8,
        /// How many bytes are left over.
        bytes: usize,
    },
    /// It has no bytes at all.
    #[error("a frame without a kind")]
    Empty,
    /// There is no such kind in this direction.
    #[error("a frame of the unknown kind {kind:#04x}")]
    Kind {
        /// The kind's number.
        kind: u8,
    },
    /// A hello without the magic bytes.
    #[error("the other side does not speak txlog's protocol")]
    Magic,
    /// Its length is beyond the limit.
    #[error("a frame of {bytes} bytes; at most {bytes_max} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
}

impl FrameError {
    /// How a server answers it.
    pub fn code(&self) -> Code {
        match self {
            FrameError::Magic => Code::NotTxlog,
            FrameError::TooLong { .. } => Code::FrameTooLong,
            _ => Code::BadFrame,
        }
    }
}

/// The length in a frame's first bytes.
///
/// # Errors
///
/// [`FrameError::Empty`] or [`FrameError::TooLong`].
pub fn length(first: [u8; LENGTH_BYTES], bytes_max: usize) -> Result<usize, FrameError> {
    match u32::from_le_bytes(first) as usize {
        0 => Err(FrameError::Empty),
        bytes if bytes > bytes_max => Err(FrameError::TooLong { bytes, bytes_max }),
        bytes => Ok(bytes),
    }
}

impl Request {
    /// Adds the frame to `buffer`.
    pub fn encode(&self, buffer: &mut BytesMut) {
        match self {
            Request::Hello { min, max } => framed(buffer, 0x01, 8, |buffer| {
                buffer.put_slice(&MAGIC);
                buffer.put_u16_le(*min);
                buffer.put_u16_le(*max);
            }),
            Request::Append { id, payload } => framed(buffer, 0x02, 8 + payload.len(), |buffer| {
                buffer.put_u64_le(*id);
                buffer.put_slice(payload);
            }),
            Request::Read {
                id,
                from,
                records_max,
                bytes_max,
                wait_ms,
                of,
            } => framed(buffer, 0x03, 28 + of.map_or(0, |_| 16), |buffer| {
                buffer.put_u64_le(*id);
                buffer.put_u64_le(*from);
                buffer.put_u32_le(*records_max);
                buffer.put_u32_le(*bytes_max);
                buffer.put_u32_le(*wait_ms);
                put_identity(buffer, *of);
            }),
            Request::Ping { id } => framed(buffer, 0x04, 8, |buffer| buffer.put_u64_le(*id)),
            Request::Health { id, within_ms } => framed(buffer, 0x05, 12, |buffer| {
                buffer.put_u64_le(*id);
                buffer.put_u32_le(*within_ms);
            }),
        }
    }

    /// Reads a frame, without its length.
    ///
    /// # Errors
    ///
    /// [`FrameError`]: the defect.
    pub fn decode(frame: Bytes) -> Result<Self, FrameError> {
        let mut fields = Fields::new(frame)?;
        let request = match fields.kind {
            0x01 => {
                // The magic comes first: without it, the peer is not a client of this protocol.
                if fields.rest.len() < MAGIC.len() || fields.rest[..MAGIC.len()] != MAGIC {
                    return Err(FrameError::Magic);
                }
                fields.rest.advance(MAGIC.len());
                Request::Hello {
                    min: fields.u16("oldest version")?,
                    max: fields.u16("newest version")?,
                }
            }
            0x02 => Request::Append {
                id: fields.u64("id")?,
                payload: owned(fields.take_rest()),
            },
            0x03 => Request::Read {
                id: fields.u64("id")?,
                from: fields.u64("first sequence number")?,
                records_max: fields.u32("number of records")?,
                bytes_max: fields.u32("number of bytes")?,
                wait_ms: fields.u32("time to wait")?,
                of: fields.identity()?,
            },
            0x04 => Request::Ping {
                id: fields.u64("id")?,
            },
            0x05 => Request::Health {
                id: fields.u64("id")?,
                within_ms: fields.u32("time")?,
            },
            kind => return Err(FrameError::Kind { kind }),
        };
        fields.end()?;
        Ok(request)
    }
}

impl Response {
    /// Adds the frame to `buffer`.
    pub fn encode(&self, buffer: &mut BytesMut) {
        match self {
            Response::Welcome {
                version,
                record_bytes_max,
                appends_max,
                first,
                next,
                of,
            } => framed(buffer, 0x81, 26 + of.map_or(0, |_| 16), |buffer| {
                buffer.put_u16_le(*version);
                buffer.put_u32_le(*record_bytes_max);
                buffer.put_u32_le(*appends_max);
                buffer.put_u64_le(*first);
                buffer.put_u64_le(*next);
                put_identity(buffer, *of);
            }),
            Response::Appended { id, sequence } => framed(buffer, 0x82, 16, |buffer| {
                buffer.put_u64_le(*id);
                buffer.put_u64_le(*sequence);
            }),
            Response::Records { id, next, records } => {
                put_records(buffer, *id, *next, records);
            }
            Response::Pong { id } => framed(buffer, 0x84, 8, |buffer| buffer.put_u64_le(*id)),
            Response::Refused { id, code, text } => {
                put_refused(buffer, (*id, *code), cut(text));
            }
            Response::RefusedAt {
                id,
                code,
                numbers,
                text,
            } => {
                put_refused_at(buffer, (*id, *code), *numbers, cut(text));
            }
            Response::Health {
                id,
                writable,
                pending_ms,
                took_ms,
                ago_ms,
                text,
            } => {
                let text = cut(text);
                framed(buffer, 0x87, 21 + text.len(), |buffer| {
                    buffer.put_u64_le(*id);
                    buffer.put_u8((*writable).into());
                    buffer.put_u32_le(*pending_ms);
                    buffer.put_u32_le(*took_ms);
                    buffer.put_u32_le(*ago_ms);
                    buffer.put_slice(text.as_bytes());
                });
            }
            Response::Fault { code, text } => {
                let text = cut(text);
                framed(buffer, 0x86, 2 + text.len(), |buffer| {
                    buffer.put_u16_le(code.number());
                    buffer.put_slice(text.as_bytes());
                });
            }
        }
    }

    /// Reads a frame, without its length.
    ///
    /// # Errors
    ///
    /// [`FrameError`]: the defect.
    pub fn decode(frame: Bytes) -> Result<Self, FrameError> {
        let mut fields = Fields::new(frame)?;
        let response = match fields.kind {
            0x81 => Response::Welcome {
                version: fields.u16("version")?,
                record_bytes_max: fields.u32("largest record")?,
                appends_max: fields.u32("number of appends")?,
                first: fields.u64("first sequence number")?,
                next: fields.u64("next sequence number")?,
                of: fields.identity()?,
            },
            0x82 => Response::Appended {
                id: fields.u64("id")?,
                sequence: fields.u64("sequence number")?,
            },
            0x83 => Response::Records {
                id: fields.u64("id")?,
                next: fields.u64("next sequence number")?,
                records: fields.records()?,
            },
            0x84 => Response::Pong {
                id: fields.u64("id")?,
            },
            0x85 => Response::Refused {
                id: fields.u64("id")?,
                code: Code::of(fields.u16("code")?),
                text: fields.text(),
            },
            0x86 => Response::Fault {
                code: Code::of(fields.u16("code")?),
                text: fields.text(),
            },
            0x87 => Response::Health {
                id: fields.u64("id")?,
                writable: fields.u8("answer")? != 0,
                pending_ms: fields.u32("pending time")?,
                took_ms: fields.u32("last time")?,
                ago_ms: fields.u32("age")?,
                text: fields.text(),
            },
            0x88 => Response::RefusedAt {
                id: fields.u64("id")?,
                code: Code::of(fields.u16("code")?),
                numbers: [fields.u64("first number")?, fields.u64("second number")?],
                text: fields.text(),
            },
            kind => return Err(FrameError::Kind { kind }),
        };
        fields.end()?;
        Ok(response)
    }
}

/// Adds the answer to a read.
fn put_records(buffer: &mut BytesMut, id: u64, next: u64, records: &[Record]) {
    let bytes: usize = records
        .iter()
        .map(|record| RECORD_OVERHEAD + record.payload.len())
        .sum();
    framed(buffer, 0x83, RECORDS_OVERHEAD - 1 + bytes, |buffer| {
        buffer.put_u64_le(id);
        buffer.put_u64_le(next);
        buffer.put_u32_le(records.len() as u32);
        for record in records {
            buffer.put_u64_le(record.sequence);
            buffer.put_u64_le(record.time_ms);
            buffer.put_u32_le(record.payload.len() as u32);
            buffer.put_slice(&record.payload);
        }
    });
}

/// Adds a refusal.
fn put_refused(buffer: &mut BytesMut, (id, code): (u64, Code), text: &str) {
    framed(buffer, 0x85, 10 + text.len(), |buffer| {
        buffer.put_u64_le(id);
        buffer.put_u16_le(code.number());
        buffer.put_slice(text.as_bytes());
    });
}

/// Adds a refusal that has numbers.
fn put_refused_at(buffer: &mut BytesMut, (id, code): (u64, Code), numbers: [u64; 2], text: &str) {
    framed(buffer, 0x88, 26 + text.len(), |buffer| {
        buffer.put_u64_le(id);
        buffer.put_u16_le(code.number());
        numbers.iter().for_each(|number| buffer.put_u64_le(*number));
        buffer.put_slice(text.as_bytes());
    });
}

/// Adds a frame whose fields have this many bytes.
fn framed(buffer: &mut BytesMut, kind: u8, bytes: usize, fields: impl FnOnce(&mut BytesMut)) {
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

fn put_identity(buffer: &mut BytesMut, identity: Option<Identity>) {
    if let Some(Identity { log, epoch }) = identity {
        buffer.put_u64_le(log);
        buffer.put_u64_le(epoch);
    }
}

fn cut(text: &str) -> &str {
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
struct Fields {
    kind: u8,
    rest: Bytes,
}

impl Fields {
    fn new(mut frame: Bytes) -> Result<Self, FrameError> {
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

    fn u8(&mut self, field: &'static str) -> Result<u8, FrameError> {
        self.need(1, field)?;
        Ok(self.rest.get_u8())
    }

    fn u16(&mut self, field: &'static str) -> Result<u16, FrameError> {
        self.need(2, field)?;
        Ok(self.rest.get_u16_le())
    }

    fn u32(&mut self, field: &'static str) -> Result<u32, FrameError> {
        self.need(4, field)?;
        Ok(self.rest.get_u32_le())
    }

    fn u64(&mut self, field: &'static str) -> Result<u64, FrameError> {
        self.need(8, field)?;
        Ok(self.rest.get_u64_le())
    }

    /// The log, unless the frame ends before it, as in version 1.
    fn identity(&mut self) -> Result<Option<Identity>, FrameError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        Ok(Some(Identity {
            log: self.u64("log")?,
            epoch: self.u64("epoch")?,
        }))
    }

    fn take_rest(&mut self) -> Bytes {
        self.rest.split_off(0)
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(&self.take_rest()).into_owned()
    }

    fn records(&mut self) -> Result<Vec<Record>, FrameError> {
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

    fn end(&self) -> Result<(), FrameError> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(FrameError::Long {
            kind: self.kind,
            bytes: self.rest.len(),
        })
    }
}

#[cfg(test)]
mod tests;
