//! What a client asks for.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::fields::{Fields, framed, put_identity, put_position};
use super::{Batched, FrameError, MAGIC, Trim};
use crate::cursor::{Cursor, Identity};

/// A client's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// The first frame: which versions the client speaks.
    Hello {
        /// The oldest.
        min: u16,
        /// The newest.
        max: u16,
        /// Which log, and by what right; not before version 3.
        access: Option<Access>,
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
    /// Makes records durable that have numbers in a row; not before version 3.
    Batch {
        /// Repeated in the answer.
        id: u64,
        /// The number that the first record is to get, if that matters.
        expected: Option<u64>,
        /// By which a repeated batch is known.
        producer: Option<Produced>,
        /// Of a producer's batch that may have been sent before: its records have no lower number
        /// than this, if they are stored.
        not_before: Option<u64>,
        /// The records.
        records: Batched,
    },
    /// Asks for the first record that was taken at this time or later; not before version 3.
    Seek {
        /// Repeated in the answer.
        id: u64,
        /// In milliseconds since 1970.
        time_ms: u64,
    },
    /// Asks about a named cursor; not before version 3.
    Cursor {
        /// Repeated in the answer.
        id: u64,
        /// The cursor's name.
        name: String,
        /// What to do with it.
        change: CursorChange,
    },
    /// Asks which logs the server has; not before version 3.
    Logs {
        /// Repeated in the answer.
        id: u64,
        /// Only those with greater names than this; empty for all.
        after: String,
    },
    /// Asks which named cursors the log has; not before version 3.
    Cursors {
        /// Repeated in the answer.
        id: u64,
        /// Only those with greater names than this; empty for all.
        after: String,
    },
    /// Removes the oldest records; not before version 4.
    Trim {
        /// Repeated in the answer.
        id: u64,
        /// Which ones.
        trim: Trim,
    },
}

/// Which log a connection is for, and by what right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The name of the log; empty for the one that a server has without a name.
    pub log: String,
    /// Whether to create the log if there is none.
    pub create: bool,
    /// The token; empty for none.
    pub token: Bytes,
}

/// Which records of a producer a batch has. A producer numbers its records 0, 1, 2 and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Produced {
    /// The producer.
    pub producer: u128,
    /// Its number of the batch's first record.
    pub number: u64,
}

/// What to do with a named cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CursorChange {
    /// Nothing: to say where it is.
    Keep,
    /// Put it here.
    Set(Cursor),
    /// Remove it.
    Remove,
}

impl Request {
    /// What its answer repeats; a hello has none.
    pub fn id(&self) -> Option<u64> {
        match self {
            Request::Hello { .. } => None,
            Request::Append { id, .. }
            | Request::Read { id, .. }
            | Request::Ping { id }
            | Request::Health { id, .. }
            | Request::Batch { id, .. }
            | Request::Seek { id, .. }
            | Request::Cursor { id, .. }
            | Request::Logs { id, .. }
            | Request::Cursors { id, .. }
            | Request::Trim { id, .. } => Some(*id),
        }
    }

    /// Adds the frame to `buffer`.
    pub fn encode(&self, buffer: &mut BytesMut) {
        match self {
            Request::Hello { min, max, access } => put_hello(buffer, (*min, *max), access.as_ref()),
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
            Request::Batch {
                id,
                expected,
                producer,
                not_before,
                records,
            } => put_batch(buffer, *id, (*expected, *producer, *not_before), records),
            Request::Seek { id, time_ms } => framed(buffer, 0x07, 16, |buffer| {
                buffer.put_u64_le(*id);
                buffer.put_u64_le(*time_ms);
            }),
            Request::Cursor { id, name, change } => put_cursor(buffer, *id, name, *change),
            Request::Logs { id, after } => put_after(buffer, 0x09, *id, after),
            Request::Cursors { id, after } => put_after(buffer, 0x0a, *id, after),
            Request::Trim { id, trim } => trim.put(buffer, *id),
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
                    access: access(&mut fields)?,
                }
            }
            0x02 => Request::Append {
                id: fields.u64("id")?,
                payload: fields.payload(),
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
            0x06 => batch(&mut fields)?,
            0x07 => Request::Seek {
                id: fields.u64("id")?,
                time_ms: fields.u64("time")?,
            },
            0x08 => {
                let (id, flags) = (fields.u64("id")?, fields.flags(2)?);
                let change = match flags {
                    0 => CursorChange::Keep,
                    1 => CursorChange::Set(fields.cursor()?),
                    _ => CursorChange::Remove,
                };
                let name = fields.rest_utf8("name")?;
                Request::Cursor { id, name, change }
            }
            0x09 => Request::Logs {
                id: fields.u64("id")?,
                after: fields.rest_utf8("name")?,
            },
            0x0a => Request::Cursors {
                id: fields.u64("id")?,
                after: fields.rest_utf8("name")?,
            },
            0x0b => Request::Trim {
                id: fields.u64("id")?,
                trim: Trim::take(&mut fields)?,
            },
            kind => return Err(FrameError::Kind { kind }),
        };
        fields.end()?;
        Ok(request)
    }
}

/// The bit of a hello that asks for the log to be created.
const CREATE: u8 = 1;

/// The bit of a batch with an expected number.
const EXPECTED: u8 = 1;

/// The bit of a batch with a producer.
const PRODUCER: u8 = 2;

/// The bit of a batch that its producer may have sent before.
const AGAIN: u8 = 4;

fn put_hello(buffer: &mut BytesMut, (min, max): (u16, u16), access: Option<&Access>) {
    let bytes = access.map_or(0, |access| 2 + access.log.len() + access.token.len());
    framed(buffer, 0x01, 8 + bytes, |buffer| {
        buffer.put_slice(&MAGIC);
        buffer.put_u16_le(min);
        buffer.put_u16_le(max);
        if let Some(Access { log, create, token }) = access {
            buffer.put_u8(if *create { CREATE } else { 0 });
            // A longer name makes a frame that cannot be decoded; the client refuses it before.
            buffer.put_u8(log.len() as u8);
            buffer.put_slice(log.as_bytes());
            buffer.put_slice(token);
        }
    });
}

/// Which log, unless the frame ends before it.
fn access(fields: &mut Fields) -> Result<Option<Access>, FrameError> {
    if fields.rest.is_empty() {
        return Ok(None);
    }
    let create = fields.flags(CREATE)? == CREATE;
    let bytes = fields.u8("length of the log's name")?.into();
    Ok(Some(Access {
        create,
        log: fields.utf8(bytes, "log's name")?,
        token: fields.payload(),
    }))
}

fn put_batch(
    buffer: &mut BytesMut,
    id: u64,
    (expected, producer, not_before): (Option<u64>, Option<Produced>, Option<u64>),
    records: &Batched,
) {
    let bytes = records.bytes();
    // It says something about a producer's batch only.
    let not_before = producer.and(not_before);
    let optional =
        expected.map_or(0, |_| 8) + producer.map_or(0, |_| 24) + not_before.map_or(0, |_| 8);
    framed(buffer, 0x06, 8 + 1 + optional + 4 + bytes, |buffer| {
        buffer.put_u64_le(id);
        let expects = expected.map_or(0, |_| EXPECTED);
        let produced = producer.map_or(0, |_| PRODUCER);
        buffer.put_u8(expects | produced | not_before.map_or(0, |_| AGAIN));
        if let Some(expected) = expected {
            buffer.put_u64_le(expected);
        }
        if let Some(Produced { producer, number }) = producer {
            buffer.put_u128_le(producer);
            buffer.put_u64_le(number);
        }
        if let Some(not_before) = not_before {
            buffer.put_u64_le(not_before);
        }
        buffer.put_u32_le(records.count());
        buffer.put_slice(records.as_bytes());
    });
}

fn batch(fields: &mut Fields) -> Result<Request, FrameError> {
    let (id, flags) = (
        fields.u64("id")?,
        fields.flags(EXPECTED | PRODUCER | AGAIN)?,
    );
    if flags & (PRODUCER | AGAIN) == AGAIN {
        let kind = fields.kind;
        return Err(FrameError::Flags { kind, flags });
    }
    let expected = match flags & EXPECTED {
        0 => None,
        _ => Some(fields.u64("expected number")?),
    };
    let producer = match flags & PRODUCER {
        0 => None,
        _ => Some(Produced {
            producer: fields.u128("producer")?,
            number: fields.u64("producer's number")?,
        }),
    };
    let not_before = match flags & AGAIN {
        0 => None,
        _ => Some(fields.u64("lowest number")?),
    };
    Ok(Request::Batch {
        id,
        expected,
        producer,
        not_before,
        records: fields.batched()?,
    })
}

fn put_cursor(buffer: &mut BytesMut, id: u64, name: &str, change: CursorChange) {
    let (flags, cursor) = match change {
        CursorChange::Keep => (0, None),
        CursorChange::Set(cursor) => (1, Some(cursor)),
        CursorChange::Remove => (2, None),
    };
    let bytes = 8 + 1 + cursor.map_or(0, |_| 24) + name.len();
    framed(buffer, 0x08, bytes, |buffer| {
        buffer.put_u64_le(id);
        buffer.put_u8(flags);
        put_position(buffer, cursor);
        buffer.put_slice(name.as_bytes());
    });
}

fn put_after(buffer: &mut BytesMut, kind: u8, id: u64, after: &str) {
    framed(buffer, kind, 8 + after.len(), |buffer| {
        buffer.put_u64_le(id);
        buffer.put_slice(after.as_bytes());
    });
}
