//! The program, started by a test and ended by its id.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use super::{Client, LIMIT, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_evenkeel-proxy");

/// A running `evenkeel-proxy run`.
pub(crate) struct Proxy {
    child: Child,
    directory: TempDir,
    complaints: Arc<Mutex<String>>,
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
        let mut child = command
            .arg("run")
            .arg(&file)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let complaints = collected(child.stderr.take().unwrap());
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                // Nobody asks for more when it is ready.
                let _ = sender.send(line);
            }
        });
        let mut proxy = Self {
            child,
            directory,
            complaints,
            addresses: BTreeMap::new(),
        };
        loop {
            match lines.recv_timeout(LIMIT) {
                Ok(line) if line == "ready" => return proxy,
                Ok(line) => {
                    if let Some(listener) = line.strip_prefix("listening on ") {
                        let (name, address) = listener.split_once(' ').unwrap();
                        proxy.addresses.insert(name.to_owned(), address.to_owned());
                    }
                    if let Some(page) = line.strip_prefix("page at http://") {
                        let address = page.trim_end_matches('/').to_owned();
                        proxy.addresses.insert("(page)".to_owned(), address);
                    }
                }
                Err(_) => panic!("the proxy does not begin: {}", proxy.complaints()),
            }
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
        let listed = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        listed.unwrap().count()
    }

    pub(crate) fn signal(&self, name: &str) {
        kill(self.child.id(), name);
    }

    /// Ends the process that has taken over, and waits for that.
    pub(crate) fn end_successor(&self) {
        kill(self.serving(), "TERM");
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
        let mut status = None;
        until("the proxy ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// What it has said on standard error.
    pub(crate) fn complaints(&self) -> String {
        self.complaints.lock().unwrap().clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let started = self.child.id();
        let _ = self.child.kill();
        let _ = self.child.wait();
        let text = std::fs::read_to_string(self.path("pid")).unwrap_or_default();
        if let Ok(other) = text.trim_end().parse::<u32>()
            && other != started
        {
            kill(other, "KILL");
        }
        if thread::panicking() {
            eprintln!("the proxy's own errors:\n{}", self.complaints());
        }
    }
}

fn kill(process: u32, signal: &str) {
    let sent = Command::new("kill")
        .args(["-s", signal, &process.to_string()])
        .status();
    assert!(sent.unwrap().success());
}

fn write(file: &Path, process: &str, config: &str, directory: &Path) {
    let (socket, pid) = (directory.join("admin"), directory.join("pid"));
    let text = format!(
        "[process]\nworkers = 2\nconnections_max = 500\nadmin_socket = {socket:?}\n\
         pid_file = {pid:?}\n{process}\n{config}"
    );
    std::fs::write(file, text).unwrap();
}

/// Reads all of it on a thread of its own, while it comes.
fn collected(pipe: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let collected = Arc::clone(&text);
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let mut text = collected.lock().unwrap();
            text.push_str(&line);
            text.push('\n');
        }
    });
    text
}

/// Waits for a program that ends by itself. One that does not is ended.
fn wait(child: &mut Child) -> ExitStatus {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if began.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the program does not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a command of the program: whether it succeeded, its output and its errors.
pub(crate) fn run_command(arguments: &[&str]) -> (bool, String, String) {
    let mut child = Command::new(PROGRAM)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (output, errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (output, errors) = (all_of(output), all_of(errors));
    let done = wait(&mut child).success();
    (done, output.join().unwrap(), errors.join().unwrap())
}

fn all_of(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    })
}
