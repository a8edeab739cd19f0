//! Tokio projects on Evenkeel: `compat/`, a workspace of its own, as its graph is another one.

use std::path::PathBuf;

use anyhow::Result;

use crate::cargo::{Cargo, root};

/// Where the tests of `compat/` build projects, below its target folder.
const PROJECTS: &str = "tmp/projects";

/// The step of `cargo xtask ci`: the tests of the workspace itself, and a graph of other people's
/// crates.
pub(crate) fn sample() -> Result<()> {
    for line in [
        "fmt --all --check",
        "clippy --all-targets -- -D warnings",
        "test",
    ] {
        let (command, rest) = line.split_once(' ').unwrap_or((line, ""));
        in_compat(command, rest).run()?;
    }
    // The projects of the tests have built some of what the graph needs.
    in_compat("build", "--quiet").run()?;
    trials("graph --target")
        .arg(target().join(PROJECTS).to_string_lossy())
        .run()
}

/// Runs all that there is, or the parts that these options name, and writes `docs/compat.md`.
pub(crate) fn whole(options: &[String]) -> Result<()> {
    in_compat("build", "--quiet").run()?;
    let target = target().join("trials");
    let whole = trials("whole --target").arg(target.to_string_lossy());
    options.iter().fold(whole, Cargo::arg).run()
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

fn trials(line: &str) -> Cargo {
    in_compat("run", &format!("--quiet --package trials -- {line}"))
}
