//! The program, started by a test and ended by its id.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;

use tempfile::TempDir;

use super::{Client, LIMIT};

/// A running `evenkeel-cameras run`.
pub(crate) struct Program {
    child: Child,
    _directory: TempDir,
    complaints: Arc<Mutex<String>>,
    /// Where it listens for RTSP.
    pub(crate) rtsp: String,
    /// Where it listens for browsers, if it does.
    pub(crate) watch: String,
}

impl Program {
    /// Starts it by this configuration, with a listener for RTSP, and waits until it is ready.
    pub(crate) fn start(config: &str) -> Self {
        Self::start_with("", config)
    }

    /// The same with more of `[rtsp]`.
    pub(crate) fn start_with(rtsp: &str, config: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("cameras.toml");
        let text = format!(
            "[process]\nworkers = 2\n\
             [ingest]\nretry_first = \"20ms\"\nretry_max = \"100ms\"\nsilence = \"5s\"\n\
             [rtsp]\nlisten = \"127.0.0.1:0\"\n{rtsp}\n{config}"
        );
        std::fs::write(&file, text).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_evenkeel-cameras"))
            .arg("run")
            .arg(&file)
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
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut program = Self {
            child,
            _directory: directory,
            complaints,
            rtsp: String::new(),
            watch: String::new(),
        };
        loop {
            match lines.recv_timeout(LIMIT) {
                Ok(line) if line == "ready" => return program,
                Ok(line) => {
                    if let Some(address) = line.strip_prefix("listening on rtsp ") {
                        address.clone_into(&mut program.rtsp);
                    }
                    if let Some(address) = line.strip_prefix("watch at http://") {
                        address.trim_end_matches('/').clone_into(&mut program.watch);
                    }
                }
                Err(_) => panic!("the program does not begin: {}", program.complaints()),
            }
        }
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn terminate(&mut self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &pid]).status();
        assert!(sent.unwrap().success());
        super::until("the program ends", || {
            self.child.try_wait().unwrap().is_some()
        });
    }

    /// The address of a camera, for viewers.
    pub(crate) fn url(&self, camera: &str) -> String {
        format!("rtsp://{}/{camera}", self.rtsp)
    }

    /// A connection of a client.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(&self.rtsp)
    }

    /// A viewer that plays, as soon as the camera can be watched.
    pub(crate) fn watch(&self, camera: &str) -> Client {
        let url = self.url(camera);
        let mut watching = None;
        super::until(&format!("{camera} can be watched"), || {
            let mut client = self.connect();
            watching = client.plays(&url).then_some(client);
            watching.is_some()
        });
        watching.unwrap()
    }

    /// How many descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        let listed = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        listed.unwrap().count()
    }

    /// What it occupies in memory, in bytes.
    pub(crate) fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap();
        let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1_024
    }

    /// What it has said on standard error.
    pub(crate) fn complaints(&self) -> String {
        self.complaints.lock().unwrap().clone()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("the program's own errors:\n{}", self.complaints());
        }
    }
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
