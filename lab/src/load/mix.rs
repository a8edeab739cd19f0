//! `load mix`: large objects and empty ones at once, in a closed loop, each over a connection of
//! its own.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::Events;
use mio::net::TcpStream;
use serde::{Deserialize, Serialize};
use socket2::{Domain, Socket, Type};

use super::args::MixArgs;
use super::exchange::{Exchange, Room, request};
use super::latency::{Latencies, LatencySummary};
use super::origin::{LARGE_PATH, WINDOW_LEN};
use super::queue::{Queue, slots};
use crate::error::{Error, Result};

/// What a mix of objects came to, in the time that was measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct MixSummary {
    pub(crate) seconds: f64,
    /// Connections for an empty object that came to a good end, and how many a second.
    pub(crate) empty: u64,
    pub(crate) empty_per_s: f64,
    /// Large objects that did.
    pub(crate) large: u64,
    /// Bytes of large objects that came in.
    pub(crate) bytes: u64,
    pub(crate) bytes_per_s: f64,
    /// Connections that did not come to a good end, of either kind.
    pub(crate) failed: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
    /// Of empty objects, from connecting to the end of the answer.
    pub(crate) latency: LatencySummary,
}

/// Failures in a row after which the server is taken for gone.
const FAILURES_MAX: u32 = 1_000;

struct Mix {
    target: SocketAddr,
    queue: Queue,
    room: Room,
    slots: Vec<Slot>,
    failures: u32,
    /// Set while the time is measured.
    counts: bool,
    summary: MixSummary,
    latencies: Latencies,
}

/// A client: one connection at a time, always for the same kind of object.
struct Slot {
    is_large: bool,
    request: Vec<u8>,
    connection: Option<Exchange>,
}

pub(crate) fn run(args: &MixArgs) -> Result<MixSummary> {
    let mut mix = Mix::new(args).map_err(Error::system("cannot make a readiness queue"))?;
    if args.say_ready {
        println!("ready");
    }
    let outcome = mix.run(args.time.warmup, args.time.whole());
    let measured = outcome.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => Error::connect(args.target)(error),
        _ => Error::system("the load generator's readiness queue failed")(error),
    })?;
    let mut summary = mix.summary;
    summary.seconds = measured.as_secs_f64();
    let seconds = summary.seconds.max(f64::EPSILON);
    summary.empty_per_s = summary.empty as f64 / seconds;
    summary.bytes_per_s = summary.bytes as f64 / seconds;
    summary.latency = mix.latencies.summary();
    Ok(summary)
}

impl Mix {
    fn new(args: &MixArgs) -> io::Result<Self> {
        let slot = |is_large: bool| Slot {
            is_large,
            request: {
                let path = if is_large { LARGE_PATH } else { "/" };
                request("GET", path, args.target, false, "")
            },
            connection: None,
        };
        let (large, empty) = (args.large as usize, args.empty as usize);
        let kinds = std::iter::repeat_n(true, large).chain(std::iter::repeat_n(false, empty));
        Ok(Mix {
            target: args.target,
            queue: Queue::new()?,
            room: Room::new(),
            slots: kinds.map(slot).collect(),
            failures: 0,
            counts: false,
            summary: MixSummary::default(),
            latencies: Latencies::new(),
        })
    }

    /// Goes on until `end`; says for how long it counted.
    fn run(&mut self, warmup: Duration, end: Duration) -> io::Result<Duration> {
        let start = Instant::now();
        let mut counted_from = start;
        let mut events = Events::with_capacity(1_024);
        for slot in 0..self.slots.len() {
            self.open(slot)?;
        }
        loop {
            let elapsed = start.elapsed();
            if elapsed >= end {
                return Ok(counted_from.elapsed());
            }
            if !self.counts && elapsed >= warmup {
                self.counts = true;
                counted_from = Instant::now();
            }
            let next = if self.counts { end } else { warmup };
            let left = next.saturating_sub(elapsed);
            self.queue.wait(&mut events, Some(left))?;
            for slot in slots(&events) {
                self.drive(slot)?;
            }
        }
    }

    fn open(&mut self, slot: usize) -> io::Result<()> {
        let mut stream = connect(self.target)?;
        self.queue.add(&mut stream, slot)?;
        self.slots[slot].connection = Some(Exchange::over(stream));
        Ok(())
    }

    fn drive(&mut self, slot: usize) -> io::Result<()> {
        let Slot {
            is_large,
            request,
            connection: Some(connection),
        } = &mut self.slots[slot]
        else {
            return Ok(());
        };
        let advanced = connection.advance(request, false, &mut self.room);
        let bytes = std::mem::take(&mut connection.received);
        if self.counts && *is_large {
            self.summary.bytes += bytes;
        }
        match advanced {
            Ok(false) => return Ok(()),
            Err(error) => {
                self.failures += 1;
                self.summary.failed += 1;
                self.summary.failure = Some(error.to_string());
                if self.failures >= FAILURES_MAX {
                    return Err(error);
                }
            }
            Ok(true) => {
                self.failures = 0;
                if self.counts && *is_large {
                    self.summary.large += 1;
                } else if self.counts {
                    self.summary.empty += 1;
                    self.latencies.record(connection.begun_at.elapsed());
                }
            }
        }
        self.slots[slot].connection = None;
        self.open(slot)
    }
}

/// Begins a connection with a window of a bounded size.
fn connect(target: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(target), Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    // Before connecting, which is when windows are agreed upon.
    socket.set_recv_buffer_size(WINDOW_LEN)?;
    match socket.connect(&target.into()) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => Err(error),
        _ => Ok(TcpStream::from_std(socket.into())),
    }
}
