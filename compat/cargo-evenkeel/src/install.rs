//! `cargo evenkeel install`: cargo's install, with the copy in Tokio's place.
//!
//! Cargo resolves a published package in memory, follows its lock file to whatever Tokio that has,
//! and reports no graph. So the package's source is laid in a folder of ours below cargo's home,
//! resolved and checked there as a project is, and installed by path. Cargo therefore lists it
//! with that path, and no updater puts Tokio back beneath it.

mod request;
mod source;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use crate::command::{hear_signals, wait};
use crate::copy::Copy;
use crate::error::{self, Error};
use crate::lock::{OwnLock, Turn};
use crate::patches::Patches;
use crate::permanent::Permanent;
use crate::project::{Project, cargo};
use request::Request;
use source::{Package, home};

/// Installs what these words ask for.
///
/// # Errors
///
/// If there is no such package, or it cannot be built on Evenkeel.
pub fn run(words: &[String]) -> Result<ExitCode, Error> {
    if words.iter().any(|word| word == "--list") {
        return wait(cargo().arg("install").args(words));
    }
    let request = Request::parse(words)?;
    let package = match (&request.path, &request.git, &request.name) {
        (Some(path), None, None) => Package {
            folder: path.clone(),
            work: None,
        },
        (None, Some(url), name) => source::from_git(&request, url, name.as_deref())?,
        (None, None, Some(name)) => source::from_registry(&request, name)?,
        _ => {
            return Err(refused(
                "say one of: the name of a package, --path, or --git",
            ));
        }
    };
    let code = match &package.work {
        Some(work) => install_ours(&request, &package.folder, &work.folder)?,
        None => install_project(&request, &package.folder)?,
    };
    if let Some(work) = package.work.filter(|_| code == ExitCode::SUCCESS) {
        fs::remove_dir_all(&work.folder).map_err(error::file("remove", &work.folder))?;
    }
    Ok(code)
}

/// A project of the user's. It is built as it is locked, without `--locked` as well.
fn install_project(request: &Request, folder: &Path) -> Result<ExitCode, Error> {
    let project = Project::find(request.options_for(folder))?;
    let turn = Turn::take(&project)?;
    project.check_config()?;
    if let Some(made) = Permanent::read(&project.root)? {
        if let Some(defect) = made.defect(&project)? {
            return Err(Error::NotCurrent { defect });
        }
        let patches = made.patches();
        project.check_permanent(&patches)?;
        return wait(&mut request.install(folder, &patches));
    }
    project.check_writable()?;
    project.check_locked()?;
    let copy = Copy::prepare(&project.tokio()?, &project.target)?;
    _ = hear_signals()?;
    let mut patches = Patches::of(&project, copy)?;
    let _lock = OwnLock::put(turn, &project, &patches.copy)?;
    project.check(&mut patches)?;
    wait(&mut request.install(folder, &patches))
}

/// A package in a folder of ours, so that its lock file may be changed.
fn install_ours(request: &Request, folder: &Path, work: &Path) -> Result<ExitCode, Error> {
    let project = Project::find(request.options_for(folder))?;
    let lock = project.lock();
    if !request.options.locked && lock.exists() {
        fs::remove_file(&lock).map_err(error::file("remove", &lock))?;
    }
    let upstream = match project.tokio() {
        Err(Error::Unsupported { found, .. }) => {
            project.take_newest(&found)?;
            project.tokio()?
        }
        other => other?,
    };
    let copy = Copy::prepare(&upstream, &home()?)?;
    let mut patches = Patches::of(&project, copy)?;
    project.check(&mut patches)?;
    let mut command = request.install(folder, &patches);
    if request.options.target.is_none() && std::env::var_os("CARGO_TARGET_DIR").is_none() {
        command.arg("--target-dir").arg(work.join("target"));
    }
    let code = wait(&mut command)?;
    if code != ExitCode::SUCCESS {
        eprintln!(
            "note: what was built so far is in {}, for the next attempt",
            work.display()
        );
    }
    Ok(code)
}

fn refused(reason: &str) -> Error {
    Error::Install {
        reason: reason.into(),
    }
}
