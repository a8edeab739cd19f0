//! What the one thread of a load generator turns around: a readiness queue with a timer in it, and
//! the sockets that it is asked about.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::event::Source;
use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::error::{Error, Result};
use crate::sys;

const TIMER: Token = Token(usize::MAX);

/// Wakes the thread when a socket is ready, and with each tick of the timer.
pub(super) struct Queue {
    poll: Poll,
    timer: Option<File>,
}

impl Queue {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Queue {
            poll: Poll::new()?,
            timer: None,
        })
    }

    /// Events of `source` come under the number `slot`.
    pub(super) fn add(&self, source: &mut impl Source, slot: usize) -> io::Result<()> {
        let both = Interest::READABLE | Interest::WRITABLE;
        self.poll.registry().register(source, Token(slot), both)
    }

    /// Wakes the thread every `period`, too, from one period after now.
    ///
    /// Whoever follows a schedule takes its start before it calls this: a tick that came just
    /// before its request was due would send that a whole tick late.
    pub(super) fn tick(&mut self, period: Duration) -> io::Result<()> {
        let timer = self.timer.insert(sys::periodic_timer(period)?);
        let mut source = SourceFd(&timer.as_raw_fd());
        let registry = self.poll.registry();
        registry.register(&mut source, TIMER, Interest::READABLE)
    }

    /// Waits for events, `most` at the longest; [`slots`] says whose they are. Whether it was
    /// woken before that.
    pub(super) fn wait(&mut self, events: &mut Events, most: Option<Duration>) -> io::Result<bool> {
        match self.poll.poll(events, most) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        }
        if let Some(timer) = &mut self.timer
            && events.iter().any(|event| event.token() == TIMER)
        {
            // Its count, without which it would not be heard of again; none is no harm.
            let _ = timer.read(&mut [0; 8]);
        }
        Ok(!events.is_empty())
    }
}

/// The numbers of the sockets that are ready.
pub(super) fn slots(events: &Events) -> impl Iterator<Item = usize> {
    let tokens = events.iter().map(|event| event.token());
    tokens.filter(|token| *token != TIMER).map(|token| token.0)
}

/// Whether an event will say how it goes on; a connection that is being made is not there yet.
pub(super) fn is_pending(error: &io::Error) -> bool {
    use io::ErrorKind::{NotConnected, WouldBlock};
    matches!(error.kind(), WouldBlock | NotConnected)
}

/// A connection that is not waited for, and may get lost.
pub(super) struct Socket {
    pub(super) stream: TcpStream,
    /// It was closed by the other side, or broke.
    pub(super) lost: bool,
}

impl Socket {
    /// A connection that is established.
    pub(super) fn connect(target: SocketAddr) -> Result<Self> {
        Ok(Socket {
            stream: connect(target)?,
            lost: false,
        })
    }

    /// Writes as far as the socket takes it; says how far that is.
    pub(super) fn write(&mut self, bytes: &[u8]) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && !self.lost {
            match self.stream.write(&bytes[taken..]) {
                Ok(len) => taken += len,
                Err(error) if is_pending(&error) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => self.lost = true,
            }
        }
        taken
    }

    /// Reads what is there; 0 where nothing is.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> usize {
        while !self.lost {
            match self.stream.read(buffer) {
                Ok(len @ 1..) => return len,
                Err(error) if is_pending(&error) => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) | Err(_) => self.lost = true,
            }
        }
        0
    }
}

/// A connection that is established, does not block, and does not delay small writes.
pub(super) fn connect(target: SocketAddr) -> Result<TcpStream> {
    let stream = connect_blocking(target)?;
    let unblocked = stream.set_nonblocking(true);
    unblocked.map_err(Error::connect(target))?;
    Ok(TcpStream::from_std(stream))
}

/// The same of a connection that blocks.
pub(super) fn connect_blocking(target: SocketAddr) -> Result<std::net::TcpStream> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let connected = std::net::TcpStream::connect_timeout(&target, PATIENCE);
    let stream = connected.map_err(Error::connect(target))?;
    stream.set_nodelay(true).map_err(Error::connect(target))?;
    Ok(stream)
}
