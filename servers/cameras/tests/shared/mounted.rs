//! File systems of tests, which need root: real ones, that can be full or stand still.
#![allow(dead_code, reason = "each test program uses a part")]

use std::path::Path;
use std::process::Command;

fn run(program: &str, arguments: &[&str]) {
    let ran = Command::new(program).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{program} {arguments:?}: {ran:?}");
}

/// A file system, until this is dropped.
pub(crate) struct Mounted {
    directory: tempfile::TempDir,
    is_frozen: bool,
    /// The device that takes so many bytes a second alone, and its number.
    slow: Option<(String, String)>,
}

/// Where the first version of control groups limits a device for everybody.
const THROTTLE: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";

impl Mounted {
    pub(crate) fn tmpfs(size: &str) -> Self {
        let mounted = Self {
            directory: tempfile::tempdir().unwrap(),
            is_frozen: false,
            slow: None,
        };
        let size = format!("size={size}");
        run(
            "mount",
            &["-t", "tmpfs", "-o", &size, "tmpfs", mounted.at()],
        );
        mounted
    }

    pub(crate) fn ext4(image: &Path, megabytes: u64) -> Self {
        let file = std::fs::File::create(image).unwrap();
        file.set_len(megabytes << 20).unwrap();
        let mounted = Self {
            directory: tempfile::tempdir().unwrap(),
            is_frozen: false,
            slow: None,
        };
        let image = image.to_str().unwrap();
        run("mkfs.ext4", &["-q", "-F", image]);
        run("mount", &["-o", "loop", image, mounted.at()]);
        mounted
    }

    /// One that takes so many bytes a second, and each write when it has taken it: otherwise memory
    /// would take what the disk does not, for longer than a test lasts.
    pub(crate) fn slow(image: &Path, megabytes: u64, bytes_per_s: u64) -> Self {
        let file = std::fs::File::create(image).unwrap();
        file.set_len(megabytes << 20).unwrap();
        let found = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(image)
            .output()
            .unwrap();
        assert!(found.status.success(), "{found:?}");
        let device = String::from_utf8(found.stdout).unwrap().trim().to_owned();
        let name = device.trim_start_matches("/dev/");
        let number = std::fs::read_to_string(format!("/sys/block/{name}/dev")).unwrap();
        let number = number.trim().to_owned();
        let mounted = Self {
            directory: tempfile::tempdir().unwrap(),
            is_frozen: false,
            slow: Some((device.clone(), number.clone())),
        };
        // Without a journal, whose writes would be in the limit too.
        run("mkfs.ext2", &["-q", &device]);
        run("mount", &["-o", "sync", &device, mounted.at()]);
        std::fs::write(THROTTLE, format!("{number} {bytes_per_s}")).unwrap();
        mounted
    }

    pub(crate) fn at(&self) -> &str {
        self.directory.path().to_str().unwrap()
    }

    pub(crate) fn freeze(&mut self) {
        run("fsfreeze", &["-f", self.at()]);
        self.is_frozen = true;
    }

    pub(crate) fn thaw(&mut self) {
        if std::mem::take(&mut self.is_frozen) {
            run("fsfreeze", &["-u", self.at()]);
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.thaw();
        if let Some((_, number)) = &self.slow {
            std::fs::write(THROTTLE, format!("{number} 0")).unwrap();
        }
        run("umount", &["-l", self.at()]);
        if let Some((device, _)) = &self.slow {
            run("losetup", &["-d", device]);
        }
    }
}
