//! Batches to a file: the seam between what is committed and what it is committed to.

use std::future::Future;
use std::io;

use bytes::{Bytes, BytesMut};

use super::Position;
use crate::fs::File;

/// What [`GroupCommit`](super::GroupCommit) writes its batches to.
///
/// One task calls these, one after another: `write`, then `sync`, then `write` of the next batch.
/// After an error of either, neither is called again.
///
/// [`FileLog`] puts the records into one file as they are. Implement it to give records a format
/// of their own, or to go on in another file when one is full.
pub trait CommitLog: Send + 'static {
    /// Writes all of a batch. Its first record has this position; the others follow.
    fn write(
        &mut self,
        first: Position,
        records: &[Bytes],
    ) -> impl Future<Output = io::Result<()>> + Send;

    /// Makes what was written so far survive a crash of the machine.
    fn sync(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

/// A file as a log needs it: [`File`], or one of a test that fails.
pub trait CommitFile: Send + Sync + 'static {
    /// Writes at an offset, and says how many of the bytes it wrote: some, or all.
    fn write_at(&self, bytes: Bytes, offset: u64)
    -> impl Future<Output = io::Result<usize>> + Send;

    /// Makes the contents, and the length if it has grown, survive a crash of the machine.
    fn sync_data(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Makes the file so long: cuts it, or adds zeros.
    fn set_len(&self, len: u64) -> impl Future<Output = io::Result<()>> + Send;
}

impl CommitFile for File {
    async fn write_at(&self, bytes: Bytes, offset: u64) -> io::Result<usize> {
        let (written, _) = File::write_at(self, bytes, offset).await?;
        Ok(written)
    }

    async fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self).await
    }

    async fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len).await
    }
}

/// Writes all of `bytes`, in as many writes as it takes.
///
/// # Errors
///
/// The file's; [`WriteZero`](io::ErrorKind::WriteZero) if it takes no more bytes. Some of the bytes
/// may have been written.
///
/// # Cancel safety
///
/// Not cancel safe: some of the bytes may have been written.
pub async fn write_all_at<F: CommitFile>(
    file: &F,
    mut bytes: Bytes,
    mut offset: u64,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes.clone(), offset).await {
            Ok(0) => {
                let what = format!(
                    "the file took none of {} bytes at {offset}; is the device full?",
                    bytes.len()
                );
                return Err(io::Error::new(io::ErrorKind::WriteZero, what));
            }
            Ok(written) => {
                // More than asked for is a defect of the file; it must not become a panic.
                let written = written.min(bytes.len());
                drop(bytes.split_to(written));
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Records in one file, one after the other, as they are.
///
/// The record at [`Position::offset`] is at that offset of the file.
///
/// A [`File`] works in the lanes of its device. If a lane refuses a write or a sync, as it does
/// when the device is so slow that work waits for too long, that is a failure like any other.
///
/// ```no_run
/// # async fn f() -> std::io::Result<()> {
/// use evenkeel::fs::{File, FileLog, GroupCommit, Position};
///
/// let file = File::create("log").await?;
/// let log = GroupCommit::builder().open(FileLog::new(file).ahead(1 << 20), Position::default());
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct FileLog<F> {
    file: F,
    buffer: BytesMut,
    /// How far the file is made longer at a time.
    ahead: u64,
    /// How long the file is known to be.
    len: u64,
}

impl<F: CommitFile> FileLog<F> {
    /// Writes to `file`.
    pub fn new(file: F) -> Self {
        Self {
            file,
            buffer: BytesMut::new(),
            ahead: 0,
            len: 0,
        }
    }

    /// Makes the file longer by so many bytes at a time, before it is full; 0, the default, lets it
    /// grow with each batch.
    ///
    /// A sync then has to write the file's new length only now and then, which makes most of them
    /// faster. The file ends in zeros, for [`GroupCommit::close`](super::GroupCommit::close) does
    /// not cut them off: whoever reads it has to know a record from zeros.
    #[must_use]
    pub fn ahead(mut self, bytes: u64) -> Self {
        self.ahead = bytes;
        self
    }

    /// Makes room up to `end`, if it is to be made ahead.
    async fn extend(&mut self, end: u64) -> io::Result<()> {
        if self.ahead == 0 || end <= self.len {
            return Ok(());
        }
        let len = end.saturating_add(self.ahead);
        self.file.set_len(len).await?;
        self.len = len;
        Ok(())
    }
}

impl<F: CommitFile> CommitLog for FileLog<F> {
    async fn write(&mut self, first: Position, records: &[Bytes]) -> io::Result<()> {
        let bytes = match records {
            [record] => record.clone(),
            // One buffer and one write: copying is cheaper than the system's work for a vector of
            // many small pieces, and a crash tears one write at fewer places than many.
            _ => {
                self.buffer.reserve(records.iter().map(Bytes::len).sum());
                records
                    .iter()
                    .for_each(|record| self.buffer.extend_from_slice(record));
                self.buffer.split().freeze()
            }
        };
        self.extend(first.offset + bytes.len() as u64).await?;
        write_all_at(&self.file, bytes, first.offset).await
    }

    async fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data().await
    }
}
