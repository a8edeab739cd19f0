//! `load appends`: so many clients of a log, each of which appends a record, waits until it is
//! durable, and appends the next.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};

use super::args::AppendsArgs;
use super::echo::connect;
use super::latency::{Latencies, LatencySummary};
use crate::appends::{APPENDED_LEN, HELLO, WELCOME_LEN, acknowledges, append};
use crate::error::{Error, Result};

/// What the clients saw.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct AppendsSummary {
    /// Records that were acknowledged within the time.
    pub(crate) appends: u64,
    /// Clients that were hung up on, or answered what is no acknowledgement.
    pub(crate) clients_lost: u64,
    pub(crate) seconds: f64,
    pub(crate) per_second: f64,
    /// From asking to the acknowledgement.
    pub(crate) latency: LatencySummary,
}

struct Client {
    stream: TcpStream,
    unsent: Vec<u8>,
    answer: Vec<u8>,
    /// The request that is under way; none before the welcome.
    id: u64,
    begun: Instant,
    lost: bool,
}

pub(crate) fn run(args: &AppendsArgs) -> Result<AppendsSummary> {
    let mut clients = (0..args.clients)
        .map(|_| {
            Ok(Client {
                stream: connect(args.target)?,
                unsent: HELLO.to_vec(),
                answer: Vec::new(),
                id: 0,
                begun: Instant::now(),
                lost: false,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let record = vec![b'r'; args.bytes as usize];
    exchange(&mut clients, &record, args)
        .map_err(Error::system("the clients' readiness queue failed"))
}

fn exchange(
    clients: &mut [Client],
    record: &[u8],
    args: &AppendsArgs,
) -> io::Result<AppendsSummary> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(1_024);
    for (index, client) in clients.iter_mut().enumerate() {
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registry = poll.registry();
        registry.register(&mut client.stream, Token(index), interest)?;
    }
    let measured = Instant::now() + args.time.warmup;
    let end = measured + args.time.seconds;
    let mut latencies = Latencies::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left == Duration::ZERO || clients.iter().all(|client| client.lost) {
            break;
        }
        match poll.poll(&mut events, Some(left)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for event in &events {
            let client = &mut clients[event.token().0];
            while let Some(took) = client.advance(record) {
                if Instant::now() >= measured {
                    latencies.record(took);
                }
            }
        }
    }
    let seconds = args.time.seconds.as_secs_f64();
    Ok(AppendsSummary {
        appends: latencies.len(),
        clients_lost: clients.iter().filter(|client| client.lost).count() as u64,
        seconds,
        per_second: latencies.len() as f64 / seconds.max(f64::EPSILON),
        latency: latencies.summary(),
    })
}

impl Client {
    /// Goes on until an append is acknowledged, and says how long it took, or would block.
    fn advance(&mut self, record: &[u8]) -> Option<Duration> {
        loop {
            match self.step(record) {
                Ok(Some(took)) => return Some(took),
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.lost = true;
                    return None;
                }
            }
        }
    }

    fn step(&mut self, record: &[u8]) -> io::Result<Option<Duration>> {
        if self.lost {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        while !self.unsent.is_empty() {
            let len = self.stream.write(&self.unsent)?;
            self.unsent.drain(..len);
        }
        let wanted = if self.id == 0 {
            WELCOME_LEN
        } else {
            APPENDED_LEN
        };
        let mut buffer = [0; WELCOME_LEN];
        let room = wanted - self.answer.len();
        match self.stream.read(&mut buffer[..room])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            len => self.answer.extend_from_slice(&buffer[..len]),
        }
        if self.answer.len() < wanted {
            return Ok(None);
        }
        let acknowledged = match self.answer.first_chunk() {
            Some(frame) if self.id > 0 => acknowledges(frame, self.id),
            // Whatever the welcome says suits.
            _ => true,
        };
        if !acknowledged {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let took = (self.id > 0).then(|| self.begun.elapsed());
        self.answer.clear();
        self.id += 1;
        self.unsent = append(self.id, record);
        self.begun = Instant::now();
        Ok(took)
    }
}
