//! Echo without a runtime: one thread, one readiness queue, no tasks. It does the least that any
//! runtime on readiness must do, so what it needs is the kernel's share of every other's result.

use std::io::{self, Read, Write};
use std::thread::JoinHandle;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token, Waker};
use slab::Slab;

const LISTENER: Token = Token(usize::MAX - 1);
const STOP: Token = Token(usize::MAX - 2);

/// A server that runs until it is dropped.
pub(crate) struct Bare {
    port: u16,
    stop: Waker,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Bare {
    /// What the name of its thread begins with.
    pub(crate) const THREADS: &'static str = "bare-";

    /// Starts the server on the processors of the calling thread.
    pub(crate) fn start() -> io::Result<Self> {
        let poll = Poll::new()?;
        let stop = Waker::new(poll.registry(), STOP)?;
        let mut listener = TcpListener::bind(([127, 0, 0, 1], 0).into())?;
        let port = listener.local_addr()?.port();
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        let thread = std::thread::Builder::new()
            .name(format!("{}0", Self::THREADS))
            .spawn(move || serve(poll, &listener))?;
        Ok(Self {
            port,
            stop,
            thread: Some(thread),
        })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let stopped = self.stop.wake();
        if let (Ok(()), Some(thread)) = (stopped, self.thread.take()) {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => eprintln!("vs_tokio: the bare server broke off: {error}"),
                Err(_) => eprintln!("vs_tokio: the bare server panicked"),
            }
        }
    }
}

fn serve(mut poll: Poll, listener: &TcpListener) -> io::Result<()> {
    let mut events = Events::with_capacity(1024);
    let mut connections = Slab::new();
    let mut buffer = vec![0; 4096];
    loop {
        poll.poll(&mut events, None)?;
        for event in &events {
            match event.token() {
                STOP => return Ok(()),
                LISTENER => accept_all(listener, poll.registry(), &mut connections)?,
                Token(key) => {
                    let Some(stream) = connections.get_mut(key) else {
                        continue;
                    };
                    // A connection that breaks is the client's way to end.
                    let open = echo(stream, event.is_read_closed(), &mut buffer).unwrap_or(false);
                    if !open {
                        connections.remove(key);
                    }
                }
            }
        }
    }
}

fn accept_all(
    listener: &TcpListener,
    registry: &Registry,
    connections: &mut Slab<TcpStream>,
) -> io::Result<()> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nodelay(true)?;
        let entry = connections.vacant_entry();
        registry.register(&mut stream, Token(entry.key()), Interest::READABLE)?;
        entry.insert(stream);
    }
}

/// Sends back what is there; says whether the peer may send more.
///
/// A read that comes back short has emptied the socket, and what arrives later is a new edge, so
/// none is made in vain. Behind a short read only the end can hide, when it was announced.
fn echo(stream: &mut TcpStream, is_read_closed: bool, buffer: &mut [u8]) -> io::Result<bool> {
    loop {
        match stream.read(buffer) {
            Ok(0) => return Ok(false),
            Ok(count) => {
                // The load awaits each response, so that one always fits into the socket.
                stream.write_all(&buffer[..count])?;
                if count < buffer.len() && !is_read_closed {
                    return Ok(true);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
