//! The traits of a log and its file, and the plain log in one file.

use std::future::Future;
use std::io;

use bytes::{Bytes, BytesMut};

use super::Position;
use crate::fs::File;

/// The destination of the batches of a [`GroupCommit`](super::GroupCommit).
///
/// One task calls these, one after another: `write`, then `sync`, then `write` of the next batch.
/// After an error of either, neither is called again.
///
/// [`FileLog`] writes the records to one file as they are. Implement the trait to give records a
/// format, or to continue in another file when one is full.
///
/// # Examples
///
/// ```
/// use evenkeel::fs::{CommitLog, File, FileLog, GroupCommit, Position};
///
/// /// Ends each record with a newline.
/// struct Lines(FileLog<File>, u64);
///
/// impl CommitLog for Lines {
///     async fn write(&mut self, _: Position, records: &[bytes::Bytes]) -> std::io::Result<()> {
///         let lines = records.iter().flat_map(|record| [&record[..], b"\n"]).flatten();
///         let lines: bytes::Bytes = lines.copied().collect();
///         let (index, offset) = (0, self.1);
///         self.1 += lines.len() as u64;
///         self.0.write(Position { index, offset }, &[lines]).await
///     }
///
///     async fn sync(&mut self) -> std::io::Result<()> {
///         self.0.sync().await
///     }
/// }
///
/// # let path = std::env::temp_dir().join(format!("evenkeel-doc-lines-{}", std::process::id()));
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let log = Lines(FileLog::new(File::create(&path).await?), 0);
/// let log = GroupCommit::builder().open(log, Position::default());
/// log.append("first").await?;
/// log.append("second").await?;
/// assert_eq!(std::fs::read(&path)?, b"first\nsecond\n");
/// # std::fs::remove_file(&path)
/// # }).unwrap();
/// ```
pub trait CommitLog: Send + 'static {
    /// Writes a whole batch. Its first record has the position `first`; the others follow.
    fn write(
        &mut self,
        first: Position,
        records: &[Bytes],
    ) -> impl Future<Output = io::Result<()>> + Send;

    /// Makes all that was written so far survive a crash of the machine.
    fn sync(&mut self) -> impl Future<Output = io::Result<()>> + Send;
}

/// A record of a [`ReceiptLog`].
pub trait CommitRecord: Send + Sync + 'static {
    /// How many bytes it takes in the queue and in a batch.
    fn bytes(&self) -> usize;
}

impl CommitRecord for Bytes {
    fn bytes(&self) -> usize {
        self.len()
    }
}

/// A [`CommitLog`] for records of a type of its own, which says for each of them what its append
/// returns.
///
/// Implement it for a log in which an append is more than some bytes: it may stand for several
/// records, or be refused by what came before it. Only the log knows the order of the appends, as
/// an append that is cancelled in the queue is not written. So the log decides in
/// [`write`](Self::write), where the order is final and all earlier batches are durable. What it
/// has decided is told to nobody before the batch is durable. If the batch fails, all its appends
/// fail, also those that the log would have refused.
///
/// Every [`CommitLog`] is one, for which the [`Position`] is the receipt.
///
/// # Examples
///
/// ```
/// use evenkeel::fs::{CommitRecord, GroupCommit, Position, ReceiptLog};
///
/// /// An amount to be added to a balance, which must not fall below zero.
/// struct Change(i64);
///
/// impl CommitRecord for Change {
///     fn bytes(&self) -> usize {
///         8
///     }
/// }
///
/// /// (It would write the balance to a file.)
/// struct Account(i64, Vec<Result<i64, &'static str>>);
///
/// impl ReceiptLog for Account {
///     type Record = Change;
///     type Receipt = Result<i64, &'static str>;
///
///     async fn write(&mut self, _: Position, changes: &[Change]) -> std::io::Result<()> {
///         for Change(change) in changes {
///             let after = self.0 + change;
///             self.1.push(if after < 0 { Err("too little") } else { Ok(after) });
///             self.0 = if after < 0 { self.0 } else { after };
///         }
///         self.1.reverse();
///         Ok(())
///     }
///
///     async fn sync(&mut self) -> std::io::Result<()> {
///         Ok(())
///     }
///
///     fn receipt(&mut self, _: Position) -> Self::Receipt {
///         self.1.pop().expect("one for each change")
///     }
/// }
///
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let account = GroupCommit::builder().open(Account(0, Vec::new()), Position::default());
/// assert_eq!(account.append(Change(5)).await?, Ok(5));
/// assert_eq!(account.append(Change(-7)).await?, Err("too little"));
/// # Ok::<_, evenkeel::fs::CommitError>(())
/// # }).unwrap();
/// ```
pub trait ReceiptLog: Send + 'static {
    /// What is appended.
    type Record: CommitRecord;

    /// What an append returns when its batch is durable.
    type Receipt: Send + 'static;

    /// As [`CommitLog::write`]. It may leave out records, and write none at all.
    fn write(
        &mut self,
        first: Position,
        records: &[Self::Record],
    ) -> impl Future<Output = io::Result<()>> + Send;

    /// As [`CommitLog::sync`].
    fn sync(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    /// What the append of the next record returns. Called for each record of a batch in their
    /// order, after the batch was synced. The position counts all appends, whether they were
    /// written or not.
    fn receipt(&mut self, position: Position) -> Self::Receipt;
}

impl<L: CommitLog> ReceiptLog for L {
    type Record = Bytes;
    type Receipt = Position;

    async fn write(&mut self, first: Position, records: &[Bytes]) -> io::Result<()> {
        CommitLog::write(self, first, records).await
    }

    async fn sync(&mut self) -> io::Result<()> {
        CommitLog::sync(self).await
    }

    fn receipt(&mut self, position: Position) -> Position {
        position
    }
}

/// The operations that a log needs of a file: those of a [`File`], or of a test that injects
/// faults.
pub trait CommitFile: Send + Sync + 'static {
    /// Writes at an offset, and returns how many of the bytes were written: some, or all.
    fn write_at(&self, bytes: Bytes, offset: u64)
    -> impl Future<Output = io::Result<usize>> + Send;

    /// Makes the contents, and the length if it has grown, survive a crash of the machine.
    fn sync_data(&self) -> impl Future<Output = io::Result<()>> + Send;

    /// Sets the length of the file: truncates it, or adds zeros.
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
/// Those of the file, and [`WriteZero`](io::ErrorKind::WriteZero) if it takes no more bytes. Some
/// of the bytes may have been written.
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
                // A count that is too large is a defect of the file; it must not cause a panic.
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

/// A log of records in one file, one after the other, as they are.
///
/// The record at [`Position::offset`] is at that offset of the file.
///
/// A [`File`] works in the lanes of its device. If a lane refuses a write or a sync, for example
/// because the device is too slow, that is a failure like any other.
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
    /// By how many bytes the file is extended at a time.
    ahead: u64,
    /// The length to which the file was extended.
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

    /// Extends the file by `bytes` at a time, before it is full; with 0, the default, it grows with
    /// each batch.
    ///
    /// A sync then has to write a new length of the file only now and then, which makes most syncs
    /// faster. The file ends in zeros, which [`GroupCommit::close`](super::GroupCommit::close) does
    /// not remove: its reader has to tell a record from zeros.
    #[must_use]
    pub fn ahead(mut self, bytes: u64) -> Self {
        self.ahead = bytes;
        self
    }

    /// Extends the file up to `end` and beyond, if `ahead` is set.
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
            // One buffer and one write: copying is cheaper than a vectored write of many small
            // pieces, and a crash tears one write at fewer places than many.
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
