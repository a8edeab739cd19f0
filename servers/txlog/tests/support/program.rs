//! Programs that a test starts, and ends by their ids.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::LIMIT;

/// A running `txlog serve`.
pub(crate) struct Server {
    child: Child,
    complaints: Option<JoinHandle<()>>,
    /// What came of them so far.
    said: Arc<Mutex<Vec<u8>>>,
    lines: Receiver<String>,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a server for this directory on a free port, and waits until it listens.
    pub(crate) fn start(directory: &Path, options: &[&str]) -> Self {
        let directory = directory.to_str().unwrap();
        let mut all = vec!["--dir", directory];
        all.extend(options);
        Self::start_with(&all)
    }

    /// `TXLOG_PROGRAM` names another build of it.
    pub(crate) fn start_with(options: &[&str]) -> Self {
        let program = std::env::var_os("TXLOG_PROGRAM");
        let program = program.unwrap_or_else(|| env!("CARGO_BIN_EXE_txlog").into());
        Self::begin(Command::new(program), options)
    }

    /// Starts a server whose files cannot grow: its first append fails for good.
    pub(crate) fn start_without_room(directory: &Path, options: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        let limit = "trap '' XFSZ; ulimit -f 64; exec \"$@\"";
        shell.args(["-c", limit, "sh", env!("CARGO_BIN_EXE_txlog")]);
        let directory = directory.to_str().unwrap();
        let mut all = vec!["--dir", directory];
        all.extend(options);
        Self::begin(shell, &all)
    }

    /// Starts a server for this directory where one was before that has ended.
    pub(crate) fn start_again(directory: &Path, address: SocketAddr, options: &[&str]) -> Self {
        let (directory, address) = (directory.to_str().unwrap(), address.to_string());
        let mut all = vec!["--dir", directory];
        all.extend(options);
        let program = Command::new(env!("CARGO_BIN_EXE_txlog"));
        Self::begin_at(program, &address, &all)
    }

    /// Starts a server that may have so many files and connections open, by these arguments of
    /// `ulimit`.
    pub(crate) fn start_with_files(files: &str, directory: &Path, options: &[&str]) -> Self {
        let mut shell = Command::new("sh");
        let limit = format!("ulimit {files}; exec \"$@\"");
        shell.args(["-c", &limit, "sh", env!("CARGO_BIN_EXE_txlog")]);
        let directory = directory.to_str().unwrap();
        let mut all = vec!["--dir", directory];
        all.extend(options);
        Self::begin(shell, &all)
    }

    fn begin(command: Command, options: &[&str]) -> Self {
        Self::begin_at(command, "127.0.0.1:0", options)
    }

    fn begin_at(mut command: Command, listen: &str, options: &[&str]) -> Self {
        let mut child = command
            .args(["serve", "--listen", listen])
            .args(options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut errors = child.stderr.take().unwrap();
        let said = Arc::new(Mutex::new(Vec::new()));
        let hearing = Arc::clone(&said);
        let complaints = thread::spawn(move || {
            let mut part = [0; 4_096];
            while let Ok(bytes @ 1..) = errors.read(&mut part) {
                hearing.lock().unwrap().extend_from_slice(&part[..bytes]);
            }
        });
        let mut server = Self {
            child,
            complaints: Some(complaints),
            said,
            lines,
            address: SocketAddr::from(([0; 4], 0)),
        };
        match server.lines.recv_timeout(LIMIT) {
            Ok(line) => {
                let address = line.strip_prefix("listening on ").unwrap();
                server.address = address.parse().unwrap();
            }
            Err(_) => panic!("the server does not listen: {}", server.end()),
        }
        server
    }

    /// Its process's id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(&mut self) {
        // SIGKILL, to this process only.
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill")
            .args(["-s", name, &pid])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// The names of its threads.
    #[cfg(target_os = "linux")]
    pub(crate) fn threads(&self) -> Vec<String> {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let name = |thread: std::io::Result<std::fs::DirEntry>| {
            let name = std::fs::read_to_string(thread.unwrap().path().join("comm"));
            name.unwrap_or_default().trim_end().to_owned()
        };
        threads.map(name).collect()
    }

    /// Waits until it ends by itself.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        wait(&mut self.child)
    }

    /// Ends it, and returns its messages on standard error.
    pub(crate) fn end(&mut self) -> String {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(complaints) = self.complaints.take() {
            complaints.join().unwrap();
        }
        self.said()
    }

    /// Its messages on standard error so far.
    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&self.said.lock().unwrap()).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let complaints = self.end();
        if thread::panicking() {
            eprintln!("the server's own errors:\n{complaints}");
        }
    }
}

/// Waits until it ends, and ends it if that takes too long.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
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
    let mut child = Command::new(env!("CARGO_BIN_EXE_txlog"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (output, errors) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let (output, errors) = (all_of(output), all_of(errors));
    let status = wait(&mut child);
    (
        status.success(),
        output.join().unwrap(),
        errors.join().unwrap(),
    )
}

/// Reads to the end, on a thread of its own.
fn all_of(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut text = String::new();
        pipe.read_to_string(&mut text).unwrap();
        text
    })
}
