//! What cargo is told to take from the copy: Tokio, and Evenkeel where the project has its own.
//!
//! A package may depend on `evenkeel` as well as on Tokio. Two Evenkeels would be two runtimes that
//! know nothing of each other, so the one beneath Tokio takes the place of the other, wherever that
//! comes from: a patch is said for its source.

use cargo_metadata::{Metadata, PackageId};
use std::collections::BTreeSet;
use std::path::Path;

use crate::config;
use crate::copy::Copy;
use crate::error::Error;
use crate::graph;
use crate::lock;
use crate::lockfile::LockFile;
use crate::manifest;
use crate::project::{self, Project};

/// The version of Evenkeel that this program brings.
pub(crate) const OURS: &str = env!("CARGO_PKG_VERSION");

/// How the name of a path begins.
const PATH: &str = "file:";

/// The copy, and the places whose `evenkeel` it replaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patches {
    /// What is taken.
    pub copy: Copy,
    /// As `[patch]` names them.
    sources: BTreeSet<String>,
}

impl Patches {
    /// For a project that is locked, but not by us.
    ///
    /// # Errors
    ///
    /// If the lock file cannot be read, or an Evenkeel not be replaced.
    pub fn of(project: &Project, copy: Copy) -> Result<Self, Error> {
        let lock = LockFile::read(&project.lock())?;
        let own = lock
            .evenkeels()
            .filter(|own| own.version.to_string() == OURS);
        let (known, by_path): (Vec<_>, Vec<_>) = own.partition(|own| own.source.is_some());
        let sources = known.iter().filter_map(|own| own.source.as_deref());
        let mut patches = Self::new(copy, sources.map(key).collect());
        if !by_path.is_empty() {
            patches.find(project)?;
        }
        Ok(patches)
    }

    /// Adds the places of all Evenkeels of the project as it is, if cargo can resolve it.
    ///
    /// # Errors
    ///
    /// If one cannot be replaced.
    pub(crate) fn find(&mut self, project: &Project) -> Result<(), Error> {
        let locked = LockFile::read(&project.lock())?;
        let Ok(metadata) = lock::keep(project, |project| project.try_describe(&[]))? else {
            return Ok(());
        };
        self.add_from(&metadata);
        graph::check_replaced(&metadata, self)?;
        // The lock file has those as well that are for another platform or an optional feature.
        if locked.has_evenkeel_by_path() && !self.sources.iter().any(|key| key.starts_with(PATH)) {
            let all = lock::keep(project, Project::describe_all)?;
            _ = all.map(|all| self.add_from(&all));
        }
        Ok(())
    }

    /// For these sources, as [`sources`](Self::sources) gave them.
    pub(crate) fn new(copy: Copy, sources: BTreeSet<String>) -> Self {
        Self { copy, sources }
    }

    /// The places whose `evenkeel` is replaced.
    pub(crate) fn sources(&self) -> &BTreeSet<String> {
        &self.sources
    }

    /// What tells cargo.
    pub fn options(&self) -> Vec<String> {
        let mut options = project::patch_options(&self.copy).to_vec();
        let path = self.copy.package("evenkeel");
        let path = toml_edit::Value::from(path.to_string_lossy().as_ref());
        for source in &self.sources {
            let source = toml_edit::Value::from(source);
            let (source, path) = (source.to_string(), path.to_string());
            let patch = format!("patch.{}.evenkeel.path={}", source.trim(), path.trim());
            options.extend(["--config".into(), patch]);
        }
        options
    }

    /// Adds the places of all Evenkeels in this graph that ours can replace. Returns whether there
    /// are more than before.
    pub(crate) fn add_from(&mut self, metadata: &Metadata) -> bool {
        let before = self.sources.len();
        let others = self.others(metadata).filter(|other| {
            // A member of the workspace is built whatever is patched.
            other.version.to_string() == OURS && !metadata.workspace_members.contains(&other.id)
        });
        let found: Vec<_> = others.map(|other| key_of(&other.id)).collect();
        self.sources.extend(found);
        self.sources.len() > before
    }

    /// Whether this Evenkeel's code is not the one that takes its place.
    pub(crate) fn differs(&self, other: &cargo_metadata::Package) -> bool {
        let theirs = other.manifest_path.with_file_name("src");
        let ours = self.copy.package(manifest::BENEATH).join("src");
        let mut folders = vec![ours.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let name = path.strip_prefix(&ours).unwrap_or(&path);
                let read = |path: &Path| std::fs::read(path).ok();
                let (ours, theirs) = (read(&path), read(&theirs.as_std_path().join(name)));
                if ours != theirs {
                    return true;
                }
            }
        }
        false
    }

    /// Whether its source is among those whose `evenkeel` is replaced.
    pub(crate) fn is_known(&self, package: &cargo_metadata::Package) -> bool {
        self.sources.contains(&key_of(&package.id))
    }

    /// The Evenkeels in this graph that are not ours.
    pub(crate) fn others<'a>(
        &self,
        metadata: &'a Metadata,
    ) -> impl Iterator<Item = &'a cargo_metadata::Package> + use<'a> {
        let ours = self.copy.package("evenkeel");
        (metadata.packages.iter()).filter(move |package| {
            package.name.as_str() == "evenkeel" && !package.manifest_path.starts_with(&ours)
        })
    }
}

/// The name in `[patch]` of a package's source.
fn key_of(id: &PackageId) -> String {
    let source = id.repr.split('#').next().unwrap_or_default();
    key(source)
}

/// The name in `[patch]` of such a source: its URL. A path has one, too.
fn key(source: &str) -> String {
    if config::is_usual(source) {
        return config::USUAL.into();
    }
    let end = source.find(['?', '#']).unwrap_or(source.len());
    let url = &source[..end];
    let kinds = ["path+", "git+", "registry+"];
    let url = kinds
        .iter()
        .find_map(|kind| url.strip_prefix(kind))
        .unwrap_or(url);
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As lock files have the usual registry, but for the end.
    const USUAL: &str = "registry+https://github.com/rust-lang/crates-index";

    #[test]
    fn every_source_has_its_name_in_a_patch() {
        for (source, name) in [
            (USUAL, "crates-io"),
            ("registry+https://x.org/index", "https://x.org/index"),
            ("sparse+https://x.org/", "sparse+https://x.org/"),
            (
                "git+https://x.org/e.git?rev=c0ffee#c0ffee",
                "https://x.org/e.git",
            ),
            (
                "path+file:///a%20b/evenkeel#0.1.0",
                "file:///a%20b/evenkeel",
            ),
        ] {
            assert_eq!(key(source), name);
        }
        let repr = format!("{USUAL}#evenkeel@0.1.0");
        assert_eq!(key_of(&PackageId { repr }), "crates-io");
    }

    #[test]
    fn each_source_is_told_to_cargo() {
        let copy = Copy {
            folder: "/it's".into(),
            version: semver::Version::new(1, 54, 1),
        };
        let sources = ["crates-io", "file:///it's"].map(str::to_owned);
        let patches = Patches::new(copy, sources.into());
        let options = patches.options();
        let tables: Vec<toml::Table> = (options.iter().filter(|word| *word != "--config"))
            .map(|word| toml::from_str(word).expect("cargo can read it"))
            .collect();
        let path = |table: &toml::Table, source: &str, name: &str| {
            table["patch"][source][name]["path"]
                .as_str()
                .map(str::to_owned)
        };
        let ours = |name| Some(format!("/it's/{name}"));
        assert_eq!(path(&tables[0], "crates-io", "tokio"), ours("tokio"));
        assert_eq!(path(&tables[1], "crates-io", "evenkeel"), ours("evenkeel"));
        assert_eq!(
            path(&tables[2], "file:///it's", "evenkeel"),
            ours("evenkeel")
        );
    }
}
