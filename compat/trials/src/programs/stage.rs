//! What a script has: the programs, a mode in which they run, and a folder for them.

use std::fmt::Debug;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use cargo_evenkeel::mode::Mode;
use rustix::process::Signal;
use tempfile::TempDir;

use super::Failure;
use super::build::Folders;
use super::process::Process;
use super::report::Used;
use crate::Error;

pub(super) struct Stage {
    folders: Folders,
    mode: Mode,
    folder: TempDir,
    started: usize,
    used: Vec<Used>,
}

impl Stage {
    pub(super) fn new(folders: Folders, mode: Mode) -> Result<Self, Error> {
        Ok(Self {
            folders,
            mode,
            folder: tempfile::tempdir()?,
            started: 0,
            used: Vec::new(),
        })
    }

    /// Is removed with what is in it.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn into_used(self) -> Vec<Used> {
        self.used
    }

    /// Starts a published program, or one of our own.
    pub(super) fn start(&mut self, program: &str, words: &[&str]) -> Result<Process, Failure> {
        let own = self.folders.own.join(program);
        let installed = self.folders.installed.join(program);
        let path = if installed.is_file() { installed } else { own };
        let mut command = Command::new(path);
        command
            .envs(self.mode.environment())
            .env("EVENKEEL_REPORT", "1")
            .env_remove("EVENKEEL_SETTINGS");
        command.args(words);
        self.start_command(program, &mut command)
    }

    /// Starts a program of the system's, which knows nothing of modes.
    pub(super) fn start_command(
        &mut self,
        name: &str,
        command: &mut Command,
    ) -> Result<Process, Failure> {
        self.started += 1;
        let file = |kind| {
            self.folder()
                .join(format!("{}-{name}.{kind}", self.started))
        };
        let (output, errors): (PathBuf, PathBuf) = (file("out"), file("err"));
        command.current_dir(self.folder.path());
        Process::start(name, command, output, errors)
    }

    /// Runs a program to its end, which has to be a good one, and takes what it says.
    pub(super) fn run(&mut self, program: &str, words: &[&str]) -> Result<String, Failure> {
        let process = self.start(program, words)?;
        self.finish(process)
    }

    /// Waits for a good end.
    fn finish(&mut self, mut process: Process) -> Result<String, Failure> {
        process.ends_well()?;
        self.keep(&process, None);
        Ok(process.output())
    }

    /// Asks a program to end that handles Ctrl-C.
    pub(super) fn interrupt(&mut self, process: Process) -> Result<(), Failure> {
        process.signal(Signal::INT)?;
        self.finish(process).map(drop)
    }

    /// Ends a program that does not handle Ctrl-C. If it handles no other signal it cannot report.
    pub(super) fn terminate(&mut self, mut process: Process) -> Result<(), Failure> {
        let epolls = process.epolls();
        process.signal(Signal::TERM)?;
        process.ended()?;
        self.keep(&process, epolls);
        Ok(())
    }

    /// Keeps what a process has reported.
    pub(super) fn keep(&mut self, process: &Process, epolls: Option<usize>) {
        Used::new(&process.name, &process.errors(), epolls).add_to(&mut self.used);
    }
}

/// An address at which nobody listens.
pub(super) fn free() -> Result<SocketAddr, Failure> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// An answer has to be the expected one.
pub(super) fn expect<T: PartialEq + Debug>(
    what: &str,
    found: &T,
    expected: &T,
) -> Result<(), Failure> {
    if found == expected {
        Ok(())
    } else {
        Err(Failure::Wrong(format!(
            "{what}: {}; expected {}",
            short(found),
            short(expected)
        )))
    }
}

/// An answer may be long.
fn short(value: &impl Debug) -> String {
    let text = format!("{value:?}");
    match text.char_indices().nth(300) {
        Some((at, _)) => format!("{}... ({} bytes)", &text[..at], text.len()),
        None => text,
    }
}
