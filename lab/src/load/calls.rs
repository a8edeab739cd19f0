//! `load calls`: an open loop of calls, each over a connection of its own, as somebody who asks how
//! a server is would make them; and the loop itself, for connections that are kept, too.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::args::CallsArgs;
use super::book::Book;
use super::echo::{EchoSummary, connect};
use super::http::answer_len;
use super::pace::Pace;
use crate::error::{Error, Result};
use crate::sys;

const TIMER: Token = Token(usize::MAX);
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
    idle: VecDeque<Token>,
    /// Calls that wait for one, each with its kind.
    waiting: VecDeque<(usize, u64)>,
}

struct Connection {
    /// What kind of call is under way, and which.
    kind: usize,
    call: Option<u64>,
    stream: TcpStream,
    sent: usize,
    received: Vec<u8>,
}

pub(crate) fn run(args: &CallsArgs) -> Result<EchoSummary> {
    // Where load shares processors, a prober that waits for its turn would measure itself: a
    // fair scheduler makes one that ran just now wait for a tick, however little it wants.
    sys::ask_to_go_first();
    let pace = Pace::new(args.rate.into(), args.time.whole());
    let book = Book::new(pace, args.time.warmup, |_| true);
    let method = if args.post { "POST" } else { "GET" };
    let kind = Kind::new(book, args.target, method, &args.path, None);
    let end = args.time.whole() + args.drain;
    let (elapsed, kinds) = Loop::new(vec![kind])
        .and_then(|calls| calls.run(pace.tick(), end))
        .map_err(Error::system("the calls' readiness queue failed"))?;
    let summary = kinds
        .into_iter()
        .next()
        .map(|kind| kind.book.summary(elapsed));
    Ok(summary.unwrap_or_default())
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
        let connection = match pool {
            Some(_) => "keep-alive",
            None => "close",
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {target}\r\nConnection: {connection}\r\n\
             Content-Length: 0\r\n\r\n"
        );
        Kind {
            book,
            target,
            request: request.into_bytes(),
            pool,
            under_way: 0,
        }
    }
}

/// The loop: whose calls it makes, over which connections.
pub(super) struct Loop {
    poll: Poll,
    kinds: Vec<Kind>,
    pools: BTreeMap<usize, Pool>,
    connections: BTreeMap<Token, Connection>,
    next_token: usize,
}

impl Loop {
    pub(super) fn new(kinds: Vec<Kind>) -> io::Result<Self> {
        Ok(Loop {
            poll: Poll::new()?,
            kinds,
            pools: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_token: 0,
        })
    }

    /// Connects so many times beforehand, for calls of whatever kind has this pool.
    pub(super) fn keep(&mut self, pool: usize, target: SocketAddr, connections: u32) -> Result<()> {
        for _ in 0..connections {
            let stream = connect(target)?;
            let token = self
                .add(0, stream)
                .map_err(Error::system("the calls' readiness queue failed"))?;
            self.pools.entry(pool).or_default().idle.push_back(token);
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
        // Before the timer starts: a tick that came just before its call was due would make it a
        // whole tick late.
        let start = Instant::now();
        let mut timer = sys::periodic_timer(tick)?;
        let mut source = SourceFd(&timer.as_raw_fd());
        let registry = self.poll.registry();
        registry.register(&mut source, TIMER, Interest::READABLE)?;
        loop {
            self.begin_due(start);
            let elapsed = start.elapsed();
            let is_over = |kind: &Kind| kind.book.all_begun() && kind.under_way == 0;
            if elapsed >= end || self.kinds.iter().all(is_over) {
                return Ok((elapsed, self.kinds));
            }
            match self
                .poll
                .poll(&mut events, Some(end.saturating_sub(elapsed)))
            {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            for event in &events {
                match event.token() {
                    // Its count, without which it would not be heard of again.
                    TIMER => drop(timer.read(&mut [0; 8])),
                    token => self.advance(token, start),
                }
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
                Some(token) => self.call_over(token, (index, call), start),
                None => pool.waiting.push_back((index, call)),
            }
            return;
        }
        let opened = TcpStream::connect(kind.target);
        match opened.and_then(|stream| self.add(index, stream)) {
            Ok(token) => {
                // An event will say when it is there.
                if let Some(connection) = self.connections.get_mut(&token) {
                    connection.call = Some(call);
                }
            }
            Err(_) => self.lost(index),
        }
    }

    fn add(&mut self, kind: usize, mut stream: TcpStream) -> io::Result<Token> {
        let token = Token(self.next_token);
        self.next_token += 1;
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(&mut stream, token, both)?;
        let connection = Connection {
            kind,
            call: None,
            stream,
            sent: 0,
            received: Vec::new(),
        };
        self.connections.insert(token, connection);
        Ok(token)
    }

    /// The next call over a connection that was kept.
    fn call_over(&mut self, token: Token, (kind, call): (usize, u64), start: Instant) {
        if let Some(connection) = self.connections.get_mut(&token) {
            connection.kind = kind;
            connection.call = Some(call);
            connection.sent = 0;
            connection.received.clear();
            self.advance(token, start);
        }
    }

    fn lost(&mut self, index: usize) {
        self.kinds[index].under_way -= 1;
        self.kinds[index].book.lost();
    }

    /// Goes on with the call of a connection, and with the next ones if that is answered.
    fn advance(&mut self, token: Token, start: Instant) {
        let Some(connection) = self.connections.get_mut(&token) else {
            return;
        };
        let (index, Some(call)) = (connection.kind, connection.call) else {
            return;
        };
        let kind = &mut self.kinds[index];
        match connection.advance(&kind.request) {
            Ok(()) => {
                kind.under_way -= 1;
                kind.book.answered(call, start.elapsed());
                connection.call = None;
                let Some(pool) = kind.pool else {
                    self.connections.remove(&token);
                    return;
                };
                let pool = self.pools.entry(pool).or_default();
                match pool.waiting.pop_front() {
                    None => pool.idle.push_back(token),
                    Some(next) => self.call_over(token, next, start),
                }
            }
            Err(error) if is_pending(&error) => {}
            Err(_) => {
                self.connections.remove(&token);
                self.lost(index);
            }
        }
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
