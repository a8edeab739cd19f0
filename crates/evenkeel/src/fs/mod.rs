//! Files.

#[cfg(not(evenkeel_loom))]
mod file;
mod group_commit;

#[cfg(not(evenkeel_loom))]
pub use file::File;
#[cfg(not(evenkeel_loom))]
pub use group_commit::{
    Commit, CommitFile, CommitLog, FileLog, GroupCommit, GroupCommitBuilder, GroupCommitStats,
    write_all_at,
};
pub use group_commit::{CommitError, Position};
