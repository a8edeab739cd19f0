//! What clients do, again and again.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::Result;

/// A large answer.
pub const BIG: usize = 1 << 20;

/// One between the two.
pub const MEDIUM: usize = 10_000;

/// A small one.
pub const SMALL: &[u8] = b"hello";

/// The most that a call of the system passes where answers are timed beside a load. A kernel that
/// is built without preemption ends a call before it gives its processor to anybody else, and who
/// waits for an answer would wait for the copies of those who make the load.
pub const PIECE: usize = 16 * 1_024;

/// No answer takes longer.
pub const LIMIT: Duration = Duration::from_secs(20);

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// A request over a connection that is kept.
    Kept,
    /// A request over a connection of its own.
    Closed,
    /// A connection that passes five bytes.
    Connection,
    /// A megabyte, over a kept connection of HTTP.
    HttpBytes,
    /// The same, which the server sends and the client reads in [`PIECE`]s.
    HttpPieces,
    /// A megabyte, over a connection of TCP.
    TcpBytes,
    /// Ten kilobytes over a connection of HTTP/2, several at a time. The server speaks HTTP/1.1.
    Two,
}

/// A proxy, by where clients reach it.
pub trait Reached {
    /// Where it passes on requests of HTTP, to [`Origins::http`](super::origins::Origins::http).
    fn http(&self) -> SocketAddr;
    /// Where it passes on bytes, to [`Origins::bytes`](super::origins::Origins::bytes).
    fn tcp(&self) -> SocketAddr;
}

/// Does it as long as this says so.
///
/// # Errors
///
/// A connection cannot be made, or what comes is not what was asked for.
pub fn run(proxy: &impl Reached, load: Load, mut goes_on: impl FnMut() -> bool) -> Result<()> {
    let mut buffer = vec![0; 256 * 1_024];
    match load {
        Load::Kept | Load::HttpBytes => {
            let mut kept = Kept::connect(proxy.http())?;
            while goes_on() {
                kept.ask(matches!(load, Load::HttpBytes), &mut buffer)?;
            }
        }
        Load::HttpPieces => {
            let mut kept = Kept::connect(proxy.http())?;
            while goes_on() {
                kept.ask_in_pieces(&mut buffer[..PIECE])?;
            }
        }
        Load::Closed => {
            let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            while goes_on() {
                let mut stream = connect(proxy.http())?;
                stream.write_all(request)?;
                answer(&mut stream, &mut buffer, SMALL.len())?;
                rest(&mut stream, &mut buffer, 0)?;
            }
        }
        // Done by another program.
        Load::Two => {}
        Load::Connection | Load::TcpBytes => {
            let (request, bytes) = match load {
                Load::Connection => (b"s", SMALL.len()),
                _ => (b"b", BIG),
            };
            while goes_on() {
                let mut stream = connect(proxy.tcp())?;
                stream.write_all(request)?;
                rest(&mut stream, &mut buffer, bytes)?;
            }
        }
    }
    Ok(())
}

/// A connection of HTTP that is kept.
#[derive(Debug)]
pub struct Kept(TcpStream);

impl Kept {
    /// Connects.
    ///
    /// # Errors
    ///
    /// Nobody listens there.
    pub fn connect(address: SocketAddr) -> Result<Self> {
        connect(address).map(Self)
    }

    /// Asks for a megabyte, or for five bytes.
    ///
    /// # Errors
    ///
    /// The answer is not a good one, or ends early.
    pub fn ask(&mut self, for_much: bool, buffer: &mut [u8]) -> Result<()> {
        let (request, body): (&[u8], _) = match for_much {
            true => (b"GET /big HTTP/1.1\r\nHost: a\r\n\r\n", BIG),
            false => (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", SMALL.len()),
        };
        self.0.write_all(request)?;
        answer(&mut self.0, buffer, body)
    }

    /// Asks for a megabyte that the server sends in [`PIECE`]s.
    ///
    /// # Errors
    ///
    /// The answer is not a good one, or ends early.
    pub fn ask_in_pieces(&mut self, buffer: &mut [u8]) -> Result<()> {
        let request = b"GET /pieces HTTP/1.1\r\nHost: a\r\n\r\n";
        self.0.write_all(request)?;
        answer(&mut self.0, buffer, BIG)
    }
}

/// A connection that sends at once, and does not wait for longer than [`LIMIT`].
///
/// # Errors
///
/// Nobody listens there.
pub fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(LIMIT))?;
    Ok(stream)
}

/// Reads a head and so many bytes behind it.
fn answer(stream: &mut TcpStream, buffer: &mut [u8], body: usize) -> Result<()> {
    let mut filled = 0;
    let head = loop {
        let came = stream.read(&mut buffer[filled..])?;
        if came == 0 {
            return Err("a connection ended within a head".into());
        }
        filled += came;
        let end = buffer[..filled]
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        if let Some(end) = end {
            break end + 4;
        }
    };
    if !buffer.starts_with(b"HTTP/1.1 200 ") {
        let head = String::from_utf8_lossy(&buffer[..head]);
        return Err(format!("no good answer: {head}").into());
    }
    let mut left = (head + body).saturating_sub(filled);
    while left > 0 {
        let came = stream.read(buffer)?;
        if came == 0 {
            return Err("a connection ended within a body".into());
        }
        left = left.saturating_sub(came);
    }
    Ok(())
}

/// Reads to the end, which has to come after so many bytes.
fn rest(stream: &mut TcpStream, buffer: &mut [u8], bytes: usize) -> Result<()> {
    let mut read = 0;
    loop {
        match stream.read(buffer)? {
            0 if read == bytes => return Ok(()),
            0 => return Err(format!("{read} bytes came, and not {bytes}").into()),
            came => read += came,
        }
    }
}
