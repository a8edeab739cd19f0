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
/// There are two ways to read and write:
///
/// - *At an offset*, by `read_at`, `write_all_at` and their like. They take a buffer and return it,
///   copy nothing, may run at the same time, and complete only when the operation is done.
/// - *In sequence*, through Tokio's traits `AsyncRead`, `AsyncWrite` and `AsyncSeek`, with the
///   guarantees of `tokio::fs::File`: a write completes when its bytes have been taken over. It is
///   done in the order of the calls, whatever is dropped meanwhile. Its error is returned by the
///   next write, flush, sync or shutdown.
///
/// Both ways may be used on one file, but offsets are independent of the cursor.
///
/// Long writes in sequence (256 KiB and more) take turns, among the tasks of one class that write
/// to cached files of one device: as many files as the runtime has workers, but at least two, write
/// up to 16 MiB each before the turn passes on. A write waits for its turn for 250 milliseconds at
/// most, and then goes on without. Special files and files opened with `O_DIRECT`, `O_SYNC` or
/// `O_DSYNC` take no turns.
///
/// Any task of any runtime may use a file; the work is done in the runtime that opened it.
///
/// # Examples
///
/// ```
/// use evenkeel::fs::File;
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// # let path = std::env::temp_dir().join(format!("evenkeel-doc-file-{}", std::process::id()));
/// let file = File::create_new(&path).await?;
/// file.write_all_at("hello", 0).await?;
/// file.sync_data().await?;
/// assert_eq!(file.read_exact_at(vec![0; 3], 2).await?, b"llo");
/// # evenkeel::fs::remove_file(&path).await }).unwrap();
/// ```
pub struct File {
    pub(super) inner: Arc<Inner>,
    pub(super) pipe: Arc<Mutex<Pipe>>,
}

/// The part of a file that work under way keeps alive.
pub(super) struct Inner {
    /// `Some` until this is dropped.
    file: Option<std::fs::File>,
    device: Arc<Device>,
    number: u64,
    special: bool,
    /// Whether long writes in sequence take turns.
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

    pub(super) fn data_lane(&self) -> &Arc<Core> {
        if self.special {
            &self.device.special
        } else {
            &self.device.data
        }
    }

    fn names_lane(&self) -> &Arc<Core> {
        &self.device.names
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// The line for long writes in sequence of a class, if this file takes turns.
    pub(super) fn turns(&self, class: Class) -> Option<&Arc<Turns>> {
        // A task of another runtime may be in a class that this one lacks.
        let turns = &self.device.turns;
        let line = turns.get(class.index()).or(turns.first());
        line.filter(|_| self.in_turns)
    }

    pub(super) fn buffers(&self) -> &Buffers {
        Buffers::of(self.handle.shared())
    }
}

/// Closing may take long, for the last descriptor of a deleted file, so no worker does it.
impl Drop for Inner {
    fn drop(&mut self) {
        let file = self.file.take();
        tidy_up("fs close", self.names_lane(), &self.handle, move || {
            drop(file);
        });
    }
}

impl File {
    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// As [`OpenOptions::open`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the file is closed.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        OpenOptions::new().read(true).open(path).await
    }

    /// Opens a file for writing. It is truncated, or made if there is none.
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

    /// Makes a file for reading and writing. It must not exist yet.
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

    /// Returns options to open a file in other ways.
    pub fn options() -> OpenOptions {
        OpenOptions::new()
    }

    /// Takes over an open file of the standard library.
    ///
    /// # Errors
    ///
    /// There is no current runtime, or the metadata of the file cannot be read.
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

    pub(super) fn sync_lane(&self) -> &Arc<Core> {
        &self.inner.device.syncs
    }

    /// Does work in a lane. It is cancelled if the future is dropped before it has begun.
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

    /// Reads once at an offset: up to as many bytes as the buffer is long. Returns the buffer,
    /// truncated to the bytes read, and empty at the end of the file.
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

    /// Writes once at an offset. Returns how many bytes were written, which may be fewer than
    /// given, and the bytes.
    ///
    /// # Errors
    ///
    /// Those of [`FileExt::write_at`], and those of the lane.
    ///
    /// # Cancel safety
    ///
    /// A completed write is in the file. If the future is dropped, all, some or none of the bytes
    /// are written, perhaps only after the next sync of this file.
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

    /// Writes all bytes at an offset, and returns them.
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

    /// Writes the bytes of several buffers, one after the other, at an offset, with few system
    /// calls. Returns the buffers.
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

    /// Waits until the bytes and the length of the file are on the device; its times may not be.
    ///
    /// It covers every write that had completed before the call, of both ways. Each device has a
    /// lane for syncs, which does one at a time.
    ///
    /// # Errors
    ///
    /// Those of [`std::fs::File::sync_data`], and those of the lane. After an error of the device,
    /// bytes of completed writes may be lost, and a later sync may still succeed: do not rely on
    /// them until they have been written again.
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

    /// As [`sync_data`](File::sync_data), with all metadata of the file.
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

    /// Truncates the file, or extends it with zeros, to a length.
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

    /// Returns the metadata of the file.
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

    /// Changes the permissions of the file.
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

    /// Makes another `File` for the same open file, which shares its cursor, its flags and its
    /// locks.
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

    /// Waits until all work on this file is done, and returns the standard library's file.
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
                // Work that was cancelled, or that its lane has not dropped yet, holds it.
                Err(shared) => inner = shared,
            }
            crate::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

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
    // Skip empty buffers: writing none of their bytes would look like a full device.
    IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        // `pwritev` of rustix passes on no more buffers than the system allows.
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
