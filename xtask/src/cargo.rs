//! Running cargo: from the workspace's root, with its output shown as it comes.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};

/// The workspace's root: the parent of this package's folder, wherever the command is typed.
pub(crate) fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        // Cargo says at run time where this package lies. What was compiled in can be another
        // clone, if two share a target directory.
        let folder = std::env::var_os("CARGO_MANIFEST_DIR");
        let folder =
            folder.map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        folder
            .parent()
            .expect("xtask/ lies in the workspace's root")
            .to_owned()
    });
    &ROOT
}

/// Where build products go: `CARGO_TARGET_DIR`, else `target/` in the root.
pub(crate) fn target_dir() -> PathBuf {
    let named = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target"));
    root().join(named)
}

/// One cargo command; displays as what a person would type.
#[derive(Debug)]
pub(crate) struct Cargo {
    /// What takes these words in the place of cargo.
    program: Option<PathBuf>,
    environment: Vec<(&'static str, String)>,
    arguments: Vec<String>,
}

impl Cargo {
    /// `cargo` with these words after it.
    pub(crate) fn new(line: &str) -> Self {
        let arguments = line.split_whitespace().map(str::to_owned).collect();
        Self {
            program: None,
            environment: Vec::new(),
            arguments,
        }
    }

    /// Has another program take the words, which calls cargo itself.
    pub(crate) fn by(mut self, program: PathBuf) -> Self {
        self.program = Some(program);
        self
    }

    /// Adds one argument which may hold spaces.
    pub(crate) fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Builds in a folder of its own, as flags make other products.
    pub(crate) fn target_dir(self, folder: &Path) -> Result<Self> {
        let folder = folder
            .to_str()
            .context("the target directory is not UTF-8")?;
        Ok(self.arg("--target-dir").arg(folder))
    }

    /// Sets a variable for this command alone.
    pub(crate) fn env(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// The command for callers that want its output instead of showing it.
    pub(crate) fn command(&self) -> Command {
        // Cargo names itself to what it runs: the same toolchain then serves all steps.
        let cargo = || std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
        let program = self.program.as_ref().map(OsString::from);
        let mut command = Command::new(program.unwrap_or_else(cargo));
        command
            .current_dir(root())
            .args(&self.arguments)
            .envs(self.environment.iter().cloned());
        command
    }

    /// Shows the command, runs it with our own output, and fails as it fails.
    pub(crate) fn run(&self) -> Result<()> {
        println!("$ {self}");
        let status = self
            .command()
            .status()
            .with_context(|| format!("cannot start `{self}`"))?;
        self.expect_success(status)
    }

    /// An error that names the command, unless it succeeded.
    pub(crate) fn expect_success(&self, status: ExitStatus) -> Result<()> {
        if !status.success() {
            bail!("`{self}` failed ({status})");
        }
        Ok(())
    }
}

impl fmt::Display for Cargo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.environment {
            write!(f, "{name}={} ", quoted(value))?;
        }
        f.write_str("cargo")?;
        for argument in &self.arguments {
            write!(f, " {}", quoted(argument))?;
        }
        Ok(())
    }
}

/// Quotes what a shell would otherwise split, so that a shown command can be pasted.
fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(char::is_whitespace) {
        format!("'{word}'")
    } else {
        word.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_displays_as_it_would_be_typed() {
        let command = Cargo::new("test --lib")
            .env("RUSTFLAGS", "--cfg a")
            .arg("two words");
        assert_eq!(
            command.to_string(),
            "RUSTFLAGS='--cfg a' cargo test --lib 'two words'"
        );
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = Cargo::new("no-such-subcommand")
            .run()
            .expect_err("cargo refuses it");
        assert!(
            error.to_string().contains("cargo no-such-subcommand"),
            "{error}"
        );
    }

    #[test]
    fn the_root_holds_the_workspace_manifest() {
        assert!(root().join("Cargo.lock").exists());
    }
}
