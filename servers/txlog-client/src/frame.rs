//! The protocol: the contents of a frame, and its encoding.
//!
//! A frame is its length in 4 bytes, then that many bytes: one for the frame's kind, then fields.
//! All integers are little-endian; a field without a length of its own extends to the frame's end.
//!
//! ```text
//! kind  client to server                      kind  server to client
//! 01    hello    magic[4] min:2 max:2         81    welcome   version:2 record_max:4
//!                (flags:1 length:1 name                       appends_max:4 first:8 next:8
//!                token)                                       (log:8 epoch:8 (batch_max:4))
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
//! 06    batch    id:8 flags:1 (expected:8)    89    stored    id:8 first:8 count:4 flags:1
//!                (producer:16 number:8)
//!                (not_before:8)
//!                count:4 and for each
//!                length:4 bytes
//! 07    seek     id:8 time_ms:8               8a    sought    id:8 sequence:8
//! 08    cursor   id:8 flags:1                 8b    cursor    id:8 flags:1
//!                (sequence:8 log:8 epoch:8)                   (sequence:8 log:8 epoch:8)
//!                name
//! 09    logs     id:8 name                    8c    logs      id:8 more:1 count:4 and for each
//!                                                             flags:1 first:8 next:8 log:8
//!                                                             epoch:8 length:1 name
//! 0a    cursors  id:8 name                    8d    cursors   id:8 more:1 count:4 and for each
//!                                                             sequence:8 log:8 epoch:8 length:1
//!                                                             name
//! 0b    trim     id:8 before:8 flags:1        8e    trimmed   id:8 first:8
//! ```
//!
//! Version 2 added the kinds 05, 87 and 88, and the fields in brackets, which its `welcome` has and
//! its `read` may have. A server answers a client of version 1 with neither. Version 3 added the
//! kinds from 06 and 89 on, the largest batch in `welcome`, and what a hello may end with: which of
//! the server's logs the connection is for, and the token by which it is allowed to. A hello that
//! needs neither is the same in all versions. Version 4 added the kinds 0b and 8e.
//!
//! Flags of `hello`: 1, create the log if there is none of that name. Of `batch`: 1, it has the
//! number that its first record is to get, or else it is refused; 2, it has a producer; 4, that
//! producer may have sent it before. Of `stored`: 1, these records had been stored before. Of
//! `cursor` as a request: 0 asks where a named cursor is, 1 sets it, 2 removes it; in the answer:
//! 1, there is one. The bracketed fields are there if the flags say so. Of a log in a list: 1, it
//! is open; 2, its numbers are known. Of `trim`: 1, nothing is removed, and the answer says what
//! would be left; 2, records go that named cursors are at. Without it that is refused, by
//! `CursorsBehind`.
//!
//! A list has the names that are greater than that of the request, as many as fit into a frame of
//! 64 KiB, and says whether there are more.
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
//! `OutOfRange`, and the log and its epoch for `OtherLog` and `NewEpoch`. For `NotExpected` the
//! first one is the log's next number, before which all records are durable, and for `ProducerGap`
//! that of the producer's record with which it has to go on; the second is zero. For `LogFailed`
//! and `LogFailedBefore` they are 1 and 0 if the log may take records again by itself.
//!
//! A producer numbers its records 0, 1, 2 and so on. A batch that it repeats is not stored again,
//! and gets the answer that it got before, with a flag. That is decided before its expectation is
//! looked at. `ProducerGap` refuses a batch that leaves out records, or of which some are stored
//! and others are not: the next one has to begin with the number that comes next. If that is behind
//! the whole batch, all of it is stored, and the server no longer knows where, or it is not in a
//! row. What records hold is not compared.
//!
//! A server forgets producers. One that it does not know begins with 0, as a new one does, so a
//! first batch that is sent again has to say so (4), with a number below which no copy of it can
//! be: the log's next number as the client knew it when it sent the first one. It is refused as
//! `ProducerUnknown` if the server has forgotten a producer with records from there on: then it
//! cannot tell whether that was this one.

mod batched;
mod code;
mod fields;
mod listing;
mod name;
mod request;
mod response;
mod trim;

use bytes::Bytes;

pub use self::batched::Batched;
pub use self::code::{Code, MAY_PASS};
pub use self::listing::{LogBounds, LogInfo};
pub use self::name::is_name;
pub use self::request::{Access, CursorChange, Produced, Request};
pub use self::response::Response;
pub use self::trim::Trim;

/// How a hello begins, so that neither side takes another protocol for this one.
pub const MAGIC: [u8; 4] = *b"EKTL";

/// The version described here.
pub const VERSION: u16 = 4;

/// The oldest version that is still spoken, with the fields and frames that it has.
pub const VERSION_MIN: u16 = 1;

/// The bytes of a frame's length.
pub const LENGTH_BYTES: usize = 4;

/// The most bytes that a hello has.
pub const HELLO_BYTES_MAX: usize = 1_024;

/// The longest name of a log or of a cursor, in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// The longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 256;

/// The most bytes that a request other than a hello, an append or a batch has.
pub const SMALL_BYTES_MAX: usize = 128;

/// What a frame adds to all records of a batch, at most.
pub const BATCH_OVERHEAD: usize = 1 + 8 + 1 + 8 + 16 + 8 + 8 + 4;

/// What a frame adds to each record of a batch.
pub const BATCHED_OVERHEAD: usize = 4;

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

/// What to do about a frame that no txlog sends. Who writes a client looks into it.
const SPEAK: &str = "see whether both sides are of one release, or compare it with the protocol";

/// Why a frame is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// It ends before its fields do.
    #[error("a frame of kind {kind:#04x} ends within its {field}: {SPEAK}")]
    Short {
        /// The frame's kind.
        kind: u8,
        /// The field that is incomplete.
        field: &'static str,
    },
    /// It has bytes after its fields.
    #[error("a frame of kind {kind:#04x} has {bytes} bytes too many: {SPEAK}")]
    Long {
        /// The frame's kind.
        kind: u8,
        /// How many bytes are left over.
        bytes: usize,
    },
    /// It has no bytes at all.
    #[error("a frame without a kind: {SPEAK}")]
    Empty,
    /// There is no such kind in this direction.
    #[error("a frame of the unknown kind {kind:#04x}: {SPEAK}")]
    Kind {
        /// The kind's number.
        kind: u8,
    },
    /// A name is not UTF-8.
    #[error("a frame of kind {kind:#04x} has a {field} that is not UTF-8: {SPEAK}")]
    Text {
        /// The frame's kind.
        kind: u8,
        /// The field.
        field: &'static str,
    },
    /// A flag that this version does not know.
    #[error("a frame of kind {kind:#04x} has the unknown flags {flags:#04x}: {SPEAK}")]
    Flags {
        /// The frame's kind.
        kind: u8,
        /// All of its flags.
        flags: u8,
    },
    /// What comes is TLS, which was not to be spoken.
    #[error("the other side speaks TLS, and this one does not: use TLS on both sides or on none")]
    Tls,
    /// A hello without the magic bytes.
    #[error("the other side does not speak txlog's protocol: see whether the port is right")]
    Magic,
    /// Its length is beyond the limit.
    #[error(
        "a frame of {bytes} bytes; at most {bytes_max} are allowed: send less at a time, or see \
         whether the other side is a txlog"
    )]
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
            FrameError::Magic | FrameError::Tls => Code::NotTxlog,
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
        // Any record of TLS is too long by its first bytes: its sort, and its version.
        bytes if bytes > bytes_max && matches!(first, [0x14..=0x17, 3, ..]) => Err(FrameError::Tls),
        bytes if bytes > bytes_max => Err(FrameError::TooLong { bytes, bytes_max }),
        bytes => Ok(bytes),
    }
}

#[cfg(test)]
mod tests;
