//! `load mix`: large objects and empty ones at once, in a closed loop, each over a connection of
//! its own.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};
use socket2::{Domain, SockRef, Socket, Type};

use super::args::MixArgs;
use super::http::answer_len;
use super::latency::{Latencies, LatencySummary};
use super::origin::{LARGE_PATH, WINDOW_LEN};
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

/// What is read of an answer before its head is whole.
const HEAD_LEN: usize = 4 * 1024;
/// What is discarded by one call.
const DISCARDED_MAX: usize = 1024 * 1024;
/// Failures in a row after which the server is taken for gone.
const FAILURES_MAX: u32 = 1_000;

struct Mix {
    target: SocketAddr,
    poll: Poll,
    slots: Vec<Slot>,
    /// For answers' heads; shared by all.
    buffer: Vec<u8>,
    /// For what is not looked at; always empty.
    unread: Vec<u8>,
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
    connection: Option<Connection>,
}

struct Connection {
    stream: TcpStream,
    begun_at: Instant,
    sent: usize,
    /// The start of the answer, until its head is whole.
    head: Vec<u8>,
    /// Bytes of the answer that are yet to come, once its head has said so.
    left: Option<usize>,
}

pub(crate) fn run(args: &MixArgs) -> Result<MixSummary> {
    let failed = Error::system("the load generator's readiness queue failed");
    let mut mix = Mix::new(args).map_err(Error::system("cannot make a readiness queue"))?;
    if args.say_ready {
        println!("ready");
    }
    let outcome = mix.run(args.time.warmup, args.time.whole());
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    match outcome {
        Err(source) if refused(&source) => Err(Error::Connect {
            address: args.target,
            source,
        }),
        Err(error) => Err(failed(error)),
        Ok(measured) => {
            let mut summary = mix.summary;
            summary.seconds = measured.as_secs_f64();
            let seconds = summary.seconds.max(f64::EPSILON);
            summary.empty_per_s = summary.empty as f64 / seconds;
            summary.bytes_per_s = summary.bytes as f64 / seconds;
            summary.latency = mix.latencies.summary();
            Ok(summary)
        }
    }
}

impl Mix {
    fn new(args: &MixArgs) -> io::Result<Self> {
        let slot = |is_large: bool| {
            let path = if is_large { LARGE_PATH } else { "/" };
            let host = args.target;
            Slot {
                is_large,
                request: format!(
                    "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
                )
                .into_bytes(),
                connection: None,
            }
        };
        let (large, empty) = (args.large as usize, args.empty as usize);
        let kinds = std::iter::repeat_n(true, large).chain(std::iter::repeat_n(false, empty));
        Ok(Mix {
            target: args.target,
            poll: Poll::new()?,
            slots: kinds.map(slot).collect(),
            buffer: vec![0; HEAD_LEN],
            unread: Vec::with_capacity(DISCARDED_MAX),
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
            match self
                .poll
                .poll(&mut events, Some(next.saturating_sub(elapsed)))
            {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                self.drive(event.token().0)?;
            }
        }
    }

    fn open(&mut self, slot: usize) -> io::Result<()> {
        let mut stream = connect(self.target)?;
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut stream, Token(slot), both)?;
        self.slots[slot].connection = Some(Connection {
            stream,
            begun_at: Instant::now(),
            sent: 0,
            head: Vec::new(),
            left: None,
        });
        Ok(())
    }

    fn drive(&mut self, slot: usize) -> io::Result<()> {
        let Slot {
            is_large,
            request,
            connection,
        } = &mut self.slots[slot];
        let Some(open) = connection else {
            return Ok(());
        };
        let mut bytes = 0;
        let buffers = (&mut self.buffer[..], &mut self.unread);
        let advanced = open.advance(request, buffers, &mut bytes);
        if self.counts && *is_large {
            self.summary.bytes += bytes;
        }
        match advanced {
            Err(error) if is_pending(&error) => return Ok(()),
            Err(error) => {
                self.failures += 1;
                self.summary.failed += 1;
                self.summary.failure = Some(error.to_string());
                if self.failures >= FAILURES_MAX {
                    return Err(error);
                }
            }
            Ok(()) => {
                self.failures = 0;
                if self.counts && *is_large {
                    self.summary.large += 1;
                } else if self.counts {
                    self.summary.empty += 1;
                    self.latencies.record(open.begun_at.elapsed());
                }
            }
        }
        *connection = None;
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

/// Whether an event will say how it goes on; a connection that is being made is not there yet.
fn is_pending(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected
    )
}

impl Connection {
    /// Goes on until the answer is whole (`Ok`), or would block; adds what came to `bytes`.
    fn advance(
        &mut self,
        request: &[u8],
        (buffer, unread): (&mut [u8], &mut Vec<u8>),
        bytes: &mut u64,
    ) -> io::Result<()> {
        while self.sent < request.len() {
            self.sent += self.stream.write(&request[self.sent..])?;
        }
        while self.left != Some(0) {
            let len = match self.left {
                Some(left) => discard(&self.stream, unread, left)?,
                None => self.stream.read(buffer)?,
            };
            if len == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            *bytes += len as u64;
            match &mut self.left {
                Some(left) => *left = left.saturating_sub(len),
                None => {
                    self.head.extend_from_slice(&buffer[..len]);
                    let whole = answer_len(&self.head)?;
                    self.left = whole.map(|whole| whole.saturating_sub(self.head.len()));
                }
            }
        }
        Ok(())
    }
}

/// Takes bytes from a stream without looking at them. Linux need not even copy them (`MSG_TRUNC`),
/// so that what fetches large objects is not what holds them up.
fn discard(stream: &TcpStream, unread: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    let flags = if cfg!(target_os = "linux") {
        libc::MSG_TRUNC
    } else {
        0
    };
    let room = unread.spare_capacity_mut();
    let most = most.min(room.len());
    SockRef::from(stream).recv_with_flags(&mut room[..most], flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_discarded_is_gone_and_no_more_than_that() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let near = std::net::TcpStream::connect(address).expect("it listens");
        let (mut far, _) = listener.accept().expect("one came");
        let mut stream = TcpStream::from_std(near);
        let mut unread = Vec::with_capacity(1_000);
        far.write_all(&[b'x'; 5_000]).expect("it is open");
        far.write_all(b"end").expect("it is open");
        let mut left = 5_000;
        while left > 0 {
            let len = discard(&stream, &mut unread, left).expect("something is there");
            assert!((1..=left.min(1_000)).contains(&len), "{len} of {left}");
            left -= len;
        }
        drop(far);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("it ends");
        assert_eq!(rest, b"end");
    }
}
