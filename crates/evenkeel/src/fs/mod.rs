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

mod file;
mod group_commit;
pub(crate) mod lookup;
mod open;
mod paths;
mod read_dir;
mod stream;
pub(crate) mod turn;
mod whole;

pub use file::File;
pub use group_commit::{
    Commit, CommitError, CommitFile, CommitLog, CommitRecord, FileLog, GroupCommit,
    GroupCommitBuilder, GroupCommitStats, Position, ReceiptLog, write_all_at,
};
pub use open::OpenOptions;
pub use paths::{
    canonicalize, create_dir, create_dir_all, hard_link, metadata, read_link, remove_dir,
    remove_dir_all, remove_file, rename, set_permissions, symlink, symlink_metadata, try_exists,
};
pub use read_dir::{DirEntry, ReadDir, read_dir};
pub use whole::{copy, read, read_to_string, replace, sync_dir, write};
