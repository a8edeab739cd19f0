//! Times that are kept whatever the limits say. Each is a file, whose name says all.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::disk::{Disk, DiskFile};
use super::names::PROTECTED;

/// How many a camera may have.
pub const PROTECTIONS_MAX: usize = 1_000;
/// The longest note.
pub const NOTE_BYTES_MAX: usize = 500;

/// A time that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Protection {
    /// From this time on.
    pub from_ms: u64,
    /// Until this one.
    pub until_ms: u64,
    /// Tells it from others of the same time.
    pub id: u32,
}

impl Protection {
    /// `None` of somebody else's file.
    pub fn parse(name: &str) -> Option<Self> {
        let mut parts = name.split('-');
        let protection = Self {
            from_ms: parts.next()?.parse().ok()?,
            until_ms: parts.next()?.parse().ok()?,
            id: parts.next()?.parse().ok()?,
        };
        (parts.next().is_none() && protection.to_string() == name).then_some(protection)
    }

    /// Whether it keeps something that begins and ends then.
    pub fn covers(&self, from_ms: u64, until_ms: u64) -> bool {
        from_ms < self.until_ms && self.from_ms < until_ms
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:013}-{:013}-{}", self.from_ms, self.until_ms, self.id)
    }
}

/// The protected times of a camera, in their order.
///
/// # Errors
///
/// The disk's.
pub async fn list<D: Disk>(disk: &D, camera: &Path) -> io::Result<Vec<Protection>> {
    let names = disk.list(&camera.join(PROTECTED)).await?;
    let mut found: Vec<_> = names
        .iter()
        .filter_map(|name| Protection::parse(name))
        .collect();
    found.sort_unstable();
    Ok(found)
}

/// Keeps a time from now on, with a note for people.
///
/// # Errors
///
/// The disk's. [`QuotaExceeded`](io::ErrorKind::QuotaExceeded): the camera has as many as it may.
pub async fn add<D: Disk>(
    disk: &D,
    camera: &Path,
    from_ms: u64,
    until_ms: u64,
    note: &str,
) -> io::Result<Protection> {
    let before = list(disk, camera).await?;
    if before.len() >= PROTECTIONS_MAX {
        let message =
            format!("the camera has {PROTECTIONS_MAX} protected times, which is the most");
        return Err(io::Error::new(io::ErrorKind::QuotaExceeded, message));
    }
    let directory = camera.join(PROTECTED);
    disk.make_directory(&directory).await?;
    let last = before.iter().map(|protection| protection.id).max();
    let protection = Protection {
        from_ms,
        until_ms,
        id: last.map_or(0, |last| last.wrapping_add(1)),
    };
    let file = disk.create(&path(camera, protection)).await?;
    file.write(vec![Bytes::copy_from_slice(note.as_bytes())], 0)
        .await?;
    disk.sync().await?;
    Ok(protection)
}

/// The note of a protected time.
///
/// # Errors
///
/// The disk's.
pub async fn note<D: Disk>(disk: &D, camera: &Path, it: Protection) -> io::Result<String> {
    let bytes = disk
        .open(&path(camera, it))
        .await?
        .read(NOTE_BYTES_MAX, 0)
        .await?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Keeps a time no longer. Whether it was kept.
///
/// # Errors
///
/// The disk's.
pub async fn remove<D: Disk>(disk: &D, camera: &Path, it: Protection) -> io::Result<bool> {
    match disk.remove(&path(camera, it)).await {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn path(camera: &Path, protection: Protection) -> PathBuf {
    camera.join(PROTECTED).join(protection.to_string())
}
