//! Reading directories.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fmt;
use std::fs::{FileType, Metadata};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::blocking::core::Core;
use crate::blocking::lane::InLane;
use crate::runtime::handle::Handle;
use crate::sync::{Arc, Mutex};

use super::lookup::{device_of, in_lane, on_path, runtime, tidy_up};

const CHUNK: usize = 64;

/// Opens a directory for reading.
///
/// # Errors
///
/// Those of [`std::fs::read_dir`], and as [`metadata`](super::metadata).
///
/// # Cancel safety
///
/// Cancel safe.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let mut entries = evenkeel::fs::read_dir("src").await?;
/// let mut found = false;
/// while let Some(entry) = entries.next_entry().await? {
///     found |= entry.file_name() == "lib.rs";
/// }
/// assert!(found);
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let handle = runtime()?;
    // The directory itself may be the mount point of another device.
    let device = device_of(&handle, &path.join("entry")).await?;
    let target = path.to_owned();
    let (core, closer) = (Arc::clone(&device.names), handle.clone());
    let opened = in_lane("fs::read_dir", &device.names, &handle, move || {
        let reader = Mutex::new(Some(std::fs::read_dir(&target)?));
        Ok::<_, io::Error>(Chunk::next_of(&Arc::new(Directory {
            reader,
            core,
            handle: closer,
        })))
    });
    let state = State::Read(opened.await??);
    Ok(ReadDir { state })
}

/// An open directory. The standard library's reader and each of its entries keep it open, so ours
/// keep this as well, and drop it last: closing may take long, so no worker does it.
struct Directory {
    /// `Some` until this is dropped; one piece of work at a time reads.
    reader: Mutex<Option<std::fs::ReadDir>>,
    core: Arc<Core>,
    handle: Handle,
}

impl Drop for Directory {
    fn drop(&mut self) {
        let reader = self.reader.lock().take();
        tidy_up("fs::ReadDir close", &self.core, &self.handle, move || {
            drop(reader);
        });
    }
}

/// The entries of a directory, in no order.
#[must_use = "entries are read by `next_entry`"]
pub struct ReadDir {
    state: State,
}

enum State {
    Read(Chunk),
    Reading(InLane<Chunk>),
}

struct Chunk {
    entries: VecDeque<io::Result<DirEntry>>,
    /// Where there are more entries; `None` at the end.
    rest: Option<Arc<Directory>>,
}

impl Chunk {
    fn next_of(directory: &Arc<Directory>) -> Self {
        let mut entries = VecDeque::new();
        let mut ended = false;
        let mut reader = directory.reader.lock();
        while entries.len() < CHUNK && !ended {
            match reader.as_mut().and_then(Iterator::next) {
                None => ended = true,
                Some(entry) => {
                    ended = entry.is_err();
                    entries.push_back(entry.map(|entry| DirEntry::new(entry, directory)));
                }
            }
        }
        Self {
            entries,
            rest: Some(Arc::clone(directory)).filter(|_| !ended),
        }
    }
}

impl ReadDir {
    /// Returns the next entry, or `None` after the last.
    ///
    /// # Errors
    ///
    /// The error of the system, after which there are no more entries, or of the lane.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no entry is lost.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        std::future::poll_fn(|cx| self.poll_next_entry(cx)).await
    }

    /// As [`next_entry`](ReadDir::next_entry), as a poll function.
    ///
    /// # Errors
    ///
    /// As [`next_entry`](ReadDir::next_entry).
    pub fn poll_next_entry(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<DirEntry>>> {
        loop {
            let chunk = match &mut self.state {
                State::Read(chunk) => chunk,
                State::Reading(reading) => {
                    let read = ready!(Pin::new(reading).poll(cx));
                    let empty = Chunk {
                        entries: VecDeque::new(),
                        rest: None,
                    };
                    match read {
                        Ok(chunk) => self.state = State::Read(chunk),
                        Err(error) => {
                            self.state = State::Read(empty);
                            return Poll::Ready(Err(error.into()));
                        }
                    }
                    continue;
                }
            };
            if let Some(entry) = chunk.entries.pop_front() {
                return Poll::Ready(entry.map(Some));
            }
            let Some(rest) = chunk.rest.take() else {
                return Poll::Ready(Ok(None));
            };
            let (core, handle) = (Arc::clone(&rest.core), rest.handle.clone());
            let reading = in_lane("fs::ReadDir", &core, &handle, move || Chunk::next_of(&rest));
            self.state = State::Reading(reading);
        }
    }
}

impl fmt::Debug for ReadDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadDir").finish_non_exhaustive()
    }
}

/// An entry of a directory.
pub struct DirEntry {
    entry: Arc<Entry>,
    /// Most file systems return it with the name.
    file_type: Option<FileType>,
}

/// The fields are dropped in this order.
struct Entry {
    std: std::fs::DirEntry,
    _directory: Arc<Directory>,
}

impl DirEntry {
    fn new(std: std::fs::DirEntry, directory: &Arc<Directory>) -> Self {
        Self {
            file_type: std.file_type().ok(),
            entry: Arc::new(Entry {
                std,
                _directory: Arc::clone(directory),
            }),
        }
    }

    /// The path given to [`read_dir`], joined with the entry's name.
    pub fn path(&self) -> PathBuf {
        self.entry.std.path()
    }

    /// The entry's name.
    pub fn file_name(&self) -> OsString {
        self.entry.std.file_name()
    }

    /// Returns the metadata of the entry. Does not follow a symbolic link.
    ///
    /// # Errors
    ///
    /// As [`symlink_metadata`](super::symlink_metadata).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let entry = Arc::clone(&self.entry);
        on_path("fs::DirEntry::metadata", &self.path(), move |_| {
            entry.std.metadata()
        })
        .await
    }

    /// Returns the type of the entry. Does not follow a symbolic link.
    ///
    /// # Errors
    ///
    /// As [`metadata`](DirEntry::metadata).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn file_type(&self) -> io::Result<FileType> {
        match self.file_type {
            Some(file_type) => Ok(file_type),
            None => self.metadata().await.map(|metadata| metadata.file_type()),
        }
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DirEntry").field(&self.path()).finish()
    }
}
