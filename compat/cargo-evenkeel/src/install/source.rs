//! The source of a package that is to be installed, in a folder of ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use toml_edit::{DocumentMut, Item, Table};

use super::refused;
use super::request::Request;
use crate::config::{Config, cargo_home};
use crate::error::{self, Error};
use crate::lockfile::LockFile;
use crate::project::{self, describe};
use crate::scratch;
use crate::toolchain;
use crate::upstream::hash;

/// A package that lies in a folder.
pub(super) struct Package {
    pub(super) folder: PathBuf,
    /// What holds it, if that is ours to remove.
    pub(super) work: Option<Work>,
}

/// A folder of ours for one package.
pub(super) struct Work {
    pub(super) folder: PathBuf,
    /// The folder, locked while this is open, so that nobody else empties it.
    _held: fs::File,
}

/// Where ours lies: the copies for installed programs, and what is being installed.
pub(super) fn home() -> Result<PathBuf, Error> {
    cargo_home().ok_or_else(|| refused("there is no home folder; set CARGO_HOME"))
}

/// A folder for a package, with nothing in it but what an earlier attempt has built.
fn work_folder(name: &str) -> Result<Work, Error> {
    let name: String = name
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '-' })
        .collect();
    let work = home()?
        .join("evenkeel/install")
        .join(name.trim_matches('-'));
    fs::create_dir_all(&work).map_err(error::file("make", &work))?;
    let held = fs::File::open(&work).map_err(error::file("open", &work))?;
    if let Err(fs::TryLockError::WouldBlock) = held.try_lock() {
        return Err(refused(
            "another `cargo evenkeel install` of this package is under way",
        ));
    }
    for part in ["source", "fetch"].map(|part| work.join(part)) {
        if part.exists() {
            fs::remove_dir_all(&part).map_err(error::file("remove", &part))?;
        }
    }
    Ok(Work {
        folder: work,
        _held: held,
    })
}

/// Has cargo fetch the package as somebody's dependency, and takes the source that it unpacked and
/// compared with the registry's checksum.
pub(super) fn from_registry(request: &Request, name: &str) -> Result<Package, Error> {
    let work = work_folder(name)?;
    let fetch = work.folder.join("fetch");
    let mut needs = toml_edit::InlineTable::new();
    needs.insert("package", name.into());
    needs.insert("version", request.requirement().into());
    if let Some(registry) = &request.registry {
        needs.insert("registry", registry.into());
    }
    scratch::write(&fetch, &format!("it = {needs}\n"))?;
    let mut options = request.options_for(&fetch).common;
    options.extend(toolchain::platform_options(&request.options.platforms));
    describe(&options)?;
    let folder = work.folder.join("source");
    copy_folder(
        &source_of(request, name, &fetch.join("Cargo.lock"))?,
        &folder,
    )?;
    stand_alone(&folder.join("Cargo.toml"))?;
    let work = Some(work);
    Ok(Package { folder, work })
}

/// Where cargo has unpacked the package that the scratch package is locked to. Cargo's description
/// leaves it out if it has no library.
fn source_of(request: &Request, name: &str, lock: &Path) -> Result<PathBuf, Error> {
    let missing = || refused(&format!("cargo has not fetched the source of {name}"));
    let lock = LockFile::read(lock)?;
    let version = lock
        .dependency_of(scratch::NAME, name)
        .ok_or_else(missing)?;
    let here = std::env::current_dir().map_err(error::file("find", Path::new(".")))?;
    if let Some(vendor) = Config::read(&here, &request.options.config)?.vendored() {
        let folder = Path::new(&vendor).join(name);
        return Some(folder)
            .filter(|folder| folder.is_dir())
            .ok_or_else(missing);
    }
    let called = format!("{name}-{}", version.version);
    let registry = home()?.join("registry");
    let cache = registry.join("cache");
    let registries = fs::read_dir(&cache).map_err(error::file("read", &cache))?;
    for index in registries.flatten().map(|entry| entry.file_name()) {
        let archive = cache.join(&index).join(format!("{called}.crate"));
        let hash = fs::read(archive).map(|bytes| hash(&bytes)).ok();
        let folder = registry.join("src").join(&index).join(&called);
        if hash.is_some() && hash == version.checksum && folder.is_dir() {
            return Ok(folder);
        }
    }
    Err(missing())
}

/// Makes it a workspace of its own, wherever cargo's home is, and without configuration.
fn stand_alone(manifest: &Path) -> Result<(), Error> {
    let text = fs::read_to_string(manifest).map_err(error::file("read", manifest))?;
    let mut document: DocumentMut =
        text.parse()
            .map_err(|error: toml_edit::TomlError| Error::Toml {
                path: manifest.into(),
                reason: error.to_string(),
            })?;
    if document.get("workspace").is_none() {
        document.insert("workspace", Item::Table(Table::new()));
    }
    fs::write(manifest, document.to_string()).map_err(error::file("write", manifest))
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(error::file("make", to))?;
    for entry in fs::read_dir(from)
        .map_err(error::file("read", from))?
        .flatten()
    {
        let (path, name) = (entry.path(), entry.file_name());
        if path.is_dir() && name != ".cargo" {
            copy_folder(&path, &to.join(name))?;
        } else if path.is_file() {
            fs::copy(&path, to.join(name)).map_err(error::file("copy", &path))?;
        }
    }
    Ok(())
}

/// Clones the repository, and finds the package in it as cargo's install does.
pub(super) fn from_git(request: &Request, url: &str, name: Option<&str>) -> Result<Package, Error> {
    let work = work_folder(name.unwrap_or(url))?;
    let source = work.folder.join("source");
    let mut clone = Command::new("git");
    clone.args(["clone", "--quiet", "--recurse-submodules"]);
    if let Some((kind, value)) = request
        .reference
        .as_ref()
        .filter(|(kind, _)| kind != "--rev")
    {
        // A tag is checked out as a branch is.
        _ = kind;
        clone.args(["--branch", value]);
    }
    project::run(clone.arg("--").arg(url).arg(&source))?;
    if let Some((_, value)) = request
        .reference
        .as_ref()
        .filter(|(kind, _)| kind == "--rev")
    {
        project::run(
            Command::new("git")
                .arg("-C")
                .arg(&source)
                .args(["checkout", "--quiet", value]),
        )?;
    }
    let mut options = request.options_for(&source).common;
    options.push("--no-deps".into());
    let metadata = describe(&options)?;
    let is_it = |package: &&cargo_metadata::Package| match name {
        Some(name) => package.name.as_str() == name,
        None => package.targets.iter().any(cargo_metadata::Target::is_bin),
    };
    let found: Vec<_> = metadata.packages.iter().filter(is_it).collect();
    let [package] = found[..] else {
        let names: Vec<_> = found.iter().map(|package| package.name.as_str()).collect();
        return Err(refused(&format!(
            "that repository has {} packages that could be meant ({}); name one behind its URL",
            names.len(),
            names.join(", ")
        )));
    };
    let folder = package.manifest_path.parent().map_or(source, Into::into);
    Ok(Package {
        folder,
        work: Some(work),
    })
}
