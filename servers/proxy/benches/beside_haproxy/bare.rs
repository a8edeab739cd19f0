//! The least that a proxy of kept connections could take: what a process takes that reads, writes
//! and waits, and does nothing else. It neither looks at what it passes on nor logs nor has limits.
//! So whatever a proxy takes beyond this is its own work, and no proxy that makes these calls of
//! the system for each request can take less.

use std::collections::HashMap;
use std::env;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

use evenkeel_measure::rounds::alternate;
use rustix::event::epoll;

use super::clients::{Load, Reached, connect};
use super::costs::{all, measured, per_operation, times_kept};
use super::proxies::{Kind, Proxy, processor_us};
use super::rows::Rows;
use super::{Plan, Result};

/// Tells this program to be the relay, and before which server.
const BEFORE: &str = "EVENKEEL_BENCH_RELAY_BEFORE";

/// What is read at a time.
const PIECE: usize = 16 * 1_024;

/// The relay's processor time for a request, and HAProxy's.
pub(crate) fn kept(plan: &Plan<'_>) -> Result<Rows> {
    let names = ["relay", Kind::Copying.name()];
    let what = "processor time of two reads, two writes and the waits between them, in us: the \
                least that a proxy of kept connections can take";
    let mut rows = Rows::of(what, names, 1);
    let name = "HTTP, kept connections: calls alone";
    if !plan.wants(name) {
        return Ok(rows);
    }
    let both = [
        Either::Relay(Relay::start(plan.machine.origins.http)?),
        Either::Proxy(Box::new(plan.machine.start(Kind::Copying)?)),
    ];
    let times = times_kept(plan);
    for one in &both {
        one.measured(times / 4 + 1)?;
    }
    let figures = alternate(plan.rounds.rounds(), &both, |one| one.measured(times))?;
    rows.add(name, &[], &figures);
    Ok(rows)
}

enum Either {
    Relay(Relay),
    Proxy(Box<Proxy>),
}

impl Either {
    fn measured(&self, times: usize) -> Result<f64> {
        match self {
            Self::Relay(relay) => {
                let before = processor_us(&relay.child)?;
                all(relay, Load::Kept, times)?;
                Ok(per_operation(processor_us(&relay.child)? - before, times))
            }
            Self::Proxy(proxy) => measured(proxy, Load::Kept, times),
        }
    }
}

/// A process of the relay, which ends with this.
struct Relay {
    child: Child,
    address: SocketAddr,
}

impl Relay {
    fn start(origin: SocketAddr) -> Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .env(BEFORE, origin.to_string())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or("the relay has no output")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let address = line.trim().parse();
        let address = address.map_err(|_| "the relay does not say where it listens")?;
        Ok(Self { child, address })
    }
}

impl Reached for Relay {
    fn http(&self) -> SocketAddr {
        self.address
    }

    fn tcp(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is the relay, if this process was started for that: then it ends by being killed.
pub(crate) fn relay_if_told() -> Result<()> {
    let Ok(origin) = env::var(BEFORE) else {
        return Ok(());
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    Relaying::new(listener, origin.parse()?)?.run()
}

/// A connection and the one that it is passed on to.
struct End {
    stream: TcpStream,
    other: u64,
}

struct Relaying {
    epoll: rustix::fd::OwnedFd,
    listener: TcpListener,
    origin: SocketAddr,
    ends: HashMap<u64, End>,
}

impl Relaying {
    fn new(listener: TcpListener, origin: SocketAddr) -> Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(key(&listener));
        epoll::add(&epoll, &listener, data, epoll::EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            origin,
            ends: HashMap::new(),
        })
    }

    fn run(mut self) -> Result<()> {
        let mut events = Vec::with_capacity(256);
        let mut buffer = vec![0; PIECE];
        let listens = key(&self.listener);
        loop {
            events.clear();
            epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                None,
            )?;
            for event in &events {
                match event.data.u64() {
                    of if of == listens => self.accept()?,
                    of => self.pass(of, &mut buffer),
                }
            }
        }
    }

    fn accept(&mut self) -> Result<()> {
        let (client, _) = self.listener.accept()?;
        client.set_nodelay(true)?;
        let server = connect(self.origin)?;
        let (of_client, of_server) = (key(&client), key(&server));
        for (stream, own, other) in [
            (client, of_client, of_server),
            (server, of_server, of_client),
        ] {
            stream.set_nonblocking(true)?;
            let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
            epoll::add(&self.epoll, &stream, epoll::EventData::new_u64(own), flags)?;
            self.ends.insert(own, End { stream, other });
        }
        Ok(())
    }

    /// Passes on what has come, which always fits here. If it does not, or if one of both ends, so
    /// do both.
    fn pass(&mut self, from: u64, buffer: &mut [u8]) {
        // The other end may have ended both, and this event was there before.
        let Some(end) = self.ends.get(&from) else {
            return;
        };
        let to = end.other;
        let passed = match (&end.stream).read(buffer) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(came) => match self.ends.get(&to) {
                Some(other) => (&other.stream).write_all(&buffer[..came]),
                None => Err(ErrorKind::NotConnected.into()),
            },
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        };
        if passed.map_err(|_: io::Error| ()).is_err() {
            self.ends.remove(&from);
            self.ends.remove(&to);
        }
    }
}

fn key(of: &impl AsRawFd) -> u64 {
    // A descriptor that is open is not negative.
    of.as_raw_fd().unsigned_abs().into()
}
