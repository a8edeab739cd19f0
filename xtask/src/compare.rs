//! `cargo xtask compare <revision>`: the scheduler of this tree beside that of an earlier one.
//!
//! Both are built into one program (`compare/main.rs`) and take turns in it, so that a difference
//! of a few per cent can be told from the machine's noise.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::cargo::{Cargo, root, target_dir};

/// Turns of each benchmark, if not said otherwise: some 20 seconds in all.
pub(crate) const TURNS: u32 = 3_000;

/// Builds and runs the comparison.
pub(crate) fn run(revision: &str, turns: u32) -> Result<()> {
    let folder = target_dir().join("compare");
    std::fs::create_dir_all(&folder).context("cannot make a folder for the program")?;
    let before = Elsewhere::new()?;
    unpack(revision, &before.0)?;
    rename_version(&before.0.join("Cargo.toml"))?;
    std::fs::copy(root().join("xtask/compare/main.rs"), folder.join("main.rs"))
        .context("cannot copy the program")?;
    let path = folder.join("Cargo.toml");
    std::fs::write(&path, manifest(&before.0)?).context("cannot write its manifest")?;
    Cargo::new("run --release --quiet --manifest-path")
        .arg(path.to_string_lossy())
        .arg("--target-dir")
        .arg(folder.join("target").to_string_lossy())
        .arg("--")
        .arg(turns.to_string())
        .run()
}

/// A folder outside this tree, removed when dropped. Within the tree, cargo would have the earlier
/// packages inherit from this workspace's manifest what they are to inherit from their own.
struct Elsewhere(PathBuf);

impl Elsewhere {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("evenkeel-before-{}", std::process::id()));
        std::fs::create_dir(&path)
            .with_context(|| format!("cannot make the folder {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        // What is left lies where the system throws things away.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Puts the tree of a revision into a folder.
fn unpack(revision: &str, into: &Path) -> Result<()> {
    // A revision may not pass for an option.
    ensure!(!revision.starts_with('-'), "`{revision}` is no revision");
    let mut archive = Command::new("git")
        .args(["archive", "--format=tar", revision])
        .current_dir(root())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run git")?;
    let tar = archive.stdout.take().context("git's output is piped")?;
    let unpacked = Command::new("tar")
        .args(["-x", "-C"])
        .arg(into)
        .stdin(tar)
        .status()
        .context("cannot run tar")?;
    if !archive.wait()?.success() || !unpacked.success() {
        bail!("cannot unpack the revision `{revision}`; `git log` lists those there are");
    }
    Ok(())
}

/// Gives the earlier packages a version of their own: one lock file cannot hold two that are alike.
fn rename_version(manifest: &Path) -> Result<()> {
    let text = std::fs::read_to_string(manifest).context("the revision has no Cargo.toml")?;
    let renamed: Vec<&str> = text
        .lines()
        .map(|line| match line.starts_with("version = ") {
            true => "version = \"0.0.0\"",
            false => line,
        })
        .collect();
    Ok(std::fs::write(manifest, renamed.join("\n") + "\n")?)
}

/// The manifest of the program that holds both.
fn manifest(before: &Path) -> Result<String> {
    let crate_in = |tree: &Path, folder: &str| -> Result<String> {
        let path = tree.join(folder).canonicalize();
        let path = path.with_context(|| format!("one of the trees has no {folder}"))?;
        // As TOML writes a string, which is close enough to how Rust's `Debug` does.
        Ok(format!("{:?}", path.to_string_lossy()))
    };
    Ok(format!(
        "\
[package]
name = \"compare\"
version = \"0.0.0\"
edition = \"2024\"
publish = false

[[bin]]
name = \"compare\"
path = \"main.rs\"

[dependencies]
before = {{ package = \"evenkeel\", path = {}, default-features = false }}
after = {{ package = \"evenkeel\", path = {}, default-features = false }}
evenkeel-measure = {{ path = {} }}
tokio = {{ version = \"1\", default-features = false, features = [\"sync\"] }}

# As the workspace builds what it measures.
[profile.release]
debug = 1

[workspace]
",
        crate_in(before, "crates/evenkeel")?,
        crate_in(root(), "crates/evenkeel")?,
        crate_in(root(), "measure")?
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_only_line_that_changes() {
        let folder = Elsewhere::new().expect("a folder can be made");
        let path = folder.0.join("Cargo.toml");
        let text = "[workspace.package]\nversion = \"1.2.3\"\nedition = \"2024\"\n";
        std::fs::write(&path, text).expect("it can be written");
        rename_version(&path).expect("it is there");
        let renamed = std::fs::read_to_string(&path).expect("it is there");
        assert_eq!(renamed, text.replace("1.2.3", "0.0.0"));
    }

    #[test]
    fn what_is_no_revision_is_refused() {
        let refused = unpack("--output=x", Path::new("/nonexistent"));
        let words = refused.expect_err("it is an option").to_string();
        assert_eq!(words, "`--output=x` is no revision");
    }
}
