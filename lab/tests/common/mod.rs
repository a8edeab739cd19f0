//! A server process under test, and small clients for it.
#![allow(
    dead_code,
    unused_macros,
    reason = "each test program uses its own part"
)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Any port of the loopback device.
pub(crate) const ANY: &str = "127.0.0.1:0";

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
    /// `flags` stand as on a command line, with [`ANY`] for an address of which any port will do.
    pub(crate) fn start(runtime: &str, flags: &str) -> Server {
        Server::start_with(runtime, flags, &[])
    }

    /// The same with flags in which there may be spaces.
    pub(crate) fn start_with(runtime: &str, flags: &str, more: &[&str]) -> Server {
        let mut command = lab();
        command.args(["serve", runtime, "--workers", "2"]);
        command.args(words(flags)).args(more);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the lab starts");
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

    /// Ends its standard input, and waits for it to end by itself; what it wrote to standard error
    /// comes along.
    pub(crate) fn leave(mut self) -> (ExitStatus, String) {
        drop(self.stdin.take());
        self.wait()
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
        let id = child.id();
        assert!(Instant::now() < deadline, "process {id} does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).expect("the server listens");
    let bounded = stream.set_read_timeout(Some(PATIENCE));
    bounded.expect("a timeout can be set");
    stream
}

/// Whether `words` come back as they went.
pub(crate) fn echoes(stream: &mut TcpStream, words: &[u8]) -> bool {
    stream.write_all(words).expect("the server reads");
    let mut back = vec![0; words.len()];
    stream.read_exact(&mut back).expect("the server answers");
    back == words
}

/// All text that comes until the other side closes.
pub(crate) fn rest(stream: &mut TcpStream) -> String {
    let mut text = String::new();
    let read = stream.read_to_string(&mut text);
    read.expect("the server answers and closes");
    text
}

/// Whether the other side has hung up.
pub(crate) fn hangs_up(stream: &mut TcpStream) -> bool {
    matches!(stream.read(&mut [0; 1]), Ok(0) | Err(_))
}

/// Head and body of the answer to `GET path` over a connection of its own.
pub(crate) fn get(address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = connect(address);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let asked = stream.write_all(request.as_bytes());
    asked.expect("the server reads");
    let answer = rest(&mut stream);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_owned(), body.to_owned())
}

pub(crate) fn get_json(address: SocketAddr, path: &str) -> Value {
    let (head, body) = get(address, path);
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    serde_json::from_str(&body).expect("JSON")
}

/// The one line of JSON that a load generator prints; `args` stand as on a command line.
pub(crate) fn load(args: &str) -> Value {
    let output = lab().arg("load").args(words(args)).arg("--json").output();
    let output = output.expect("the lab starts");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "load {args}: {complaint}");
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

/// What the lab complains of when it is given `args`: it has to fail.
pub(crate) fn complaint(args: &str) -> String {
    let output = lab().args(words(args)).output().expect("the lab starts");
    assert!(!output.status.success(), "{args}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The words of a command line; `ANY` is [`ANY`].
pub(crate) fn words(line: &str) -> Vec<String> {
    let line = line.replace("ANY", ANY);
    line.split_whitespace().map(str::to_owned).collect()
}

/// Whether each of these numbers is in `found` as it should be.
#[track_caller]
pub(crate) fn has<const N: usize>(found: &Value, numbers: [(&str, u64); N]) {
    for (name, number) in numbers {
        assert_eq!(found[name], number, "{name} of {found}");
    }
}

pub(crate) fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("a number: {value}"))
}

/// The first line that a child says.
pub(crate) fn first_line(child: &mut Child) -> String {
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("it says something");
    line.trim().to_owned()
}

/// An empty directory of that name.
pub(crate) fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    // There may be one of an earlier run.
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).expect("a directory can be made");
    path
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
