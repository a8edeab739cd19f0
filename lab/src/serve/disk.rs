//! Disk work beside everything else: tasks that write and sync for ever (`--fsync`), opens that
//! hang (`--hang`), and the state of an unrelated file (`GET /stat`).

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::args::DiskArgs;
use super::platform::{Platform, micros};
use super::stats::Count;

/// Where the disk work stands.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    /// The file that `GET /stat` is about.
    stat: PathBuf,
    syncs: Count,
    sync_us: Count,
    failed: Count,
    pub(super) hanging: Count,
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

impl DiskArgs {
    /// The writers' numbers, and the file of each.
    pub(super) fn writers(&self) -> impl Iterator<Item = (usize, PathBuf)> {
        let paths = self.fsync.iter().flat_map(std::iter::repeat);
        let numbered =
            |path: &PathBuf, writer: usize| path.with_added_extension(writer.to_string());
        let paths = paths.take(self.fsync_writers).enumerate();
        paths.map(move |(writer, path)| (writer, numbered(path, writer)))
    }

    /// The file of each open that hangs.
    pub(super) fn hangs(&self) -> impl Iterator<Item = PathBuf> {
        let paths = self.hang.iter().flat_map(std::iter::repeat);
        paths.take(self.hang_opens).cloned()
    }
}

impl Disk {
    pub(crate) fn new(args: &DiskArgs) -> Self {
        let program = || std::env::current_exe().unwrap_or_else(|_| PathBuf::from("/"));
        Disk {
            stat: args.stat.clone().unwrap_or_else(program),
            ..Disk::default()
        }
    }

    /// Asks for the file's state.
    pub(crate) async fn stat<P: Platform>(&self) -> io::Result<DiskStats> {
        let begun = Instant::now();
        let length = P::stat(self.stat.clone()).await?;
        Ok(self.stats(begun, length))
    }

    /// The same on the calling thread.
    pub(crate) fn stat_here(&self) -> io::Result<DiskStats> {
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

    pub(super) fn synced(&self, took: Duration) {
        self.sync_us.add(micros(took));
        self.syncs.add(1);
    }

    /// Says how a writer ended, which none does that does not fail.
    pub(super) fn ended(&self, writer: usize, end: io::Result<()>) {
        if let Err(error) = end {
            self.failed.add(1);
            eprintln!("fsync: writer {writer} ends: {error}");
        }
    }
}

/// Lets the writers and the opens loose.
pub(crate) fn spawn<P: Platform>(args: &DiskArgs, disk: &'static Disk) {
    for (writer, path) in args.writers() {
        let len = args.fsync_bytes;
        P::spawn_in(None, "fsync", async move {
            disk.ended(writer, write::<P>(path, len, disk).await);
        });
    }
    for path in args.hangs() {
        P::spawn_in(None, "hang", async move {
            disk.hanging.add(1);
            // Whether it came or was refused: it does not hang any more.
            drop(P::open(path).await);
            disk.hanging.less(1);
        });
    }
}

/// Writes the same bytes at the same place, and syncs them, for ever.
async fn write<P: Platform>(path: PathBuf, len: usize, disk: &Disk) -> io::Result<()> {
    let file = P::create(path).await?;
    let mut bytes = vec![b'x'; len];
    loop {
        bytes = P::write_at(&file, bytes, 0).await?;
        let begun = Instant::now();
        P::sync_all(&file).await?;
        disk.synced(begun.elapsed());
    }
}
