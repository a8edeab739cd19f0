//! `load calls`: an open loop of calls, each over a connection of its own, as somebody who asks how
//! a server is would make them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::args::CallsArgs;
use super::echo::EchoSummary;
use super::http::answer_len;
use super::latency::Latencies;
use super::pace::Pace;
use crate::error::{Error, Result};
use crate::sys;

const TIMER: Token = Token(usize::MAX);
/// Calls that may be under way at once; what is due beyond them counts as unanswered.
const UNDER_WAY_MAX: usize = 4_000;

/// The accounts of the loop. Pure: moments are passed in as time since the start.
struct Book {
    pace: Pace,
    first_measured: u64,
    next: u64,
    /// Calls that are due and have no answer.
    open: BTreeSet<u64>,
    latencies: Latencies,
    lateness: Latencies,
}

struct Call {
    stream: TcpStream,
    sent: usize,
    received: Vec<u8>,
}

pub(crate) fn run(args: &CallsArgs) -> Result<EchoSummary> {
    // Where load shares processors, a prober that waits for its turn would measure itself: a
    // fair scheduler makes one that ran just now wait for a tick, however little it wants.
    sys::ask_to_go_first();
    let pace = Pace::new(args.rate.into(), args.time.whole());
    let mut book = Book::new(pace, args.time.warmup);
    let (host, path) = (args.target, &args.path);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let end = args.time.whole() + args.drain;
    let (elapsed, lost) = call_all(args.target, request.as_bytes(), &mut book, end)
        .map_err(Error::system("the calls' readiness queue failed"))?;
    let unanswered = book.close(elapsed);
    let lateness = book.lateness.summary();
    Ok(EchoSummary {
        requests: book.latencies.len(),
        unanswered,
        connections_lost: lost,
        latency: book.latencies.summary(),
        late_p50_us: lateness.p50_us,
        late_p99_us: lateness.p99_us,
    })
}

/// Calls until all is answered or `end` has come; says how long that took, and how many calls
/// broke.
fn call_all(
    target: SocketAddr,
    request: &[u8],
    book: &mut Book,
    end: Duration,
) -> io::Result<(Duration, u64)> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(256);
    // Before the timer starts: a tick that came just before its call was due would make it a whole
    // tick late.
    let start = Instant::now();
    let mut timer = sys::periodic_timer(book.pace.tick())?;
    poll.registry()
        .register(&mut SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;
    let mut calls: BTreeMap<u64, Call> = BTreeMap::new();
    let mut lost = 0;
    loop {
        while let Some(index) = book.begin(start.elapsed()) {
            match (calls.len() < UNDER_WAY_MAX).then(|| open(&poll, target, index)) {
                Some(Ok(call)) => drop(calls.insert(index, call)),
                Some(Err(_)) => lost += 1,
                None => {}
            }
        }
        let elapsed = start.elapsed();
        if elapsed >= end || (book.all_begun() && calls.is_empty()) {
            return Ok((elapsed, lost));
        }
        match poll.poll(&mut events, Some(end.saturating_sub(elapsed))) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            if event.token() == TIMER {
                // Its count, without which it would not be heard of again.
                let _ = timer.read(&mut [0; 8]);
                continue;
            }
            let index = event.token().0 as u64;
            let Some(call) = calls.get_mut(&index) else {
                continue;
            };
            match call.advance(request) {
                Ok(()) => book.answered(index, start.elapsed()),
                Err(error) if is_pending(&error) => continue,
                Err(_) => lost += 1,
            }
            calls.remove(&index);
        }
    }
}

fn open(poll: &Poll, target: SocketAddr, index: u64) -> io::Result<Call> {
    let mut stream = TcpStream::connect(target)?;
    let both = Interest::READABLE | Interest::WRITABLE;
    let token = Token(usize::try_from(index).unwrap_or(0));
    poll.registry().register(&mut stream, token, both)?;
    Ok(Call {
        stream,
        sent: 0,
        received: Vec::new(),
    })
}

/// Whether an event will say how it goes on; a connection that is being made is not there yet.
fn is_pending(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected
    )
}

impl Call {
    /// Goes on until the answer is whole (`Ok`), or would block.
    fn advance(&mut self, request: &[u8]) -> io::Result<()> {
        while self.sent < request.len() {
            self.sent += self.stream.write(&request[self.sent..])?;
        }
        let mut buffer = [0; 4 * 1024];
        loop {
            let whole = answer_len(&self.received)?;
            if whole.is_some_and(|len| self.received.len() >= len) {
                return Ok(());
            }
            match self.stream.read(&mut buffer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                len => self.received.extend_from_slice(&buffer[..len]),
            }
        }
    }
}

impl Book {
    fn new(pace: Pace, warmup: Duration) -> Self {
        let before = warmup.saturating_sub(Duration::from_nanos(1));
        Book {
            pace,
            first_measured: if warmup.is_zero() {
                0
            } else {
                pace.due_by(before)
            },
            next: 0,
            open: BTreeSet::new(),
            latencies: Latencies::new(),
            lateness: Latencies::new(),
        }
    }

    /// The next call that is due by `elapsed`; it counts as begun then.
    fn begin(&mut self, elapsed: Duration) -> Option<u64> {
        let index = self.next;
        if index >= self.pace.due_by(elapsed) {
            return None;
        }
        self.next += 1;
        self.open.insert(index);
        if index >= self.first_measured {
            let late = elapsed.saturating_sub(self.pace.due_at(index));
            self.lateness.record(late);
        }
        Some(index)
    }

    fn all_begun(&self) -> bool {
        self.next >= self.pace.total()
    }

    fn answered(&mut self, index: u64, elapsed: Duration) {
        if self.open.remove(&index) {
            self.record(index, elapsed);
        }
    }

    /// Ends the run: a call without an answer counts with the time waited so far. Says how many
    /// measured ones there were.
    fn close(&mut self, elapsed: Duration) -> u64 {
        while self.begin(elapsed).is_some() {}
        let open = std::mem::take(&mut self.open);
        let answered = self.latencies.len();
        for index in open {
            self.record(index, elapsed);
        }
        self.latencies.len() - answered
    }

    fn record(&mut self, index: u64, elapsed: Duration) {
        if index >= self.first_measured {
            let latency = elapsed.saturating_sub(self.pace.due_at(index));
            self.latencies.record(latency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn answers_count_from_when_they_were_due_in_any_order() {
        let mut book = Book::new(Pace::new(100.0, 40 * MS), Duration::ZERO);
        assert_eq!(book.begin(Duration::ZERO), Some(0));
        assert_eq!(book.begin(9 * MS), None);
        assert_eq!(
            (book.begin(25 * MS), book.begin(25 * MS)),
            (Some(1), Some(2))
        );
        book.answered(2, 26 * MS);
        book.answered(0, 27 * MS);
        book.answered(0, 90 * MS);
        // Call 1 waited from 10 ms on, call 3 was due at 30 ms and never made.
        assert_eq!(book.close(100 * MS), 2);
        let summary = book.latencies.summary();
        assert_eq!(book.latencies.len(), 4);
        assert!((summary.max_us - 90_000.0).abs() < 200.0, "{summary:?}");
        let mean = (27 + 90 + 6 + 70) as f64 / 4.0 * 1e3;
        assert!((summary.mean_us - mean).abs() < 200.0, "{summary:?}");
    }

    #[test]
    fn warm_up_does_not_count() {
        let mut book = Book::new(Pace::new(100.0, 40 * MS), 20 * MS);
        while book.begin(40 * MS).is_some() {}
        book.answered(1, 40 * MS);
        assert_eq!((book.close(40 * MS), book.latencies.len()), (2, 2));
    }
}
