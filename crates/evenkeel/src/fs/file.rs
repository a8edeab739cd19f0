//! An open file.

use std::fmt;
use std::fs::{Metadata, Permissions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use crate::blocking::buffers::Buffers;
use crate::blocking::core::Core;
use crate::blocking::lane::InLane;
use crate::blocking::lanes::Device;
use crate::blocking::misses::Outcome;
use crate::blocking::turns::Turns;
use crate::class::Class;
use crate::runtime::handle::Handle;
use crate::sync::{Arc, Mutex};

use super::lookup::{in_lane, is_special, is_written_to_cache, runtime, tidy_up};
use super::open::{OpenOptions, lanes_for};
use super::stream::Pipe;

/// An open file, whose work is done in the lanes of its device.
///
/// There are two ways to read and write. *At an offset*, by `read_at`, `write_all_at` and their
/// kin: they hand a buffer over and give it back, copy nothing, may run at the same time, and have
/// reported what they report only when it was done. And *in sequence*, through Tokio's traits
/// `AsyncRead`, `AsyncWrite` and `AsyncSeek`, with the promises of `tokio::fs::File`: a write is
/// reported when its bytes were taken over, is done in the order of the calls whatever is dropped
/// meanwhile, and an error of it is reported by the next write, flush, sync or shutdown. Both ways
/// may be used on one file, but offsets know nothing of the cursor.
///
/// Long writes in sequence (256 KiB and more) of tasks of one class to the cached files of one
/// device take turns: as many files as the runtime has workers, but at least two, write up to
/// 16 MiB each before it is the next one's turn. A write waits for a turn for 250 milliseconds at
/// most, and then goes on without. Special files take no turns, nor what is opened with `O_DIRECT`,
/// `O_SYNC` or `O_DSYNC`.
///
/// Any task of any runtime may use a file; the work is done in the runtime that opened it.
///
/// # Examples
///
/// ```
/// use evenkeel::fs::File;
///
/// # #[evenkeel::main]
/// # async fn main() -> std::io::Result<()> {
/// # let path = std::env::temp_dir().join(format!("evenkeel-doc-file-{}", std::process::id()));
/// let file = File::create_new(&path).await?;
/// file.write_all_at("hello", 0).await?;
/// file.sync_data().await?;
/// assert_eq!(file.read_exact_at(vec![0; 3], 2).await?, b"llo");
/// # evenkeel::fs::remove_file(&path).await
/// # }
/// ```
pub struct File {
    pub(super) inner: Arc<Inner>,
    pub(super) pipe: Arc<Mutex<Pipe>>,
}

/// What work that is under way keeps.
pub(super) struct Inner {
    /// There until it is dropped.
    file: Option<std::fs::File>,
    device: Arc<Device>,
    number: u64,
    special: bool,
    /// Whether long writes in sequence take turns with others'.
    in_turns: bool,
    handle: Handle,
}

impl Inner {
    pub(super) fn file(&self) -> &std::fs::File {
        match &self.file {
            Some(file) => file,
            None => unreachable!("a file is taken out when it is dropped"),
        }
    }

    /// Whether reads and writes wait for a peer rather than for the device.
    pub(super) fn is_special(&self) -> bool {
        self.special
    }

    /// Where it is read and written.
    pub(super) fn data_lane(&self) -> &Arc<Core> {
        if self.special {
            &self.device.special
        } else {
            &self.device.data
        }
    }

    /// Where it is looked at.
    fn names_lane(&self) -> &Arc<Core> {
        &self.device.names
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The line in which a class's long writes in sequence to this file stand, if they take turns.
    pub(super) fn turns(&self, class: Class) -> Option<&Arc<Turns>> {
        self.in_turns.then_some(&self.device.turns[class.index()])
    }

    /// What is read and written in sequence passes through these.
    pub(super) fn buffers(&self) -> &Buffers {
        Buffers::of(self.handle.shared())
    }
}

/// Closing may take long, as the last of a deleted file's descriptors does, so no worker does it.
impl Drop for Inner {
    fn drop(&mut self) {
        let file = self.file.take();
        tidy_up("fs close", self.names_lane(), &self.handle, move || {
            drop(file);
        });
    }
}

impl File {
    /// Opens a file to be read.
    ///
    /// # Errors
    ///
    /// As [`OpenOptions::open`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: a file that nobody waits for is closed.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Opens a file to be written: an empty one, made if there is none.
    ///
    /// # Errors
    ///
    /// As [`OpenOptions::open`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the file may have been made or truncated.
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        options.open(path).await
    }

    /// Makes a file, to be read and written, that must not be there.
    ///
    /// # Errors
    ///
    /// As [`OpenOptions::open`].
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the file may have been made.
    pub async fn create_new(path: impl AsRef<Path>) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        options.open(path).await
    }

    /// How to open a file in other ways.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Takes a file over that is open already.
    ///
    /// # Errors
    ///
    /// Outside a runtime, and if the system does not say which device the file is on.
    pub fn from_std(file: std::fs::File) -> io::Result<File> {
        File::adopt(&runtime()?, file)
    }

    pub(super) fn adopt(handle: &Handle, file: std::fs::File) -> io::Result<File> {
        let (device, metadata) = lanes_for(handle, &file)?;
        Ok(File {
            inner: Arc::new(Inner {
                device,
                number: metadata.dev(),
                special: is_special(&metadata),
                in_turns: is_written_to_cache(&file, &metadata),
                file: Some(file),
                handle: handle.clone(),
            }),
            pipe: Arc::default(),
        })
    }

    pub(super) fn device_number(&self) -> u64 {
        self.inner.number
    }

    /// Where it is synced.
    pub(super) fn sync_lane(&self) -> &Arc<Core> {
        &self.inner.device.syncs
    }

    /// Does work in a lane. What is not begun when the future is dropped is cancelled.
    pub(super) fn run<T, F>(
        &self,
        name: &'static str,
        core: &Arc<Core>,
        work: F,
    ) -> InLane<io::Result<T>>
    where
        F: FnOnce(&std::fs::File) -> io::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let inner = Arc::clone(&self.inner);
        in_lane(name, core, &self.inner.handle, move || work(inner.file()))
    }

    /// Reads at an offset, once: up to as many bytes as the buffer is long. The buffer comes back
    /// cut to what was read, and empty at the end of the file.
    ///
    /// # Errors
    ///
    /// Those of [`FileExt::read_at`], and those of the lane.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; the buffer is lost.
    pub async fn read_at(&self, buffer: Vec<u8>, offset: u64) -> io::Result<Vec<u8>> {
        self.read("fs::File::read_at", buffer, offset, false).await
    }

    /// Reads at an offset until the buffer is full.
    ///
    /// # Errors
    ///
    /// [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the file ends before; else as
    /// [`read_at`](File::read_at).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe; the buffer is lost.
    pub async fn read_exact_at(&self, buffer: Vec<u8>, offset: u64) -> io::Result<Vec<u8>> {
        self.read("fs::File::read_exact_at", buffer, offset, true)
            .await
    }

    async fn read(
        &self,
        name: &'static str,
        buffer: Vec<u8>,
        offset: u64,
        exact: bool,
    ) -> io::Result<Vec<u8>> {
        let inner = Arc::clone(&self.inner);
        let work = move || {
            let misses = &inner.device.misses;
            let keeper = Arc::clone(&inner);
            misses.read(inner.file(), keeper, buffer, offset, exact)
        };
        match in_lane(name, self.inner.data_lane(), &self.inner.handle, work).await?? {
            Outcome::Done(buffer) => Ok(buffer),
            #[cfg(target_os = "linux")]
            Outcome::Asked(reply) => std::future::poll_fn(|cx| reply.poll(cx)).await,
        }
    }

    /// Writes at an offset, once, and says how many bytes were written, which may be fewer than
    /// there are. The bytes come back.
    ///
    /// # Errors
    ///
    /// Those of [`FileExt::write_at`], and those of the lane.
    ///
    /// # Cancel safety
    ///
    /// What was reported is in the file. If the future is dropped, all, some or none of the bytes
    /// are written, by the time that a sync of this file begins or later.
    pub async fn write_at<B>(&self, bytes: B, offset: u64) -> io::Result<(usize, B)>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let written = self.run("fs::File::write_at", self.inner.data_lane(), move |file| {
            let count = retry(|| file.write_at(bytes.as_ref(), offset))?;
            Ok((count, bytes))
        });
        written.await?
    }

    /// Writes all bytes at an offset. They come back.
    ///
    /// # Errors
    ///
    /// As [`write_at`](File::write_at); some of the bytes may have been written then.
    ///
    /// # Cancel safety
    ///
    /// As [`write_at`](File::write_at).
    pub async fn write_all_at<B>(&self, bytes: B, offset: u64) -> io::Result<B>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let written = self.run(
            "fs::File::write_all_at",
            self.inner.data_lane(),
            move |file| {
                file.write_all_at(bytes.as_ref(), offset)?;
                Ok(bytes)
            },
        );
        written.await?
    }

    /// Writes the bytes of several buffers, one after the other, at an offset, in few calls of the
    /// system. They come back.
    ///
    /// # Errors
    ///
    /// As [`write_at`](File::write_at); some of the bytes may have been written then.
    ///
    /// # Cancel safety
    ///
    /// As [`write_at`](File::write_at).
    pub async fn write_all_vectored_at<B>(&self, buffers: Vec<B>, offset: u64) -> io::Result<Vec<B>>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let written = self.run(
            "fs::File::write_all_vectored_at",
            self.inner.data_lane(),
            move |file| {
                write_all_vectored(file, &buffers, offset)?;
                Ok(buffers)
            },
        );
        written.await?
    }

    /// Waits until the bytes of the file, and its length, are on the device; its times may not be.
    /// One sync at a time is under way on each device, in a lane of its own.
    ///
    /// It covers every write that was reported before it was called, in whichever way.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::sync_data`], and those of the lane. After an error of the device
    /// bytes may be lost that were reported written, and a later sync may succeed all the same:
    /// what is not written anew is not to be relied upon.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the sync may be done or not.
    pub async fn sync_data(&self) -> io::Result<()> {
        self.settle().await?;
        let core = self.sync_lane();
        let synced = self.run("fs::File::sync_data", core, |file| file.sync_data());
        synced.await?
    }

    /// Waits until all of the file is on the device; else as [`sync_data`](File::sync_data).
    ///
    /// # Errors
    ///
    /// As [`sync_data`](File::sync_data).
    ///
    /// # Cancel safety
    ///
    /// As [`sync_data`](File::sync_data).
    pub async fn sync_all(&self) -> io::Result<()> {
        self.settle().await?;
        let core = self.sync_lane();
        let synced = self.run("fs::File::sync_all", core, |file| file.sync_all());
        synced.await?
    }

    /// Cuts the file, or fills it up with zeros, to a length.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::set_len`], and those of the lane.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it may be done or not.
    pub async fn set_len(&self, length: u64) -> io::Result<()> {
        self.settle().await?;
        let core = self.inner.data_lane();
        let set = self.run("fs::File::set_len", core, move |file| file.set_len(length));
        set.await?
    }

    /// What the system knows of the file.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::metadata`], and those of the lane.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let core = self.inner.names_lane();
        let found = self.run("fs::File::metadata", core, |file| file.metadata());
        found.await?
    }

    /// Changes who may do what with the file.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::set_permissions`], and those of the lane.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, it may be done or not.
    pub async fn set_permissions(&self, permissions: Permissions) -> io::Result<()> {
        let core = self.inner.names_lane();
        let set = self.run("fs::File::set_permissions", core, move |file| {
            file.set_permissions(permissions)
        });
        set.await?
    }

    /// Another `File` for the same open file: with the same cursor, and what is locked or
    /// appended to by one is by the other.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::try_clone`], and those of the lane.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    pub async fn try_clone(&self) -> io::Result<File> {
        self.settle().await?;
        let core = self.inner.names_lane();
        let handle = self.inner.handle.clone();
        let cloned = self.run("fs::File::try_clone", core, move |file| {
            File::adopt(&handle, file.try_clone()?)
        });
        cloned.await?
    }

    /// The standard library's file, once all that is under way on this one is done.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the file is closed.
    pub async fn into_std(self) -> std::fs::File {
        self.come_to_rest().await;
        let mut inner = Arc::clone(&self.inner);
        drop(self);
        loop {
            match Arc::try_unwrap(inner) {
                Ok(mut alone) => match alone.file.take() {
                    Some(file) => return file,
                    None => unreachable!("a file is taken out when it is dropped"),
                },
                // Work that was cancelled, or whose lane has not yet let go of it.
                Err(shared) => inner = shared,
            }
            crate::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

/// Does it again while a signal interrupts it.
pub(super) fn retry<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn write_all_vectored<B: AsRef<[u8]>>(
    file: &std::fs::File,
    buffers: &[B],
    mut offset: u64,
) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = (buffers.iter())
        .map(|buffer| IoSlice::new(buffer.as_ref()))
        .collect();
    let mut rest = &mut slices[..];
    // Without the empty ones at its head, which would look like a full device.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        // One call takes as many buffers as the system allows, of those that it is given.
        let written = retry(|| Ok(rustix::io::pwritev(file, rest, offset)?))?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        offset += written as u64;
        IoSlice::advance_slices(&mut rest, written);
    }
    Ok(())
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.file().as_fd()
    }
}

impl AsRawFd for File {
    fn as_raw_fd(&self) -> RawFd {
        self.inner.file().as_raw_fd()
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.inner.file(), f)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
