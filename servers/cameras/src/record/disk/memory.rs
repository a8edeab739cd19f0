//! A disk of tests, in memory: it can hang, be full, refuse, and be looked into.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use tokio::sync::watch;

use super::{Disk, DiskFile};

type Content = Arc<Mutex<Vec<u8>>>;

/// The disk.
#[derive(Clone)]
pub(crate) struct MemoryDisk {
    shared: Arc<Shared>,
}

struct Shared {
    files: Mutex<BTreeMap<PathBuf, Content>>,
    /// Bytes that all files may have.
    capacity: Mutex<usize>,
    /// Whether it does nothing.
    hangs: watch::Sender<bool>,
    /// Whether it does all but write.
    hangs_writes: watch::Sender<bool>,
    /// What writes fail with.
    refuses: Mutex<Option<io::ErrorKind>>,
    /// What changes of names fail with.
    refuses_names: Mutex<Option<io::ErrorKind>>,
    /// What the cutting off of files fails with.
    refuses_cuts: Mutex<Option<io::ErrorKind>>,
    /// What can neither be listed, opened nor removed, with all below it.
    sealed: Mutex<Option<PathBuf>>,
}

impl MemoryDisk {
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                files: Mutex::default(),
                capacity: Mutex::new(usize::MAX),
                hangs: watch::channel(false).0,
                hangs_writes: watch::channel(false).0,
                refuses: Mutex::default(),
                refuses_names: Mutex::default(),
                refuses_cuts: Mutex::default(),
                sealed: Mutex::default(),
            }),
        }
    }

    pub(crate) fn set_capacity(&self, bytes: usize) {
        *self.shared.capacity.lock().unwrap() = bytes;
    }

    pub(crate) fn set_hangs(&self, hangs: bool) {
        self.shared.hangs.send_replace(hangs);
    }

    pub(crate) fn set_hangs_writes(&self, hangs: bool) {
        self.shared.hangs_writes.send_replace(hangs);
    }

    pub(crate) fn set_refuses(&self, refuses: Option<io::ErrorKind>) {
        *self.shared.refuses.lock().unwrap() = refuses;
    }

    pub(crate) fn set_refuses_names(&self, refuses: Option<io::ErrorKind>) {
        *self.shared.refuses_names.lock().unwrap() = refuses;
    }

    pub(crate) fn set_refuses_cuts(&self, refuses: Option<io::ErrorKind>) {
        *self.shared.refuses_cuts.lock().unwrap() = refuses;
    }

    /// What is there cannot be listed, opened nor removed.
    pub(crate) fn set_sealed(&self, path: Option<&Path>) {
        *self.shared.sealed.lock().unwrap() = path.map(Path::to_owned);
    }

    fn unseal(&self, path: &Path) -> io::Result<()> {
        let sealed = self.shared.sealed.lock().unwrap();
        match sealed.as_ref().is_some_and(|it| path.starts_with(it)) {
            true => Err(io::ErrorKind::PermissionDenied.into()),
            false => Ok(()),
        }
    }

    /// The names of all files, with their bytes.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let files = self.shared.files.lock().unwrap();
        let content = |content: &Content| content.lock().unwrap().clone();
        files
            .iter()
            .map(|(path, it)| (path.clone(), content(it)))
            .collect()
    }

    /// A disk with these files.
    pub(crate) fn with(files: &BTreeMap<PathBuf, Vec<u8>>) -> Self {
        let disk = Self::new();
        for (path, bytes) in files {
            disk.put(path, bytes.clone());
        }
        disk
    }

    pub(crate) fn put(&self, path: &Path, bytes: Vec<u8>) {
        let mut files = self.shared.files.lock().unwrap();
        files.insert(path.to_owned(), Arc::new(Mutex::new(bytes)));
    }

    async fn moves(&self) {
        let mut hangs = self.shared.hangs.subscribe();
        hangs.wait_for(|hangs| !hangs).await.unwrap();
    }

    fn used(&self) -> usize {
        let files = self.shared.files.lock().unwrap();
        files
            .values()
            .map(|content| content.lock().unwrap().len())
            .sum()
    }
}

impl Disk for MemoryDisk {
    type File = MemoryFile;

    async fn make_directory(&self, _: &Path) -> io::Result<()> {
        self.moves().await;
        Ok(())
    }

    async fn remove_directory(&self, _: &Path) -> io::Result<()> {
        self.moves().await;
        Ok(())
    }

    async fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        self.moves().await;
        self.unseal(path)?;
        let files = self.shared.files.lock().unwrap();
        let below = files.keys().filter_map(|file| file.strip_prefix(path).ok());
        let first = |rest: &Path| Some(rest.components().next()?.as_os_str().to_str()?.to_owned());
        let mut names: Vec<String> = below.filter_map(first).collect();
        names.dedup();
        Ok(names)
    }

    async fn create(&self, path: &Path) -> io::Result<MemoryFile> {
        self.moves().await;
        let mut files = self.shared.files.lock().unwrap();
        if files.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let content = Content::default();
        files.insert(path.to_owned(), Arc::clone(&content));
        Ok(MemoryFile {
            disk: self.clone(),
            content,
        })
    }

    async fn open(&self, path: &Path) -> io::Result<MemoryFile> {
        self.moves().await;
        self.unseal(path)?;
        let files = self.shared.files.lock().unwrap();
        let content = files.get(path).ok_or(io::ErrorKind::NotFound)?;
        Ok(MemoryFile {
            disk: self.clone(),
            content: Arc::clone(content),
        })
    }

    async fn remove(&self, path: &Path) -> io::Result<()> {
        self.moves().await;
        self.unseal(path)?;
        let removed = self.shared.files.lock().unwrap().remove(path);
        removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.moves().await;
        if let Some(kind) = *self.shared.refuses_names.lock().unwrap() {
            return Err(kind.into());
        }
        let mut files = self.shared.files.lock().unwrap();
        let content = files.remove(from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to.to_owned(), content);
        Ok(())
    }

    async fn sync(&self) -> io::Result<()> {
        self.moves().await;
        Ok(())
    }

    async fn free(&self) -> io::Result<Option<u64>> {
        self.moves().await;
        let capacity = *self.shared.capacity.lock().unwrap();
        Ok(Some(capacity.saturating_sub(self.used()) as u64))
    }
}

/// A file of it.
pub(crate) struct MemoryFile {
    disk: MemoryDisk,
    content: Content,
}

impl DiskFile for MemoryFile {
    async fn write(&self, pieces: Vec<Bytes>, offset: u64) -> io::Result<()> {
        self.disk.moves().await;
        let mut hangs = self.disk.shared.hangs_writes.subscribe();
        hangs.wait_for(|hangs| !hangs).await.unwrap();
        if let Some(kind) = *self.disk.shared.refuses.lock().unwrap() {
            return Err(kind.into());
        }
        let bytes = pieces.concat();
        let capacity = *self.disk.shared.capacity.lock().unwrap();
        let room = capacity.saturating_sub(self.disk.used());
        // As a file system does: what fits is written before the error.
        let fits = bytes.len().min(room);
        let mut content = self.content.lock().unwrap();
        let offset = usize::try_from(offset).unwrap();
        let end = offset + fits;
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset..end].copy_from_slice(&bytes[..fits]);
        if fits < bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        Ok(())
    }

    async fn read(&self, len: usize, offset: u64) -> io::Result<Vec<u8>> {
        self.disk.moves().await;
        let content = self.content.lock().unwrap();
        let offset = usize::try_from(offset).unwrap().min(content.len());
        Ok(content[offset..content.len().min(offset + len)].to_vec())
    }

    async fn size(&self) -> io::Result<u64> {
        self.disk.moves().await;
        Ok(self.content.lock().unwrap().len() as u64)
    }

    async fn truncate(&self, len: u64) -> io::Result<()> {
        self.disk.moves().await;
        if let Some(kind) = *self.disk.shared.refuses_cuts.lock().unwrap() {
            return Err(kind.into());
        }
        self.content
            .lock()
            .unwrap()
            .truncate(usize::try_from(len).unwrap());
        Ok(())
    }
}
