//! A process that ends, whatever happens: when it is asked to, or when this is dropped.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::Failure;

/// What a step may take: a busy machine may need seconds.
pub(super) const LIMIT: Duration = Duration::from_secs(60);
/// What a program that is not wanted any more may take to end.
const GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

pub(super) struct Process {
    pub(super) name: String,
    child: Child,
    output: PathBuf,
    errors: PathBuf,
}

impl Process {
    /// Starts it, with what it says in two files of these names.
    pub(super) fn start(
        name: &str,
        command: &mut Command,
        output: PathBuf,
        errors: PathBuf,
    ) -> Result<Self, Failure> {
        command
            .stdin(std::process::Stdio::null())
            .stdout(fs::File::create(&output)?)
            .stderr(fs::File::create(&errors)?);
        let child = command
            .spawn()
            .map_err(|error| Failure::NotRun(format!("`{name}` cannot be started: {error}")))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            output,
            errors,
        })
    }

    pub(super) fn output(&self) -> String {
        read(&self.output)
    }

    pub(super) fn errors(&self) -> String {
        read(&self.errors)
    }

    /// Waits until it accepts connections at this address.
    pub(super) fn listens(&mut self, address: SocketAddr) -> Result<(), Failure> {
        let what = format!("to listen on {address}");
        self.wait_for(&what, |_| {
            TcpStream::connect_timeout(&address, LIMIT).is_ok()
        })
    }

    /// Waits until this is so.
    pub(super) fn wait_for(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&Self) -> bool,
    ) -> Result<(), Failure> {
        for () in pauses(LIMIT) {
            if is_so(self) {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                return Err(self.failed(&format!("ended with {status}; expected {what}")));
            }
        }
        Err(self.failed(&format!("did nothing for {LIMIT:?}; expected {what}")))
    }

    /// Waits for its end.
    pub(super) fn ended(&mut self) -> Result<ExitStatus, Failure> {
        for () in pauses(LIMIT) {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
        }
        Err(self.failed(&format!("goes on after {LIMIT:?}; expected to end")))
    }

    /// Waits for its end, which has to be a good one.
    pub(super) fn ends_well(&mut self) -> Result<(), Failure> {
        let status = self.ended()?;
        if status.success() {
            return Ok(());
        }
        Err(self.failed(&format!("ended with {status}; expected success")))
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), Failure> {
        kill_process(Pid::from_child(&self.child), signal)
            .map_err(|error| self.failed(&format!("cannot be sent a signal: {error}")))
    }

    /// How many instances of epoll it has. None where the system does not say.
    pub(super) fn epolls(&self) -> Option<usize> {
        let entries = fs::read_dir(format!("/proc/{}/fd", self.child.id())).ok()?;
        let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        let is_epoll = |link: &PathBuf| link.as_os_str() == "anon_inode:[eventpoll]";
        Some(links.filter(is_epoll).count())
    }

    /// It did this, which was not expected.
    pub(super) fn failed(&self, what: &str) -> Failure {
        let (said, told) = (self.output(), self.errors());
        Failure::NotRun(format!(
            "`{}` {what}\n{}{}",
            self.name,
            end(&said),
            end(&told)
        ))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A database leaves memory behind if it has no time to tidy up. A process that has ended is
        // sent nothing: its id may be another's. Errors have nobody to be told.
        if let Ok(None) = self.child.try_wait() {
            let _ = self.signal(Signal::TERM);
            let mut pauses = pauses(GRACE);
            while pauses.next().is_some() && matches!(self.child.try_wait(), Ok(None)) {}
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Pauses for so long in all. They are counted, not timed: if somebody stops this process and its
/// children for a while, that is nobody's fault.
fn pauses(length: Duration) -> impl Iterator<Item = ()> {
    (0..length.as_millis() / PAUSE.as_millis()).map(|_| thread::sleep(PAUSE))
}

fn read(path: &PathBuf) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last lines of what it said.
fn end(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(20);
    let indented = lines[from..].iter().map(|line| format!("    | {line}\n"));
    indented.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(folder: &tempfile::TempDir, script: &str) -> Process {
        let mut command = Command::new("sh");
        let file = |name| folder.path().join(name);
        let started = Process::start(
            "server",
            command.args(["-c", script]),
            file("out"),
            file("err"),
        );
        started.ok().expect("there is a shell")
    }

    #[test]
    fn a_server_that_ends_early_is_named_with_what_it_said() {
        let folder = tempfile::tempdir().unwrap();
        let mut server = shell(&folder, "echo no such port >&2; exit 3");
        // Nobody listens at port 1.
        let Err(Failure::NotRun(why)) = server.listens(([127, 0, 0, 1], 1).into()) else {
            panic!("it does not listen");
        };
        assert!(why.contains("`server` ended with exit status: 3"), "{why}");
        assert!(why.contains("| no such port"), "{why}");
        assert!(server.ends_well().is_err());
    }

    #[test]
    fn a_process_does_not_outlive_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let server = shell(&folder, "exec sleep 600");
        let process = Pid::from_child(&server.child);
        assert!(rustix::process::test_kill_process(process).is_ok());
        drop(server);
        assert!(rustix::process::test_kill_process(process).is_err());
    }
}
