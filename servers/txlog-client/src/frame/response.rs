//! What a server answers.

use bytes::{BufMut, Bytes, BytesMut};

use super::fields::{Fields, cut, framed, put_identity, put_position};
use super::listing::{self, LogInfo};
use super::{Code, FrameError, RECORD_OVERHEAD, RECORDS_OVERHEAD, Record};
use crate::cursor::{Cursor, Identity};

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
        /// The most bytes of records and lengths that a batch may have; not before version 3.
        batch_bytes_max: Option<u32>,
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
    /// The records of a batch are durable.
    Stored {
        /// Of the request.
        id: u64,
        /// The number of the first record; the others follow.
        first: u64,
        /// How many they are.
        count: u32,
        /// Whether they had been stored before, as the producer repeated them.
        repeated: bool,
    },
    /// To seek.
    Sought {
        /// Of the request.
        id: u64,
        /// The number of the first record of that time or later, or of the next one to come.
        sequence: u64,
    },
    /// To a request about a cursor.
    Cursor {
        /// Of the request.
        id: u64,
        /// Where it is now, if there is one.
        cursor: Option<Cursor>,
    },
    /// The logs of the server, by their names in order.
    Logs {
        /// Of the request.
        id: u64,
        /// Whether there are more behind these.
        more: bool,
        /// The logs.
        logs: Vec<LogInfo>,
    },
    /// The named cursors of the log, by their names in order.
    Cursors {
        /// Of the request.
        id: u64,
        /// Whether there are more behind these.
        more: bool,
        /// Names and cursors.
        cursors: Vec<(String, Cursor)>,
    },
    /// To trim.
    Trimmed {
        /// Of the request.
        id: u64,
        /// The number of the oldest record that is left, or would be; of the next one if none is.
        first: u64,
    },
    /// The connection failed, and is closed.
    Fault {
        /// Why.
        code: Code,
        /// What happened and what to do about it.
        text: String,
    },
}

impl Response {
    /// Adds the frame to `buffer`.
    pub fn encode(&self, buffer: &mut BytesMut) {
        match self {
            Response::Welcome { .. } => self.put_welcome(buffer),
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
            Response::Health { .. } => self.put_health(buffer),
            Response::Stored {
                id,
                first,
                count,
                repeated,
            } => framed(buffer, 0x89, 21, |buffer| {
                buffer.put_u64_le(*id);
                buffer.put_u64_le(*first);
                buffer.put_u32_le(*count);
                buffer.put_u8((*repeated).into());
            }),
            Response::Sought { id, sequence } => framed(buffer, 0x8a, 16, |buffer| {
                buffer.put_u64_le(*id);
                buffer.put_u64_le(*sequence);
            }),
            Response::Cursor { id, cursor } => {
                framed(buffer, 0x8b, 9 + cursor.map_or(0, |_| 24), |buffer| {
                    buffer.put_u64_le(*id);
                    buffer.put_u8(cursor.is_some().into());
                    put_position(buffer, *cursor);
                });
            }
            Response::Logs { id, more, logs } => listing::put_logs(buffer, *id, *more, logs),
            Response::Cursors { id, more, cursors } => {
                listing::put_cursors(buffer, *id, *more, cursors);
            }
            Response::Trimmed { id, first } => framed(buffer, 0x8e, 16, |buffer| {
                buffer.put_u64_le(*id);
                buffer.put_u64_le(*first);
            }),
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
                batch_bytes_max: fields.optional_u32("largest batch")?,
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
            0x89..=0x8e => newer(&mut fields)?,
            kind => return Err(FrameError::Kind { kind }),
        };
        fields.end()?;
        Ok(response)
    }

    fn put_welcome(&self, buffer: &mut BytesMut) {
        let &Response::Welcome {
            version,
            record_bytes_max,
            appends_max,
            first,
            next,
            of,
            batch_bytes_max,
        } = self
        else {
            return;
        };
        // The one field is behind the other, and cannot be there without it.
        let batch_bytes_max = batch_bytes_max.filter(|_| of.is_some());
        let bytes = of.map_or(0, |_| 16) + batch_bytes_max.map_or(0, |_| 4);
        framed(buffer, 0x81, 26 + bytes, |buffer| {
            buffer.put_u16_le(version);
            buffer.put_u32_le(record_bytes_max);
            buffer.put_u32_le(appends_max);
            buffer.put_u64_le(first);
            buffer.put_u64_le(next);
            put_identity(buffer, of);
            if let Some(bytes) = batch_bytes_max {
                buffer.put_u32_le(bytes);
            }
        });
    }

    fn put_health(&self, buffer: &mut BytesMut) {
        let Response::Health {
            id,
            writable,
            pending_ms,
            took_ms,
            ago_ms,
            text,
        } = self
        else {
            return;
        };
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
}

/// Reads an answer that version 3 or 4 added.
fn newer(fields: &mut Fields) -> Result<Response, FrameError> {
    Ok(match fields.kind {
        0x89 => Response::Stored {
            id: fields.u64("id")?,
            first: fields.u64("first sequence number")?,
            count: fields.u32("number of records")?,
            repeated: fields.flags(1)? == 1,
        },
        0x8a => Response::Sought {
            id: fields.u64("id")?,
            sequence: fields.u64("sequence number")?,
        },
        0x8b => Response::Cursor {
            id: fields.u64("id")?,
            cursor: match fields.flags(1)? {
                0 => None,
                _ => Some(fields.cursor()?),
            },
        },
        0x8c => listing::logs(fields)?,
        0x8d => listing::cursors(fields)?,
        0x8e => Response::Trimmed {
            id: fields.u64("id")?,
            first: fields.u64("first sequence number")?,
        },
        kind => return Err(FrameError::Kind { kind }),
    })
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
