//! A load of requests on the loopback: one thread that stands on neither version.

use std::io::{Read, Write};
use std::net::TcpStream;

/// Connections, with one request at a time on each.
const CONNECTIONS: usize = 16;
/// How many requests a round sends on each of them.
const REQUESTS: usize = 10;

const ECHO: &[u8] = &[b'x'; 64];
const HELLO: &[u8] = b"GET / HTTP/1.1\r\nHost: compare\r\n\r\n";
/// How an answer to `HELLO` ends.
pub(crate) const GREETING: &str = "Hello, World!";

/// See the module's documentation.
pub(crate) struct Load {
    connections: Vec<TcpStream>,
    request: &'static [u8],
    answer: Vec<u8>,
}

impl Load {
    pub(crate) fn echo(port: u16) -> Self {
        Self::new(port, ECHO, ECHO)
    }

    pub(crate) fn hello(port: u16) -> Self {
        Self::new(port, HELLO, GREETING.as_bytes())
    }

    /// Connects, and finds out by a request how long an answer is, which ends with `end`.
    fn new(port: u16, request: &'static [u8], end: &[u8]) -> Self {
        let connect = |_| {
            let stream = TcpStream::connect(("127.0.0.1", port)).expect("a server listens");
            stream.set_nodelay(true).expect("it is connected");
            stream
        };
        let mut connections: Vec<_> = (0..CONNECTIONS).map(connect).collect();
        let first = &mut connections[0];
        first.write_all(request).expect("it is connected");
        let mut answer = Vec::new();
        while !answer.ends_with(end) {
            let mut byte = [0];
            first.read_exact(&mut byte).expect("an answer comes");
            answer.push(byte[0]);
        }
        Self {
            connections,
            request,
            answer,
        }
    }

    /// One round: a request on every connection, then all their answers, some times.
    pub(crate) fn run(&mut self) {
        for _ in 0..REQUESTS {
            for connection in &mut self.connections {
                connection.write_all(self.request).expect("it is connected");
            }
            for connection in &mut self.connections {
                connection.read_exact(&mut self.answer).expect("an answer comes");
            }
        }
    }
}
