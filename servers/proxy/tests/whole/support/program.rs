//! The program, started by a test and ended by its id.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use serde_json::Value;
use servers_common::testing::{Program, signal};
use tempfile::TempDir;

use super::{Client, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_evenkeel-proxy");

/// A running `evenkeel-proxy run`.
pub(crate) struct Proxy {
    program: Program,
    directory: TempDir,
    /// Where each listener listens.
    addresses: BTreeMap<String, String>,
}

impl Proxy {
    /// Starts it by this configuration, with a socket for operators, and waits until it is ready.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_with("", config)
    }

    /// The same with more of `[process]`.
    pub(crate) fn start_with(process: &str, config: &str) -> Self {
        Self::start_in(&[], process, config)
    }

    /// The same with so many descriptors.
    pub(crate) fn start_limited(descriptors: usize, config: &str) -> Self {
        let mut shell = Command::new("sh");
        shell.args([
            "-c",
            "ulimit -n $0 && exec \"$@\"",
            &descriptors.to_string(),
        ]);
        Self::start_by(Some(shell), &[], "", config)
    }

    /// The same under a command that starts it.
    pub(crate) fn start_under(shell: Command, process: &str, config: &str) -> Self {
        Self::start_by(Some(shell), &[], process, config)
    }

    /// The same with these variables in its environment.
    pub(crate) fn start_in(variables: &[(&str, &Path)], process: &str, config: &str) -> Self {
        Self::start_by(None, variables, process, config)
    }

    fn start_by(
        shell: Option<Command>,
        variables: &[(&str, &Path)],
        process: &str,
        config: &str,
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("proxy.toml");
        write(&file, process, config, directory.path());
        // By a link, so that a test can put another program there.
        let program = directory.path().join("program");
        std::os::unix::fs::symlink(PROGRAM, &program).unwrap();
        let mut command = match shell {
            None => Command::new(program),
            Some(mut shell) => {
                shell.arg(program);
                shell
            }
        };
        command
            .arg("run")
            .arg(&file)
            .envs(variables.iter().copied());
        let mut program = Program::start(&mut command);
        let mut addresses = BTreeMap::new();
        loop {
            let line = program.line();
            if line == "ready" {
                break;
            }
            if let Some(listener) = line.strip_prefix("listening on ") {
                let (name, address) = listener.split_once(' ').unwrap();
                addresses.insert(name.to_owned(), address.to_owned());
            }
            if let Some(page) = line.strip_prefix("page at http://") {
                let address = page.trim_end_matches('/').to_owned();
                addresses.insert("(page)".to_owned(), address);
            }
        }
        Self {
            program,
            directory,
            addresses,
        }
    }

    /// Writes another configuration into its file.
    pub(crate) fn rewrite(&self, config: &str) {
        let file = self.directory.path().join("proxy.toml");
        write(&file, "", config, self.directory.path());
    }

    /// Changes its file.
    pub(crate) fn edit(&self, old: &str, new: &str) {
        let file = self.directory.path().join("proxy.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(old), "{text}");
        std::fs::write(&file, text.replace(old, new)).unwrap();
    }

    /// Puts a script where its program is, or the program again.
    pub(crate) fn program_becomes(&self, script: Option<&str>) {
        let program = self.path("program");
        std::fs::remove_file(&program).unwrap();
        match script {
            None => std::os::unix::fs::symlink(PROGRAM, &program).unwrap(),
            Some(script) => {
                std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
                let all = std::fs::Permissions::from_mode(0o755);
                std::fs::set_permissions(&program, all).unwrap();
            }
        }
    }

    /// The process that serves: the one that was started, or one that has taken over.
    pub(crate) fn serving(&self) -> u32 {
        let text = std::fs::read_to_string(self.path("pid")).unwrap();
        text.trim_end().parse().unwrap()
    }

    /// Has another process take over, and waits until it serves.
    pub(crate) fn upgrade(&self) {
        let before = self.serving();
        let said = self.ctl("upgrade");
        let id = said.split(' ').nth(1).unwrap().parse();
        until("it has written its process id", || Ok(self.serving()) == id);
        assert_ne!(self.serving(), before);
    }

    /// Where this listener listens.
    pub(crate) fn address(&self, listener: &str) -> &str {
        &self.addresses[listener]
    }

    /// A connection to the listener `web`.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address("web"))
    }

    /// A file in its directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Asks it by its own command line; panics at an error.
    pub(crate) fn ctl(&self, command: &str) -> String {
        let (done, said, errors) = self.try_ctl(command);
        assert!(done, "{command}: {errors}");
        said
    }

    pub(crate) fn try_ctl(&self, command: &str) -> (bool, String, String) {
        let socket = self.path("admin");
        run_command(&["ctl", "--socket", socket.to_str().unwrap(), command])
    }

    /// A row of `show stat`: a server as `app/s0`, a pool as `app/BACKEND`, a listener as
    /// `web/FRONTEND`.
    pub(crate) fn row(&self, name: &str) -> Value {
        let (of, server) = name.split_once('/').unwrap();
        let rows: Vec<Value> = serde_json::from_str(&self.ctl("show stat json")).unwrap();
        let found = |row: &&Value| row["pxname"] == of && row["svname"] == server;
        rows.iter().find(found).unwrap().clone()
    }

    /// A number of `show stat`.
    pub(crate) fn stat(&self, name: &str, column: &str) -> u64 {
        self.row(name)[column].as_u64().unwrap()
    }

    /// Waits until a server has this status.
    pub(crate) fn until_status(&self, server: &str, status: &str) {
        until(&format!("{server} is {status}"), || {
            self.row(server)["status"] == status
        });
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        self.program.descriptors()
    }

    /// How many ends of pipes are among them.
    pub(crate) fn pipes(&self) -> usize {
        let listed = std::fs::read_dir(format!("/proc/{}/fd", self.program.id()));
        let is_pipe = |path: &PathBuf| {
            // It may have been closed meanwhile.
            std::fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with("pipe:"))
        };
        let paths = listed.unwrap().flatten().map(|entry| entry.path());
        paths.filter(is_pipe).count()
    }

    pub(crate) fn signal(&self, name: &str) {
        self.program.signal(name);
    }

    /// Ends the process that has taken over, and waits for that.
    pub(crate) fn end_successor(&self) {
        signal(self.serving(), "TERM");
        until("the last process ends", || !self.path("pid").exists());
    }

    /// Waits until it has said this on standard error.
    pub(crate) fn until_said(&self, what: &str) {
        until(&format!("it says {what:?}"), || {
            self.complaints().contains(what)
        });
    }

    /// Waits until it ends by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        self.program.ended()
    }

    /// What it has said on standard error.
    pub(crate) fn complaints(&self) -> String {
        self.program.said()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.program.kill();
        let text = std::fs::read_to_string(self.path("pid")).unwrap_or_default();
        if let Ok(other) = text.trim_end().parse::<u32>()
            && other != self.program.id()
        {
            signal(other, "KILL");
        }
    }
}

fn write(file: &Path, process: &str, config: &str, directory: &Path) {
    let (socket, pid) = (directory.join("admin"), directory.join("pid"));
    let text = format!(
        "[process]\nworkers = 2\nconnections_max = 500\nadmin_socket = {socket:?}\n\
         pid_file = {pid:?}\n{process}\n{config}"
    );
    std::fs::write(file, text).unwrap();
}

/// Runs a command of the program: whether it succeeded, its output and its errors.
pub(crate) fn run_command(arguments: &[&str]) -> (bool, String, String) {
    Program::run(Command::new(PROGRAM).args(arguments))
}
