//! Tokio projects on Evenkeel: `compat/`, a workspace of its own, as its graph is another one.

use std::path::PathBuf;

use anyhow::{Context, Result};
use walkdir::WalkDir;

use crate::cargo::{Cargo, root};

/// Where the tests of `compat/` build projects, below its target folder.
const PROJECTS: &str = "tmp/projects";

/// Projects that the tests copy below the target folder, and have `cargo evenkeel` build there.
/// They are linted there, as cargo would leave a lock file in the folders themselves. `graph` is
/// linted where it is checked. `services`, `programs` and `trials/sqlx-test` are not: each has some
/// hundred packages that nothing else in this step builds.
pub(crate) const COPIED: [&str; 3] = ["classes", "served", "tests-on-copy"];

/// Those of `cargo-evenkeel`'s test programs that need seconds. The others build projects.
const QUICK: &str = "--package cargo-evenkeel --lib --test commands --test doctor --test projects";

/// The step of `cargo xtask ci`: the quick tests of the workspace itself, and a sample of Tokio's
/// own tests with multi-thread runtimes on Evenkeel and with all.
pub(crate) fn sample() -> Result<()> {
    form()?;
    in_compat("test", QUICK).run()?;
    in_compat("test", "--package trials").run()?;
    suite()
}

/// The same with all tests of the workspace, what they copy, and a graph of other people's crates.
/// That takes minutes, which is too long for every change.
pub(crate) fn each() -> Result<()> {
    form()?;
    in_compat("test", "").run()?;
    copied()?;
    suite()?;
    trials("graph --target")
        .arg(projects().to_string_lossy())
        .run()
}

/// Formatting, and lints of the workspace.
fn form() -> Result<()> {
    in_compat("fmt", "--all --check").run()?;
    for manifest in apart()? {
        let fmt = Cargo::new("fmt --check --manifest-path").arg(manifest.to_string_lossy());
        fmt.run()?;
    }
    in_compat("clippy", "--all-targets -- -D warnings").run()
}

/// Lints of what the tests have copied.
fn copied() -> Result<()> {
    for name in COPIED {
        let manifest = target().join("tmp").join(name).join("Cargo.toml");
        let clippy = Cargo::new("clippy --quiet --all-targets --manifest-path");
        let clippy = clippy.arg(manifest.to_string_lossy());
        // The runtime's seams are no concern here.
        "-- -D warnings -A clippy::disallowed_types -A clippy::disallowed_methods"
            .split(' ')
            .fold(clippy.target_dir(&target())?, Cargo::arg)
            .run()?;
    }
    Ok(())
}

/// A sample of Tokio's own tests. The projects of the tests have built some of what it needs.
fn suite() -> Result<()> {
    in_compat("build", "--quiet").run()?;
    for force in ["0", "1"] {
        Cargo::new("evenkeel suite --sample --target")
            .by(target().join("debug/cargo-evenkeel"))
            .arg(projects().to_string_lossy())
            .env("EVENKEEL", "on")
            .env("EVENKEEL_FORCE", force)
            .run()?;
    }
    Ok(())
}

/// Runs all that there is, or the parts that these options name, and writes `docs/compat.md`.
pub(crate) fn whole(options: &[String]) -> Result<()> {
    in_compat("build", "--quiet").run()?;
    let target = target().join("trials");
    let whole = trials("whole --target").arg(target.to_string_lossy());
    options.iter().fold(whole, Cargo::arg).run()
}

/// The manifests of the other workspaces in `compat/`, each of one package.
fn apart() -> Result<Vec<PathBuf>> {
    let mut manifests = Vec::new();
    let compat = root().join("compat");
    let is_kept = |entry: &walkdir::DirEntry| entry.file_name() != "target";
    for entry in WalkDir::new(&compat).into_iter().filter_entry(is_kept) {
        let entry = entry.context("cannot list compat/")?;
        // The first is that of `cargo-evenkeel`.
        if entry.depth() < 2 || entry.file_name() != "Cargo.toml" {
            continue;
        }
        let text = std::fs::read_to_string(entry.path())
            .with_context(|| format!("cannot read {}", entry.path().display()))?;
        if text.lines().any(|line| line == "[workspace]") {
            manifests.push(entry.into_path());
        }
    }
    Ok(manifests)
}

/// Cargo's command for the workspace.
fn in_compat(command: &str, rest: &str) -> Cargo {
    Cargo::new(&format!(
        "{command} --manifest-path compat/Cargo.toml {rest}"
    ))
}

/// Where the workspace is built.
fn target() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR");
    root().join(named.map_or_else(|| PathBuf::from("compat/target"), PathBuf::from))
}

fn projects() -> PathBuf {
    target().join(PROJECTS)
}

fn trials(line: &str) -> Cargo {
    in_compat("run", &format!("--quiet --package trials -- {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workspace_in_compat_is_known() {
        let mut names: Vec<_> = (apart().unwrap().iter())
            .map(|manifest| manifest.parent().and_then(|folder| folder.file_name()))
            .map(|name| name.unwrap_or_default().to_string_lossy().into_owned())
            .collect();
        names.sort();
        let known = [
            "classes",
            "graph",
            "programs",
            "served",
            "services",
            "sqlx-test",
            "tests-on-copy",
        ];
        assert_eq!(names, known);
    }
}
