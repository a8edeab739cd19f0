//! The load: one thread with a readiness queue of its own, a number of connections, and on each
//! of them one request at a time. It stands on neither of the runtimes it measures.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use evenkeel_measure::latency::Latencies;
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

/// What a load brought.
pub(crate) struct Outcome {
    pub(crate) requests: u64,
    /// In microseconds; endless when nothing was answered.
    pub(crate) p99_us: f64,
}

struct Connection {
    stream: TcpStream,
    sent_at: Instant,
    received: usize,
}

/// A load that is connected and running.
pub(crate) struct Load {
    poll: Poll,
    connections: Vec<Connection>,
    request: &'static [u8],
    /// How long a response is; found out by the first.
    response_len: usize,
}

const ECHO_REQUEST: &[u8] = &[b'x'; 64];
const HELLO_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: bench\r\n\r\n";

impl Load {
    pub(crate) fn echo(port: u16, connections: usize) -> io::Result<Self> {
        Self::connect(port, connections, ECHO_REQUEST)
    }

    pub(crate) fn hello(port: u16, connections: usize) -> io::Result<Self> {
        Self::connect(port, connections, HELLO_REQUEST)
    }

    fn connect(port: u16, connections: usize, request: &'static [u8]) -> io::Result<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let response_len = response_len(address, request)?;
        let poll = Poll::new()?;
        let mut load = Self {
            poll,
            connections: Vec::new(),
            request,
            response_len,
        };
        for index in 0..connections {
            let stream = std::net::TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            load.poll
                .registry()
                .register(&mut stream, Token(index), Interest::READABLE)?;
            load.connections.push(Connection {
                stream,
                sent_at: Instant::now(),
                received: 0,
            });
        }
        for connection in &mut load.connections {
            send(connection, request)?;
        }
        Ok(load)
    }

    /// Sends the next request on each connection as its response comes, for `duration`.
    pub(crate) fn run(&mut self, duration: Duration) -> io::Result<Outcome> {
        let mut latencies = Latencies::new();
        let mut events = Events::with_capacity(1024);
        let mut buffer = vec![0; 16 * 1024];
        let until = Instant::now() + duration;
        while Instant::now() < until {
            self.poll
                .poll(&mut events, Some(Duration::from_millis(10)))?;
            for event in &events {
                let connection = &mut self.connections[event.token().0];
                match connection.stream.read(&mut buffer) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(count) => connection.received += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                    Err(error) => return Err(error),
                }
                if connection.received >= self.response_len {
                    latencies.record(connection.sent_at.elapsed());
                    send(connection, self.request)?;
                }
            }
        }
        Ok(Outcome {
            requests: latencies.len(),
            p99_us: match latencies.is_empty() {
                true => f64::INFINITY,
                false => latencies.percentile(99).as_secs_f64() * 1e6,
            },
        })
    }
}

fn send(connection: &mut Connection, request: &[u8]) -> io::Result<()> {
    connection.received = 0;
    connection.sent_at = Instant::now();
    // One small request at a time always fits into the socket's buffer.
    connection.stream.write_all(request)
}

/// Makes one request and sees how long its response is: all that comes before a pause.
fn response_len(address: SocketAddr, request: &[u8]) -> io::Result<usize> {
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_millis(100)))?;
    stream.write_all(request)?;
    let (mut buffer, mut len) = ([0; 4096], 0);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => len += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && len > 0 => return Ok(len),
            Err(error) => return Err(error),
        }
    }
}
