//! What is in a directory.

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
use crate::sync::Arc;

use super::lookup::{device_of, in_lane, on_path, runtime};

/// How many entries are read at a time.
const CHUNK: usize = 64;

/// Opens a directory to be read.
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
/// # #[evenkeel::main]
/// # async fn main() -> std::io::Result<()> {
/// let mut entries = evenkeel::fs::read_dir("src").await?;
/// let mut found = false;
/// while let Some(entry) = entries.next_entry().await? {
///     found |= entry.file_name() == "lib.rs";
/// }
/// assert!(found);
/// # Ok(())
/// # }
/// ```
pub async fn read_dir(path: impl AsRef<Path>) -> io::Result<ReadDir> {
    let path = path.as_ref();
    let handle = runtime()?;
    // The directory itself may be where another device is mounted.
    let device = device_of(&handle, &path.join("entry")).await?;
    let target = path.to_owned();
    let opened = in_lane("fs::read_dir", &device.names, &handle, move || {
        Ok::<_, io::Error>(Chunk::next_of(std::fs::read_dir(&target)?))
    });
    let state = State::Read(opened.await??);
    Ok(ReadDir {
        state,
        core: Arc::clone(&device.names),
        handle,
    })
}

/// The entries of a directory, in no order.
#[must_use = "entries are read by `next_entry`"]
pub struct ReadDir {
    state: State,
    core: Arc<Core>,
    handle: Handle,
}

enum State {
    Read(Chunk),
    Reading(InLane<Chunk>),
}

struct Chunk {
    entries: VecDeque<io::Result<DirEntry>>,
    /// `None` at the end.
    rest: Option<std::fs::ReadDir>,
}

impl Chunk {
    fn next_of(mut rest: std::fs::ReadDir) -> Self {
        let mut entries = VecDeque::new();
        let mut ended = false;
        while entries.len() < CHUNK && !ended {
            match rest.next() {
                None => ended = true,
                Some(entry) => {
                    ended = entry.is_err();
                    entries.push_back(entry.map(DirEntry::new));
                }
            }
        }
        Self {
            entries,
            rest: Some(rest).filter(|_| !ended),
        }
    }
}

impl ReadDir {
    /// The next entry, or `None` after the last.
    ///
    /// # Errors
    ///
    /// If the system gives an error, after which there are no more entries, or the lane does.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: no entry is lost.
    pub async fn next_entry(&mut self) -> io::Result<Option<DirEntry>> {
        std::future::poll_fn(|cx| self.poll_next_entry(cx)).await
    }

    /// As [`next_entry`](ReadDir::next_entry), for those who poll.
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
            let reading = in_lane("fs::ReadDir", &self.core, &self.handle, || {
                Chunk::next_of(rest)
            });
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
    std: Arc<std::fs::DirEntry>,
    /// Most file systems say it with the name.
    kind: Option<FileType>,
}

impl DirEntry {
    fn new(std: std::fs::DirEntry) -> Self {
        Self {
            kind: std.file_type().ok(),
            std: Arc::new(std),
        }
    }

    /// The directory's path, as it was given, with the entry's name.
    pub fn path(&self) -> PathBuf {
        self.std.path()
    }

    /// The entry's name.
    pub fn file_name(&self) -> OsString {
        self.std.file_name()
    }

    /// What the system knows of the entry, be it a symbolic link.
    ///
    /// # Errors
    ///
    /// As [`symlink_metadata`](super::symlink_metadata).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let std = Arc::clone(&self.std);
        on_path("fs::DirEntry::metadata", &self.path(), move |_| {
            std.metadata()
        })
        .await
    }

    /// What the entry is.
    ///
    /// # Errors
    ///
    /// As [`metadata`](DirEntry::metadata).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn file_type(&self) -> io::Result<FileType> {
        match self.kind {
            Some(kind) => Ok(kind),
            None => self.metadata().await.map(|metadata| metadata.file_type()),
        }
    }
}

impl fmt::Debug for DirEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DirEntry").field(&self.path()).finish()
    }
}
