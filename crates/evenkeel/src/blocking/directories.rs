//! Which device directories are on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::sched::shared::Shared;
use crate::sync::Mutex;

/// How many directories are remembered; when there are more, all are forgotten.
const REMEMBERED_MAX: usize = 1_024;

/// Which device directories were found on. What is wrong here, as after a mount, costs nothing but
/// that work is done in another device's lane, until the next open there sets it right.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    devices: Mutex<HashMap<PathBuf, u64>>,
}

impl Directories {
    /// Those of a runtime.
    pub(crate) fn of(shared: &Shared) -> &Self {
        shared.extensions.get()
    }

    pub(crate) fn get(&self, directory: &Path) -> Option<u64> {
        self.devices.lock().get(directory).copied()
    }

    pub(crate) fn put(&self, directory: &Path, device: u64) {
        let mut devices = self.devices.lock();
        match devices.get_mut(directory) {
            Some(known) => *known = device,
            None => {
                if devices.len() >= REMEMBERED_MAX {
                    devices.clear();
                }
                devices.insert(directory.to_owned(), device);
            }
        }
    }
}
