//! `load origin`: what stands behind a relay. `GET /large` answers with a megabyte, whatever else
//! is asked for with nothing; one plain thread around a readiness queue serves all.

use std::io::{self, Read, Write};
use std::time::Duration;

use mio::Events;
use mio::net::{TcpListener, TcpStream};
use socket2::SockRef;

use super::args::AnswerArgs;
use super::queue::{Queue, is_pending, slots};
use crate::error::{Error, Result};

/// Bytes of a large object.
pub(crate) const LARGE_LEN: usize = 1_000_000;
/// The path that has one.
pub(crate) const LARGE_PATH: &str = "/large";
/// Bytes of one read or write: a kernel that is not interrupted in the middle of a system call
/// keeps everybody else on this processor waiting for that long.
pub(super) const PIECE_LEN: usize = 32 * 1024;
/// Bytes of a connection under way at once. Left to itself, the kernel lets a megabyte be under way
/// where none of it has to travel, and handles what one acknowledgement sets free without letting
/// anybody else run: for milliseconds, which would be measured as the latency of whatever waits
/// for this processor. This is what a client at 1 Gbit/s and 1 ms away has under way.
pub(super) const WINDOW_LEN: usize = 128 * 1024;
/// A request's head that is longer is not answered.
const HEAD_LEN_MAX: usize = 8 * 1024;
const LISTENER: usize = usize::MAX - 1;

struct Origin {
    queue: Queue,
    listener: TcpListener,
    /// As many as the descriptor limit lets in.
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    body: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    head: Vec<u8>,
    /// The answer that is being written: its head, how much of its body, and how far it got.
    answer: Option<Answer>,
}

struct Answer {
    head: Vec<u8>,
    body_len: usize,
    sent: usize,
    closes: bool,
}

/// Says where it listens, then `ready`, then answers until it is ended.
pub(crate) fn run(args: &AnswerArgs) -> Result<()> {
    let refused = Error::listen("listen", args.listen);
    let listener = TcpListener::bind(args.listen).map_err(&refused)?;
    let address = listener.local_addr().map_err(&refused)?;
    println!("origin {address}\nready");
    serve(listener).map_err(Error::system("the origin's readiness queue failed"))
}

fn serve(mut listener: TcpListener) -> io::Result<()> {
    let queue = Queue::new()?;
    queue.add(&mut listener, LISTENER)?;
    let mut origin = Origin {
        queue,
        listener,
        connections: Vec::new(),
        free: Vec::new(),
        body: vec![b'.'; LARGE_LEN],
    };
    let mut events = Events::with_capacity(1_024);
    let mut crowded = false;
    loop {
        // Out of descriptors: whoever waits is let in when some connection has ended.
        let patience = crowded.then_some(Duration::from_millis(10));
        origin.queue.wait(&mut events, patience)?;
        for slot in slots(&events) {
            match slot {
                LISTENER => crowded = true,
                slot => origin.drive(slot),
            }
        }
        if crowded {
            crowded = !origin.accept_all();
        }
    }
}

impl Origin {
    /// Whether nobody is left waiting.
    fn accept_all(&mut self) -> bool {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            };
            let slot = self.free.pop().unwrap_or(self.connections.len());
            // The option only saves time.
            let _ = stream.set_nodelay(true);
            // Without it, more is under way than should be.
            let _ = SockRef::from(&stream).set_send_buffer_size(WINDOW_LEN);
            let added = self.queue.add(&mut stream, slot);
            let connection = added.is_ok().then(|| Connection::new(stream));
            match self.connections.get_mut(slot) {
                Some(place) => *place = connection,
                None => self.connections.push(connection),
            }
            self.drive(slot);
        }
    }

    fn drive(&mut self, slot: usize) {
        let Some(Some(connection)) = self.connections.get_mut(slot) else {
            return;
        };
        match connection.advance(&self.body) {
            Err(error) if is_pending(&error) => {}
            // Ended, or broken: either way it is over.
            _ => {
                self.connections[slot] = None;
                self.free.push(slot);
            }
        }
    }
}

impl Connection {
    fn new(stream: TcpStream) -> Self {
        Connection {
            stream,
            head: Vec::new(),
            answer: None,
        }
    }

    /// Goes on until the connection is over (`Ok`), or would block.
    fn advance(&mut self, body: &[u8]) -> io::Result<()> {
        loop {
            if let Some(answer) = &mut self.answer {
                answer.write(&mut self.stream, body)?;
                if answer.closes {
                    return Ok(());
                }
                self.answer = None;
            }
            if let Some(answer) = take_request(&mut self.head)? {
                self.answer = Some(answer);
                continue;
            }
            let mut buffer = [0; 2 * 1024];
            match self.stream.read(&mut buffer)? {
                0 => return Ok(()),
                len => self.head.extend_from_slice(&buffer[..len]),
            }
        }
    }
}

impl Answer {
    fn write(&mut self, stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
        while self.sent < self.head.len() + self.body_len {
            let rest = match self.sent.checked_sub(self.head.len()) {
                None => &self.head[self.sent..],
                Some(of_body) => &body[of_body..self.body_len],
            };
            match stream.write(&rest[..rest.len().min(PIECE_LEN)])? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                len => self.sent += len,
            }
        }
        Ok(())
    }
}

/// The answer to the request that `received` starts with, which is taken out of it; `None` if it is
/// not whole yet.
fn take_request(received: &mut Vec<u8>) -> io::Result<Option<Answer>> {
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    let head_len = match request.parse(received).map_err(|_| broken())? {
        httparse::Status::Complete(len) => len,
        httparse::Status::Partial if received.len() > HEAD_LEN_MAX => return Err(broken()),
        httparse::Status::Partial => return Ok(None),
    };
    let is_large = request.path == Some(LARGE_PATH);
    let closes = request.headers.iter().any(|header| {
        header.name.eq_ignore_ascii_case("connection")
            && header.value.eq_ignore_ascii_case(b"close")
    });
    received.drain(..head_len);
    let body_len = if is_large { LARGE_LEN } else { 0 };
    let connection = if closes { "close" } else { "keep-alive" };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {body_len}\r\nConnection: {connection}\r\n\r\n"
    );
    Ok(Some(Answer {
        head: head.into_bytes(),
        body_len,
        sent: 0,
        closes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_when_it_is_whole() {
        let mut received = b"GET /large HTTP/1.1\r\nConnection: close\r\n".to_vec();
        assert!(
            take_request(&mut received)
                .expect("so far so good")
                .is_none()
        );
        received.extend_from_slice(b"\r\nGET / HTTP/1.1\r\n\r\n");
        let large = take_request(&mut received).expect("good").expect("whole");
        assert!((large.body_len, large.closes) == (LARGE_LEN, true));
        let empty = take_request(&mut received).expect("good").expect("whole");
        assert!((empty.body_len, empty.closes) == (0, false));
        assert!(received.is_empty());
        assert!(take_request(&mut b"SSH-2.0\r\n\r\n".to_vec()).is_err());
        assert!(take_request(&mut b"GET / HTTP/1.1\r\nA: ".repeat(900)).is_err());
    }
}
