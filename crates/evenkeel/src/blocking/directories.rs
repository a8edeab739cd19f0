//! A cache of the devices that directories are on.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::sched::shared::Shared;
use crate::sync::Mutex;

/// How many directories are remembered; if there are more, all are forgotten.
const REMEMBERED_MAX: usize = 1_024;

/// The devices of directories. A wrong entry, as after a mount, only means that work is done in the
/// lane of another device, until the next open in that directory corrects it.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    devices: Mutex<HashMap<PathBuf, u64>>,
}

impl Directories {
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
                debug_assert!(devices.len() <= REMEMBERED_MAX);
            }
        }
    }
}
