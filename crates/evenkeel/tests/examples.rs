//! The examples as users run them: programs of their own, tested over sockets.
//!
//! Each program is started on port 0 and prints its address. Every wait has a limit, and a program
//! that a test leaves behind is ended.

// These tests only start programs. Under ThreadSanitizer every program needs a part of the crate.
use evenkeel as _;

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The longest that any one step may take. Far more than needed: a test fails by wrong output, and
/// by time only when there is none.
const LIMIT: Duration = Duration::from_secs(30);

/// A running example.
struct Program {
    child: Child,
    complaints: Option<JoinHandle<String>>,
    address: SocketAddr,
    lines: Receiver<String>,
}

impl Program {
    /// Starts the example on a free port, and waits until it prints which one.
    fn start(name: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new(path(name))
            .arg("127.0.0.1:0")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {name}: {error}"));
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
        let complaints = thread::spawn(move || {
            let mut text = Vec::new();
            let _ = errors.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let address = SocketAddr::from(([0; 4], 0));
        let mut program = Self {
            child,
            complaints: Some(complaints),
            address,
            lines,
        };
        let line = program.line();
        let address = line
            .strip_prefix("listening on ")
            .expect("it says where it listens first");
        program.address = address.parse().unwrap();
        program
    }

    /// The next line that the program prints.
    fn line(&self) -> String {
        self.lines
            .recv_timeout(LIMIT)
            .expect("the program prints a line")
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.address, LIMIT).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.set_write_timeout(Some(LIMIT)).unwrap();
        stream
    }

    /// Presses Ctrl-C.
    fn interrupt(&self) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill")
            .args(["-s", "INT", &pid])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits until the program ends by itself.
    fn ended(&mut self) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(started.elapsed() < LIMIT, "the program does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Fails if it has ended by itself, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let complaints = self
            .complaints
            .take()
            .and_then(|complaints| complaints.join().ok());
        if thread::panicking() {
            eprintln!(
                "the program's own errors:\n{}",
                complaints.unwrap_or_default()
            );
        }
    }
}

/// Where cargo puts the example: this test is `<profile>/deps/…`, and that `<profile>/examples/…`.
fn path(name: &str) -> PathBuf {
    let test = env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let path = profile
        .join("examples")
        .join(name)
        .with_extension(env::consts::EXE_EXTENSION);
    assert!(
        path.exists(),
        "{} is missing; `cargo build --package evenkeel --all-features --examples` makes it",
        path.display()
    );
    path
}

fn read_line(reader: &mut impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line
}

/// The examples that need nothing but the macros, and those that need hyper.
fn all() -> &'static [&'static str] {
    let all = &[
        "echo",
        "udp",
        "chat",
        "graceful_shutdown",
        "shedding",
        "files",
        "hyper_hello",
        "axum_app",
    ];
    if cfg!(feature = "serve") {
        all
    } else if cfg!(feature = "hyper") {
        &all[..7]
    } else {
        &all[..6]
    }
}

/// Runs an example that ends by itself: whether it succeeded, its output, and its errors.
fn run(name: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(path(name)).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[test]
fn every_example_says_what_it_does() {
    for name in all() {
        for option in ["--help", "-h"] {
            let (code, said, errors) = run(name, &[option]);
            assert_eq!((code, errors.as_str()), (Some(0), ""), "{name}");
            assert!(said.contains(&format!("Usage: {name} [ADDRESS")), "{said}");
            assert!(!said.starts_with("Usage"), "what it does comes first");
        }
    }
}

#[test]
fn what_an_example_cannot_do_is_one_line_and_a_failure() {
    let tcp = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let seconds = ["127.0.0.1:0", "soon"];
    for name in all() {
        let taken = match *name {
            "udp" => udp.local_addr(),
            _ => tcp.local_addr(),
        };
        let taken = taken.unwrap().to_string();
        let mut mistakes = vec![
            (vec![taken.as_str()], taken.as_str()),
            (vec!["nowhere"], "nowhere"),
            (vec!["--port"], "`--port` is not expected"),
            (vec!["127.0.0.1:0", "5", "more"], "is not expected"),
        ];
        if *name == "graceful_shutdown" {
            mistakes.push((seconds.to_vec(), "`soon` is no number of seconds"));
        }
        if *name == "shedding" {
            mistakes.push((seconds.to_vec(), "`soon` is no number of milliseconds"));
        }
        for (arguments, says) in mistakes {
            let (code, said, errors) = run(name, &arguments);
            assert_eq!((code, said.as_str()), (Some(1), ""), "{name} {arguments:?}");
            assert!(
                errors.starts_with("error: ") && errors.contains(says),
                "{errors}"
            );
            assert_eq!(errors.lines().count(), 1, "{errors}");
        }
    }
}

#[test]
fn echo_sends_back_every_byte_of_every_connection() {
    let server = Program::start("echo", &[]);
    let clients: Vec<_> = (0..8_u8)
        .map(|number| {
            let mut writer = server.connect();
            thread::spawn(move || {
                let sent: Vec<u8> = (0..200_000_u32)
                    .map(|at| (at % 251) as u8 ^ number)
                    .collect();
                let mut reader = writer.try_clone().unwrap();
                let expected = sent.clone();
                let writing = thread::spawn(move || {
                    writer.write_all(&sent).unwrap();
                    writer.shutdown(Shutdown::Write).unwrap();
                });
                let mut received = Vec::new();
                reader.read_to_end(&mut received).unwrap();
                writing.join().unwrap();
                assert!(received == expected, "client {number} got other bytes");
            })
        })
        .collect();
    clients
        .into_iter()
        .for_each(|client| client.join().unwrap());
}

#[test]
fn echo_survives_a_peer_that_resets() {
    let server = Program::start("echo", &[]);
    for _ in 0..20 {
        // Closing with unread data makes the system send a reset.
        let mut stream = server.connect();
        stream.write_all(&[7; 10_000]).unwrap();
        stream.peek(&mut [0]).unwrap();
        drop(stream);
    }
    let mut stream = server.connect();
    stream.write_all(b"still there").unwrap();
    let mut answer = [0; 11];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"still there");
}

#[test]
fn udp_answers_its_client() {
    let server = Program::start("udp", &[]);
    let output = Command::new(path("udp"))
        .args([&server.address.to_string(), "ahoy"])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ahoy\n");
}

#[test]
fn udp_client_reports_a_silent_server() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let output = Command::new(path("udp"))
        .args([&address, "ahoy"])
        .output()
        .unwrap();
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("did not answer"), "{error}");
    silent.set_read_timeout(Some(LIMIT)).unwrap();
    for attempt in 1..=3 {
        let length = silent
            .recv(&mut [0; 16])
            .unwrap_or_else(|e| panic!("{attempt}: {e}"));
        assert_eq!(length, 4);
    }
}

#[test]
fn chat_passes_lines_to_the_others_in_order() {
    let server = Program::start("chat", &[]);
    let mut clients: Vec<_> = (0..3).map(|_| BufReader::new(server.connect())).collect();
    for client in &mut clients {
        assert!(read_line(client).starts_with("welcome, "));
    }
    let speaker = clients[0].get_ref().local_addr().unwrap();
    clients[0].get_mut().write_all(b"one\ntwo\nthree").unwrap();
    clients[0].get_ref().shutdown(Shutdown::Write).unwrap();
    for client in &mut clients[1..] {
        for word in ["one", "two", "three"] {
            assert_eq!(read_line(client), format!("{speaker}: {word}\n"));
        }
    }
    // The speaker does not receive its own lines, and is disconnected once it has sent its last.
    assert_eq!(read_line(&mut clients[0]), "");
}

#[test]
fn graceful_shutdown_finishes_what_is_under_way() {
    let mut server = Program::start("graceful_shutdown", &["30"]);
    let mut idle = BufReader::new(server.connect());
    let mut busy = BufReader::new(server.connect());
    idle.get_mut().write_all(b"0\n").unwrap();
    assert_eq!(read_line(&mut idle), "done after 0 ms\n");
    // The first answer shows that the connection is served; the second request is then under way
    // or about to be read when the signal comes.
    busy.get_mut().write_all(b"0\n").unwrap();
    assert_eq!(read_line(&mut busy), "done after 0 ms\n");
    busy.get_mut().write_all(b"4000\n").unwrap();
    thread::sleep(Duration::from_secs(2));
    server.interrupt();

    assert_eq!(server.line(), "closing, 2 connections open");
    assert_eq!(read_line(&mut idle), "", "an idle connection is let go");
    assert_eq!(read_line(&mut busy), "done after 4000 ms\n");
    assert_eq!(read_line(&mut busy), "", "and then it too");
    assert_eq!(server.line(), "closed, 0 connections cut off");
    assert!(server.ended().success());
    TcpStream::connect_timeout(&server.address, LIMIT).expect_err("nobody listens any more");
}

#[test]
fn graceful_shutdown_cuts_off_what_takes_too_long() {
    let mut server = Program::start("graceful_shutdown", &["1"]);
    let mut slow = BufReader::new(server.connect());
    slow.get_mut().write_all(b"nonsense\n").unwrap();
    assert!(read_line(&mut slow).starts_with("say how many"));
    slow.get_mut().write_all(b"60000\n").unwrap();
    thread::sleep(Duration::from_secs(2));
    server.interrupt();

    assert_eq!(server.line(), "closing, 1 connections open");
    assert_eq!(server.line(), "closed, 1 connections cut off");
    assert_eq!(
        read_line(&mut slow),
        "",
        "the connection ends without an answer"
    );
    assert!(server.ended().success());
}

#[test]
fn a_second_interrupt_cuts_at_once() {
    let mut server = Program::start("graceful_shutdown", &["3600"]);
    let mut slow = BufReader::new(server.connect());
    slow.get_mut().write_all(b"0\n").unwrap();
    assert_eq!(read_line(&mut slow), "done after 0 ms\n");
    slow.get_mut().write_all(b"60000\n").unwrap();
    thread::sleep(Duration::from_secs(2));
    server.interrupt();
    assert_eq!(server.line(), "closing, 1 connections open");
    server.interrupt();
    assert_eq!(server.line(), "closed, 1 connections cut off");
    assert!(server.ended().success());
}

/// Sends one HTTP request over a connection. Returns the status line and the body of the answer.
fn exchange(mut stream: TcpStream, head: &str, body: &str) -> (String, String) {
    let length = body.len();
    write!(
        stream,
        "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.lines().next().expect("a status line");
    (status.to_owned(), body.to_owned())
}

/// As `exchange`, over a connection of its own.
fn request(server: &Program, head: &str, body: &str) -> (String, String) {
    exchange(server.connect(), head, body)
}

const DONE: &str = "HTTP/1.1 200 OK";
const REFUSED: &str = "HTTP/1.1 503 Service Unavailable";

#[test]
fn shedding_serves_what_it_has_time_for() {
    let server = Program::start("shedding", &["60000"]);
    for work_ms in [0, 3] {
        let expected = (DONE.to_owned(), format!("{work_ms} ms of work done\n"));
        assert_eq!(request(&server, &format!("GET /{work_ms}"), ""), expected);
    }
    for nonsense in ["GET /", "GET /soon", "GET /10001", "POST /1"] {
        let (status, _) = request(&server, nonsense, "");
        assert_eq!(status, "HTTP/1.1 400 Bad Request", "{nonsense}");
    }
}

#[test]
fn shedding_refuses_while_there_is_too_much_and_serves_again_afterwards() {
    let server = Program::start("shedding", &["1"]);
    // Each connection adds to the queue, until one is refused; the refusal is immediate.
    let began = Instant::now();
    let mut served = Vec::new();
    let refused = loop {
        assert!(began.elapsed() < LIMIT, "nothing is refused");
        served.extend((0..20).map(|_| {
            let stream = server.connect();
            thread::spawn(move || exchange(stream, "GET /50", ""))
        }));
        let (status, body) = request(&server, "GET /0", "");
        if status != DONE {
            break (status, body);
        }
    };
    let says = "too busy, try again later\n".to_owned();
    assert_eq!(refused, (REFUSED.to_owned(), says));
    for answer in served {
        let (status, _) = answer.join().unwrap();
        assert!(status == DONE || status == REFUSED, "{status}");
    }
    // No connection waits any more, but the last answers may still be on their way.
    while request(&server, "GET /0", "").0 != DONE {
        assert!(began.elapsed() < 2 * LIMIT, "it still refuses");
        thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(feature = "hyper")]
mod http {
    use super::*;

    #[test]
    fn hyper_hello_answers() {
        let server = Program::start("hyper_hello", &[]);
        let (status, body) = request(&server, "GET /", "");
        assert_eq!(
            (status.as_str(), body.as_str()),
            ("HTTP/1.1 200 OK", "Hello, world!\n")
        );
        assert_eq!(
            request(&server, "POST /", "x").0,
            "HTTP/1.1 405 Method Not Allowed"
        );
        assert_eq!(
            request(&server, "GET /elsewhere", "").0,
            "HTTP/1.1 404 Not Found"
        );
    }

    #[test]
    fn hyper_hello_keeps_a_connection_open() {
        let server = Program::start("hyper_hello", &[]);
        let mut stream = BufReader::new(server.connect());
        for _ in 0..100 {
            stream
                .get_mut()
                .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
                .unwrap();
            assert_eq!(read_line(&mut stream), "HTTP/1.1 200 OK\r\n");
            while read_line(&mut stream) != "\r\n" {}
            assert_eq!(read_line(&mut stream), "Hello, world!\n");
        }
    }

    #[test]
    #[cfg(feature = "serve")]
    fn axum_app_routes_shares_and_limits() {
        let server = Program::start("axum_app", &[]);
        let (status, body) = request(&server, "GET /hello/Ada", "");
        assert_eq!(
            (status.as_str(), body.as_str()),
            ("HTTP/1.1 200 OK", "Hello, Ada!\n")
        );
        assert_eq!(request(&server, "POST /shout", "some text").1, "SOME TEXT");
        assert_eq!(request(&server, "GET /hello/Bob", "").1, "Hello, Bob!\n");
        assert_eq!(request(&server, "GET /visits", "").1, "2\n");
        assert_eq!(
            request(&server, "GET /elsewhere", "").0,
            "HTTP/1.1 404 Not Found"
        );
        let large = "x".repeat(64 * 1024 + 1);
        assert_eq!(
            request(&server, "POST /shout", &large).0,
            "HTTP/1.1 413 Payload Too Large"
        );
    }
}

/// A temporary directory of a test, removed on drop.
struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Sends a line, and returns the answer.
fn ask(stream: &mut BufReader<TcpStream>, line: &str) -> String {
    stream.get_mut().write_all(line.as_bytes()).unwrap();
    stream.get_mut().write_all(b"\n").unwrap();
    let answer = read_line(stream);
    answer.trim_end().to_owned()
}

#[test]
fn files_keeps_texts_and_a_file_that_hangs_holds_up_nobody_else() {
    let name = format!("evenkeel-files-{}", std::process::id());
    let directory = Directory(env::temp_dir().join(name));
    let server = Program::start("files", &[directory.0.to_str().unwrap()]);
    let fifo = directory.0.join("hung");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let mut hung = server.connect();
    hung.write_all(b"get hung\n").unwrap();

    let mut peer = BufReader::new(server.connect());
    assert_eq!(ask(&mut peer, "put a hello there"), "kept");
    assert_eq!(ask(&mut peer, "put a hello again"), "kept");
    assert_eq!(ask(&mut peer, "put b "), "kept");
    assert_eq!(ask(&mut peer, "get a"), "hello again");
    assert_eq!(ask(&mut peer, "get b"), "");
    assert_eq!(ask(&mut peer, "list"), "a b hung");
    for mistake in ["get ../a", "get none", "put a", "", "list of all"] {
        let answer = ask(&mut peer, mistake);
        assert!(answer.starts_with("error: "), "{mistake:?}: {answer}");
    }
    drop(peer);
    assert_eq!(
        std::fs::read(directory.0.join("a")).unwrap(),
        b"hello again"
    );

    std::fs::write(&fifo, "after all").unwrap();
    assert_eq!(read_line(&mut BufReader::new(hung)), "after all\n");
}
