//! A disk of an experiment's own: a file as a device, which may be slow on purpose, or stand still.
//! It takes a privileged user.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::process::{TemporaryDirectory, Undoing, run};

/// What it is like.
pub(super) struct Kind {
    /// Bytes of the device.
    pub(super) len: u64,
    /// The program that makes the file system.
    pub(super) make: &'static str,
    /// Options with which it is mounted.
    pub(super) mounted: &'static str,
    /// The first version of control groups is needed, in which a limit on one device holds for
    /// everybody.
    pub(super) limit: Option<Limit>,
}

/// What the kernel lets through to the device.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    WritesPerS(u64),
    BytesPerS(u64),
}

/// A disk. Fields go in order: what is mounted first, the directory last.
pub(super) struct OwnDisk {
    _mounted: Undoing,
    _limited: Option<Undoing>,
    _device: Undoing,
    directory: TemporaryDirectory,
}

impl OwnDisk {
    pub(super) fn open(kind: &Kind) -> Result<Self> {
        if let Some(limit) = kind.limit {
            let file = Path::new(limit.file());
            std::fs::metadata(file).map_err(Error::write(file))?;
        }
        let directory = TemporaryDirectory::new("disk")?;
        let (image, mounted) = (directory.path().join("image"), mount_point(&directory));
        let made = std::fs::File::create(&image).and_then(|file| file.set_len(kind.len));
        made.map_err(Error::write(&image))?;
        std::fs::create_dir(&mounted).map_err(Error::write(&mounted))?;
        let (image, mounted) = (image.to_string_lossy(), mounted.to_string_lossy());
        let device = run(&["losetup", "--find"])?;
        let device = device.trim();
        let attached = Undoing::after(&["losetup", device, &image], &["losetup", "-d", device])?;
        run(&[kind.make, "-q", device])?;
        let limited = kind.limit.map(|limit| limit.set(device)).transpose()?;
        let mount = ["mount", "-o", kind.mounted, device, &mounted];
        let mounting = Undoing::after(&mount, &["umount", "-l", &mounted])?;
        Ok(Self {
            _mounted: mounting,
            _limited: limited,
            _device: attached,
            directory,
        })
    }

    pub(super) fn path(&self) -> PathBuf {
        mount_point(&self.directory)
    }

    /// It stands still until the result is dropped: whoever writes to it waits.
    pub(super) fn freeze(&self) -> Result<Undoing> {
        let path = self.path();
        let path = path.to_string_lossy();
        Undoing::after(&["fsfreeze", "-f", &path], &["fsfreeze", "-u", &path])
    }
}

fn mount_point(directory: &TemporaryDirectory) -> PathBuf {
    directory.path().join("mounted")
}

impl Limit {
    fn file(self) -> &'static str {
        match self {
            Self::WritesPerS(_) => "/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device",
            Self::BytesPerS(_) => "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device",
        }
    }

    /// Slows that device down, and no other.
    fn set(self, device: &str) -> Result<Undoing> {
        let name = device.trim_start_matches("/dev/");
        let path = PathBuf::from(format!("/sys/block/{name}/dev"));
        let number = std::fs::read_to_string(&path).map_err(Error::write(&path))?;
        let (number, file) = (number.trim(), self.file());
        let (Self::WritesPerS(rate) | Self::BytesPerS(rate)) = self;
        let set = |rate: u64| format!("echo '{number} {rate}' > {file}");
        Undoing::after(&["sh", "-c", &set(rate)], &["sh", "-c", &set(0)])
    }
}
