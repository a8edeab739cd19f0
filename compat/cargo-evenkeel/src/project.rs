//! The project that is built, as cargo knows it.

use cargo_metadata::{Metadata, MetadataCommand};
use serde::Deserialize;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::copy::Copy;
use crate::error::{self, Error};
use crate::upstream::{self, Upstream};

/// A workspace of the user's.
#[derive(Debug)]
pub struct Project {
    root: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
    /// Options for every call of cargo: which manifest, and whether there is a network.
    options: Vec<String>,
}

#[derive(Deserialize)]
struct Lock {
    #[serde(default)]
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: semver::Version,
    source: Option<String>,
    checksum: Option<String>,
}

impl Project {
    /// The project that cargo would build with these arguments.
    ///
    /// # Errors
    ///
    /// If there is none, or its manifest is not valid.
    pub fn find(arguments: &[String]) -> Result<Self, Error> {
        let options = common_options(arguments);
        let metadata = describe(&options, &["--no-deps".into()])?;
        Ok(Self {
            root: metadata.workspace_root.into(),
            target: metadata.target_directory.into(),
            options,
        })
    }

    /// The project's lock file.
    pub fn lock(&self) -> PathBuf {
        self.root.join("Cargo.lock")
    }

    /// The version of Tokio that the project is locked to. Where nothing is locked yet, cargo
    /// locks it now, as any build would.
    ///
    /// # Errors
    ///
    /// If the project has no Tokio, or one that there are no rules for.
    pub fn tokio(&self) -> Result<Upstream, Error> {
        let path = self.lock();
        if !path.exists() {
            run(Command::new("cargo")
                .arg("generate-lockfile")
                .args(&self.options))?;
        }
        let text = fs::read_to_string(&path).map_err(error::file("read", &path))?;
        let lock: Lock = toml::from_str(&text).map_err(|error| Error::Toml {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        let is_tokio = |package: &&Locked| package.name == "tokio" && package.version.major == 1;
        let found = lock.package.iter().find(is_tokio).ok_or(Error::NoTokio)?;
        let Some(checksum) = found.checksum.clone().filter(|_| found.source.is_some()) else {
            return Err(Error::Elsewhere {
                version: found.version.to_string(),
            });
        };
        let is_near = |known: &Upstream| known.version.minor == found.version.minor;
        if !upstream::supported().any(|known| is_near(&known)) {
            let newest = upstream::supported().next();
            return Err(Error::Unsupported {
                found: found.version.to_string(),
                supported: upstream::supported_minors(),
                advice: newest.map_or_else(String::new, |newest| newest.version.to_string()),
            });
        }
        let upstream = Upstream {
            version: found.version.clone(),
            checksum,
        };
        let may_fetch = !self.options.iter().any(|option| option == "--offline");
        if may_fetch && !upstream.is_fetched() {
            run(Command::new("cargo")
                .args(["fetch", "--quiet"])
                .args(&self.options))?;
        }
        Ok(upstream)
    }

    /// Makes sure that the user's own lock file fits, as `--locked` asks for.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub fn check_locked(&self) -> Result<(), Error> {
        describe(&self.options, &["--locked".into()]).map(drop)
    }

    /// Resolves the project with the copy in Tokio's place, and makes sure that nothing uses
    /// another Tokio.
    ///
    /// # Errors
    ///
    /// If something does, or cargo cannot resolve the project.
    pub fn check(&self, copy: &Copy) -> Result<(), Error> {
        let patch = patch_options(copy);
        let metadata = describe(&self.options, &patch)?;
        let ours = copy.package("tokio");
        let is_other = |package: &&cargo_metadata::Package| {
            package.name.as_str() == "tokio" && !package.manifest_path.starts_with(&ours)
        };
        let Some(other) = metadata.packages.iter().find(is_other) else {
            return Ok(());
        };
        Err(Error::AnotherTokio {
            users: users_of(&metadata, &other.id),
            other: format!("version {}", other.version),
            version: copy.version.to_string(),
            advice: format!(
                "See who asks for it: cargo tree -i tokio@{}. If a requirement is too narrow, \
                 widen it, or run: cargo update -p tokio@{} --precise {}",
                other.version, other.version, copy.version
            ),
        })
    }
}

/// The names of the packages that depend on this one.
fn users_of(metadata: &Metadata, id: &cargo_metadata::PackageId) -> String {
    let nodes = metadata
        .resolve
        .as_ref()
        .map(|resolve| resolve.nodes.as_slice());
    let users = (nodes.unwrap_or_default().iter()).filter(|node| node.dependencies.contains(id));
    let name = |node: &cargo_metadata::Node| metadata[&node.id].name.to_string();
    let names: Vec<_> = users.map(name).collect();
    if names.is_empty() {
        "some packages".into()
    } else {
        names.join(", ")
    }
}

/// What tells cargo to take the copy.
pub fn patch_options(copy: &Copy) -> [String; 2] {
    let path = toml_edit::Value::from(copy.package("tokio").to_string_lossy().as_ref());
    let patch = format!("patch.crates-io.tokio.path={}", path.to_string().trim());
    ["--config".into(), patch]
}

/// The options among these that every call of cargo needs.
fn common_options(arguments: &[String]) -> Vec<String> {
    let mut options = Vec::new();
    let mut rest = arguments.iter().take_while(|argument| *argument != "--");
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--offline" => options.push(argument.clone()),
            "--frozen" => options.push("--offline".into()),
            "--manifest-path" => {
                options.push(argument.clone());
                options.extend(rest.next().cloned());
            }
            other if other.starts_with("--manifest-path=") => options.push(argument.clone()),
            _ => {}
        }
    }
    options
}

fn describe(options: &[String], more: &[String]) -> Result<Metadata, Error> {
    let mut command = MetadataCommand::new();
    command.other_options([options, more].concat());
    command.exec().map_err(|error| match error {
        cargo_metadata::Error::CargoMetadata { stderr } => {
            eprint!("{stderr}");
            Error::Cargo("cargo metadata".into())
        }
        other => Error::Metadata(other.to_string()),
    })
}

/// Runs cargo, and fails if it does.
pub fn run(command: &mut Command) -> Result<(), Error> {
    let said = format!("{command:?}").replace('"', "");
    let status = command.status().map_err(|source| Error::Start {
        command: said.clone(),
        source,
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(Error::Cargo(said))
    }
}
