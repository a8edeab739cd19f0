//! A client that sends what a test writes, and reads answers by rules of its own.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

use super::LIMIT;

pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
    /// What was read and not used.
    pub(crate) buffer: Vec<u8>,
}

/// An answer, with its body as the framing says it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The lines of the head, in lower case.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Of a body in chunks.
    pub(crate) trailers: String,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

pub(crate) fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let named = |line: &'a str| line.strip_prefix(name)?.strip_prefix(':');
    head.lines().find_map(named).map(str::trim)
}

impl Client {
    pub(crate) fn connect(address: &str) -> Self {
        Self::over(connected(address))
    }

    pub(crate) fn end(&mut self) {
        self.stream.shutdown(Shutdown::Write).unwrap();
    }
}

/// A socket on which nothing waits for ever.
pub(crate) fn connected(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    /// Sends a request by GET without more.
    pub(crate) fn get(&mut self, path: &str) -> Answer {
        self.send(format!("GET {path} HTTP/1.1\r\nHost: a.example\r\n\r\n"));
        self.answer()
    }

    /// The next answer, to another method than HEAD.
    pub(crate) fn answer(&mut self) -> Answer {
        let mut answer = self.head();
        let is_bare = matches!(answer.status, 100..=199 | 204 | 304);
        if is_bare {
            return answer;
        }
        let length = answer.header("content-length").map(str::parse);
        if answer.header("transfer-encoding") == Some("chunked") {
            (answer.body, answer.trailers) = self.chunks();
        } else if let Some(length) = length {
            answer.body = self.take(length.unwrap());
        } else {
            answer.body = self.rest();
        }
        answer
    }

    /// The head of the next answer.
    pub(crate) fn head(&mut self) -> Answer {
        let end = loop {
            if let Some(end) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
            let came = self.read().unwrap();
            let text = String::from_utf8_lossy(&self.buffer);
            assert!(came > 0, "the connection ended within a head: {text:?}");
        };
        let head: Vec<u8> = self.buffer.drain(..end).collect();
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let status = head.strip_prefix("http/1.1 ").unwrap()[..3].parse();
        Answer {
            status: status.unwrap(),
            head,
            body: Vec::new(),
            trailers: String::new(),
        }
    }

    /// So many bytes.
    pub(crate) fn take(&mut self, length: usize) -> Vec<u8> {
        while self.buffer.len() < length {
            let came = self.read().unwrap();
            assert!(came > 0, "the connection ended within a body");
        }
        self.buffer.drain(..length).collect()
    }

    /// All that comes, to the end of the connection.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        while self.read().unwrap() > 0 {}
        std::mem::take(&mut self.buffer)
    }

    /// Waits until the connection has ended, in whatever way, and returns what came before.
    pub(crate) fn ended(&mut self) -> Vec<u8> {
        loop {
            match self.read() {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    let is_late = [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut];
                    assert!(!is_late.contains(&error.kind()), "it goes on");
                    break;
                }
            }
        }
        std::mem::take(&mut self.buffer)
    }

    fn read(&mut self) -> io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        let came = self.stream.read(&mut buffer)?;
        self.buffer.extend_from_slice(&buffer[..came]);
        Ok(came)
    }

    fn chunks(&mut self) -> (Vec<u8>, String) {
        let mut body = Vec::new();
        loop {
            let line = self.line();
            let length = usize::from_str_radix(&line, 16).unwrap();
            if length == 0 {
                break;
            }
            body.extend(self.take(length));
            assert_eq!(self.take(2), b"\r\n");
        }
        let mut trailers = String::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                return (body, trailers);
            }
            trailers += &format!("{line}\n");
        }
    }

    fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).collect();
                return String::from_utf8(line[..end].to_vec()).unwrap();
            }
            assert!(
                self.read().unwrap() > 0,
                "the connection ended within chunks"
            );
        }
    }
}
