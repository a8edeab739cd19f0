//! The source of Tokio that cargo has fetched.

use semver::{Version, VersionReq};
use sha2::{Digest, Sha256};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::config::cargo_home;
use crate::error::{self, Error};
use crate::project;
use crate::rules::Files;

/// The newest release of each minor version that there are rules for, with the checksum of its
/// archive; the newest first.
const SUPPORTED: [(&str, &str); 3] = [
    (
        "1.54.1",
        "b52fd3255258d26fac7264ab5a76b53c13367136dc011d3d6ad4f8ed070396a3",
    ),
    (
        "1.53.3",
        "ce3335fa71841cda333a58d7615b03901380ecf09d59b3296d21f8bbac0dde4e",
    ),
    (
        "1.52.4",
        "317fafbbe3f02fc663dad00ea6186197de963cd4190e86a26d8d0fae095539af",
    ),
];

/// The newest release of each minor version that there are rules for, the newest first.
pub fn supported() -> impl Iterator<Item = Upstream> {
    SUPPORTED.iter().map(|(version, checksum)| Upstream {
        version: version.parse().expect("the constant is a version"),
        checksum: (*checksum).into(),
    })
}

/// The newest release that there are rules for.
pub(crate) fn newest() -> &'static str {
    SUPPORTED[0].0
}

/// The minor versions that there are rules for, as a message names them.
pub fn supported_minors() -> String {
    let minors: Vec<_> = supported()
        .map(|upstream| format!("1.{}", upstream.version.minor))
        .collect();
    minors.join(", ")
}

/// What to do about a release that the rules do not fit: take the one of its minor version that
/// they do.
pub(crate) fn advice_for(version: &Version) -> String {
    let is_near = |upstream: &Upstream| upstream.version.minor == version.minor;
    let nearest = supported()
        .find(is_near)
        .map(|upstream| upstream.version.to_string());
    format!(
        "It was tried with {}. Take one of these releases:\n\
         cargo update -p tokio --precise {}",
        SUPPORTED.map(|(version, _)| version).join(", "),
        nearest.as_deref().unwrap_or(newest()),
    )
}

/// The newest supported release of a version such as `1.52`.
///
/// # Errors
///
/// If it is no version, or none that there are rules for.
pub fn named(version: &str) -> Result<Upstream, String> {
    let wanted = VersionReq::parse(&format!("~{version}")).map_err(|error| error.to_string())?;
    supported()
        .find(|upstream| wanted.matches(&upstream.version))
        .ok_or_else(|| format!("supported are {}", supported_minors()))
}

/// A version of Tokio, as a lock file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// For example `1.54.1`.
    pub version: Version,
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

    /// Has cargo fetch the source, if it has not.
    ///
    /// # Errors
    ///
    /// If cargo cannot, or files cannot be written.
    pub fn fetch(&self, target: &Path) -> Result<(), Error> {
        if self.is_fetched() {
            return Ok(());
        }
        let folder = target.join("evenkeel/fetch");
        fs::create_dir_all(folder.join("src")).map_err(error::file("make", &folder))?;
        let manifest = format!(
            "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
             [workspace]\n\n[dependencies]\ntokio = \"={}\"\n",
            self.version
        );
        for (name, text) in [("Cargo.toml", manifest.as_str()), ("src/lib.rs", "")] {
            let path = folder.join(name);
            fs::write(&path, text).map_err(error::file("write", &path))?;
        }
        // That of another version.
        _ = fs::remove_file(folder.join("Cargo.lock"));
        project::run(
            Command::new("cargo")
                .args(["fetch", "--quiet"])
                .current_dir(&folder),
        )
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minor_version_names_its_newest_release() {
        for upstream in supported() {
            let Version { minor, patch, .. } = upstream.version;
            assert_eq!(named(&format!("1.{minor}")).as_ref(), Ok(&upstream));
            assert_eq!(named(&format!("1.{minor}.{patch}")).as_ref(), Ok(&upstream));
        }
        assert_eq!(named("1").ok(), supported().next());
        for other in ["1.40", "2", "newest"] {
            assert!(named(other).is_err());
        }
        assert!(named("1.40").is_err_and(|said| said.contains("1.52")));
    }
}
