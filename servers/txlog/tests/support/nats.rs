//! NATS servers, and what their owner does with them.

use std::fs;
use std::future::Future;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use evenkeel::runtime::Builder;
use txlog::nats::NatsConfig;

use super::{LIMIT, run_in};

/// A NATS server that is ended by its id.
pub(crate) struct Nats {
    child: Child,
    pub(crate) address: String,
}

impl Nats {
    /// A server with JetStream in this directory; `None` if none can be started.
    pub(crate) fn start(directory: &Path) -> Option<Self> {
        Self::start_at(directory, free_port())
    }

    pub(crate) fn start_at(directory: &Path, port: u16) -> Option<Self> {
        let store = format!("jetstream {{ store_dir: {directory:?} }}");
        Self::start_with(directory, port, &store)
    }

    /// A server with this configuration, which is written into the directory.
    pub(crate) fn start_with(directory: &Path, port: u16, configuration: &str) -> Option<Self> {
        fs::create_dir_all(directory).unwrap();
        let address = format!("127.0.0.1:{port}");
        let file = directory.join("nats.conf");
        fs::write(&file, format!("listen: \"{address}\"\n{configuration}\n")).unwrap();
        let started = Command::new("nats-server")
            .arg("-c")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = match started {
            Ok(child) => child,
            Err(error) => {
                eprintln!("skipped: nats-server is not installed here ({error})");
                return None;
            }
        };
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut said = String::new();
        let ready = log.any(|line| {
            let line = line.unwrap_or_default();
            said = format!("{said}{line}\n");
            line.contains("Server is ready")
        });
        assert!(ready, "nats-server ends instead of serving: {said}");
        // It would stop at a full pipe.
        std::thread::spawn(move || log.for_each(drop));
        Some(Self { child, address })
    }

    pub(crate) fn config(&self) -> NatsConfig {
        NatsConfig {
            address: self.address.clone(),
            ..NatsConfig::default()
        }
    }

    /// Sends a signal to this server only. One that is to stop has stopped.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.unwrap().success());
        // One of its threads has to be scheduled for that, and another may answer before.
        while name == "STOP" && !has_stopped(&pid) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Requests of JetStream, as its owner makes them with NATS's own tools.
    pub(crate) fn tool(&self) -> Tool {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap());
        answers.read_line(&mut String::new()).unwrap();
        let hello = "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB answers 1\r\n";
        stream.write_all(hello.as_bytes()).unwrap();
        Tool { stream, answers }
    }

    /// Deletes single records of a stream.
    pub(crate) fn delete(&self, stream: &str, records: impl IntoIterator<Item = u64>) {
        let mut tool = self.tool();
        for record in records {
            let request = format!("{{\"seq\":{record}}}");
            tool.ask(&format!("STREAM.MSG.DELETE.{stream}"), &request);
        }
    }
}

/// Whether all threads of a process have stopped.
fn has_stopped(pid: &str) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let mut stats = threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("stat")));
    // The state is behind the name, which may have spaces and brackets.
    stats.all(|stat| stat.is_ok_and(|stat| stat.contains(") T ")))
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that asks JetStream.
pub(crate) struct Tool {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
}

impl Tool {
    /// Asks, and expects no error.
    pub(crate) fn ask(&mut self, what: &str, request: &str) -> String {
        self.publish(&format!("$JS.API.{what}"), request)
    }

    /// Publishes a message, whose answer is no error.
    pub(crate) fn publish(&mut self, subject: &str, message: &str) -> String {
        let length = message.len();
        self.sent(&format!("PUB {subject} answers {length}\r\n{message}\r\n"))
    }

    /// The same, with a header.
    pub(crate) fn publish_with(&mut self, subject: &str, header: &str, message: &str) -> String {
        let headers = format!("NATS/1.0\r\n{header}\r\n\r\n");
        let (length, all) = (headers.len(), headers.len() + message.len());
        self.sent(&format!(
            "HPUB {subject} answers {length} {all}\r\n{headers}{message}\r\n"
        ))
    }

    /// The answer to what is sent.
    fn sent(&mut self, publish: &str) -> String {
        self.stream.write_all(publish.as_bytes()).unwrap();
        let mut line = String::new();
        while !line.starts_with("MSG ") {
            line.clear();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "NATS ended");
            assert!(!line.starts_with("-ERR"), "{line}");
        }
        let length = line.split_ascii_whitespace().last().unwrap();
        let mut answer = vec![0; length.parse::<usize>().unwrap() + 2];
        self.answers.read_exact(&mut answer).unwrap();
        let answer = String::from_utf8(answer).unwrap();
        assert!(!answer.contains("\"error\""), "{answer}");
        answer
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Replaces a directory by a copy of another.
pub(crate) fn put_back(from: &Path, to: &Path) {
    if to.exists() {
        fs::remove_dir_all(to).unwrap();
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            put_back(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Runs a future to its end within the limit, in a runtime in which the client of NATS works.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let mut builder = Builder::new();
    run_in(builder.workers(2).tokio_context(true), future)
}
