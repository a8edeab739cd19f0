//! Copies one segment: its index first, so that a segment that is there can be played. A long one
//! is put in parts; which object is being put together stands in a file, so that another process
//! goes on with it.

use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::store::StoreError;
use super::{PERMIT_BYTES, Tier};
use crate::record::disk::{Disk, DiskFile};
use crate::record::names::{Closed, Name, UPLOAD};

/// How many bytes of an index are copied.
const INDEX_BYTES_MAX: usize = 4 << 20;
/// The longest name of an upload, with its key.
const NOTE_BYTES_MAX: usize = 4 << 10;

/// Why a segment was not copied.
#[derive(Debug, thiserror::Error)]
pub(super) enum CopyError {
    /// The disk's error.
    #[error("cannot read {0}: {1}")]
    Disk(String, io::Error),
    /// The store's.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl CopyError {
    /// Whether the segment was deleted meanwhile.
    pub(super) fn is_gone(&self) -> bool {
        matches!(self, Self::Disk(_, error) if error.kind() == io::ErrorKind::NotFound)
    }
}

/// A segment that is copied.
pub(super) struct Upload<'a, D: Disk> {
    pub(super) tier: &'a Tier,
    pub(super) disk: &'a D,
    pub(super) camera: &'a Path,
    /// The directory of its day.
    pub(super) directory: &'a Path,
    pub(super) segment: Closed,
}

impl<D: Disk> Upload<'_, D> {
    pub(super) async fn run(&self) -> Result<(), CopyError> {
        let index = self
            .directory
            .join(Name::Index(self.segment.start_ms).to_string());
        let file = self.open(&index).await?;
        let size = file.size().await.map_err(|error| wrong(&index, error))?;
        let len = usize::try_from(size).map_or(INDEX_BYTES_MAX, |size| size.min(INDEX_BYTES_MAX));
        let (bytes, permit) = self.read(&file, &index, 0, len).await?;
        self.tier.store.put(&self.tier.key(&index), bytes).await?;
        drop(permit);
        let path = self.directory.join(self.segment.to_string());
        let file = self.open(&path).await?;
        let size = file.size().await.map_err(|error| wrong(&path, error))?;
        let key = self.tier.key(&path);
        if size <= self.part_bytes() as u64 {
            let (bytes, _permit) = self.read(&file, &path, 0, self.part_bytes()).await?;
            self.tier.store.put(&key, bytes).await?;
        } else {
            self.in_parts(&file, &path, &key, size).await?;
        }
        self.tier.counters.copied.one();
        self.tier.counters.copied_bytes.add(size);
        Ok(())
    }

    fn part_bytes(&self) -> usize {
        self.tier.settings.part_bytes
    }

    async fn in_parts(
        &self,
        file: &D::File,
        path: &Path,
        key: &str,
        size: u64,
    ) -> Result<(), CopyError> {
        let (upload, there) = match self.begun(key).await? {
            Some(begun) => begun,
            None => {
                let upload = self.tier.store.begin(key).await?;
                self.note(key, &upload).await?;
                (upload, Vec::new())
            }
        };
        let (mut tags, mut offset) = (Vec::new(), 0);
        while offset < size {
            let number = u16::try_from(tags.len() + 1).unwrap_or(u16::MAX);
            let wanted = (size - offset).min(self.part_bytes() as u64);
            let is_there =
                |part: &&super::store::Part| part.number == number && part.bytes == wanted;
            if let Some(part) = there.iter().find(is_there) {
                tags.push(part.etag.clone());
            } else {
                let (bytes, _permit) = self.read(file, path, offset, self.part_bytes()).await?;
                if bytes.len() as u64 != wanted {
                    let error = io::Error::from(io::ErrorKind::UnexpectedEof);
                    return Err(wrong(path, error));
                }
                let put = self.tier.store.part((key, &upload), number, bytes).await;
                tags.push(self.unless_forgotten(put).await?);
            }
            offset += wanted;
        }
        let completed = self.tier.store.complete((key, &upload), &tags).await;
        self.unless_forgotten(completed).await?;
        if !there.is_empty() {
            self.tier.counters.resumed.one();
        }
        self.forget().await
    }

    /// An upload that the store knows no longer is begun anew the next time.
    async fn unless_forgotten<T>(&self, outcome: Result<T, StoreError>) -> Result<T, CopyError> {
        if outcome.as_ref().is_err_and(StoreError::is_missing) {
            self.forget().await?;
        }
        Ok(outcome?)
    }

    /// What an earlier attempt has begun of this object, with the parts that are there. Of another
    /// object it is given up.
    async fn begun(
        &self,
        key: &str,
    ) -> Result<Option<(String, Vec<super::store::Part>)>, CopyError> {
        let path = self.note_path();
        let file = match self.disk.open(&path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| wrong(&path, error))?,
        };
        let note = file.read(NOTE_BYTES_MAX, 0).await;
        let note = note.map_err(|error| wrong(&path, error))?;
        let note = String::from_utf8_lossy(&note).into_owned();
        // One that is not whole was not yet used.
        let known = note
            .strip_suffix('\n')
            .and_then(|note| note.split_once('\n'));
        let Some((begun, upload)) = known else {
            self.forget().await?;
            return Ok(None);
        };
        if begun != key {
            // What it has is paid for until it is given up; a store may have done so by itself.
            match self.tier.store.abort((begun, upload)).await {
                Err(error) if !error.is_missing() => return Err(error.into()),
                _ => self.forget().await?,
            }
            return Ok(None);
        }
        match self.tier.store.parts((key, upload)).await {
            Ok(parts) => Ok(Some((upload.to_owned(), parts))),
            Err(error) if error.is_missing() => {
                self.forget().await?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Notes what has begun, for another attempt or process.
    async fn note(&self, key: &str, upload: &str) -> Result<(), CopyError> {
        let path = self.note_path();
        let text = Bytes::from(format!("{key}\n{upload}\n"));
        let written = async { self.disk.create(&path).await?.write(vec![text], 0).await };
        written.await.map_err(|error| wrong(&path, error))
    }

    async fn forget(&self) -> Result<(), CopyError> {
        let path = self.note_path();
        match self.disk.remove(&path).await {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(wrong(&path, error)),
            _ => Ok(()),
        }
    }

    fn note_path(&self) -> PathBuf {
        self.camera.join(UPLOAD)
    }

    async fn open(&self, path: &Path) -> Result<D::File, CopyError> {
        let opened = self.disk.open(path).await;
        opened.map_err(|error| wrong(path, error))
    }

    /// Bytes of a file, with the permit to have them in memory.
    async fn read(
        &self,
        file: &D::File,
        path: &Path,
        offset: u64,
        len: usize,
    ) -> Result<(Bytes, Option<OwnedSemaphorePermit>), CopyError> {
        // Of more than there are it would wait for ever.
        let permits = (len.div_ceil(PERMIT_BYTES)).clamp(1, self.tier.permits);
        let permits = u32::try_from(permits).unwrap_or(u32::MAX);
        let in_flight = std::sync::Arc::clone(&self.tier.in_flight);
        // It is never closed.
        let permit = in_flight.acquire_many_owned(permits).await.ok();
        let bytes = file.read(len, offset).await;
        Ok((bytes.map_err(|error| wrong(path, error))?.into(), permit))
    }
}

fn wrong(path: &Path, error: io::Error) -> CopyError {
    CopyError::Disk(path.display().to_string(), error)
}
