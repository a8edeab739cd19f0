//! Appends of many tasks that become durable together, by one write and one sync for all records
//! that came during the last sync.
// `core` decides what goes into a batch and `company` whether it waits for more; both are pure.
// `shared` is the core behind its lock, `file` the interface to the file, `handle` the user's side
// and the task that writes.

#[cfg(not(evenkeel_loom))]
mod company;
mod core;
mod error;
#[cfg(not(evenkeel_loom))]
mod file;
#[cfg(not(evenkeel_loom))]
mod handle;
mod shared;

#[cfg(not(evenkeel_loom))]
pub use self::core::GroupCommitStats;
pub use self::error::CommitError;
#[cfg(not(evenkeel_loom))]
pub use self::file::{CommitFile, CommitLog, CommitRecord, FileLog, ReceiptLog, write_all_at};
#[cfg(not(evenkeel_loom))]
pub use self::handle::{Commit, GroupCommit, GroupCommitBuilder};

/// The position of a record in its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// How many records are before it.
    pub index: u64,
    /// How many bytes of records are before it.
    pub offset: u64,
}

#[cfg(all(test, evenkeel_loom))]
mod models;
