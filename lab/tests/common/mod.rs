//! A server process under test, and small clients for it.
#![allow(
    dead_code,
    unused_macros,
    reason = "each test program uses its own part"
)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A suite of tests that take a runtime's name, on each runtime.
macro_rules! suite {
    ($($test:ident,)+) => {
        suite! { @tokio $($test)+ }
        suite! { @evenkeel $($test)+ }
    };
    (@$runtime:ident $($test:ident)+) => {
        mod $runtime {
            $(#[test] fn $test() { super::$test(stringify!($runtime)); })+
        }
    };
}

/// Longer than anything here takes on a loaded machine: reaching it is a failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn lab() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evenkeel-lab"))
}

/// `evenkeel-lab serve RUNTIME FLAGS`, ready; killed when dropped.
pub(crate) struct Server {
    pub(crate) child: Child,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) lines: Receiver<String>,
    addresses: HashMap<String, SocketAddr>,
    stderr: Option<ChildStderr>,
}

impl Server {
    pub(crate) fn start(runtime: &str, flags: &[&str]) -> Server {
        let mut command = lab();
        command
            .args(["serve", runtime, "--workers", "2"])
            .args(flags);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the lab starts");
        let stdout = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let mut server = Server {
            child,
            stdin,
            lines,
            addresses: HashMap::new(),
            stderr,
        };
        loop {
            let line = server
                .lines
                .recv_timeout(PATIENCE)
                .expect("a server says `ready`");
            if line == "ready" {
                return server;
            }
            let (service, address) = line.split_once(' ').expect("SERVICE ADDRESS");
            let address = address.parse().expect("an address");
            server.addresses.insert(service.to_owned(), address);
        }
    }

    pub(crate) fn address(&self, service: &str) -> SocketAddr {
        self.addresses[service]
    }

    pub(crate) fn services(&self) -> Vec<&str> {
        let mut services: Vec<&str> = self.addresses.keys().map(String::as_str).collect();
        services.sort_unstable();
        services
    }

    pub(crate) fn connect(&self, service: &str) -> TcpStream {
        connect(self.address(service))
    }

    /// Waits for it to end by itself; what it wrote to standard error comes along.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let status = wait(&mut self.child);
        let mut words = String::new();
        if let Some(mut stderr) = self.stderr.take() {
            stderr
                .read_to_string(&mut words)
                .expect("standard error is text");
        }
        (status, words)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return status;
        }
        assert!(
            Instant::now() < deadline,
            "process {} does not end",
            child.id()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("the server listens");
    stream
        .set_read_timeout(Some(PATIENCE))
        .expect("a timeout can be set");
    stream
}

/// Whether `words` come back as they went.
pub(crate) fn echoes(stream: &mut TcpStream, words: &[u8]) -> bool {
    stream.write_all(words).expect("the server reads");
    let mut back = vec![0; words.len()];
    stream.read_exact(&mut back).expect("the server answers");
    back == words
}

/// Head and body of the answer to `GET path` over a connection of its own.
pub(crate) fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = connect(address);
    let request = format!("GET {path} HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n");
    stream
        .write_all(request.as_bytes())
        .expect("the server reads");
    let mut answer = String::new();
    stream
        .read_to_string(&mut answer)
        .expect("the server answers and closes");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

pub(crate) fn get_json(address: SocketAddr, path: &str) -> serde_json::Value {
    let (head, body) = get(address, path);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    serde_json::from_str(&body).expect("JSON")
}

/// The one line of JSON that a load generator prints.
pub(crate) fn load(args: &[&str]) -> serde_json::Value {
    let output = lab()
        .arg("load")
        .args(args)
        .arg("--json")
        .output()
        .expect("the lab starts");
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "load {args:?}: {words}");
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

/// Whether process `pid` is gone, or only waits for its parent to notice.
pub(crate) fn is_gone(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(_) => true,
        Ok(stat) => stat.contains(") Z "),
    }
}

/// Waits until `condition` holds.
pub(crate) fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
