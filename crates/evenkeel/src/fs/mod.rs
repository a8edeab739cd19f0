//! Files and directories. Their work is done in lanes: never on a worker, and a device that hangs
//! holds up no other device.
//!
//! Names are those of `tokio::fs` where it has them. The chapter [Disk](crate::guide::disk) says
//! what lanes promise, and what not.
//!
//! [`GroupCommit`] makes the appends of many tasks durable together, with one sync for all records
//! that came during the last one.
//!
//! # Examples
//!
//! ```
//! use evenkeel::fs;
//!
//! # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
//! # let path = std::env::temp_dir().join(format!("evenkeel-doc-fs-{}", std::process::id()));
//! fs::create_dir_all(&path).await?;
//! let log = fs::File::create_new(path.join("log")).await?;
//! log.write_all_at("first\n", 0).await?;
//! log.sync_data().await?;
//! # fs::remove_dir_all(&path).await }).unwrap();
//! ```

#[cfg(not(evenkeel_loom))]
mod file;
mod group_commit;
#[cfg(not(evenkeel_loom))]
pub(crate) mod lookup;
#[cfg(not(evenkeel_loom))]
mod open;
#[cfg(not(evenkeel_loom))]
mod paths;
#[cfg(not(evenkeel_loom))]
mod read_dir;
#[cfg(not(evenkeel_loom))]
mod stream;
#[cfg(not(evenkeel_loom))]
pub(crate) mod turn;
#[cfg(not(evenkeel_loom))]
mod whole;

#[cfg(not(evenkeel_loom))]
pub use file::File;
#[cfg(not(evenkeel_loom))]
pub use group_commit::{
    Commit, CommitFile, CommitLog, FileLog, GroupCommit, GroupCommitBuilder, GroupCommitStats,
    write_all_at,
};
pub use group_commit::{CommitError, Position};
#[cfg(not(evenkeel_loom))]
pub use open::OpenOptions;
#[cfg(not(evenkeel_loom))]
pub use paths::{
    canonicalize, create_dir, create_dir_all, hard_link, metadata, read_link, remove_dir,
    remove_dir_all, remove_file, rename, set_permissions, symlink, symlink_metadata, try_exists,
};
#[cfg(not(evenkeel_loom))]
pub use read_dir::{DirEntry, ReadDir, read_dir};
#[cfg(not(evenkeel_loom))]
pub use whole::{copy, read, read_to_string, replace, sync_dir, write};
