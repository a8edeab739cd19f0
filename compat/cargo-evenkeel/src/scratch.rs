//! Packages of nobody's, by which cargo is asked to fetch others.

use std::fs;
use std::path::Path;

use crate::error::{self, Error};
use crate::project::{cargo, run};
use crate::upstream::Upstream;

/// The name of such a package.
pub(crate) const NAME: &str = "evenkeel-scratch";

/// Has cargo fetch this Tokio, unless it has.
///
/// # Errors
///
/// If cargo cannot.
pub(crate) fn fetch_tokio(upstream: &Upstream) -> Result<(), Error> {
    if upstream.is_fetched() {
        return Ok(());
    }
    // Outside of the project, whose configuration may have the copy in Tokio's place.
    let folder = tempfile::tempdir().map_err(error::file("make a folder in", Path::new("/tmp")))?;
    let needs = format!("tokio = \"={}\"\n", upstream.version);
    write(folder.path(), &needs)?;
    run(cargo()
        .args(["fetch", "--quiet"])
        .current_dir(folder.path()))
}

/// Writes a package that has these dependencies.
pub(crate) fn write(folder: &Path, dependencies: &str) -> Result<(), Error> {
    let manifest = format!(
        "[package]\nname = \"{NAME}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [workspace]\n\n[dependencies]\n{dependencies}"
    );
    let source = folder.join("src");
    fs::create_dir_all(&source).map_err(error::file("make", &source))?;
    for (path, text) in [
        (folder.join("Cargo.toml"), manifest.as_str()),
        (source.join("lib.rs"), ""),
    ] {
        fs::write(&path, text).map_err(error::file("write", &path))?;
    }
    Ok(())
}
