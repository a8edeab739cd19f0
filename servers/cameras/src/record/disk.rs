//! The seam between recordings and their disk: files below a directory, or in tests a disk that
//! hangs, is full, or forgets.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use evenkeel::blocking::Lane;
use evenkeel::fs::{self, File};

/// A directory on a file system of its own, or at least of no other volume.
pub trait Disk: Clone + Send + Sync + 'static {
    /// Its files.
    type File: DiskFile;

    /// Makes a directory, with those above it below the volume.
    fn make_directory(&self, path: &Path) -> impl Future<Output = io::Result<()>> + Send;

    /// Removes a directory, which is empty.
    fn remove_directory(&self, path: &Path) -> impl Future<Output = io::Result<()>> + Send;

    /// The names in a directory; none if there is no such directory, or a file in its place.
    fn list(&self, path: &Path) -> impl Future<Output = io::Result<Vec<String>>> + Send;

    /// Makes a file, which must not exist.
    fn create(&self, path: &Path) -> impl Future<Output = io::Result<Self::File>> + Send;

    /// Opens a file for reading and writing.
    fn open(&self, path: &Path) -> impl Future<Output = io::Result<Self::File>> + Send;

    /// Removes a file. Those that have it open can still read it.
    fn remove(&self, path: &Path) -> impl Future<Output = io::Result<()>> + Send;

    /// Gives a file another name in its directory.
    fn rename(&self, from: &Path, to: &Path) -> impl Future<Output = io::Result<()>> + Send;

    /// Waits until all that was written is on the disk: bytes, lengths and names.
    fn sync(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Bytes that can still be written; `None` if the system does not say.
    fn free(&self) -> impl Future<Output = io::Result<Option<u64>>> + Send;
}

/// A file.
pub trait DiskFile: Send + Sync + 'static {
    /// Writes all of these at a place, one after the other.
    fn write(&self, pieces: Vec<Bytes>, offset: u64)
    -> impl Future<Output = io::Result<()>> + Send;

    /// Reads up to `len` bytes at a place; fewer at the end.
    fn read(&self, len: usize, offset: u64) -> impl Future<Output = io::Result<Vec<u8>>> + Send;

    /// Its length.
    fn size(&self) -> impl Future<Output = io::Result<u64>> + Send;

    /// Cuts it off.
    fn truncate(&self, len: u64) -> impl Future<Output = io::Result<()>> + Send;
}

/// A directory of this machine. Its work is done in the runtime's lanes of its device, and syncs
/// and questions for its room in a lane of its own: they concern all of the file system, and may
/// take long.
#[derive(Clone, Debug)]
pub struct LocalDisk {
    root: Arc<PathBuf>,
    lane: Arc<Lane>,
}

impl LocalDisk {
    /// The directory, which need not exist yet.
    ///
    /// # Errors
    ///
    /// The lane cannot be made.
    pub fn new(name: &str, root: PathBuf) -> io::Result<Self> {
        // As much of the name as one of a lane may have.
        let shown: String = name
            .chars()
            .filter(char::is_ascii_graphic)
            .take(24)
            .collect();
        // One for a sync, one for the question for room beside it.
        let lane = Lane::builder(format!("volume-{shown}")).threads(2).build();
        Ok(Self {
            root: Arc::new(root),
            lane: Arc::new(lane.map_err(io::Error::other)?),
        })
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }
}

impl Disk for LocalDisk {
    type File = File;

    async fn make_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(self.path(path)).await
    }

    async fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(self.path(path)).await
    }

    async fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let mut entries = match fs::read_dir(self.path(path)).await {
            Err(error) if is_no_directory(&error) => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        while let Some(entry) = entries.next_entry().await? {
            // Names of ours are ASCII; others are not listed.
            if let Ok(name) = entry.file_name().into_string() {
                names.push(name);
            }
        }
        Ok(names)
    }

    async fn create(&self, path: &Path) -> io::Result<File> {
        File::create_new(self.path(path)).await
    }

    async fn open(&self, path: &Path) -> io::Result<File> {
        let mut options = File::options();
        options.read(true).write(true);
        options.open(self.path(path)).await
    }

    async fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(self.path(path)).await
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to)).await
    }

    async fn sync(&self) -> io::Result<()> {
        let root = Arc::clone(&self.root);
        let synced = self.lane.run(move || sync_all(&root));
        synced.await.map_err(io::Error::from)?
    }

    async fn free(&self) -> io::Result<Option<u64>> {
        let root = Arc::clone(&self.root);
        let asked = self.lane.run(move || -> io::Result<Option<u64>> {
            let stat = nix::sys::statvfs::statvfs(root.as_path())?;
            Ok(Some(room(&stat)))
        });
        asked.await.map_err(io::Error::from)?
    }
}

fn is_no_directory(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// The counts are wider on some systems than on others.
#[allow(
    clippy::useless_conversion,
    reason = "their types differ between systems"
)]
fn room(stat: &nix::sys::statvfs::Statvfs) -> u64 {
    u64::from(stat.blocks_available()).saturating_mul(u64::from(stat.fragment_size()))
}

/// One call for all files, since hundreds of cameras write at the same time.
#[cfg(target_os = "linux")]
fn sync_all(root: &Path) -> io::Result<()> {
    let directory = std::fs::File::open(root)?;
    Ok(nix::unistd::syncfs(directory)?)
}

/// Systems without such a call sync everything.
#[cfg(not(target_os = "linux"))]
fn sync_all(_: &Path) -> io::Result<()> {
    nix::unistd::sync();
    Ok(())
}

impl DiskFile for File {
    async fn write(&self, pieces: Vec<Bytes>, offset: u64) -> io::Result<()> {
        self.write_all_vectored_at(pieces, offset).await.map(drop)
    }

    async fn read(&self, len: usize, offset: u64) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        while whole.len() < len {
            let rest = vec![0; len - whole.len()];
            let read = self.read_at(rest, offset + whole.len() as u64).await?;
            if read.is_empty() {
                break;
            }
            if whole.is_empty() {
                whole = read;
            } else {
                whole.extend(read);
            }
        }
        Ok(whole)
    }

    async fn size(&self) -> io::Result<u64> {
        Ok(self.metadata().await?.len())
    }

    async fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len).await
    }
}

#[cfg(test)]
pub(crate) mod memory;
