//! The source of Tokio that cargo has fetched.

use sha2::{Digest, Sha256};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{self, Error};
use crate::rules::Files;

/// A version of Tokio, as a lock file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// For example `1.54.1`.
    pub version: semver::Version,
    /// The checksum of its archive, in hexadecimal digits.
    pub checksum: String,
}

impl Upstream {
    /// The archive that cargo has fetched, if it has.
    fn archive(&self) -> Option<PathBuf> {
        let cache = cargo_home()?.join("registry/cache");
        let name = format!("tokio-{}.crate", self.version);
        let folders = fs::read_dir(cache).ok()?;
        (folders.filter_map(|folder| Some(folder.ok()?.path().join(&name))))
            .find(|path| path.is_file())
    }

    /// Whether its source is on this machine.
    pub(crate) fn is_fetched(&self) -> bool {
        self.archive().is_some()
    }

    /// Reads all files of the package, after a look at its checksum.
    ///
    /// # Errors
    ///
    /// If cargo has not fetched it, or it is not what the lock file says.
    pub fn read(&self) -> Result<Files, Error> {
        let no_source = || Error::NoSource {
            version: self.version.to_string(),
        };
        let path = self.archive().ok_or_else(no_source)?;
        let bytes = fs::read(&path).map_err(error::file("read", &path))?;
        let found = hash(&bytes);
        if found != self.checksum {
            return Err(Error::Checksum {
                path,
                found,
                expected: self.checksum.clone(),
            });
        }
        unpack(&bytes).map_err(error::file("unpack", &path))
    }
}

/// The SHA-256 of these, in hexadecimal digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// Where cargo keeps what it fetches.
fn cargo_home() -> Option<PathBuf> {
    match std::env::var_os("CARGO_HOME") {
        Some(home) => Some(home.into()),
        None => Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")),
    }
}

/// The files of an archive, without the folder that all are in. Those that are not text are left
/// out: Tokio has none that are compiled.
fn unpack(bytes: &[u8]) -> std::io::Result<Files> {
    let mut files = Files::new();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let inside: PathBuf = path.components().skip(1).collect();
        let mut text = String::new();
        if entry.read_to_string(&mut text).is_ok() {
            files.insert(inside.to_string_lossy().into_owned(), text);
        }
    }
    Ok(files)
}
