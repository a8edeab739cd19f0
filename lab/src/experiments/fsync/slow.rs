//! A disk that is slow on purpose: a file as a device, which the kernel lets write only so often.
//! It takes a privileged user and the first version of control groups, in which a limit on one
//! device holds for everybody.

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::process::{TemporaryDirectory, Undoing, run};

/// Writes per second that the device takes.
pub(super) const WRITES_PER_S: u32 = 100;
/// Bytes of the device.
const LEN: u64 = 256 * 1024 * 1024;
const LIMIT: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_iops_device";

/// The disk; fields go in order: what is mounted first, the directory last.
pub(super) struct SlowDisk {
    _mounted: Undoing,
    _limited: Undoing,
    _device: Undoing,
    directory: TemporaryDirectory,
}

impl SlowDisk {
    /// # Errors
    /// When the machine does not allow it.
    pub(super) fn open() -> Result<SlowDisk> {
        std::fs::metadata(LIMIT).map_err(Error::write(LIMIT.as_ref()))?;
        let directory = TemporaryDirectory::new("slow")?;
        let (image, mounted) = (directory.path().join("image"), mount_point(&directory));
        let made = std::fs::File::create(&image).and_then(|file| file.set_len(LEN));
        made.map_err(Error::write(&image))?;
        std::fs::create_dir(&mounted).map_err(Error::write(&mounted))?;
        let (image, mounted) = (image.to_string_lossy(), mounted.to_string_lossy());
        let device = run(&["losetup", "--find"])?;
        let device = device.trim();
        let attached = Undoing::after(&["losetup", device, &image], &["losetup", "-d", device])?;
        run(&["mkfs.ext4", "-q", device])?;
        let limited = limit(device)?;
        let mounting = Undoing::after(&["mount", device, &mounted], &["umount", "-l", &mounted])?;
        Ok(SlowDisk {
            _mounted: mounting,
            _limited: limited,
            _device: attached,
            directory,
        })
    }

    pub(super) fn path(&self) -> PathBuf {
        mount_point(&self.directory)
    }
}

fn mount_point(directory: &TemporaryDirectory) -> PathBuf {
    directory.path().join("mounted")
}

/// Slows that device down, and no other.
fn limit(device: &str) -> Result<Undoing> {
    let name = device.trim_start_matches("/dev/");
    let path = PathBuf::from(format!("/sys/block/{name}/dev"));
    let number = std::fs::read_to_string(&path).map_err(Error::write(&path))?;
    let number = number.trim();
    let set = |rate: u32| format!("echo '{number} {rate}' > {LIMIT}");
    Undoing::after(&["sh", "-c", &set(WRITES_PER_S)], &["sh", "-c", &set(0)])
}
