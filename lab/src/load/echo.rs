//! The probe: an open-loop request every so often, answered by a TCP echo.

use std::io;
use std::time::{Duration, Instant};

use mio::Events;

use super::args::EchoArgs;
use super::book::{Book, EchoSummary};
use super::latency::{Latencies, LatencySummary};
use super::queue::{Queue, Socket, slots};
use super::stalls::{Stall, Witnesses, met};
use crate::error::{Error, Result};
use crate::sys;

/// Bytes of a request and of its answer: its number, then a mark.
const REQUEST_LEN: usize = 16;
const MARK: [u8; 8] = *b"evenkeel";

/// One connection of the probe. It answers in the order in which it was asked.
struct Connection {
    socket: Socket,
    /// Requests that the socket would not take yet; bounded by the schedule.
    unsent: Vec<u8>,
    answer: [u8; REQUEST_LEN],
    answer_len: usize,
    /// The request whose answer is next, and how many further on the one after it is.
    expected: u64,
    step: u64,
}

pub(crate) fn run(args: &EchoArgs) -> Result<EchoSummary> {
    // As with calls: a probe that waits for its turn on a shared processor measures itself.
    sys::ask_to_go_first();
    let pace = args.time.pace(args.rate);
    let connections = (0..u64::from(args.connections)).map(|first| Connection::open(args, first));
    let mut connections = connections.collect::<Result<Vec<_>>>()?;
    let mut book = args.time.book(pace, |_| true);
    if args.stalls {
        book.keep_times();
    }
    let witnesses = args.stalls.then(Witnesses::call);
    let (start, elapsed) = exchange(&mut connections, &mut book, pace.tick(), args.time.end())
        .map_err(Error::system("the probe's readiness queue failed"))?;
    let stalls = witnesses.and_then(|witnesses| witnesses.hear(start));
    let (mut found, times) = book.close(elapsed);
    found.connections_lost = connections.iter().filter(|c| c.socket.lost).count() as u64;
    found.calm = stalls.map(|stalls| calm(times.iter().flatten(), &stalls, elapsed));
    Ok(found)
}

/// The requests that met no stall, and those without an answer whatever they met.
fn calm<'a>(
    times: impl Iterator<Item = &'a (Duration, Option<Duration>)>,
    stalls: &[Stall],
    end: Duration,
) -> (u64, LatencySummary) {
    let mut latencies = Latencies::new();
    for &(due, answered) in times {
        if answered.is_none() || !met(stalls, due) {
            latencies.record(answered.unwrap_or(end).saturating_sub(due));
        }
    }
    (latencies.len(), latencies.summary())
}

/// Sends and receives until all is answered or `end` has come; says when that began, and how long
/// it took. Request `i` goes over connection `i mod connections`.
fn exchange(
    connections: &mut [Connection],
    book: &mut Book,
    tick: Duration,
    end: Duration,
) -> io::Result<(Instant, Duration)> {
    let mut queue = Queue::new()?;
    let mut events = Events::with_capacity(1_024);
    for (slot, connection) in connections.iter_mut().enumerate() {
        queue.add(&mut connection.socket.stream, slot)?;
    }
    let start = Instant::now();
    queue.tick(tick)?;
    loop {
        while let Some(request) = book.begin(start.elapsed()) {
            connections[(request % connections.len() as u64) as usize].send(request);
        }
        let over = book.all_begun() && book.all_answered();
        if over || start.elapsed() >= end || connections.iter().all(|c| c.socket.lost) {
            return Ok((start, start.elapsed()));
        }
        queue.wait(&mut events, None)?;
        for slot in slots(&events) {
            connections[slot].ready(book, start);
        }
    }
}

impl Connection {
    fn open(args: &EchoArgs, first: u64) -> Result<Self> {
        Ok(Connection {
            socket: Socket::connect(args.target)?,
            unsent: Vec::new(),
            answer: [0; REQUEST_LEN],
            answer_len: 0,
            expected: first,
            step: args.connections.into(),
        })
    }

    fn send(&mut self, request: u64) {
        if !self.socket.lost {
            self.unsent.extend_from_slice(&message(request));
            self.flush();
        }
    }

    fn flush(&mut self) {
        let taken = self.socket.write(&self.unsent);
        self.unsent.drain(..taken);
    }

    fn ready(&mut self, book: &mut Book, start: Instant) {
        self.flush();
        loop {
            match self.socket.read(&mut self.answer[self.answer_len..]) {
                0 => return,
                len => self.answer_len += len,
            }
            if self.answer_len == REQUEST_LEN {
                self.answer_len = 0;
                let is_expected = self.answer == message(self.expected);
                if !is_expected || !book.answered(self.expected, start.elapsed()) {
                    self.socket.lost = true;
                }
                self.expected += self.step;
            }
        }
    }
}

fn message(request: u64) -> [u8; REQUEST_LEN] {
    let mut message = [0; REQUEST_LEN];
    message[..8].copy_from_slice(&request.to_le_bytes());
    message[8..].copy_from_slice(&MARK);
    message
}
