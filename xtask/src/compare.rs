//! `cargo xtask compare <revision>`: the runtime of this tree beside that of an earlier one; and
//! `cargo xtask compare --accounts`: beside itself without accounts.
//!
//! Both are built into one program (`compare/`) and alternate in it, so that a difference of a few
//! per cent can be told from the machine's noise.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use walkdir::WalkDir;

use crate::cargo::{Cargo, root, target_dir};

/// Rounds of each benchmark, if not said otherwise: some 30 seconds in all.
pub(crate) const ROUNDS: u32 = 3_000;

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    beside: Beside,
    rounds: u32,
    /// Where the table goes as JSON, too.
    json: Option<PathBuf>,
}

/// What this tree is compared with.
#[derive(Debug, PartialEq, Eq)]
enum Beside {
    Revision(String),
    /// This tree, without what only statistics read.
    NoAccounts,
}

impl Options {
    /// Reads the words after `compare`; the error is advice.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, String> {
        let (words, json) = match words {
            [words @ .., "--json", path] => (words, Some(PathBuf::from(path))),
            words => (words, None),
        };
        let (revision, rounds) = match words {
            [revision] => (revision, Ok(ROUNDS)),
            [revision, rounds] => (revision, rounds_from(rounds)),
            _ => return Err("give a revision; `cargo xtask help` says more".to_owned()),
        };
        let beside = match *revision {
            "--accounts" => Beside::NoAccounts,
            revision => Beside::Revision(revision.to_owned()),
        };
        Ok(Self {
            beside,
            rounds: rounds?,
            json,
        })
    }
}

fn rounds_from(word: &str) -> Result<u32, String> {
    let rounds = word.parse().ok();
    let rounds = rounds.filter(|rounds| (160..=1_000_000).contains(rounds));
    rounds.ok_or_else(|| {
        format!("`{word}` is no number of rounds from 160 to 1000000; `cargo xtask help` says more")
    })
}

/// Builds and runs the comparison.
pub(crate) fn run(options: &Options) -> Result<()> {
    let folder = target_dir().join("compare");
    std::fs::create_dir_all(&folder).context("cannot make a folder for the program")?;
    let before = Elsewhere::new()?;
    match &options.beside {
        Beside::Revision(revision) => unpack(revision, &before.0)?,
        Beside::NoAccounts => {
            copy_tree(&before.0)?;
            leave_out_accounts(&before.0)?;
        }
    }
    rename_version(&before.0.join("Cargo.toml"))?;
    for file in ["main.rs", "network.rs"] {
        std::fs::copy(root().join("xtask/compare").join(file), folder.join(file))
            .context("cannot copy the program")?;
    }
    let path = folder.join("Cargo.toml");
    std::fs::write(&path, manifest(&before.0)?).context("cannot write its manifest")?;
    let compare = Cargo::new("run --release --quiet --manifest-path")
        .arg(path.to_string_lossy())
        .arg("--target-dir")
        .arg(folder.join("target").to_string_lossy())
        .arg("--")
        .arg(options.rounds.to_string());
    let compare = match options.beside {
        Beside::Revision(_) => compare,
        Beside::NoAccounts => compare.arg("--accounts"),
    };
    let Some(json) = &options.json else {
        return compare.run();
    };
    // It runs in the workspace's root, whereas the path is meant from here.
    let json = std::path::absolute(json).context("the file for the figures has no path")?;
    compare.arg("--json").arg(json.to_string_lossy()).run()
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

/// Puts this tree into a folder, with what is not committed.
fn copy_tree(into: &Path) -> Result<()> {
    for part in [
        "Cargo.toml",
        "clippy.toml",
        "crates",
        "lab",
        "measure",
        "servers",
        "xtask",
    ] {
        for entry in WalkDir::new(root().join(part)) {
            let entry = entry.with_context(|| format!("cannot list {part}"))?;
            let path = into.join(entry.path().strip_prefix(root())?);
            let made = match entry.file_type().is_dir() {
                true => std::fs::create_dir(&path),
                false => std::fs::copy(entry.path(), &path).map(drop),
            };
            made.with_context(|| format!("cannot make {}", path.display()))?;
        }
    }
    Ok(())
}

/// Has the runtime of a tree built without accounts. A flag of the compiler would hold for both
/// runtimes of the program, so a build script says it for this one.
fn leave_out_accounts(tree: &Path) -> Result<()> {
    let path = tree.join("crates/evenkeel/build.rs");
    ensure!(!path.exists(), "the runtime has a build script of its own");
    let script = "//! Written by `cargo xtask compare --accounts`.\n\n\
                  fn main() { println!(\"cargo::rustc-cfg=evenkeel_no_accounts\"); }\n";
    std::fs::write(path, script).context("cannot write a build script")
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
before = {{ package = \"evenkeel\", path = {}, default-features = false, features = [\"hyper\"] }}
after = {{ package = \"evenkeel\", path = {}, default-features = false, features = [\"hyper\"] }}
evenkeel-measure = {{ path = {} }}
clap = {{ version = \"4.6\", features = [\"derive\"] }}
hyper = {{ version = \"1.12\", features = [\"http1\", \"server\"] }}
tokio = {{ version = \"1\", default-features = false, features = [\"io-util\", \"sync\"] }}

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
    fn rounds_and_a_file_may_follow_the_revision() {
        let parsed = |line: &str| Options::parse(&line.split_whitespace().collect::<Vec<_>>());
        let expected = |rounds, json: Option<&str>| {
            Ok(Options {
                beside: Beside::Revision("HEAD".to_owned()),
                rounds,
                json: json.map(PathBuf::from),
            })
        };
        assert_eq!(parsed("HEAD"), expected(ROUNDS, None));
        assert_eq!(parsed("HEAD 160"), expected(160, None));
        assert_eq!(parsed("HEAD --json a"), expected(ROUNDS, Some("a")));
        assert_eq!(parsed("HEAD 160 --json a"), expected(160, Some("a")));
        let accounts = parsed("--accounts 160").expect("it is understood");
        assert_eq!(accounts.beside, Beside::NoAccounts);
        for line in [
            "",
            "HEAD 1",
            "HEAD x",
            "HEAD 160 a",
            "--json a",
            "HEAD --json",
        ] {
            let advice = parsed(line).expect_err(line);
            assert!(advice.contains("cargo xtask help"), "{advice}");
        }
    }

    #[test]
    fn what_is_no_revision_is_refused() {
        let refused = unpack("--output=x", Path::new("/nonexistent"));
        let words = refused.expect_err("it is an option").to_string();
        assert_eq!(words, "`--output=x` is no revision");
    }
}
