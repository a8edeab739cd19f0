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
}

impl Mounted {
    pub(crate) fn tmpfs(size: &str) -> Self {
        let mounted = Self {
            directory: tempfile::tempdir().unwrap(),
            is_frozen: false,
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
        };
        let image = image.to_str().unwrap();
        run("mkfs.ext4", &["-q", "-F", image]);
        run("mount", &["-o", "loop", image, mounted.at()]);
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
        run("umount", &["-l", self.at()]);
    }
}
