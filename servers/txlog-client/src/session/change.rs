//! That a session's log is not the one any more that acknowledged its records.

use std::fmt;

use crate::cursor::Identity;

/// The servers have another log now than the one that acknowledged records, or a later epoch of it,
/// as after a backup was restored: some of these records may be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogChange {
    /// The log that acknowledged them.
    pub before: Identity,
    /// The log that is there now.
    pub now: Identity,
    /// The number of its next record when the session connected. What was acknowledged with this
    /// number or a greater one is gone; and some before it, if others have appended since.
    pub next: u64,
}

impl LogChange {
    /// The change that there is if this log is found where that one was.
    pub(super) fn between(before: Identity, now: Identity, next: u64) -> Option<Self> {
        // That of a connection which has no log.
        let nothing = Identity { log: 0, epoch: 0 };
        let has_changed = now != before && now != nothing;
        has_changed.then_some(Self { before, now, next })
    }
}

impl fmt::Display for LogChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { before, now, next } = self;
        if now.log != before.log {
            return write!(
                f,
                "the server has another log now ({:x}, and not {:x}); what was acknowledged before \
                 may not be in it",
                now.log, before.log
            );
        }
        write!(
            f,
            "the log is in epoch {} now; what was acknowledged from {next} on may be gone, and \
             some before that if others have appended since",
            now.epoch
        )
    }
}
