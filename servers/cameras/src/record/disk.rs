//! The seam between recordings and their disk: files below a directory, or in tests a disk that
//! hangs, is full, or forgets.

use std::future::Future;
use std::io;
use std::os::unix::fs::MetadataExt;
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
    /// Whether it has to be where a file system is mounted.
    mounted: bool,
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
            mounted: false,
        })
    }

    /// Whether it has to be where a file system is mounted, as long as it is used.
    #[must_use]
    pub fn mounted(mut self, mounted: bool) -> Self {
        self.mounted = mounted;
        self
    }

    /// The directory, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// It cannot be made, or nothing is mounted there and has to be.
    pub async fn place(&self) -> io::Result<std::fs::Metadata> {
        self.make_directory(Path::new("")).await?;
        fs::metadata(self.root.as_path()).await
    }

    /// Nothing is made, nor taken for all there is, in a directory beneath a mount.
    async fn be_there(&self) -> io::Result<()> {
        if !self.mounted {
            return Ok(());
        }
        let above = fs::metadata(self.root.join("..")).await;
        let here = fs::metadata(self.root.as_path()).await;
        if let (Ok(here), Ok(above)) = (here, above)
            && here.dev() != above.dev()
        {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "nothing is mounted at {}, or a directory of the file system that it is in (a bind \
             mount), which cannot be told from nothing: mount its disk there, or take `mounted` \
             out of the volume",
            self.root.display()
        )))
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.root.join(path)
    }
}

impl Disk for LocalDisk {
    type File = File;

    async fn make_directory(&self, path: &Path) -> io::Result<()> {
        self.be_there().await?;
        fs::create_dir_all(self.path(path)).await
    }

    async fn remove_directory(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(self.path(path)).await
    }

    async fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.be_there().await?;
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
        self.be_there().await?;
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
            match nix::sys::statvfs::statvfs(root.as_path()) {
                Ok(stat) => Ok(Some(room(&stat))),
                // It is made for the first recording.
                Err(nix::errno::Errno::ENOENT) => Ok(None),
                Err(error) => Err(error.into()),
            }
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

#[cfg(test)]
mod tests {
    use evenkeel::runtime::Builder;

    use super::*;

    #[test]
    fn a_directory_is_used_only_where_something_is_mounted_if_it_has_to_be() {
        let runtime = Builder::new().workers(1).build().unwrap();
        runtime.block_on(async {
            let beneath = tempfile::tempdir().unwrap();
            let here = Path::new("day");
            let disk = LocalDisk::new("d", beneath.path().to_owned()).unwrap();
            let unmounted = disk.clone().mounted(true);
            for refused in [
                unmounted.make_directory(here).await.err(),
                unmounted.list(here).await.err(),
                unmounted.create(here).await.err(),
            ] {
                let said = refused.unwrap().to_string();
                assert!(said.contains("nothing is mounted at"), "{said}");
            }
            assert_eq!(std::fs::read_dir(beneath.path()).unwrap().count(), 0);
            disk.make_directory(here).await.unwrap();
            assert!(disk.free().await.unwrap().is_some());
            let later = LocalDisk::new("l", beneath.path().join("later")).unwrap();
            assert_eq!(later.free().await.unwrap(), None, "it is made later");
            // It is everywhere on Linux, and a file system of its own.
            if Path::new("/dev/shm").is_dir() {
                let mounted = LocalDisk::new("m", "/dev/shm".into()).unwrap();
                let list = mounted.mounted(true).list(Path::new("no-such")).await;
                assert!(list.unwrap().is_empty());
            }
        });
    }
}
