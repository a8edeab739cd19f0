//! One HTTP/1.1 request and its answer, over a connection that is not waited for.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::TcpStream;
use socket2::SockRef;

use super::queue::is_pending;

/// Bytes of an answer's head that are looked at: beyond it the answer is broken.
const HEAD_LEN_MAX: usize = 16 * 1024;
/// What is read of an answer at once before its head is whole.
const PIECE_LEN: usize = 4 * 1024;
/// What is discarded by one call.
const DISCARDED_MAX: usize = 1024 * 1024;

/// Room for what is read, shared by all connections of a thread.
pub(super) struct Room {
    piece: Vec<u8>,
    /// For what is not looked at; always empty.
    unread: Vec<u8>,
}

impl Room {
    pub(super) fn new() -> Self {
        Room {
            piece: vec![0; PIECE_LEN],
            unread: Vec::with_capacity(DISCARDED_MAX),
        }
    }
}

/// Where an exchange stands.
pub(super) struct Exchange {
    stream: TcpStream,
    pub(super) begun_at: Instant,
    sent: usize,
    /// The start of the answer, until its head is whole.
    head: Vec<u8>,
    /// Bytes of the answer that are yet to come, once its head has said so.
    left: Option<usize>,
    /// Bytes that came, of all answers.
    pub(super) received: u64,
}

impl Exchange {
    /// The first one over a connection.
    pub(super) fn over(stream: TcpStream) -> Self {
        Exchange {
            stream,
            begun_at: Instant::now(),
            sent: 0,
            head: Vec::with_capacity(512),
            left: None,
            received: 0,
        }
    }

    /// The next one over the same connection.
    pub(super) fn again(&mut self) {
        self.begun_at = Instant::now();
        self.sent = 0;
        self.head.clear();
        self.left = None;
    }

    /// Goes on until the answer is whole (`true`), or would block; with `until_closed`, until the
    /// server has closed the connection after it.
    pub(super) fn advance(
        &mut self,
        request: &[u8],
        until_closed: bool,
        room: &mut Room,
    ) -> io::Result<bool> {
        match self.try_advance(request, until_closed, room) {
            Err(error) if is_pending(&error) => Ok(false),
            advanced => advanced.map(|()| true),
        }
    }

    fn try_advance(
        &mut self,
        request: &[u8],
        until_closed: bool,
        room: &mut Room,
    ) -> io::Result<()> {
        while self.sent < request.len() {
            self.sent += self.stream.write(&request[self.sent..])?;
        }
        while self.left != Some(0) || until_closed {
            let len = match self.left {
                Some(left @ 1..) => discard(&self.stream, &mut room.unread, left)?,
                _ => self.stream.read(&mut room.piece)?,
            };
            match (len, &mut self.left) {
                (0, Some(0)) => return Ok(()),
                (0, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
                (_, Some(left)) => *left = left.saturating_sub(len),
                (_, None) => {
                    self.head.extend_from_slice(&room.piece[..len]);
                    let whole = answer_len(&self.head)?;
                    self.left = whole.map(|whole| whole.saturating_sub(self.head.len()));
                }
            }
            self.received += len as u64;
        }
        Ok(())
    }
}

/// The head of a request; `more` are further lines of it.
pub(super) fn request(
    method: &str,
    path: &str,
    host: SocketAddr,
    keep_alive: bool,
    more: &str,
) -> Vec<u8> {
    let connection = if keep_alive { "keep-alive" } else { "close" };
    let first = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n");
    format!("{first}Connection: {connection}\r\n{more}\r\n").into_bytes()
}

/// The length of head and body, once the head is whole.
fn answer_len(received: &[u8]) -> io::Result<Option<usize>> {
    let broken = |reason: String| Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let head_len = match response.parse(received) {
        Err(error) => return broken(format!("the answer's head is broken: {error}")),
        Ok(httparse::Status::Partial) if received.len() > HEAD_LEN_MAX => {
            return broken("the answer's head is too long".to_owned());
        }
        Ok(httparse::Status::Partial) => return Ok(None),
        Ok(httparse::Status::Complete(head_len)) => head_len,
    };
    if response.code != Some(200) {
        let code = response.code.unwrap_or(0);
        return broken(format!("the answer is {code}, not 200"));
    }
    let mut headers = response.headers.iter();
    let len = headers.find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let len = len.and_then(|header| std::str::from_utf8(header.value).ok()?.trim().parse().ok());
    match len {
        Some(len) => Ok(Some(head_len.saturating_add(len))),
        None => broken("the answer has no length".to_owned()),
    }
}

/// Takes bytes from a stream without looking at them. Linux need not even copy them (`MSG_TRUNC`),
/// so that what fetches large objects is not what holds them up.
fn discard(stream: &TcpStream, unread: &mut Vec<u8>, most: usize) -> io::Result<usize> {
    let flags = if cfg!(target_os = "linux") {
        libc::MSG_TRUNC
    } else {
        0
    };
    let room = unread.spare_capacity_mut();
    let most = most.min(room.len());
    SockRef::from(stream).recv_with_flags(&mut room[..most], flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_long_as_its_head_says() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!(answer_len(&answer[..10]).expect("so far so good"), None);
        assert_eq!(answer_len(answer).expect("whole"), Some(answer.len()));
    }

    #[test]
    fn other_answers_fail() {
        for wrong in [
            &b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"[..],
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"SSH-2.0-OpenSSH\r\n\r\n",
        ] {
            assert!(answer_len(wrong).is_err());
        }
    }

    #[test]
    fn what_is_discarded_is_gone_and_no_more_than_that() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let near = std::net::TcpStream::connect(address).expect("it listens");
        let (mut far, _) = listener.accept().expect("one came");
        let mut stream = TcpStream::from_std(near);
        let mut unread = Vec::with_capacity(1_000);
        far.write_all(&[b'x'; 5_000]).expect("it is open");
        far.write_all(b"end").expect("it is open");
        let mut left = 5_000;
        while left > 0 {
            let len = discard(&stream, &mut unread, left).expect("something is there");
            assert!((1..=left.min(1_000)).contains(&len), "{len} of {left}");
            left -= len;
        }
        drop(far);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).expect("it ends");
        assert_eq!(rest, b"end");
    }
}
