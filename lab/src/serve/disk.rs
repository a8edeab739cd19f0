//! Disk work beside everything else: tasks that write and sync for ever (`--fsync`), opens that
//! hang (`--hang`), and the state of an unrelated file (`GET /stat`).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::args::DiskArgs;
use super::platform::{Platform, micros};
use super::stats::Count;

/// Where the disk work stands.
#[derive(Debug)]
pub(crate) struct Disk {
    /// The file that `GET /stat` is about.
    stat: PathBuf,
    syncs: Count,
    sync_us: Count,
    failed: Count,
    hanging: Count,
}

/// The answer of `GET /stat`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DiskStats {
    /// How long the state of the file took to be had, and how long the file is.
    pub(crate) took_us: u64,
    pub(crate) length: u64,
    /// Writes that were synced, how long their syncs took in all, and writers that failed.
    pub(crate) syncs: u64,
    pub(crate) sync_us: u64,
    pub(crate) failed: u64,
    /// Opens that have not returned.
    pub(crate) hanging: u64,
}

impl Disk {
    pub(crate) fn new(args: &DiskArgs) -> Self {
        let program = || std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/"));
        Disk {
            stat: args.stat.clone().unwrap_or_else(program),
            syncs: Count::default(),
            sync_us: Count::default(),
            failed: Count::default(),
            hanging: Count::default(),
        }
    }

    /// Asks for the file's state.
    pub(crate) async fn stat<P: Platform>(&self) -> std::io::Result<DiskStats> {
        let begun = Instant::now();
        let length = P::stat(self.stat.clone()).await?;
        Ok(self.stats(begun, length))
    }

    /// The same on the calling thread.
    pub(crate) fn stat_here(&self) -> std::io::Result<DiskStats> {
        let begun = Instant::now();
        let length = std::fs::metadata(&self.stat)?.len();
        Ok(self.stats(begun, length))
    }

    fn stats(&self, begun: Instant, length: u64) -> DiskStats {
        DiskStats {
            took_us: micros(begun.elapsed()),
            length,
            syncs: self.syncs.read(),
            sync_us: self.sync_us.read(),
            failed: self.failed.read(),
            hanging: self.hanging.read(),
        }
    }

    pub(crate) fn count_sync(&self, took: Duration) {
        self.sync_us.add(micros(took));
        self.syncs.add(1);
    }

    pub(crate) fn count_failed(&self) {
        self.failed.add(1);
    }

    /// Something hangs, for as long as what is returned is there.
    pub(crate) fn hangs(&self) -> impl Drop + '_ {
        self.hanging.add(1);
        Hangs(self)
    }
}

struct Hangs<'a>(&'a Disk);

impl Drop for Hangs<'_> {
    fn drop(&mut self) {
        self.0.hanging.less(1);
    }
}

/// Lets the writers and the opens loose.
pub(crate) fn spawn<P: Platform>(args: &DiskArgs, disk: &Arc<Disk>) {
    if let Some(path) = &args.fsync {
        for writer in 0..args.fsync_writers {
            let (path, disk) = (numbered(path, writer), Arc::clone(disk));
            let len = args.fsync_bytes;
            P::spawn_in(None, "fsync", async move {
                if let Err(error) = write::<P>(path, len, &disk).await {
                    disk.count_failed();
                    eprintln!("fsync: writer {writer} ends: {error}");
                }
            });
        }
    }
    if let Some(path) = &args.hang {
        for _ in 0..args.hang_opens {
            let (path, disk) = (path.clone(), Arc::clone(disk));
            P::spawn_in(None, "hang", async move {
                let hangs = disk.hangs();
                // Whether it came or was refused: it does not hang any more.
                drop(P::open(path).await);
                drop(hangs);
            });
        }
    }
}

/// The file of one writer.
pub(crate) fn numbered(path: &Path, writer: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{writer}"));
    name.into()
}

/// Writes the same bytes at the same place, and syncs them, for ever.
async fn write<P: Platform>(path: PathBuf, len: usize, disk: &Disk) -> std::io::Result<()> {
    let file = P::create(path).await?;
    let mut bytes = vec![b'x'; len];
    loop {
        bytes = P::write_at(&file, bytes, 0).await?;
        let begun = Instant::now();
        P::sync_all(&file).await?;
        disk.count_sync(begun.elapsed());
    }
}
