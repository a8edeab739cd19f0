//! What `cargo evenkeel init` has to know of the project to take everything out again.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

use crate::error::Error;
use crate::lock::write_whole;
use crate::lockfile::{LockFile, Locked};
use crate::upstream::hash;

const RECEIPT: &str = "receipt.toml";
const LOCK_BEFORE: &str = "Cargo.lock.before";

/// Lies beside the copy.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Receipt {
    /// There was no file for the block.
    pub(crate) config_made: bool,
    /// There was no folder for that file.
    pub(crate) folder_made: bool,
    /// Whether the lock file before ours is known, which it is no more if people change ours.
    lock_known: bool,
    /// The hash of our lock file, once it is made.
    pub(crate) lock_after: String,
    /// Tokio, as it was locked.
    pub(crate) original: Locked,
    /// The project's own Evenkeel and its macros, as they were locked.
    #[serde(default)]
    evenkeels: Vec<Locked>,
}

/// The lock file before ours.
pub(crate) enum Before {
    /// This one.
    Kept(Vec<u8>),
    /// There was none.
    None,
    /// Ours has been changed since.
    Unknown,
}

impl Receipt {
    /// Of a project that has nothing of ours.
    pub(crate) fn new(config: &Path, original: Locked, lock_known: bool) -> Self {
        Self {
            config_made: !config.exists(),
            folder_made: config.parent().is_some_and(|folder| !folder.exists()),
            lock_known,
            lock_after: String::new(),
            original,
            evenkeels: Vec::new(),
        }
    }

    /// Takes note of the project's own Evenkeel, which this lock file of the user's has.
    pub(crate) fn note_evenkeels(&mut self, users: &LockFile) {
        self.evenkeels = users.evenkeels().cloned().collect();
    }

    /// All that was locked, and is replaced.
    pub(crate) fn originals(&self) -> Vec<Locked> {
        [std::slice::from_ref(&self.original), &self.evenkeels[..]].concat()
    }

    /// Of one that is made again: the lock file is the user's, or is this one of ours.
    pub(crate) fn again(mut self, users: Option<&[u8]>, ours: &[u8], original: Locked) -> Self {
        if users.is_some() {
            self.lock_known = true;
            self.lock_after.clear();
        } else if !self.lock_after.is_empty() && self.lock_after != hash(ours) {
            self.lock_known = false;
        }
        self.original = original;
        self
    }

    pub(crate) fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(RECEIPT)).ok()?;
        toml::from_str(&text).ok()
    }

    /// Writes it, and the user's lock file.
    pub(crate) fn write(&self, folder: &Path, users: Option<&[u8]>) -> Result<(), Error> {
        if let Some(users) = users {
            write_whole(&folder.join(LOCK_BEFORE), users)?;
        }
        let text = toml::to_string(self).map_err(|error| Error::Metadata(error.to_string()))?;
        write_whole(&folder.join(RECEIPT), text.as_bytes())
    }

    pub(crate) fn before(&self, folder: &Path) -> Before {
        match (self.lock_known, fs::read(folder.join(LOCK_BEFORE))) {
            (false, _) => Before::Unknown,
            (true, Ok(text)) => Before::Kept(text),
            (true, Err(_)) => Before::None,
        }
    }
}
