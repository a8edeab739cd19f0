//! The seam between the log and what it lies on: a directory of files, or one of a test that loses
//! what was not synced.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use evenkeel::fs::{CommitFile, File};

/// A directory.
pub trait Disk: Clone + Send + Sync + 'static {
    /// Its files.
    type File: DiskFile;

    /// The names of its files.
    fn list(&self) -> impl Future<Output = io::Result<Vec<String>>> + Send;

    /// Makes a file that is not there yet.
    fn create(&self, name: &str) -> impl Future<Output = io::Result<Self::File>> + Send;

    /// Opens a file that is there.
    fn open(&self, name: &str) -> impl Future<Output = io::Result<Self::File>> + Send;

    /// Removes a file. Those who have it open can still read it.
    fn remove(&self, name: &str) -> impl Future<Output = io::Result<()>> + Send;

    /// Makes the names of files survive a crash.
    fn sync_names(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// What it is called in errors.
    fn name(&self) -> String;
}

/// A file.
pub trait DiskFile: CommitFile {
    /// Reads up to `len` bytes at `offset`; none at the end.
    fn read_at(&self, len: usize, offset: u64) -> impl Future<Output = io::Result<Bytes>> + Send;

    /// How long it is.
    fn len(&self) -> impl Future<Output = io::Result<u64>> + Send;
}

/// A directory of the machine, held by one process at a time.
#[derive(Clone, Debug)]
pub struct LocalDisk {
    directory: Arc<PathBuf>,
    /// Locked as long as this lives. The system unlocks it also when the process is killed.
    _lock: Option<Arc<std::fs::File>>,
}

/// The name of the file whose lock says that a directory is in use.
const LOCK_NAME: &str = "LOCK";

impl LocalDisk {
    /// Takes hold of a directory, which is made if need be.
    ///
    /// # Errors
    ///
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if another process, or another part of this
    /// one, holds it; others if it cannot be made or written.
    pub async fn hold(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        let lock = blocking({
            let directory = directory.clone();
            move || hold(&directory)
        })
        .await?;
        Ok(Self {
            directory: Arc::new(directory),
            _lock: Some(Arc::new(lock)),
        })
    }

    /// The directory without holding it, for those who only read.
    pub fn borrow(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: Arc::new(directory.into()),
            _lock: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

fn hold(directory: &Path) -> io::Result<std::fs::File> {
    std::fs::create_dir_all(directory)?;
    let lock = std::fs::File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join(LOCK_NAME))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(std::fs::TryLockError::WouldBlock) => Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another server has this directory; end it, or take another directory",
        )),
        Err(std::fs::TryLockError::Error(error)) => Err(error),
    }
}

impl Disk for LocalDisk {
    type File = File;

    async fn list(&self) -> io::Result<Vec<String>> {
        let directory = Arc::clone(&self.directory);
        blocking(move || {
            let entries = std::fs::read_dir(&*directory)?;
            // A name that is no text is none of the log's.
            entries
                .filter_map(|entry| match entry {
                    Ok(entry) => entry.file_name().into_string().ok().map(Ok),
                    Err(error) => Some(Err(error)),
                })
                .collect()
        })
        .await
    }

    async fn create(&self, name: &str) -> io::Result<File> {
        let path = self.path(name);
        let file = blocking(move || {
            std::fs::File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(path)
        });
        File::from_std(file.await?)
    }

    async fn open(&self, name: &str) -> io::Result<File> {
        let path = self.path(name);
        // Those who borrow the directory may not be allowed to write.
        let write = self._lock.is_some();
        let file = blocking(move || std::fs::File::options().read(true).write(write).open(path));
        File::from_std(file.await?)
    }

    async fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path(name);
        blocking(move || std::fs::remove_file(path)).await
    }

    async fn sync_names(&self) -> io::Result<()> {
        let directory = Arc::clone(&self.directory);
        blocking(move || std::fs::File::open(&*directory)?.sync_all()).await
    }

    fn name(&self) -> String {
        self.directory.display().to_string()
    }
}

impl DiskFile for File {
    async fn read_at(&self, len: usize, offset: u64) -> io::Result<Bytes> {
        File::read_at(self, vec![0; len], offset).await.map(Bytes::from)
    }

    async fn len(&self) -> io::Result<u64> {
        Ok(self.metadata().await?.len())
    }
}

async fn blocking<T: Send + 'static>(
    function: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match evenkeel::spawn_blocking(function).await {
        Ok(result) => result,
        Err(error) => Err(io::Error::other(error)),
    }
}
