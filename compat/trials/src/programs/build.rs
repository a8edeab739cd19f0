//! Building programs with `cargo evenkeel`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Package, Program};
use crate::Error;

/// What building one may take, on a slow machine that has nothing built yet.
const LIMIT: Duration = Duration::from_hours(1);
const PAUSE: Duration = Duration::from_millis(100);

/// Where programs are.
#[derive(Clone)]
pub(super) struct Folders {
    /// Published ones.
    pub(super) installed: PathBuf,
    /// Our own.
    pub(super) own: PathBuf,
}

pub(super) struct Builder {
    evenkeel: PathBuf,
    /// One for all, since most of what they need is the same.
    target: PathBuf,
    root: PathBuf,
    release: bool,
}

impl Builder {
    pub(super) fn new(target: &Path, release: bool) -> Result<Self, Error> {
        let kind = if release { "release" } else { "debug" };
        Ok(Self {
            evenkeel: crate::cargo_evenkeel()?,
            target: target.join("programs"),
            root: target.join("installed").join(kind),
            release,
        })
    }

    pub(super) fn folders(&self) -> Folders {
        let kind = if self.release { "release" } else { "debug" };
        Folders {
            installed: self.root.join("bin"),
            own: self.target.join(kind),
        }
    }

    /// Builds what a script needs.
    pub(super) fn build(&self, program: &Program) -> Result<(), Error> {
        for package in &program.packages {
            self.install(package)?;
        }
        if program.own {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs");
            let mut command = self.command("build", &["--locked"]);
            if self.release {
                command.arg("--release");
            }
            succeed(command.current_dir(folder), "our own programs")?;
        }
        Ok(())
    }

    fn install(&self, package: &Package) -> Result<(), Error> {
        let name = format!("{}@{}", package.name, package.version);
        let mut command = self.command("install", &[&name, "--force"]);
        command
            .args(&package.arguments)
            .arg("--root")
            .arg(&self.root);
        if !self.release {
            command.arg("--debug");
        }
        succeed(&mut command, &name)
    }

    fn command(&self, name: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.evenkeel);
        command
            .args(["evenkeel", name])
            .args(arguments)
            .env("CARGO_TARGET_DIR", &self.target)
            // The code is other people's: nobody looks for lines in it, or changes it.
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "0");
        command
    }
}

fn succeed(command: &mut Command, name: &str) -> Result<(), Error> {
    eprintln!("building {name}");
    let mut child = command.spawn()?;
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if begun.elapsed() > LIMIT {
            // It passes this on to cargo.
            kill_process(Pid::from_child(&child), Signal::TERM)?;
            child.wait()?;
            return Err(format!("{name} was not built within {LIMIT:?}").into());
        }
        thread::sleep(PAUSE);
    };
    if status.success() {
        Ok(())
    } else {
        Err(format!("{name} cannot be built").into())
    }
}
