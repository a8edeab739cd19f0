//! `load appends`: so many clients of a log, each of which appends a record, waits until it is
//! durable, and appends the next.

use std::io;
use std::time::{Duration, Instant};

use mio::Events;
use serde::{Deserialize, Serialize};

use super::args::{AppendsArgs, Measured};
use super::latency::{Latencies, LatencySummary};
use super::queue::{Queue, Socket, slots};
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
    socket: Socket,
    unsent: Vec<u8>,
    answer: [u8; WELCOME_LEN],
    answer_len: usize,
    /// The request that is under way; none before the welcome.
    id: u64,
    begun: Instant,
}

pub(crate) fn run(args: &AppendsArgs) -> Result<AppendsSummary> {
    let clients = (0..args.clients).map(|_| Client::open(args));
    let mut clients = clients.collect::<Result<Vec<_>>>()?;
    let record = vec![b'r'; args.bytes as usize];
    let latencies = exchange(&mut clients, &record, args.time)
        .map_err(Error::system("the clients' readiness queue failed"))?;
    let seconds = args.time.seconds.as_secs_f64();
    Ok(AppendsSummary {
        appends: latencies.len(),
        clients_lost: clients.iter().filter(|client| client.socket.lost).count() as u64,
        seconds,
        per_second: latencies.len() as f64 / seconds.max(f64::EPSILON),
        latency: latencies.summary(),
    })
}

fn exchange(clients: &mut [Client], record: &[u8], time: Measured) -> io::Result<Latencies> {
    let mut queue = Queue::new()?;
    let mut events = Events::with_capacity(1_024);
    for (slot, client) in clients.iter_mut().enumerate() {
        queue.add(&mut client.socket.stream, slot)?;
    }
    let measured = Instant::now() + time.warmup;
    let end = measured + time.seconds;
    let mut latencies = Latencies::new();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left == Duration::ZERO || clients.iter().all(|client| client.socket.lost) {
            return Ok(latencies);
        }
        queue.wait(&mut events, Some(left))?;
        for slot in slots(&events) {
            while let Some(took) = clients[slot].advance(record) {
                if Instant::now() >= measured {
                    latencies.record(took);
                }
            }
        }
    }
}

impl Client {
    fn open(args: &AppendsArgs) -> Result<Self> {
        Ok(Client {
            socket: Socket::connect(args.target)?,
            unsent: HELLO.to_vec(),
            answer: [0; WELCOME_LEN],
            answer_len: 0,
            id: 0,
            begun: Instant::now(),
        })
    }

    /// Goes on until an append is acknowledged, and says how long it took, or would block.
    fn advance(&mut self, record: &[u8]) -> Option<Duration> {
        loop {
            let sent = self.socket.write(&self.unsent);
            self.unsent.drain(..sent);
            if !self.unsent.is_empty() {
                return None;
            }
            let wanted = match self.id {
                0 => WELCOME_LEN,
                _ => APPENDED_LEN,
            };
            match self.socket.read(&mut self.answer[self.answer_len..wanted]) {
                0 => return None,
                len => self.answer_len += len,
            }
            if self.answer_len < wanted {
                continue;
            }
            // Whatever the welcome says suits.
            let acknowledged = self.answer.first_chunk();
            if self.id > 0 && !acknowledged.is_some_and(|frame| acknowledges(frame, self.id)) {
                self.socket.lost = true;
                return None;
            }
            let took = (self.id > 0).then(|| self.begun.elapsed());
            self.answer_len = 0;
            self.id += 1;
            self.unsent = append(self.id, record);
            self.begun = Instant::now();
            if took.is_some() {
                return took;
            }
        }
    }
}
