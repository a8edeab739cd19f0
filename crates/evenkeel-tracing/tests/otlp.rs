//! The example `otlp` as users run it: a program that exports its spans to a collector, which here
//! is this test.

// The test only starts a program. Under ThreadSanitizer every program needs a part of the crate.
use evenkeel as _;

use std::env;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than the test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

/// The example's executable, which cargo builds beside the tests.
fn example() -> PathBuf {
    let test = env::current_exe().expect("this is a program");
    let target = test.ancestors().nth(2).expect("tests are in `deps`");
    let path = target.join("examples/otlp");
    assert!(
        path.exists(),
        "build it: cargo build -p evenkeel-tracing --examples"
    );
    path
}

/// A request of HTTP: its first line, and its body.
struct Received {
    line: String,
    body: Vec<u8>,
}

impl Received {
    fn contains(&self, text: &str) -> bool {
        self.body
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    }
}

/// Takes one request from a connection, and answers that all is well.
fn receive(stream: TcpStream) -> io::Result<Received> {
    stream.set_read_timeout(Some(LIMIT))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim_end().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length: ") {
            length = value.parse().map_err(io::Error::other)?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    reader.get_mut().write_all(answer.as_bytes())?;
    Ok(Received { line, body })
}

/// Waits for a program, and ends it if it takes too long.
fn ended(mut program: Child) -> Output {
    let deadline = Instant::now() + LIMIT;
    while program.try_wait().expect("it can be waited for").is_none() {
        if Instant::now() > deadline {
            program.kill().expect("it can be ended");
        }
        thread::sleep(Duration::from_millis(10));
    }
    program.wait_with_output().expect("its output can be read")
}

#[test]
fn spans_arrive_at_a_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it has an address");
    let program = Command::new(example())
        .arg(format!("http://{address}"))
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let collector = thread::spawn(move || receive(listener.accept()?.0));
    let output = ended(program);
    // If the program never came, this connection ends the wait; the request is then empty.
    drop(TcpStream::connect(address));
    let log = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}{complaints}");

    let received = collector.join().expect("no panic");
    let received = received.unwrap_or_else(|error| panic!("no request: {error}\n{log}"));
    assert!(
        received.line.starts_with("POST /v1/traces "),
        "{}",
        received.line
    );
    for text in [
        "request",
        "evenkeel-example",
        "/health",
        "/compute",
        "urgent",
        "normal",
    ] {
        assert!(received.contains(text), "{text} is not in the body");
    }
    // The same in the log: the class at the beginning, and what the hog was within.
    let line = |end: &str| {
        log.lines()
            .find(|line| line.contains(end))
            .unwrap_or_default()
    };
    assert!(line("answered").starts_with("[urgent "), "{log}");
    let hog = line("computed for too long");
    assert!(hog.starts_with("[normal "), "{log}");
    assert!(
        hog.contains("within=\"request{uri=/compute class=normal}\""),
        "{log}"
    );
}
