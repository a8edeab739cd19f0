//! The project that is built, as cargo knows it.

use cargo_metadata::{Metadata, MetadataCommand};

use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::call::Options;
use crate::config::{self, Config, Patch};
use crate::copy::Copy;
use crate::error::{self, Error};
use crate::graph;
use crate::lockfile::LockFile;
use crate::patches::Patches;
use crate::permanent::Permanent;
use crate::toolchain::platform_options;
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
        let target = options.target.as_ref();
        Ok(Self {
            root: metadata.workspace_root.clone().into(),
            target: without_dots(&target.map_or_else(usual, |path| here.join(path))),
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

    /// Makes sure that nobody else puts something in the place of Tokio or Evenkeel.
    ///
    /// # Errors
    ///
    /// If the configuration or the manifest does.
    pub fn check_config(&self) -> Result<(), Error> {
        let refused = |place: String, Patch { package, by }| Error::Patched { package, place, by };
        let manifest = self.root.join("Cargo.toml");
        if let Some(patch) = config::patch_in_manifest(&manifest)? {
            return Err(refused(manifest.display().to_string(), patch));
        }
        let Some((place, patch)) = self.config.patch() else {
            return Ok(());
        };
        if patch.by.contains(".cargo/evenkeel/") && self.is_permanent()? {
            return Ok(());
        }
        Err(refused(place.into(), patch))
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

    /// Resolves the project with the copy in Tokio's place, and in that of its own Evenkeel if it
    /// has one, and makes sure that nothing uses another one of either.
    ///
    /// # Errors
    ///
    /// If something does, or cargo cannot resolve the project.
    pub fn check(&self, patches: &mut Patches) -> Result<Metadata, Error> {
        let metadata = match self.try_describe(&patches.options())? {
            Ok(metadata) if !patches.add_from(&metadata) => metadata,
            Ok(_) => self.resolve_with(patches, &[])?,
            Err(_) => {
                // Two Evenkeels by path collide: neither has a source in the lock file.
                patches.find(self)?;
                self.resolve_with(patches, &[])?
            }
        };
        graph::check(&metadata, patches)?;
        Ok(metadata)
    }

    /// As [`check`](Self::check), for patches and a lock file that are to stay: `--locked` is about
    /// that file.
    ///
    /// # Errors
    ///
    /// As there, or if either would have to change.
    pub fn check_permanent(&self, patches: &Patches) -> Result<Metadata, Error> {
        let locked = ["--locked".to_owned()];
        let more = if self.options.locked {
            &locked
        } else {
            &[][..]
        };
        let metadata = self.resolve_with(patches, more)?;
        graph::check(&metadata, patches)?;
        Ok(metadata)
    }

    fn resolve_with(&self, patches: &Patches, more: &[String]) -> Result<Metadata, Error> {
        let options = [&patches.options(), more].concat();
        self.try_describe(&options)?.map_err(|said| {
            eprint!("{said}");
            let collide = said.contains("collision") && said.contains(" evenkeel v");
            let advice = if collide {
                "A package depends on `evenkeel` by a path that `cargo evenkeel init` has not \
                 seen.\nRun `cargo evenkeel remove`, and `cargo evenkeel init` again."
                    .into()
            } else {
                self.advice_if_unresolved()
            };
            Error::Unresolved { advice }
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
        described(self.try_describe(more)?)
    }

    /// The same, or why cargo has none.
    pub(crate) fn try_describe(&self, more: &[String]) -> Result<Result<Metadata, String>, Error> {
        let mut options = [&self.options.common, &self.options.features, more].concat();
        options.extend(platform_options(&self.options.platforms));
        try_describe(&options)
    }

    /// The same without what is patched, and of all that there is: with all features, for all
    /// platforms.
    pub(crate) fn describe_all(&self) -> Result<Result<Metadata, String>, Error> {
        try_describe(&[&self.options.common[..], &["--all-features".into()]].concat())
    }
}

fn is_supported(version: &semver::Version) -> bool {
    upstream::supported().any(|known| known.version.minor == version.minor)
}

fn is_newer_than_supported(version: &semver::Version) -> bool {
    upstream::supported().all(|known| known.version.minor < version.minor)
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

pub(crate) fn describe(options: &[String]) -> Result<Metadata, Error> {
    described(try_describe(options)?)
}

/// Says what cargo has said, if it has failed.
fn described(outcome: Result<Metadata, String>) -> Result<Metadata, Error> {
    outcome.map_err(|said| {
        eprint!("{said}");
        Error::Cargo("cargo metadata".into())
    })
}

fn try_describe(options: &[String]) -> Result<Result<Metadata, String>, Error> {
    let mut command = cargo();
    command
        .args(["metadata", "--format-version", "1"])
        .args(options);
    let output = command.output().map_err(|source| Error::Start {
        command: "cargo metadata".into(),
        source,
    })?;
    if !output.status.success() {
        return Ok(Err(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    MetadataCommand::parse(String::from_utf8_lossy(&output.stdout))
        .map(Ok)
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

/// The path without `.` and `..`, as cargo says where a package is: by its text alone.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = plain.pop(),
            other => plain.push(other),
        }
    }
    plain
}
