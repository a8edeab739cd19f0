//! Operations on whole files.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::blocking::core::Core;
use crate::blocking::lanes::Device;
use crate::blocking::lanes::Lanes;
use crate::runtime::handle::Handle;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

use super::file::File;
use super::lookup::{device_of, directory_of, in_lane, is_special, on_path, runtime, tidy_up};

/// Does work on a path in the lane for data of its device, or for special files if it is one.
async fn on_data<T, F>(name: &'static str, path: &Path, work: F) -> io::Result<T>
where
    F: FnOnce(&Path) -> io::Result<T> + Send + 'static,
    T: Send + 'static,
{
    on_data_of_both(name, path, None, work).await
}

/// As [`on_data`], also in the lane for special files if the `other` path leads to such a file.
async fn on_data_of_both<T, F>(
    name: &'static str,
    path: &Path,
    other: Option<PathBuf>,
    work: F,
) -> io::Result<T>
where
    F: FnOnce(&Path) -> io::Result<T> + Send + 'static,
    T: Send + 'static,
{
    let handle = runtime()?;
    let device = device_of(&handle, path).await?;
    let (target, finder) = (path.to_owned(), handle.clone());
    // The file may be on another device than its directory.
    let look = in_lane(name, &device.names, &handle, move || {
        lane_of(&finder, &target, other.as_deref())
    });
    let core = look.await?.unwrap_or_else(|| Arc::clone(&device.data));
    let path = path.to_owned();
    in_lane(name, &core, &handle, move || work(&path)).await?
}

/// The lane in which a file's data is read and written, if there is such a file.
fn lane_of(handle: &Handle, path: &Path, other: Option<&Path>) -> Option<Arc<Core>> {
    let metadata = std::fs::metadata(path).ok()?;
    let other = other.and_then(|other| std::fs::metadata(other).ok());
    let number = std::os::unix::fs::MetadataExt::dev(&metadata);
    let device = Lanes::of(handle.shared()).device(handle.shared(), number);
    Some(
        if is_special(&metadata) || other.is_some_and(|other| is_special(&other)) {
            Arc::clone(&device.special)
        } else {
            Arc::clone(&device.data)
        },
    )
}

/// Reads a file to its end.
///
/// # Errors
///
/// Those of [`std::fs::read`], those of the lane ([`LaneError`](crate::blocking::LaneError)), and
/// if there is no current runtime.
///
/// # Cancel safety
///
/// Cancel safe. A read that has begun goes on to its end, and its result is dropped.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let manifest = evenkeel::fs::read("Cargo.toml").await?;
/// assert!(manifest.starts_with(b"[package]"));
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
pub async fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    on_data("fs::read", path.as_ref(), |path| std::fs::read(path)).await
}

/// Reads a text file to its end.
///
/// # Errors
///
/// `InvalidData` if it is not UTF-8, and as [`read`].
///
/// # Cancel safety
///
/// As [`read`].
pub async fn read_to_string(path: impl AsRef<Path>) -> io::Result<String> {
    on_data("fs::read_to_string", path.as_ref(), |path| {
        std::fs::read_to_string(path)
    })
    .await
}

/// Writes a file, which is made if there is none. Its old contents are lost as soon as the write
/// begins. If others read it, or if a crash must not lose both, use [`replace`].
///
/// # Errors
///
/// Those of [`std::fs::write`], and as [`read`]. The file may then hold a part of the bytes.
///
/// # Cancel safety
///
/// If the future is dropped, a write that has begun goes on to its end: the file stays as it was,
/// or will hold all the bytes.
pub async fn write<B>(path: impl AsRef<Path>, bytes: B) -> io::Result<()>
where
    B: AsRef<[u8]> + Send + 'static,
{
    on_data("fs::write", path.as_ref(), move |path| {
        std::fs::write(path, bytes)
    })
    .await
}

/// Copies the contents and permissions of a file to another file, which is made if there is none.
/// Returns the number of bytes.
///
/// # Errors
///
/// Those of [`std::fs::copy`], and as [`read`].
///
/// # Cancel safety
///
/// As [`write()`].
pub async fn copy(from: impl AsRef<Path>, to: impl AsRef<Path>) -> io::Result<u64> {
    let to = to.as_ref().to_owned();
    on_data_of_both("fs::copy", from.as_ref(), Some(to.clone()), move |from| {
        std::fs::copy(from, to)
    })
    .await
}

/// Makes or replaces a file atomically: whoever opens the path finds all of the old or all of the
/// new contents, also after a crash. It writes and syncs a file in the same directory, renames it,
/// and syncs the directory.
///
/// The new file has the permissions of the old one, but not its owner or other links to it. A
/// symbolic link is replaced and not followed.
///
/// # Errors
///
/// Those of the system for each of the steps, and as [`read`]. The old file is still there, unless
/// only the sync of the directory failed: then either may be there after a crash.
///
/// # Cancel safety
///
/// If the future is dropped, the old or the new file is there. Dropped between two steps, the
/// temporary file is removed; a step that has begun goes on to its end.
///
/// # Examples
///
/// ```
/// use evenkeel::fs;
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// # let path = std::env::temp_dir().join(format!("evenkeel-doc-replace-{}", std::process::id()));
/// fs::replace(&path, "first").await?;
/// fs::replace(&path, "second").await?;
/// assert_eq!(fs::read_to_string(&path).await?, "second");
/// # fs::remove_file(&path).await }).unwrap();
/// ```
pub async fn replace<B>(path: impl AsRef<Path>, bytes: B) -> io::Result<()>
where
    B: AsRef<[u8]> + Send + 'static,
{
    let path = path.as_ref();
    if path.file_name().is_none() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("cannot replace {}: it names no file", path.display()),
        ));
    }
    let handle = runtime()?;
    let device = device_of(&handle, path).await?;
    let mut draft = Draft {
        path: None,
        file: None,
        device: Arc::clone(&device),
        handle: handle.clone(),
    };
    let target = path.to_owned();
    let written = in_lane("fs::replace", &device.data, &handle, move || {
        draft.write(&target, bytes.as_ref())?;
        Ok::<_, io::Error>(draft)
    });
    let draft = written.await??;
    let synced = in_lane("fs::replace", &device.syncs, &handle, move || {
        draft.sync().map(|()| draft)
    });
    let draft = synced.await??;
    let target = path.to_owned();
    let named = in_lane("fs::replace", &device.names, &handle, move || {
        draft.give_name(&target)
    });
    named.await??;
    sync_dir(directory_of(path)).await
}

/// Waits until the names in a directory are on the device. Without it, a crash may undo the
/// creation, renaming or removal of a file.
///
/// # Errors
///
/// Those of opening and syncing the directory, and as [`read`].
///
/// # Cancel safety
///
/// Cancel safe: the sync may be done or not.
pub async fn sync_dir(path: impl AsRef<Path>) -> io::Result<()> {
    let finder = runtime()?;
    let path = path.as_ref().join(".");
    let directory = on_path("fs::sync_dir", &path, move |path| {
        File::adopt(&finder, std::fs::File::open(path)?)
    })
    .await?;
    let syncs = directory.sync_lane();
    let synced = directory.run("fs::sync_dir", syncs, |directory| directory.sync_all());
    synced.await?
}

/// How many names are tried for a temporary file.
const NAMES_MAX: usize = 1_000;

/// Makes a temporary file in the same directory. Its name may be taken by a process with the same
/// id, which is common in containers: one that was killed, or one in another container.
fn create_beside(
    target: &Path,
    options: &std::fs::OpenOptions,
) -> io::Result<(PathBuf, std::fs::File)> {
    for _ in 0..NAMES_MAX {
        let path = beside(target);
        match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (path, file)),
        }
    }
    let what = format!(
        "{NAMES_MAX} names for a temporary file beside {} are taken; remove the files ending \
        in .new that killed processes have left there",
        target.display()
    );
    Err(io::Error::new(io::ErrorKind::AlreadyExists, what))
}

/// A name in the same directory that is unique in this process.
fn beside(path: &Path) -> PathBuf {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the numbers only have to differ.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    let mut name = std::ffi::OsString::from(".");
    // A name may have at most 255 bytes.
    let base = path.file_name().unwrap_or_default().as_encoded_bytes();
    name.push(String::from_utf8_lossy(&base[..base.len().min(60)]).as_ref());
    name.push(format!(".{process}-{number}.new"));
    directory_of(path).join(name)
}

/// A temporary file, which is removed in the end unless it is renamed.
struct Draft {
    /// `Some` while the file exists under its temporary name.
    path: Option<PathBuf>,
    file: Option<std::fs::File>,
    device: Arc<Device>,
    handle: Handle,
}

impl Draft {
    fn write(&mut self, target: &Path, bytes: &[u8]) -> io::Result<()> {
        let permissions = permissions_of(target)?;
        let mut options = std::fs::File::options();
        options.write(true).create_new(true);
        if permissions.is_some() {
            // The old file may be private, and then no byte of the new one may be readable to
            // others.
            options.mode(0o600);
        }
        let (path, file) = create_beside(target, &options)?;
        self.path = Some(path);
        let file = self.file.insert(file);
        file.write_all(bytes)?;
        if let Some(permissions) = permissions {
            file.set_permissions(permissions)?;
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), std::fs::File::sync_all)
    }

    fn give_name(mut self, target: &Path) -> io::Result<()> {
        debug_assert!(
            self.path.is_some(),
            "a draft is written before it is renamed"
        );
        let path = self.path.as_deref().unwrap_or(Path::new(""));
        std::fs::rename(path, target)?;
        self.path = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let (file, path) = (self.file.take(), self.path.take());
        if file.is_none() && path.is_none() {
            return;
        }
        tidy_up("fs::replace", &self.device.names, &self.handle, move || {
            drop(file);
            // A failed replacement is of no use, and harmless if it cannot be removed.
            if let Some(path) = path {
                let _ = std::fs::remove_file(path);
            }
        });
    }
}

fn permissions_of(path: &Path) -> io::Result<Option<Permissions>> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_file() => Ok(Some(metadata.permissions())),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
