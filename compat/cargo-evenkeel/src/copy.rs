//! The packages that take Tokio's place: written once for a version, below the target folder.

use include_dir::{Dir, include_dir};
use sha2::{Digest, Sha256};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{self, Error};
use crate::manifest;
use crate::rules::{self, Files};
use crate::upstream::{self, Upstream, hash};

static EVENKEEL: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../crates/evenkeel");
static MACROS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../../crates/evenkeel-macros");
static ABOVE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../above");
static OVERLAY: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../overlay");

/// The checksums of all files of a copy, as `sha256sum --check` reads them.
const SUMS: &str = "SHA256SUMS";

/// The packages of one version: `tokio`, `tokio-traits`, `evenkeel-beneath`, `evenkeel` and
/// `evenkeel-macros`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    /// The folder that has them.
    pub folder: PathBuf,
    /// Of Tokio.
    pub version: semver::Version,
}

impl Copy {
    /// Writes the packages below `target`, unless they are there as they were written.
    ///
    /// # Errors
    ///
    /// If Tokio's source is not there, is not what the lock file says, or does not fit the rules;
    /// or if files cannot be written.
    pub fn prepare(upstream: &Upstream, target: &Path) -> Result<Self, Error> {
        let copy = Self::place(upstream, target);
        let changed = copy.folder.is_dir().then(|| copy.changed()).flatten();
        if let Some(path) = changed {
            eprintln!(
                "note: {} was changed; the copy is made again",
                path.display()
            );
            copy.remove()?;
        }
        if !copy.folder.is_dir() {
            copy.write(upstream)?;
        }
        Ok(copy)
    }

    /// Where [`prepare`](Self::prepare) writes them.
    pub fn place(upstream: &Upstream, target: &Path) -> Self {
        let name = format!(
            "tokio-{}-{}",
            upstream.version,
            &fingerprint(upstream)[..12]
        );
        let folder = target.join("evenkeel").join(name);
        Self {
            folder,
            version: upstream.version.clone(),
        }
    }

    /// The folder of one of the packages.
    pub fn package(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A file that is not as it was written. What came to them, such as cargo's lock files, does
    /// not count.
    fn changed(&self) -> Option<PathBuf> {
        let sums = self.folder.join(SUMS);
        let Ok(text) = fs::read_to_string(&sums) else {
            return Some(sums);
        };
        let is_as_written = |line: &str| {
            let (sum, name) = line.split_once("  ")?;
            let text = fs::read(self.folder.join(name)).ok()?;
            Some(hash(&text) == sum)
        };
        let is_changed = |line: &&str| is_as_written(line) != Some(true);
        let changed = text.lines().find(is_changed)?;
        let name = changed.split_once("  ").map_or(SUMS, |(_, name)| name);
        Some(self.folder.join(name))
    }

    /// Moves it away first, as a folder that is there is whole.
    fn remove(&self) -> Result<(), Error> {
        let parent = self.folder.parent().unwrap_or(Path::new("."));
        let aside =
            tempfile::tempdir_in(parent).map_err(error::file("make a folder in", parent))?;
        match fs::rename(&self.folder, aside.path().join("copy")) {
            // Another run of this program was faster.
            Err(_) if !self.folder.exists() => Ok(()),
            outcome => outcome.map_err(error::file("rename", &self.folder)),
        }
    }

    /// Writes beside the place first, so that a folder that is there is whole.
    fn write(&self, upstream: &Upstream) -> Result<(), Error> {
        let parent = self.folder.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(error::file("make", parent))?;
        // For whoever may read the project, and not for this user alone.
        let scratch = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o777))
            .tempdir_in(parent)
            .map_err(error::file("make a folder in", parent))?;
        let original = upstream.read()?;
        let packages = [
            ("tokio", tokio(upstream, original.clone())?),
            ("tokio-traits", manifest::traits(original)?),
            (manifest::BENEATH, manifest::beneath(files_of(&EVENKEEL))?),
            (
                "evenkeel",
                manifest::above(files_of(&EVENKEEL), files_of(&ABOVE))?,
            ),
            ("evenkeel-macros", manifest::macros(files_of(&MACROS))?),
        ];
        let mut sums = String::new();
        for (name, files) in &packages {
            write_all(&scratch.path().join(name), files)?;
            for (file, text) in files {
                sums += &format!("{}  {name}/{file}\n", hash(text.as_bytes()));
            }
        }
        let path = scratch.path().join(SUMS);
        fs::write(&path, sums).map_err(error::file("write", &path))?;
        let made = scratch.keep();
        match fs::rename(&made, &self.folder) {
            // Another run of this program was faster.
            Err(_) if self.folder.is_dir() => {
                fs::remove_dir_all(&made).map_err(error::file("remove", &made))
            }
            outcome => outcome.map_err(error::file("rename", &made)),
        }
    }
}

/// Tokio's files, with the rules applied and the overlay in place.
fn tokio(upstream: &Upstream, mut files: Files) -> Result<Files, Error> {
    let misfit = |source| Error::Rule {
        version: upstream.version.to_string(),
        source,
        advice: upstream::advice_for(&upstream.version),
    };
    // First, as rules add to them what differs between versions.
    for (name, text) in files_of(&OVERLAY) {
        if name.ends_with(".rs") {
            files.insert(format!("src/evenkeel/{name}"), text);
        }
    }
    let text = (OVERLAY.get_file("rules.toml")).and_then(|file| file.contents_utf8());
    for rule in rules::parse(text.unwrap_or_default()).map_err(misfit)? {
        if rule.is_for(&upstream.version) {
            rule.apply(&mut files).map_err(misfit)?;
        }
    }
    manifest::tokio(files)
}

fn files_of(folder: &Dir<'_>) -> Files {
    let mut files = Files::new();
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        folders.extend(folder.dirs());
        for file in folder.files() {
            if let Some(text) = file.contents_utf8() {
                files.insert(file.path().to_string_lossy().into_owned(), text.to_owned());
            }
        }
    }
    files
}

fn write_all(folder: &Path, files: &Files) -> Result<(), Error> {
    for (name, text) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(error::file("make", parent))?;
        fs::write(&path, text).map_err(error::file("write", &path))?;
    }
    Ok(())
}

/// What the packages depend on: Tokio's archive, and all that this program brings.
fn fingerprint(upstream: &Upstream) -> String {
    let mut hash = Sha256::new();
    hash.update(&upstream.checksum);
    for source in [include_str!("manifest.rs"), include_str!("rules.rs")] {
        hash.update(source);
    }
    for folder in [&EVENKEEL, &MACROS, &ABOVE, &OVERLAY] {
        for (name, text) in files_of(folder) {
            hash.update(name);
            hash.update(text);
        }
    }
    hash.finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
