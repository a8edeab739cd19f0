//! The seam between the log and its storage: a directory of files, or in tests one that loses
//! unsynced data.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use evenkeel::fs::{self, CommitFile, File};

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

    /// Removes a file. Readers that have it open can still read it.
    fn remove(&self, name: &str) -> impl Future<Output = io::Result<()>> + Send;

    /// Makes the names of files survive a crash.
    fn sync_names(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Its name in errors.
    fn name(&self) -> String;
}

/// A file.
pub trait DiskFile: CommitFile {
    /// Reads up to `len` bytes at `offset`; returns none at the end.
    fn read_at(&self, len: usize, offset: u64) -> impl Future<Output = io::Result<Bytes>> + Send;

    /// Its length.
    fn size(&self) -> impl Future<Output = io::Result<u64>> + Send;
}

/// A directory of the machine, held by one process at a time.
#[derive(Clone, Debug)]
pub struct LocalDisk {
    directory: Arc<PathBuf>,
    /// The lock, which is held as long as this lives. The system releases it when the process dies.
    lock: Option<Arc<std::fs::File>>,
}

/// The name of the file whose lock marks the directory as in use.
const LOCK_NAME: &str = "LOCK";

impl LocalDisk {
    /// Locks a directory, and creates it if necessary.
    ///
    /// # Errors
    ///
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if another process, or another part of this
    /// one, has locked it; other errors if it cannot be created or written.
    pub async fn hold(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        make_durably(&directory).await?;
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        let lock = options.open(directory.join(LOCK_NAME)).await?;
        // Does not wait for a holder of the lock.
        let lock = lock.into_std().await;
        match lock.try_lock() {
            Ok(()) => {}
            Err(std::fs::TryLockError::WouldBlock) => {
                let what = "another server has this directory; end it, or take another directory";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(error),
        }
        Ok(Self {
            directory: Arc::new(directory),
            lock: Some(Arc::new(lock)),
        })
    }

    /// The directory without its lock, for readers.
    pub fn borrow(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: Arc::new(directory.into()),
            lock: None,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// Creates a directory and its missing parents, so that their names survive a crash.
async fn make_durably(directory: &Path) -> io::Result<()> {
    let mut made = Vec::new();
    for above in directory.ancestors() {
        if above.as_os_str().is_empty() || fs::try_exists(above).await? {
            break;
        }
        made.push(above);
    }
    fs::create_dir_all(directory).await?;
    let parent = |path: &Path| path.parent().unwrap_or(path).to_owned();
    if made.is_empty() {
        // A process may have created it and ended here. A user who may not read the parent has not
        // created the directory.
        let _ = fs::sync_dir(parent(directory)).await;
    }
    for above in made {
        fs::sync_dir(parent(above)).await?;
    }
    Ok(())
}

impl Disk for LocalDisk {
    type File = File;

    async fn list(&self) -> io::Result<Vec<String>> {
        let mut entries = fs::read_dir(&*self.directory).await?;
        let mut names = Vec::new();
        while let Some(entry) = entries.next_entry().await? {
            // Files of the log have names that are valid text.
            names.extend(entry.file_name().into_string());
        }
        Ok(names)
    }

    async fn create(&self, name: &str) -> io::Result<File> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        options.open(self.path(name)).await
    }

    async fn open(&self, name: &str) -> io::Result<File> {
        let mut options = File::options();
        // Readers may not be allowed to write to the directory.
        options.read(true).write(self.lock.is_some());
        options.open(self.path(name)).await
    }

    async fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name)).await
    }

    async fn sync_names(&self) -> io::Result<()> {
        fs::sync_dir(&*self.directory).await
    }

    fn name(&self) -> String {
        self.directory.display().to_string()
    }
}

impl DiskFile for File {
    async fn read_at(&self, len: usize, offset: u64) -> io::Result<Bytes> {
        File::read_at(self, vec![0; len], offset)
            .await
            .map(Bytes::from)
    }

    async fn size(&self) -> io::Result<u64> {
        Ok(self.metadata().await?.len())
    }
}
