//! The probe: an open-loop request every so often, answered by a TCP echo.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};

use super::args::EchoArgs;
use super::latency::{Latencies, LatencySummary};
use super::ledger::{Closed, Ledger};
use super::pace::Pace;
use super::stalls::{Stall, Witnesses, met};
use crate::error::{Error, Result};
use crate::sys;

/// Bytes of a request and of its answer: its number, then a mark.
const REQUEST_LEN: usize = 16;
const MARK: [u8; 8] = *b"evenkeel";
const TIMER: Token = Token(usize::MAX);

/// What a probe found.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct EchoSummary {
    /// Measured requests, answered or not.
    pub(crate) requests: u64,
    /// Those that were never answered; they count with the time waited so far.
    pub(crate) unanswered: u64,
    /// Connections that broke, or answered what was not asked.
    pub(crate) connections_lost: u64,
    /// From when a request was due to its answer.
    pub(crate) latency: LatencySummary,
    /// From when a request was due to when it was sent: the generator's own delay, part of the
    /// latency.
    pub(crate) late_p50_us: f64,
    pub(crate) late_p99_us: f64,
    /// Of the requests in whose time no processor stood still, where that was asked and can be
    /// told: how many there were, and their latency.
    #[serde(default)]
    pub(crate) calm: Option<(u64, LatencySummary)>,
}

/// One connection of the probe.
struct Connection {
    stream: TcpStream,
    /// Requests that the socket would not take yet; bounded by the schedule.
    unsent: Vec<u8>,
    answer: [u8; REQUEST_LEN],
    answer_len: usize,
    lost: bool,
}

pub(crate) fn run(args: &EchoArgs) -> Result<EchoSummary> {
    // As with calls: a probe that waits for its turn on a shared processor measures itself.
    sys::ask_to_go_first();
    let pace = Pace::new(args.rate.into(), args.time.whole());
    let mut connections = (0..args.connections)
        .map(|_| Connection::open(args.target))
        .collect::<Result<Vec<_>>>()?;
    let mut ledger = Ledger::new(pace, args.time.warmup, args.connections);
    if args.stalls {
        ledger.keep_times();
    }
    let end = args.time.whole() + args.drain;
    let witnesses = args.stalls.then(Witnesses::call);
    let (start, elapsed) = exchange(&mut connections, &mut ledger, pace.tick(), end)
        .map_err(Error::system("the probe's readiness queue failed"))?;
    let stalls = witnesses.and_then(|witnesses| witnesses.hear(start));
    let closed = ledger.close(elapsed);
    let calm = stalls.map(|stalls| calm(&closed, &stalls, elapsed));
    let lateness = closed.lateness.summary();
    Ok(EchoSummary {
        requests: closed.requests,
        unanswered: closed.unanswered,
        connections_lost: connections
            .iter()
            .filter(|connection| connection.lost)
            .count() as u64,
        latency: closed.latencies.summary(),
        late_p50_us: lateness.p50_us,
        late_p99_us: lateness.p99_us,
        calm,
    })
}

/// The requests that met no stall, and those without an answer whatever they met.
fn calm(closed: &Closed, stalls: &[Stall], end: Duration) -> (u64, LatencySummary) {
    let mut latencies = Latencies::new();
    for &(due, answered) in closed.times.iter().flatten() {
        if answered.is_none() || !met(stalls, due) {
            latencies.record(answered.unwrap_or(end).saturating_sub(due));
        }
    }
    (latencies.len(), latencies.summary())
}

/// Sends and receives until all is answered or `end` has come; says when that began, and how long
/// it took.
fn exchange(
    connections: &mut [Connection],
    ledger: &mut Ledger,
    tick: Duration,
    end: Duration,
) -> io::Result<(Instant, Duration)> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1_024);
    for (index, connection) in connections.iter_mut().enumerate() {
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(&mut connection.stream, Token(index), interest)?;
    }
    // Before the timer starts: a tick that came just before its request was due would send it a
    // whole tick late.
    let start = Instant::now();
    let mut timer = sys::periodic_timer(tick)?;
    poll.registry()
        .register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;
    loop {
        while let Some((request, index)) = ledger.send_next(start.elapsed()) {
            connections[index].send(request);
        }
        let over = ledger.all_sent() && ledger.all_answered();
        if over || start.elapsed() >= end || connections.iter().all(|connection| connection.lost) {
            return Ok((start, start.elapsed()));
        }
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            match event.token() {
                TIMER => rearm(&mut timer),
                Token(index) => connections[index].ready(index, ledger, start),
            }
        }
    }
}

/// Takes the timer's count, without which it would not be heard of again.
fn rearm(timer: &mut File) {
    let mut fired = [0; 8];
    // Another event may have brought us here after the count was taken.
    let _ = timer.read(&mut fired);
}

impl Connection {
    fn open(target: SocketAddr) -> Result<Self> {
        let stream = connect(target)?;
        Ok(Connection {
            stream,
            unsent: Vec::new(),
            answer: [0; REQUEST_LEN],
            answer_len: 0,
            lost: false,
        })
    }

    fn send(&mut self, request: u64) {
        if !self.lost {
            self.unsent.extend_from_slice(&message(request));
            self.flush();
        }
    }

    fn flush(&mut self) {
        while !self.unsent.is_empty() && !self.lost {
            match self.stream.write(&self.unsent) {
                Ok(len) => drop(self.unsent.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.lost = true,
            }
        }
    }

    fn ready(&mut self, index: usize, ledger: &mut Ledger, start: Instant) {
        self.flush();
        while !self.lost {
            match self.stream.read(&mut self.answer[self.answer_len..]) {
                Ok(0) => self.lost = true,
                Ok(len) => {
                    self.answer_len += len;
                    if self.answer_len == REQUEST_LEN {
                        self.answer_len = 0;
                        self.lost = ledger.expected(index).map(message) != Some(self.answer);
                        if !self.lost {
                            ledger.answered(index, start.elapsed());
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.lost = true,
            }
        }
    }
}

/// A connection that is established, does not block, and does not delay small writes.
pub(super) fn connect(target: SocketAddr) -> Result<TcpStream> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let refused = |source| Error::Connect {
        address: target,
        source,
    };
    let stream = std::net::TcpStream::connect_timeout(&target, PATIENCE).map_err(refused)?;
    stream.set_nodelay(true).map_err(refused)?;
    stream.set_nonblocking(true).map_err(refused)?;
    Ok(TcpStream::from_std(stream))
}

fn message(request: u64) -> [u8; REQUEST_LEN] {
    let mut message = [0; REQUEST_LEN];
    message[..8].copy_from_slice(&request.to_le_bytes());
    message[8..].copy_from_slice(&MARK);
    message
}
