//! A directory of the machine, and the lock by which one server at a time has it.

use std::fs::{Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use evenkeel::fs::{self, File};
use nix::sys::statvfs::statvfs;

use super::error::DIRECTORY;
use super::list::is_known;
use super::{Disk, DiskFile};

/// The name of the file that earlier releases lock. A server that works locks it as well, so that
/// one of an earlier release is refused.
pub(super) const LOCK_NAME: &str = "LOCK";

/// Only the log's own user reads records.
const FILE_MODE: u32 = 0o600;
const DIRECTORY_MODE: u32 = 0o700;

/// How often a lock is tried, and the pause between: `verify` holds it for a moment, to see whether
/// a server has it.
const TRIES: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);

/// A directory of the machine, held by one process at a time.
#[derive(Clone, Debug)]
pub struct LocalDisk {
    directory: Arc<PathBuf>,
    held: Option<Arc<Held>>,
    is_writable: bool,
}

/// The locks, which are held as long as this lives. The system releases them when the process dies.
///
/// The directory's own lock cannot be removed. A second server has to lock the same directory, or
/// its path leads to another one, which [`Disk::displaced`] finds.
#[derive(Debug)]
struct Held {
    directory: std::fs::File,
    /// The same, opened again: its names are synced by it, so that this needs no descriptor. `None`
    /// for who only reads.
    names: Option<File>,
    /// `None` if there is no such file, for who only reads, or if the directory has foreign files.
    _file: Option<std::fs::File>,
}

#[derive(Clone, Copy)]
enum Mode {
    /// For a server, or a command that changes the log.
    Alone,
    /// For commands that read a log which no server has.
    Shared,
}

impl LocalDisk {
    /// Locks a directory, and creates it if necessary.
    ///
    /// # Errors
    ///
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if another process, or another part of this
    /// one, has locked it; other errors if it cannot be created, locked or written.
    pub async fn hold(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        make_durably(&directory).await?;
        Self::hold_existing(directory).await
    }

    /// Creates a directory and its missing parents, so that their names survive a crash.
    pub(crate) async fn make(directory: &Path) -> io::Result<()> {
        make_durably(directory).await
    }

    /// Locks a directory that exists.
    ///
    /// # Errors
    ///
    /// As [`hold`](Self::hold), and [`NotFound`](io::ErrorKind::NotFound).
    pub async fn hold_existing(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        let held = patiently(&directory, Mode::Alone).await?.ok_or_else(|| {
            let what = "another server has this directory, or a command that works on it; end it, \
                        or take another directory";
            io::Error::new(io::ErrorKind::ResourceBusy, what)
        })?;
        Ok(Self {
            directory: Arc::new(directory),
            held: Some(Arc::new(held)),
            is_writable: true,
        })
    }

    /// The directory without its lock, for readers.
    pub fn borrow(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: Arc::new(directory.into()),
            held: None,
            is_writable: false,
        }
    }

    /// The directory for readers, which no server can open as long as they read. `None` if one has
    /// it.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub async fn borrow_stopped(directory: impl Into<PathBuf>) -> io::Result<Option<Self>> {
        let directory = directory.into();
        let held = patiently(&directory, Mode::Shared).await?;
        Ok(held.map(|held| Self {
            directory: Arc::new(directory),
            held: Some(Arc::new(held)),
            is_writable: false,
        }))
    }

    /// Whether a server has the directory.
    ///
    /// # Errors
    ///
    /// Those of the system.
    pub async fn is_live(&self) -> io::Result<bool> {
        Ok(lock(&self.directory, Mode::Shared).await?.is_none())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

async fn patiently(directory: &Path, mode: Mode) -> io::Result<Option<Held>> {
    for _ in 1..TRIES {
        if let Some(held) = lock(directory, mode).await? {
            return Ok(Some(held));
        }
        evenkeel::time::sleep(PAUSE).await;
    }
    lock(directory, mode).await
}

/// Locks a directory, and the file that earlier releases lock. `None` if others have one of them.
async fn lock(path: &Path, mode: Mode) -> io::Result<Option<Held>> {
    let directory = File::open(path).await?.into_std().await;
    if !directory.metadata()?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    // These calls do not wait for a holder of the lock.
    if !is_locked(&directory, mode)? {
        return Ok(None);
    }
    let mut options = File::options();
    let file = match mode {
        // What is not a log's directory is left as it is, and not opened as one.
        Mode::Alone if !is_of_log(path).await? => None,
        Mode::Alone => {
            options.create(true).truncate(false).write(true);
            Some(options.mode(FILE_MODE).open(path.join(LOCK_NAME)).await?)
        }
        Mode::Shared => match File::open(path.join(LOCK_NAME)).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        },
    };
    let file = match file {
        Some(file) => Some(file.into_std().await),
        None => None,
    };
    if let Some(file) = &file
        && !is_locked(file, mode)?
    {
        return Ok(None);
    }
    let _file = file;
    let names = match mode {
        Mode::Alone => Some(File::open(path).await?),
        Mode::Shared => None,
    };
    Ok(Some(Held {
        directory,
        names,
        _file,
    }))
}

/// Whether all files in a directory may be those of a log.
async fn is_of_log(path: &Path) -> io::Result<bool> {
    let mut entries = fs::read_dir(path).await?;
    while let Some(entry) = entries.next_entry().await? {
        if !is_known(&entry.file_name().to_string_lossy()) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_locked(file: &std::fs::File, mode: Mode) -> io::Result<bool> {
    let locked = match mode {
        Mode::Alone => file.try_lock(),
        Mode::Shared => file.try_lock_shared(),
    };
    match locked {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => {
            let what = format!("it cannot be locked ({error}): take a directory of a local disk");
            Err(io::Error::new(error.kind(), what))
        }
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
    let path = directory.to_owned();
    let created = evenkeel::task::spawn_blocking(move || {
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(DIRECTORY_MODE).create(path)
    });
    created.await.map_err(io::Error::other)??;
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

/// Whether a path still leads to the file that was opened there.
async fn leads_to(path: &Path, opened: &Metadata) -> io::Result<bool> {
    match fs::metadata(path).await {
        Ok(found) => Ok((found.dev(), found.ino()) == (opened.dev(), opened.ino())),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(false),
            _ => Err(error),
        },
    }
}

impl Disk for LocalDisk {
    type File = File;

    async fn list(&self) -> io::Result<Vec<String>> {
        let mut entries = fs::read_dir(&*self.directory).await?;
        let mut names = Vec::new();
        while let Some(entry) = entries.next_entry().await? {
            // Files of the log have names that are valid text; others are only named in errors.
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    async fn create(&self, name: &str) -> io::Result<File> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true);
        options.mode(FILE_MODE).open(self.path(name)).await
    }

    async fn open(&self, name: &str) -> io::Result<File> {
        let mut options = File::options();
        // Readers may not be allowed to write to the directory.
        options.read(true).write(self.is_writable);
        options.open(self.path(name)).await
    }

    async fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name)).await
    }

    async fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        // A name that is taken would be replaced. Nobody else makes files here.
        if fs::try_exists(self.path(to)).await? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(self.path(from), self.path(to)).await
    }

    async fn sync_names(&self) -> io::Result<()> {
        match self.held.as_ref().and_then(|held| held.names.as_ref()) {
            Some(names) => names.sync_all().await,
            None => fs::sync_dir(&*self.directory).await,
        }
    }

    async fn displaced(&self, name: &str, file: &File) -> io::Result<Option<String>> {
        let Some(held) = &self.held else {
            return Ok(None);
        };
        if !leads_to(&self.directory, &held.directory.metadata()?).await? {
            return Ok(Some(DIRECTORY.to_owned()));
        }
        let path = self.path(name);
        let is_there = leads_to(&path, &file.metadata().await?).await?;
        Ok((!is_there).then(|| name.to_owned()))
    }

    async fn room(&self) -> io::Result<Option<u64>> {
        let directory = Arc::clone(&self.directory);
        let found = evenkeel::task::spawn_blocking(move || statvfs(directory.as_path()));
        let found = found.await.map_err(io::Error::other)??;
        // What a user without privileges gets of it.
        let blocks = found.blocks_available() as u64;
        Ok(Some(blocks.saturating_mul(found.fragment_size() as u64)))
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
