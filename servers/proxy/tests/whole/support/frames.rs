//! A client that sends frames of HTTP/2 as a test writes them.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::connected;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// The code of a GOAWAY for those who keep the peer busy.
pub(crate) const ENHANCE_YOUR_CALM: u32 = 11;

pub(crate) struct Frames<S = TcpStream>(S);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frames {
    /// Connects, with these settings.
    pub(crate) fn connect(address: &str, settings: &[(u16, u32)]) -> Self {
        Self::over(connected(address), settings)
    }
}

impl<S: Read + Write> Frames<S> {
    /// The same over a connection that was made in another way.
    pub(crate) fn over(stream: S, settings: &[(u16, u32)]) -> Self {
        let mut client = Self(stream);
        client.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        let payload: Vec<u8> = settings
            .iter()
            .flat_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        client.send(&frame(SETTINGS, 0, 0, &payload));
        client
    }

    /// Sends bytes. A proxy that has closed the connection does not take them.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        drop(self.0.write_all(bytes));
    }

    pub(crate) fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.send(&frame(kind, flags, stream, payload));
    }

    /// The next frame, or nothing at the end of the connection.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        self.0.read_exact(&mut payload).ok()?;
        Some(Frame {
            kind: head[3],
            flags: head[4],
            stream: u32::from_be_bytes([head[5], head[6], head[7], head[8]]),
            payload,
        })
    }

    /// The next frame of this kind.
    pub(crate) fn until(&mut self, kind: u8) -> Frame {
        loop {
            let frame = self.next();
            let frame = frame.unwrap_or_else(|| panic!("it ended without a frame {kind}"));
            if frame.kind == kind {
                return frame;
            }
        }
    }

    /// The code of the GOAWAY by which the connection ends.
    pub(crate) fn goaway(&mut self) -> u32 {
        let payload = self.until(GOAWAY).payload;
        u32::from_be_bytes(payload[4..8].try_into().unwrap())
    }

    /// Until the connection has ended.
    pub(crate) fn ended(&mut self) {
        while self.next().is_some() {}
    }

    /// Sends the head of a request that ends with it.
    pub(crate) fn get(&mut self, stream: u32, headers: &[(&str, &str)]) {
        let block = block("GET", headers);
        self.frame(HEADERS, END_STREAM | END_HEADERS, stream, &block);
    }
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The headers of a request, without compression.
pub(crate) fn block(method: &str, headers: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let pseudo = [
        (":method", method),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "a.example"),
    ];
    for (name, value) in pseudo.iter().chain(headers) {
        bytes.extend(literal(name, value));
    }
    bytes
}

/// A header, without compression.
pub(crate) fn literal(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        length(text.len(), &mut bytes);
        bytes.extend(text.as_bytes());
    }
    bytes
}

/// A length in seven bits and, if it is larger, more bytes.
fn length(length: usize, bytes: &mut Vec<u8>) {
    const MOST: usize = 0x7f;
    if length < MOST {
        bytes.push(length as u8);
        return;
    }
    bytes.push(MOST as u8);
    let mut rest = length - MOST;
    while rest >= 0x80 {
        bytes.push((rest % 0x80) as u8 | 0x80);
        rest /= 0x80;
    }
    bytes.push(rest as u8);
}
