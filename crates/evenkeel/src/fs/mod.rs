//! Files.

mod group_commit;

#[cfg(not(evenkeel_loom))]
pub use group_commit::{
    Builder as GroupCommitBuilder, Commit, CommitFile, CommitLog, FileLog, GroupCommit,
    GroupCommitStats, write_all_at,
};
pub use group_commit::{CommitError, Position};
