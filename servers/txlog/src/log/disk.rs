//! The seam between the log and its storage: a directory of files, [`LocalDisk`](super::LocalDisk),
//! or in tests one that loses unsynced data.

use std::future::Future;
use std::io;

use bytes::Bytes;
use evenkeel::fs::CommitFile;

/// A directory.
pub trait Disk: Clone + Send + Sync + 'static {
    /// Its files.
    type File: DiskFile;

    /// The names of its files.
    fn list(&self) -> impl Future<Output = io::Result<Vec<String>>> + Send;

    /// Creates a file that does not exist yet.
    fn create(&self, name: &str) -> impl Future<Output = io::Result<Self::File>> + Send;

    /// Opens an existing file.
    fn open(&self, name: &str) -> impl Future<Output = io::Result<Self::File>> + Send;

    /// Removes a file. Those that have it open can still read it.
    fn remove(&self, name: &str) -> impl Future<Output = io::Result<()>> + Send;

    /// Gives a file another name, which no file has.
    fn rename(&self, from: &str, to: &str) -> impl Future<Output = io::Result<()>> + Send;

    /// Makes the names of files survive a crash. While the disk is held, this needs no descriptor.
    fn sync_names(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// What was removed or replaced since it was opened: the directory, or the file of this name.
    /// `None` if both are where they were. Clients are told this: it has no paths.
    fn displaced(
        &self,
        name: &str,
        file: &Self::File,
    ) -> impl Future<Output = io::Result<Option<String>>> + Send;

    /// How many bytes there is room for, as far as the system says; `None` if it does not.
    fn room(&self) -> impl Future<Output = io::Result<Option<u64>>> + Send {
        std::future::ready(Ok(None))
    }

    /// Its name, for debugging.
    fn name(&self) -> String;
}

/// A file.
pub trait DiskFile: CommitFile {
    /// Reads up to `len` bytes at `offset`; returns none at the end.
    fn read_at(&self, len: usize, offset: u64) -> impl Future<Output = io::Result<Bytes>> + Send;

    /// Its length.
    fn size(&self) -> impl Future<Output = io::Result<u64>> + Send;
}
