//! Which records are to be removed, and how careful the server is to be about it.

use bytes::{BufMut, BytesMut};

use super::FrameError;
use super::fields::{Fields, framed};

/// Which of a log's oldest records to remove.
///
/// ```
/// use txlog_client::Trim;
///
/// // What would go?
/// let trim = Trim::before(120_000).dry_run(true);
/// assert!(trim.is_dry_run && !trim.is_forced);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trim {
    /// The number of the oldest record to keep.
    pub before: u64,
    /// Whether nothing is removed, and the answer says what would be left.
    pub is_dry_run: bool,
    /// Whether records go that consumers have yet to read, by their named cursors.
    pub is_forced: bool,
}

/// The bit of a trim that removes nothing.
const DRY_RUN: u8 = 1;

/// The bit of a trim that does not ask where consumers are.
const FORCED: u8 = 2;

impl Trim {
    /// Removes records with numbers below this one: whole files of them, so some may be left.
    pub fn before(before: u64) -> Self {
        Self {
            before,
            is_dry_run: false,
            is_forced: false,
        }
    }

    /// Whether to remove nothing, and only to say what would be left; not by default.
    #[must_use]
    pub fn dry_run(self, is_dry_run: bool) -> Self {
        Self { is_dry_run, ..self }
    }

    /// Whether to remove records that consumers have yet to read, by their named cursors; not by
    /// default: then nothing is removed if a cursor is at a record that would go.
    #[must_use]
    pub fn force(self, is_forced: bool) -> Self {
        Self { is_forced, ..self }
    }

    pub(super) fn put(self, buffer: &mut BytesMut, id: u64) {
        framed(buffer, 0x0b, 17, |buffer| {
            buffer.put_u64_le(id);
            buffer.put_u64_le(self.before);
            let dry_run = if self.is_dry_run { DRY_RUN } else { 0 };
            buffer.put_u8(dry_run | if self.is_forced { FORCED } else { 0 });
        });
    }

    /// What is behind the id.
    pub(super) fn take(fields: &mut Fields) -> Result<Self, FrameError> {
        let before = fields.u64("first sequence number to keep")?;
        let flags = fields.flags(DRY_RUN | FORCED)?;
        Ok(Self {
            before,
            is_dry_run: flags & DRY_RUN != 0,
            is_forced: flags & FORCED != 0,
        })
    }
}
