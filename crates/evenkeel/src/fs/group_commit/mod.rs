//! Appends that many tasks make durable together: one write and one sync for all that came
//! while the last sync was under way.
// The files: `core` decides what goes into a batch (pure), `company` whether it waits for more
// (pure), `shared` is the core's lock, `file` the seam to what is written, `error` what can go
// wrong, `handle` what users hold and the task that commits.

#[cfg(not(evenkeel_loom))]
mod company;
mod core;
mod error;
#[cfg(not(evenkeel_loom))]
mod file;
#[cfg(not(evenkeel_loom))]
mod handle;
mod shared;

pub use self::error::CommitError;
#[cfg(not(evenkeel_loom))]
pub use self::file::{CommitFile, CommitLog, FileLog, write_all_at};
#[cfg(not(evenkeel_loom))]
pub use self::handle::{Commit, GroupCommit, GroupCommitBuilder, GroupCommitStats};

/// Where a record is in its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// How many records are before it.
    pub index: u64,
    /// How many bytes of records are before it.
    pub offset: u64,
}

#[cfg(all(test, evenkeel_loom))]
mod models;
