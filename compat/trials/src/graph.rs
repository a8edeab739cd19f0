//! A graph of crates that stand on Tokio, checked on Evenkeel: `graph/`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::Error;

/// So many packages that the graph names have to depend on Tokio themselves.
const ON_TOKIO_MIN: usize = 40;

/// What the graph is made of.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Counted {
    /// All packages of the lock file.
    pub(crate) packages: usize,
    /// Those that the graph's own manifest names, and that depend on Tokio themselves.
    pub(crate) on_tokio: BTreeSet<String>,
}

/// A lock file of cargo's, as far as it matters here.
#[derive(Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    #[serde(default)]
    dependencies: Vec<String>,
}

/// Warnings are errors, but for those about the runtime's seams, which are no concern here.
const LINTS: [&str; 6] = [
    "-D",
    "warnings",
    "-A",
    "clippy::disallowed_types",
    "-A",
    "clippy::disallowed_methods",
];

/// Has `cargo evenkeel` check the graph as it is locked. Clippy does that, and lints the package
/// itself besides.
pub(crate) fn run(target: &Path, json: Option<&Path>) -> Result<bool, Error> {
    fs::create_dir_all(target)?;
    let target = target.canonicalize()?;
    let folder = copied(&target)?;
    let counted = count(&fs::read_to_string(folder.join("Cargo.lock"))?)?;
    let found = counted.on_tokio.len();
    if found < ON_TOKIO_MIN {
        return Err(format!("only {found} crates depend on Tokio, of {ON_TOKIO_MIN}").into());
    }
    let mut command = Command::new(crate::cargo_evenkeel()?);
    command
        .args(["evenkeel", "clippy", "--locked", "--"])
        .args(LINTS)
        .current_dir(folder)
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_TARGET_DIR", &target);
    let is_good = command.status()?.success();
    if let Some(path) = json {
        fs::write(path, serde_json::to_string_pretty(&counted)?)?;
    }
    if is_good {
        println!(
            "{} packages build on Evenkeel; {found} that the graph names depend on Tokio",
            counted.packages
        );
    }
    Ok(is_good)
}

/// The graph's files below `target`, as `cargo evenkeel` works in a project's folder.
fn copied(target: &Path) -> Result<PathBuf, Error> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../graph");
    let folder = target.join("graph");
    fs::create_dir_all(folder.join("src"))?;
    for name in ["Cargo.toml", "Cargo.lock", "src/main.rs"] {
        let text = fs::read(source.join(name))?;
        let to = folder.join(name);
        // A file that is as before keeps its time, for cargo.
        if fs::read(&to).ok().as_ref() != Some(&text) {
            fs::write(to, text)?;
        }
    }
    Ok(folder)
}

/// Counts in the text of a lock file.
fn count(lock: &str) -> Result<Counted, Error> {
    let Lock { package } = toml::from_str(lock)?;
    let graph = package.iter().find(|package| package.name == "graph");
    let named = &graph
        .ok_or("the lock file is not the graph's")?
        .dependencies;
    let is_named = |package: &&Package| {
        let exact = format!("{} {}", package.name, package.version);
        // The version is there only where it has to be.
        named.contains(&package.name) || named.contains(&exact)
    };
    let is_on_tokio = |package: &&Package| {
        (package.dependencies.iter()).any(|name| name == "tokio" || name.starts_with("tokio "))
    };
    Ok(Counted {
        packages: package.len(),
        on_tokio: (package.iter().filter(is_named).filter(is_on_tokio))
            .map(|package| package.name.clone())
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, version: &str, dependencies: &[&str]) -> String {
        format!(
            "[[package]]\nname = {name:?}\nversion = {version:?}\ndependencies = {dependencies:?}\n"
        )
    }

    #[test]
    fn only_named_packages_that_depend_on_tokio_themselves_count() {
        let lock = [
            package("graph", "0.0.0", &["above", "direct", "twice 2.0.0"]),
            package("above", "1.0.0", &["direct", "tokio-util"]),
            package("direct", "1.0.0", &["tokio"]),
            package("twice", "1.0.0", &["tokio"]),
            package("twice", "2.0.0", &["tokio 1.54.1"]),
            package("tokio-util", "0.7.0", &["tokio"]),
        ];
        let counted = count(&lock.concat()).unwrap();
        assert_eq!(counted.packages, 6);
        let expected = ["direct", "twice"].map(str::to_owned);
        assert_eq!(counted.on_tokio, BTreeSet::from(expected));
    }

    #[test]
    fn enough_of_the_graph_depends_on_tokio() {
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../graph/Cargo.lock");
        let counted = count(&fs::read_to_string(lock).unwrap()).unwrap();
        assert!(counted.on_tokio.len() >= ON_TOKIO_MIN, "{counted:?}");
    }
}
