//! Closed-loop HTTP: so many requests, so many at once. What `ab` does, for where `ab` is not
//! installed.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};

use super::args::HttpArgs;
use super::latency::{Latencies, LatencySummary};
use crate::error::{Error, Result};

/// What a closed loop of requests found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct HttpSummary {
    /// Requests that were answered with 200.
    pub(crate) requests: u64,
    /// Requests that were not: refused, broken off, answered otherwise, or never.
    pub(crate) failed: u64,
    /// Why the last of them failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    /// From connecting (short connections) or sending (kept alive) to the end of the answer.
    pub(crate) latency: LatencySummary,
}

/// Bytes of an answer's head that are looked at: beyond it the answer is broken.
const HEAD_LEN_MAX: usize = 16 * 1024;

pub(crate) fn run(args: &HttpArgs) -> Result<HttpSummary> {
    let connection = if args.keep_alive {
        "keep-alive"
    } else {
        "close"
    };
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {}\r\nConnection: {connection}\r\n\r\n",
        args.path, args.target
    );
    let mut engine = Engine::new(args, request.into_bytes())
        .map_err(Error::system("the load generator's readiness queue failed"))?;
    engine
        .run()
        .map_err(Error::system("the load generator's readiness queue failed"))?;
    let seconds = engine.start.elapsed().as_secs_f64();
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    let failure = match engine.failure {
        Some(source) if engine.answered == 0 && refused(&source) => {
            return Err(Error::Connect {
                address: args.target,
                source,
            });
        }
        failure => failure.map(|error| error.to_string()),
    };
    Ok(HttpSummary {
        requests: engine.answered,
        failed: args.requests - engine.answered,
        failure,
        seconds,
        per_second: engine.answered as f64 / seconds.max(f64::EPSILON),
        latency: engine.latencies.summary(),
    })
}

/// All connections, and how far the run has come.
struct Engine {
    target: SocketAddr,
    request: Vec<u8>,
    keep_alive: bool,
    requests: u64,
    patience: Duration,
    poll: Poll,
    connections: Vec<Option<Connection>>,
    /// Connections that have to be opened (again).
    closed: BTreeSet<usize>,
    /// Requests that were begun, and those that came to a good end.
    begun: u64,
    answered: u64,
    /// Failures in a row: a server that is gone is given up.
    failures: u32,
    failure: Option<io::Error>,
    latencies: Latencies,
    start: Instant,
}

struct Connection {
    stream: TcpStream,
    begun_at: Instant,
    sent: usize,
    received: Vec<u8>,
    /// Total length of the answer, once its head was read.
    answer_len: Option<usize>,
}

/// How far a connection came on an event.
enum Step {
    Pending,
    /// The answer is complete; the connection serves on if `true`.
    Answered(bool),
    Failed(io::Error),
}

impl Engine {
    fn new(args: &HttpArgs, request: Vec<u8>) -> io::Result<Self> {
        let slots = u64::from(args.concurrency).min(args.requests) as usize;
        Ok(Engine {
            target: args.target,
            request,
            keep_alive: args.keep_alive,
            requests: args.requests,
            patience: args.patience,
            poll: Poll::new()?,
            connections: (0..slots).map(|_| None).collect(),
            closed: (0..slots).collect(),
            begun: 0,
            answered: 0,
            failures: 0,
            failure: None,
            latencies: Latencies::new(),
            start: Instant::now(),
        })
    }

    fn run(&mut self) -> io::Result<()> {
        /// Failures in a row after which the server is taken for gone.
        const FAILURES_MAX: u32 = 1_000;
        let mut events = Events::with_capacity(1_024);
        loop {
            while self.begun < self.requests && self.failures < FAILURES_MAX {
                let Some(slot) = self.closed.pop_first() else {
                    break;
                };
                self.open(slot)?;
            }
            if self.connections.iter().all(Option::is_none) {
                return Ok(());
            }
            match self.poll.poll(&mut events, Some(self.patience)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                Ok(()) if events.is_empty() => return Ok(()),
                _ => {}
            }
            for event in &events {
                self.drive(event.token().0);
            }
        }
    }

    fn open(&mut self, slot: usize) -> io::Result<()> {
        self.begun += 1;
        match TcpStream::connect(self.target) {
            Ok(mut stream) => {
                let interest = Interest::READABLE | Interest::WRITABLE;
                self.poll
                    .registry()
                    .register(&mut stream, Token(slot), interest)?;
                self.connections[slot] = Some(Connection::new(stream));
            }
            Err(error) => self.failed(slot, error),
        }
        Ok(())
    }

    fn drive(&mut self, slot: usize) {
        while let Some(connection) = &mut self.connections[slot] {
            match connection.step(&self.request, self.keep_alive) {
                Step::Pending => return,
                Step::Failed(error) => self.failed(slot, error),
                Step::Answered(serves_on) => {
                    self.latencies.record(connection.begun_at.elapsed());
                    self.answered += 1;
                    self.failures = 0;
                    if serves_on && self.begun < self.requests {
                        self.begun += 1;
                        connection.begin();
                    } else {
                        self.connections[slot] = None;
                        self.closed.insert(slot);
                    }
                }
            }
        }
    }

    fn failed(&mut self, slot: usize, error: io::Error) {
        self.connections[slot] = None;
        self.closed.insert(slot);
        self.failures += 1;
        self.failure = Some(error);
    }
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        let begun_at = Instant::now();
        Connection {
            stream,
            begun_at,
            sent: 0,
            received: Vec::with_capacity(512),
            answer_len: None,
        }
    }

    /// The next request on a connection kept alive.
    fn begin(&mut self) {
        self.begun_at = Instant::now();
        self.sent = 0;
        self.received.clear();
        self.answer_len = None;
    }

    fn step(&mut self, request: &[u8], keep_alive: bool) -> Step {
        match self.advance(request, keep_alive) {
            Ok(step) => step,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Step::Pending,
            // Not yet connected: an event will say so.
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Step::Pending,
            Err(error) => Step::Failed(error),
        }
    }

    fn advance(&mut self, request: &[u8], keep_alive: bool) -> io::Result<Step> {
        while self.sent < request.len() {
            self.sent += self.stream.write(&request[self.sent..])?;
        }
        let mut buffer = [0; 4 * 1024];
        loop {
            let len = self.stream.read(&mut buffer)?;
            self.received.extend_from_slice(&buffer[..len]);
            if self.answer_len.is_none() {
                self.answer_len = answer_len(&self.received)?;
            }
            let complete = self
                .answer_len
                .is_some_and(|expected| self.received.len() >= expected);
            match (len, complete) {
                // A short connection is over when the server has closed it, as for `ab`.
                (0, true) => return Ok(Step::Answered(false)),
                (0, false) => return Err(io::ErrorKind::UnexpectedEof.into()),
                (_, true) if keep_alive => return Ok(Step::Answered(true)),
                _ => {}
            }
        }
    }
}

/// The length of head and body, once the head is whole.
pub(super) fn answer_len(received: &[u8]) -> io::Result<Option<usize>> {
    let broken = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason.to_owned());
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(received) {
        Err(error) => Err(broken(&format!("the answer's head is broken: {error}"))),
        Ok(httparse::Status::Partial) if received.len() > HEAD_LEN_MAX => {
            Err(broken("the answer's head is too long"))
        }
        Ok(httparse::Status::Partial) => Ok(None),
        Ok(httparse::Status::Complete(_)) if response.code != Some(200) => Err(broken(&format!(
            "the answer is {:?}, not 200",
            response.code.unwrap_or(0)
        ))),
        Ok(httparse::Status::Complete(head_len)) => {
            let header = response
                .headers
                .iter()
                .find(|h| h.name.eq_ignore_ascii_case("content-length"));
            let len = header.and_then(|h| {
                std::str::from_utf8(h.value)
                    .ok()?
                    .trim()
                    .parse::<usize>()
                    .ok()
            });
            let len = len.ok_or_else(|| broken("the answer has no length"))?;
            Ok(Some(head_len.saturating_add(len)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_long_as_its_head_says() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(answer_len(&answer[..10]).expect("so far so good"), None);
        assert_eq!(answer_len(answer).expect("whole"), Some(answer.len()));
    }

    #[test]
    fn other_answers_fail() {
        for wrong in [
            &b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"SSH-2.0-OpenSSH\r\n\r\n",
        ] {
            assert!(answer_len(wrong).is_err());
        }
    }
}
