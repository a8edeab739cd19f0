//! What a line of `cargo evenkeel install` asks for.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::refused;
use crate::call::{Options, split};
use crate::error::Error;
use crate::patches::Patches;
use crate::project::cargo;

/// Options that take the next word, and that cargo is given as they are.
const PASSED: [&str; 11] = [
    "--bin",
    "--color",
    "--example",
    "--jobs",
    "--message-format",
    "--profile",
    "--root",
    "-j",
    "--target",
    "--target-dir",
    "-Z",
];
/// Others that take the next word.
const TAKEN: [&str; 13] = [
    "--branch",
    "--config",
    "--features",
    "--git",
    "--index",
    "--manifest-path",
    "--path",
    "--registry",
    "--rev",
    "--tag",
    "--vers",
    "--version",
    "-F",
];

/// What is to be installed.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) name: Option<String>,
    pub(super) version: Option<String>,
    pub(super) registry: Option<String>,
    pub(super) path: Option<PathBuf>,
    pub(super) git: Option<String>,
    /// `--branch`, `--tag` or `--rev`, and its value.
    pub(super) reference: Option<(String, String)>,
    /// For cargo's own install.
    pub(super) passed: Vec<String>,
    pub(super) options: Options,
}

impl Request {
    pub(super) fn parse(words: &[String]) -> Result<Self, Error> {
        let mut request = Self {
            options: Options::read_all(words),
            ..Self::default()
        };
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            let (name, value) = split(word);
            if !word.starts_with('-') {
                request.take_name(word)?;
                continue;
            }
            if !PASSED.contains(&name) && !TAKEN.contains(&name) {
                match name {
                    "--locked" => {}
                    "--frozen" => request.passed.push("--offline".into()),
                    _ => request.passed.push(word.clone()),
                }
                continue;
            }
            let next = || rest.next().cloned();
            let value = value.map(str::to_owned).or_else(next);
            let value = value.ok_or_else(|| refused(&format!("{name} needs a value")))?;
            request.take(name, value)?;
        }
        Ok(request)
    }

    fn take_name(&mut self, word: &str) -> Result<(), Error> {
        if self.name.is_some() {
            return Err(refused("one package at a time, please"));
        }
        let (name, version) = word.split_once('@').unwrap_or((word, ""));
        self.name = Some(name.into());
        if !version.is_empty() {
            self.version = Some(version.into());
        }
        Ok(())
    }

    fn take(&mut self, name: &str, value: String) -> Result<(), Error> {
        match name {
            "--version" | "--vers" => self.version = Some(value),
            "--path" => self.path = Some(value.into()),
            "--git" => self.git = Some(value),
            "--registry" => self.registry = Some(value),
            "--branch" | "--tag" | "--rev" => self.reference = Some((name.into(), value)),
            "--index" | "--manifest-path" => {
                return Err(refused(&format!(
                    "{name} is not supported; see --registry and --path"
                )));
            }
            _ => self.passed.extend([name.into(), value]),
        }
        Ok(())
    }

    /// The options for calls of cargo about this manifest.
    pub(super) fn options_for(&self, folder: &Path) -> Options {
        let mut options = self.options.clone();
        let manifest = folder.join("Cargo.toml").display().to_string();
        options.common.extend(["--manifest-path".into(), manifest]);
        options
    }

    /// As cargo's install reads versions: a plain one means that one.
    pub(super) fn requirement(&self) -> String {
        match &self.version {
            None => "*".into(),
            Some(version) if semver::Version::parse(version).is_ok() => format!("={version}"),
            Some(version) => version.clone(),
        }
    }

    pub(super) fn install(&self, folder: &Path, patches: &Patches) -> Command {
        let mut command = cargo();
        // The lock file is ours, and has been checked.
        command.args(["install", "--locked", "--path"]).arg(folder);
        command.args(patches.options()).args(&self.passed);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, Error> {
        Request::parse(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_line_is_read_as_cargos() {
        let request =
            parse("--root r server@1.2.3 --locked -Fx --bin=b --force --git u --tag t").unwrap();
        assert_eq!(request.name.as_deref(), Some("server"));
        assert_eq!(request.requirement(), "=1.2.3");
        assert_eq!(request.git.as_deref(), Some("u"));
        assert_eq!(request.reference, Some(("--tag".into(), "t".into())));
        assert_eq!(request.passed.join(" "), "--root r -F x --bin b --force");
        assert!(request.options.locked);
        assert_eq!(parse("server --version ^1").unwrap().requirement(), "^1");
        assert_eq!(parse("server").unwrap().requirement(), "*");
    }

    #[test]
    fn what_it_cannot_do_is_refused() {
        assert!(parse("a b").is_err());
        assert!(parse("a --index u").is_err());
        assert!(parse("--path").is_err());
    }
}
