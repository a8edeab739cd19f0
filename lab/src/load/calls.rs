//! `load calls`: an open loop of calls, each over a connection of its own, as somebody who asks how
//! a server is would make them; and the loop itself, for connections that are kept, too.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::Events;
use mio::net::TcpStream;

use super::args::CallsArgs;
use super::book::{Book, EchoSummary};
use super::exchange::{self, Exchange, Room};
use super::queue::{Queue, connect, slots};
use crate::error::{Error, Result};
use crate::sys;

/// Calls of a kind that may be under way at once; what is due beyond them counts as unanswered.
const UNDER_WAY_MAX: usize = 4_000;

/// Calls of one kind.
pub(super) struct Kind {
    pub(super) book: Book,
    target: SocketAddr,
    request: Vec<u8>,
    /// Whose connections it has, where they are kept.
    pool: Option<usize>,
    under_way: usize,
}

/// Connections that are kept.
#[derive(Default)]
struct Pool {
    /// Those without a call; the one that has been so for longest is next.
    idle: VecDeque<usize>,
    /// Calls that wait for one, each with its kind.
    waiting: VecDeque<(usize, u64)>,
}

struct Connection {
    /// What kind of call is under way, and which.
    kind: usize,
    call: Option<u64>,
    exchange: Exchange,
}

pub(crate) fn run(args: &CallsArgs) -> Result<EchoSummary> {
    // Where load shares processors, a prober that waits for its turn would measure itself: a
    // fair scheduler makes one that ran just now wait for a tick, however little it wants.
    sys::ask_to_go_first();
    let pace = args.time.pace(args.rate);
    let book = args.time.book(pace, |_| true);
    let method = if args.post { "POST" } else { "GET" };
    let kind = Kind::new(book, args.target, method, &args.path, None);
    let (elapsed, kinds) = Loop::new(vec![kind])
        .and_then(|calls| calls.run(pace.tick(), args.time.end()))
        .map_err(Error::system("the calls' readiness queue failed"))?;
    let mut summaries = kinds.into_iter().map(|kind| kind.book.summary(elapsed));
    Ok(summaries.next().unwrap_or_default())
}

impl Kind {
    /// Calls over connections of a pool, or over one for each.
    pub(super) fn new(
        book: Book,
        target: SocketAddr,
        method: &str,
        path: &str,
        pool: Option<usize>,
    ) -> Self {
        let request = exchange::request(
            method,
            path,
            target,
            pool.is_some(),
            "Content-Length: 0\r\n",
        );
        Kind {
            book,
            target,
            request,
            pool,
            under_way: 0,
        }
    }
}

/// The loop: whose calls it makes, over which connections.
pub(super) struct Loop {
    queue: Queue,
    room: Room,
    kinds: Vec<Kind>,
    pools: BTreeMap<usize, Pool>,
    connections: BTreeMap<usize, Connection>,
    next_slot: usize,
}

impl Loop {
    pub(super) fn new(kinds: Vec<Kind>) -> io::Result<Self> {
        Ok(Loop {
            queue: Queue::new()?,
            room: Room::new(),
            kinds,
            pools: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_slot: 0,
        })
    }

    /// Connects so many times beforehand, for calls of whatever kind has this pool.
    pub(super) fn keep(&mut self, pool: usize, target: SocketAddr, connections: u32) -> Result<()> {
        for _ in 0..connections {
            let stream = connect(target)?;
            let added = self.add(0, None, stream);
            let slot = added.map_err(Error::system("the calls' readiness queue failed"))?;
            self.pools.entry(pool).or_default().idle.push_back(slot);
        }
        Ok(())
    }

    /// Calls until all is answered or `end` has come; says how long that took.
    pub(super) fn run(
        mut self,
        tick: Duration,
        end: Duration,
    ) -> io::Result<(Duration, Vec<Kind>)> {
        let mut events = Events::with_capacity(256);
        let start = Instant::now();
        self.queue.tick(tick)?;
        loop {
            self.begin_due(start);
            let elapsed = start.elapsed();
            let is_over = |kind: &Kind| kind.book.all_begun() && kind.under_way == 0;
            if elapsed >= end || self.kinds.iter().all(is_over) {
                return Ok((elapsed, self.kinds));
            }
            let left = end.saturating_sub(elapsed);
            self.queue.wait(&mut events, Some(left))?;
            for slot in slots(&events) {
                self.advance(slot, start);
            }
        }
    }

    fn begin_due(&mut self, start: Instant) {
        for index in 0..self.kinds.len() {
            while let Some(call) = self.kinds[index].book.begin(start.elapsed()) {
                self.begin(index, call, start);
            }
        }
    }

    fn begin(&mut self, index: usize, call: u64, start: Instant) {
        let kind = &mut self.kinds[index];
        if kind.under_way >= UNDER_WAY_MAX {
            return;
        }
        kind.under_way += 1;
        if let Some(pool) = kind.pool {
            let pool = self.pools.entry(pool).or_default();
            match pool.idle.pop_front() {
                Some(slot) => self.call_over(slot, (index, call), start),
                None => pool.waiting.push_back((index, call)),
            }
            return;
        }
        let opened = TcpStream::connect(kind.target);
        // An event will say when it is there.
        if opened
            .and_then(|stream| self.add(index, Some(call), stream))
            .is_err()
        {
            self.lost(index);
        }
    }

    fn add(&mut self, kind: usize, call: Option<u64>, mut stream: TcpStream) -> io::Result<usize> {
        let slot = self.next_slot;
        self.next_slot += 1;
        self.queue.add(&mut stream, slot)?;
        let connection = Connection {
            kind,
            call,
            exchange: Exchange::over(stream),
        };
        self.connections.insert(slot, connection);
        Ok(slot)
    }

    /// The next call over a connection that was kept.
    fn call_over(&mut self, slot: usize, (kind, call): (usize, u64), start: Instant) {
        if let Some(connection) = self.connections.get_mut(&slot) {
            connection.kind = kind;
            connection.call = Some(call);
            connection.exchange.again();
            self.advance(slot, start);
        }
    }

    fn lost(&mut self, index: usize) {
        self.kinds[index].under_way -= 1;
        self.kinds[index].book.lost();
    }

    /// Goes on with the call of a connection, and with the next ones if that is answered.
    fn advance(&mut self, slot: usize, start: Instant) {
        let Some(connection) = self.connections.get_mut(&slot) else {
            return;
        };
        let (index, Some(call)) = (connection.kind, connection.call) else {
            return;
        };
        let kind = &mut self.kinds[index];
        let exchange = &mut connection.exchange;
        match exchange.advance(&kind.request, false, &mut self.room) {
            Ok(false) => {}
            Ok(true) => {
                kind.under_way -= 1;
                kind.book.answered(call, start.elapsed());
                connection.call = None;
                let Some(pool) = kind.pool else {
                    self.connections.remove(&slot);
                    return;
                };
                let pool = self.pools.entry(pool).or_default();
                match pool.waiting.pop_front() {
                    None => pool.idle.push_back(slot),
                    Some(next) => self.call_over(slot, next, start),
                }
            }
            Err(_) => {
                self.connections.remove(&slot);
                self.lost(index);
            }
        }
    }
}
