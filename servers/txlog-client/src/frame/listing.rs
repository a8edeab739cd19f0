//! Lists of logs and of cursors.

use bytes::{BufMut, BytesMut};

use super::fields::{Fields, framed, put_identity, put_position};
use super::{FrameError, Response};
use crate::cursor::{Cursor, Identity};

/// What a list has besides its entries.
const LIST_OVERHEAD: usize = 8 + 1 + 4;

/// What an entry has besides its name: flags, two numbers, the log and its epoch, the name's
/// length.
const LOG_BYTES: usize = 1 + 16 + 16 + 1;

/// As much, of a cursor.
const CURSOR_BYTES: usize = 24 + 1;

/// The flag of a log that is open.
const OPEN: u8 = 1;

/// The flag of a log whose numbers are known.
const KNOWN: u8 = 2;

/// A log of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogInfo {
    /// Its name; empty for the one without a name.
    pub name: String,
    /// Whether the server has it open.
    pub is_open: bool,
    /// Which records it has, unless the server cannot tell without opening it.
    pub bounds: Option<LogBounds>,
}

/// Which records a log has. If the log is not open, and was not closed properly, it may have more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogBounds {
    /// The number of the oldest record.
    pub first: u64,
    /// The number of the next record.
    pub next: u64,
    /// The log and its epoch.
    pub of: Identity,
}

pub(super) fn put_logs(buffer: &mut BytesMut, id: u64, more: bool, logs: &[LogInfo]) {
    let bytes: usize = logs.iter().map(|log| LOG_BYTES + log.name.len()).sum();
    framed(buffer, 0x8c, LIST_OVERHEAD + bytes, |buffer| {
        buffer.put_u64_le(id);
        buffer.put_u8(more.into());
        buffer.put_u32_le(logs.len() as u32);
        for log in logs {
            let open = if log.is_open { OPEN } else { 0 };
            buffer.put_u8(open | log.bounds.map_or(0, |_| KNOWN));
            let none = LogBounds {
                first: 0,
                next: 0,
                of: Identity { log: 0, epoch: 0 },
            };
            let bounds = log.bounds.unwrap_or(none);
            buffer.put_u64_le(bounds.first);
            buffer.put_u64_le(bounds.next);
            put_identity(buffer, Some(bounds.of));
            put_name(buffer, &log.name);
        }
    });
}

pub(super) fn put_cursors(buffer: &mut BytesMut, id: u64, more: bool, all: &[(String, Cursor)]) {
    let bytes: usize = all.iter().map(|(name, _)| CURSOR_BYTES + name.len()).sum();
    framed(buffer, 0x8d, LIST_OVERHEAD + bytes, |buffer| {
        buffer.put_u64_le(id);
        buffer.put_u8(more.into());
        buffer.put_u32_le(all.len() as u32);
        for (name, cursor) in all {
            put_position(buffer, Some(*cursor));
            put_name(buffer, name);
        }
    });
}

/// Servers have no longer names than a length in one byte allows.
fn put_name(buffer: &mut BytesMut, name: &str) {
    buffer.put_u8(name.len() as u8);
    buffer.put_slice(name.as_bytes());
}

pub(super) fn logs(fields: &mut Fields) -> Result<Response, FrameError> {
    let (id, more) = (fields.u64("id")?, fields.flags(1)? == 1);
    let count = fields.u32("number of logs")? as usize;
    // The count is not trusted, here and below: memory is reserved for as many as fit.
    let mut logs = Vec::with_capacity(count.min(fields.rest.len() / LOG_BYTES));
    for _ in 0..count {
        let flags = fields.flags(OPEN | KNOWN)?;
        let bounds = LogBounds {
            first: fields.u64("first sequence number")?,
            next: fields.u64("next sequence number")?,
            of: Identity {
                log: fields.u64("log")?,
                epoch: fields.u64("epoch")?,
            },
        };
        logs.push(LogInfo {
            name: name(fields)?,
            is_open: flags & OPEN != 0,
            bounds: (flags & KNOWN != 0).then_some(bounds),
        });
    }
    Ok(Response::Logs { id, more, logs })
}

pub(super) fn cursors(fields: &mut Fields) -> Result<Response, FrameError> {
    let (id, more) = (fields.u64("id")?, fields.flags(1)? == 1);
    let count = fields.u32("number of cursors")? as usize;
    let mut cursors = Vec::with_capacity(count.min(fields.rest.len() / CURSOR_BYTES));
    for _ in 0..count {
        let cursor = fields.cursor()?;
        cursors.push((name(fields)?, cursor));
    }
    Ok(Response::Cursors { id, more, cursors })
}

fn name(fields: &mut Fields) -> Result<String, FrameError> {
    let bytes = fields.u8("length of a name")?.into();
    fields.utf8(bytes, "name")
}
