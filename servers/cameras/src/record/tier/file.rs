//! A file of a volume, on its disk or in its store.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Tier;
use crate::record::disk::{Disk, DiskFile};
use crate::record::volume::Volume;

/// It is read in the same way, wherever it is.
pub enum AnyFile<D: Disk> {
    /// On the disk.
    Here(D::File),
    /// In the store.
    Copy(Arc<Tier>, PathBuf),
}

impl<D: Disk> AnyFile<D> {
    /// Reads up to `len` bytes at a place; fewer at the end.
    ///
    /// # Errors
    ///
    /// The disk's, or the store's.
    pub async fn read(&self, len: usize, offset: u64) -> io::Result<Vec<u8>> {
        match self {
            Self::Here(file) => file.read(len, offset).await,
            Self::Copy(tier, path) => tier.read(path, len, offset).await,
        }
    }
}

impl<D: Disk> Volume<D> {
    /// Opens a file of a segment. `is_copy` is one that the disk did not have when it was listed;
    /// another one may have been deleted since, and is in the store then.
    ///
    /// # Errors
    ///
    /// The disk's.
    pub async fn open(&self, path: &Path, is_copy: bool) -> io::Result<AnyFile<D>> {
        let copy = |tier: &Arc<Tier>| AnyFile::Copy(Arc::clone(tier), path.to_owned());
        if let Some(tier) = self.tier().filter(|_| is_copy) {
            return Ok(copy(tier));
        }
        match (self.disk().open(path).await, self.tier()) {
            (Err(error), Some(tier)) if error.kind() == io::ErrorKind::NotFound => Ok(copy(tier)),
            (opened, _) => opened.map(AnyFile::Here),
        }
    }
}
