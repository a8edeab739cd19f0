//! A file, whose work is done by the blocking pool.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::spawn_blocking;

/// An open file.
#[derive(Clone, Debug)]
pub struct File(Arc<std::fs::File>);

impl File {
    /// Opens a file to read it.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn open(path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref().to_owned();
        run(move || std::fs::File::open(path)).await.map(Self::of)
    }

    /// Opens a file to read and write it.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn from_std(file: std::fs::File) -> io::Result<File> {
        Ok(Self::of(file))
    }

    /// Makes a file, or empties it.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn create(path: impl AsRef<Path>) -> io::Result<File> {
        let path = path.as_ref().to_owned();
        run(move || std::fs::File::create(path)).await.map(Self::of)
    }

    /// Reads into the buffer.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn read_at(&self, mut buffer: Vec<u8>, offset: u64) -> io::Result<Vec<u8>> {
        let file = Arc::clone(&self.0);
        run(move || {
            let count = file.read_at(&mut buffer, offset)?;
            buffer.truncate(count);
            Ok(buffer)
        })
        .await
    }

    /// Writes some of the bytes.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn write_at<B>(&self, bytes: B, offset: u64) -> io::Result<(usize, B)>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        let file = Arc::clone(&self.0);
        run(move || {
            let count = file.write_at(bytes.as_ref(), offset)?;
            Ok((count, bytes))
        })
        .await
    }

    /// Syncs contents.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn sync_data(&self) -> io::Result<()> {
        let file = Arc::clone(&self.0);
        run(move || file.sync_data()).await
    }

    /// Syncs all.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn sync_all(&self) -> io::Result<()> {
        let file = Arc::clone(&self.0);
        run(move || file.sync_all()).await
    }

    /// Sets the length.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn set_len(&self, length: u64) -> io::Result<()> {
        let file = Arc::clone(&self.0);
        run(move || file.set_len(length)).await
    }

    /// What is known of the file.
    ///
    /// # Errors
    ///
    /// The system's.
    pub async fn metadata(&self) -> io::Result<Metadata> {
        let file = Arc::clone(&self.0);
        run(move || file.metadata()).await
    }

    fn of(file: std::fs::File) -> Self {
        Self(Arc::new(file))
    }
}

async fn run<T: Send + 'static>(
    function: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    match spawn_blocking(function).await {
        Ok(result) => result,
        Err(error) => Err(io::Error::other(error)),
    }
}
