//! The project that is built, as cargo knows it.

use cargo_metadata::{Metadata, MetadataCommand};

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::call::Options;
use crate::config::{self, Config};
use crate::copy::Copy;
use crate::error::{self, Error};
use crate::lockfile::LockFile;
use crate::permanent::Permanent;
use crate::upstream::{self, Upstream};

/// A workspace of the user's.
#[derive(Debug)]
pub struct Project {
    /// Its folder.
    pub root: PathBuf,
    /// Where cargo builds.
    pub target: PathBuf,
    options: Options,
    config: Config,
}

impl Project {
    /// The project that cargo would build with these options.
    ///
    /// # Errors
    ///
    /// If there is none, or its manifest or cargo's configuration is not valid.
    pub fn find(options: Options) -> Result<Self, Error> {
        let here = std::env::current_dir().map_err(error::file("find", Path::new(".")))?;
        let config = Config::read(&here, &options.config)?;
        let metadata = describe(&[&options.common[..], &["--no-deps".into()]].concat())?;
        let usual = || metadata.target_directory.clone().into();
        Ok(Self {
            root: metadata.workspace_root.clone().into(),
            target: options
                .target
                .as_ref()
                .map_or_else(usual, |path| here.join(path)),
            options,
            config,
        })
    }

    /// The project's lock file; the one itself, if that is a link.
    pub fn lock(&self) -> PathBuf {
        let path = self.root.join("Cargo.lock");
        let link = path.is_symlink().then(|| path.canonicalize().ok());
        link.flatten().unwrap_or(path)
    }

    /// Cargo's configuration for it.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Makes sure that nobody else puts something in Tokio's place.
    ///
    /// # Errors
    ///
    /// If the configuration or the manifest does.
    pub fn check_config(&self) -> Result<(), Error> {
        let manifest = self.root.join("Cargo.toml");
        if let Some(by) = config::patch_in_manifest(&manifest)? {
            let place = manifest.display().to_string();
            return Err(Error::Patched { place, by });
        }
        match self.config.patch_of_tokio() {
            None => Ok(()),
            Some((_, by)) if by.contains(".cargo/evenkeel/") && self.is_permanent()? => Ok(()),
            Some((place, by)) => Err(Error::Patched {
                place: place.into(),
                by,
            }),
        }
    }

    fn is_permanent(&self) -> Result<bool, Error> {
        Ok(Permanent::read(&self.root)?.is_some())
    }

    /// Resolves the project as it is.
    ///
    /// # Errors
    ///
    /// If cargo cannot.
    pub fn resolve(&self) -> Result<Metadata, Error> {
        self.describe(&[])
    }

    /// Makes sure that the folder can be written to.
    ///
    /// # Errors
    ///
    /// If it cannot.
    pub fn check_writable(&self) -> Result<(), Error> {
        let read_only = |source| Error::ReadOnly {
            folder: self.root.clone(),
            source,
        };
        tempfile::NamedTempFile::new_in(&self.root)
            .map(drop)
            .map_err(read_only)
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
            run(cargo().arg("generate-lockfile").args(&self.options.common))?;
        }
        let lock = LockFile::read(&path)?;
        let found = lock.tokio().ok_or(Error::NoTokio)?;
        let Some(checksum) = found.checksum.clone().filter(|_| found.source.is_some()) else {
            return Err(Error::Elsewhere {
                version: found.version.to_string(),
            });
        };
        if !is_supported(&found.version) {
            return Err(self.unsupported(&found.version));
        }
        let upstream = Upstream {
            version: found.version.clone(),
            checksum,
        };
        if upstream.is_fetched() {
            return Ok(upstream);
        }
        if self.config.vendored().is_some() {
            return Err(Error::Unresolved {
                advice: self.advice_if_unresolved(),
            });
        }
        if !self.options.offline {
            run(cargo()
                .args(["fetch", "--quiet"])
                .args(&self.options.common))?;
        }
        Ok(upstream)
    }

    /// Locks the project to the newest Tokio that there are rules for, and changes nothing else.
    ///
    /// # Errors
    ///
    /// If a package asks for another one.
    pub fn take_newest(&self, found: &str) -> Result<(), Error> {
        let (package, newest) = (format!("tokio@{found}"), upstream::newest());
        eprintln!(
            "note: in place of tokio {found}, for which there are no rules, tokio {newest} is taken"
        );
        let mut update = cargo();
        update.args(["update", "--quiet", "-p", &package, "--precise", newest]);
        run(update.args(&self.options.common))
    }

    fn unsupported(&self, found: &semver::Version) -> Error {
        let newest = upstream::newest();
        let update = format!("cargo update -p tokio --precise {newest}");
        let pins = self.pins(newest);
        let advice = if !pins.is_empty() {
            format!(
                "{}. Widen what is asked for, and run: {update}",
                pins.join("; ")
            )
        } else if is_newer_than_supported(found) {
            format!("Take a newer cargo-evenkeel, if there is one, or an older Tokio: {update}")
        } else {
            format!("Ask cargo for one of them: {update}")
        };
        Error::Unsupported {
            found: found.to_string(),
            supported: upstream::supported_minors(),
            advice,
        }
    }

    /// Who asks for a version of Tokio that is not this one. Nobody, if cargo cannot tell.
    fn pins(&self, version: &str) -> Vec<String> {
        let Ok(version) = semver::Version::parse(version) else {
            return Vec::new();
        };
        let members = || describe(&[&self.options.common[..], &["--no-deps".into()]].concat());
        let all = self.describe(&["--locked".into()]).or_else(|_| members());
        let mut pins = Vec::new();
        for package in all.iter().flat_map(|metadata| &metadata.packages) {
            let of_tokio = package
                .dependencies
                .iter()
                .filter(|need| need.name == "tokio");
            for need in of_tokio.filter(|need| !need.req.matches(&version)) {
                pins.push(format!("{} asks for tokio {}", package.name, need.req));
            }
        }
        pins
    }

    /// Makes sure that the user's own lock file fits, as `--locked` asks for.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub fn check_locked(&self) -> Result<(), Error> {
        if !self.options.locked {
            return Ok(());
        }
        self.describe(&["--locked".into()]).map(drop)
    }

    /// Resolves the project with the copy in Tokio's place, and makes sure that nothing uses
    /// another Tokio.
    ///
    /// # Errors
    ///
    /// If something does, or cargo cannot resolve the project.
    pub fn check(&self, copy: &Copy) -> Result<Metadata, Error> {
        self.check_graph(copy, &[])
    }

    /// As [`check`](Self::check), for a lock file that is to stay ours: `--locked` is about it.
    ///
    /// # Errors
    ///
    /// As there, or if it would have to change.
    pub fn check_permanent(&self, copy: &Copy) -> Result<Metadata, Error> {
        let locked = ["--locked".to_owned()];
        self.check_graph(copy, if self.options.locked { &locked } else { &[] })
    }

    fn check_graph(&self, copy: &Copy, more: &[String]) -> Result<Metadata, Error> {
        let options = [&patch_options(copy), more].concat();
        let metadata = self.describe(&options).map_err(|error| match error {
            Error::Cargo(_) => Error::Unresolved {
                advice: self.advice_if_unresolved(),
            },
            other => other,
        })?;
        let ours = copy.package("tokio");
        let is_other = |package: &&cargo_metadata::Package| {
            package.name.as_str() == "tokio" && !package.manifest_path.starts_with(&ours)
        };
        let Some(other) = metadata.packages.iter().find(is_other) else {
            return Ok(metadata);
        };
        Err(Error::AnotherTokio {
            users: users_of(&metadata, &other.id).join(", "),
            other: format!("version {}", other.version),
            version: copy.version.to_string(),
            advice: advice_about(&other.version, &copy.version),
        })
    }

    fn advice_if_unresolved(&self) -> String {
        if let Some(folder) = self.config.vendored() {
            return format!(
                "The configuration takes all packages from the folder {folder}, and those \
                 that Evenkeel needs are not there.\nTake the [source] tables out, run \
                 `cargo evenkeel init` and then `cargo vendor`, and put them back."
            );
        }
        if self.options.offline || std::env::var("CARGO_NET_OFFLINE").is_ok_and(|on| on == "true") {
            return "If packages are missing, run `cargo evenkeel fetch` where there is a network, \
                    and try again."
                .into();
        }
        "If `cargo check` works here and this does not, report it to Evenkeel.".into()
    }

    /// Cargo's description of the whole graph on this machine, and on those that are built for.
    fn describe(&self, more: &[String]) -> Result<Metadata, Error> {
        let mut options = [&self.options.common, &self.options.features, more].concat();
        options.extend(platform_options(&self.options.platforms));
        describe(&options)
    }
}

fn is_supported(version: &semver::Version) -> bool {
    upstream::supported().any(|known| known.version.minor == version.minor)
}

fn is_newer_than_supported(version: &semver::Version) -> bool {
    upstream::supported().all(|known| known.version.minor < version.minor)
}

fn advice_about(other: &semver::Version, ours: &semver::Version) -> String {
    let who = format!("See who asks for it: cargo tree -i tokio@{other}.");
    if other.major == 0 {
        return format!("{who} It is from before Tokio 1, so its users have to be updated.");
    }
    format!(
        "{who} If a requirement is too narrow, widen it, or run: cargo update -p tokio@{other} \
         --precise {ours}"
    )
}

/// The names of the packages that depend on this one.
pub(crate) fn users_of(metadata: &Metadata, id: &cargo_metadata::PackageId) -> Vec<String> {
    let nodes = metadata
        .resolve
        .as_ref()
        .map(|resolve| resolve.nodes.as_slice());
    let users = (nodes.unwrap_or_default().iter()).filter(|node| node.dependencies.contains(id));
    users
        .map(|node| metadata[&node.id].name.to_string())
        .collect()
}

/// What tells cargo to take the copy.
pub fn patch_options(copy: &Copy) -> [String; 2] {
    let path = toml_edit::Value::from(copy.package("tokio").to_string_lossy().as_ref());
    let patch = format!("patch.crates-io.tokio.path={}", path.to_string().trim());
    ["--config".into(), patch]
}

/// The cargo that has started this program, or else the one that is found.
pub fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// What keeps cargo from fetching what only other platforms than these and this one need.
pub(crate) fn platform_options(platforms: &[String]) -> Vec<String> {
    let all = host().into_iter().chain(platforms.iter().cloned());
    all.flat_map(|platform| ["--filter-platform".into(), platform])
        .collect()
}

/// The platform that cargo builds for if nobody says anything.
fn host() -> Option<String> {
    let said = cargo().arg("-vV").output().ok()?.stdout;
    line_of(&String::from_utf8_lossy(&said), "host: ")
}

/// The compiler that cargo calls: its version, and its platform.
pub(crate) fn rustc_version() -> Option<(semver::Version, String)> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("-vV").output().ok()?.stdout;
    let said = String::from_utf8_lossy(&said);
    let version = line_of(&said, "release: ")?.parse().ok()?;
    Some((version, line_of(&said, "host: ")?))
}

/// What comes behind the name in the line that begins with it.
fn line_of(text: &str, name: &str) -> Option<String> {
    text.lines()
        .find_map(|line| Some(line.strip_prefix(name)?.to_owned()))
}

pub(crate) fn describe(options: &[String]) -> Result<Metadata, Error> {
    let mut command = cargo();
    command
        .args(["metadata", "--format-version", "1"])
        .args(options);
    let output = command.output().map_err(|source| Error::Start {
        command: "cargo metadata".into(),
        source,
    })?;
    if !output.status.success() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
        return Err(Error::Cargo("cargo metadata".into()));
    }
    MetadataCommand::parse(String::from_utf8_lossy(&output.stdout))
        .map_err(|error| Error::Metadata(error.to_string()))
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
