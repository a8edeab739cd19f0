//! Closed-loop HTTP: so many requests, so many at once. What `ab` does, for where `ab` is not
//! installed.

use std::collections::BTreeSet;
use std::io;
use std::time::Instant;

use mio::Events;
use mio::net::TcpStream;
use serde::{Deserialize, Serialize};

use super::args::HttpArgs;
use super::exchange::{Exchange, Room, request};
use super::latency::{Latencies, LatencySummary};
use super::queue::{Queue, slots};
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

pub(crate) fn run(args: &HttpArgs) -> Result<HttpSummary> {
    let engine = Engine::new(args)
        .and_then(|mut engine| engine.run().map(|()| engine))
        .map_err(Error::system("the load generator's readiness queue failed"))?;
    let found = HttpSummary::of(&engine.latencies, engine.start);
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    let failure = match engine.failure {
        Some(source) if found.requests == 0 && refused(&source) => {
            return Err(Error::connect(args.target)(source));
        }
        failure => failure.map(|error| error.to_string()),
    };
    Ok(HttpSummary {
        failed: args.requests - found.requests,
        failure,
        ..found
    })
}

impl HttpSummary {
    /// Of requests that were all answered, from `start` until now.
    pub(super) fn of(latencies: &Latencies, start: Instant) -> Self {
        let (requests, seconds) = (latencies.len(), start.elapsed().as_secs_f64());
        HttpSummary {
            requests,
            seconds,
            per_second: requests as f64 / seconds.max(f64::EPSILON),
            latency: latencies.summary(),
            ..HttpSummary::default()
        }
    }
}

/// All connections, and how far the run has come.
struct Engine<'a> {
    args: &'a HttpArgs,
    request: Vec<u8>,
    queue: Queue,
    room: Room,
    connections: Vec<Option<Exchange>>,
    /// Connections that have to be opened (again).
    closed: BTreeSet<usize>,
    /// Requests that were begun; those that came to a good end have a latency.
    begun: u64,
    /// Failures in a row: a server that is gone is given up.
    failures: u32,
    failure: Option<io::Error>,
    latencies: Latencies,
    start: Instant,
}

impl<'a> Engine<'a> {
    fn new(args: &'a HttpArgs) -> io::Result<Self> {
        let slots = u64::from(args.concurrency).min(args.requests) as usize;
        Ok(Engine {
            args,
            request: request("GET", &args.path, args.target, args.keep_alive, ""),
            queue: Queue::new()?,
            room: Room::new(),
            connections: (0..slots).map(|_| None).collect(),
            closed: (0..slots).collect(),
            begun: 0,
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
            while self.begun < self.args.requests && self.failures < FAILURES_MAX {
                let Some(slot) = self.closed.pop_first() else {
                    break;
                };
                self.begun += 1;
                if let Err(error) = self.open(slot) {
                    self.failed(slot, error);
                }
            }
            if self.connections.iter().all(Option::is_none) {
                return Ok(());
            }
            let patience = Some(self.args.patience);
            if !self.queue.wait(&mut events, patience)? {
                return Ok(());
            }
            for slot in slots(&events) {
                self.drive(slot);
            }
        }
    }

    fn open(&mut self, slot: usize) -> io::Result<()> {
        let mut stream = TcpStream::connect(self.args.target)?;
        self.queue.add(&mut stream, slot)?;
        self.connections[slot] = Some(Exchange::over(stream));
        Ok(())
    }

    fn drive(&mut self, slot: usize) {
        let keep_alive = self.args.keep_alive;
        while let Some(connection) = &mut self.connections[slot] {
            // A short connection is over when the server has closed it, as for `ab`.
            match connection.advance(&self.request, !keep_alive, &mut self.room) {
                Ok(false) => return,
                Err(error) => self.failed(slot, error),
                Ok(true) => {
                    self.latencies.record(connection.begun_at.elapsed());
                    self.failures = 0;
                    if keep_alive && self.begun < self.args.requests {
                        self.begun += 1;
                        connection.again();
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
