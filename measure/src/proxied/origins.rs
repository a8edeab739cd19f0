//! The servers behind the proxies, for as long as the process lasts.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use super::Result;
use super::clients::{BIG, MEDIUM, PIECE, SMALL};

/// Where they are.
#[derive(Debug)]
pub struct Origins {
    /// Answers requests of HTTP: `/big` with a megabyte, `/pieces` with one that is written in
    /// [`PIECE`]s, `/medium` with less, `/text` with a megabyte of text, others with five bytes.
    pub http: SocketAddr,
    /// Answers a byte in the same way, and ends.
    pub bytes: SocketAddr,
    /// Says nothing.
    pub silent: SocketAddr,
    /// The connections of the silent one.
    held: Arc<Mutex<Vec<TcpStream>>>,
}

impl Origins {
    /// Starts them, each on a free port of the loopback device.
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub fn start() -> Result<Self> {
        let held = Arc::<Mutex<Vec<TcpStream>>>::default();
        let holder = Arc::clone(&held);
        let hold = move |stream| {
            let mut held = holder.lock().unwrap_or_else(PoisonError::into_inner);
            held.push(stream);
        };
        Ok(Self {
            http: listen(|stream| apart(stream, serve_http))?,
            bytes: listen(|stream| apart(stream, serve_bytes))?,
            silent: listen(hold)?,
            held,
        })
    }

    /// How many connections the silent one has.
    pub fn held(&self) -> usize {
        let held = self.held.lock();
        held.unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Closes them.
    pub fn let_go(&self) {
        let held = self.held.lock();
        held.unwrap_or_else(PoisonError::into_inner).clear();
    }
}

fn listen(take: impl Fn(TcpStream) + Send + 'static) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    // A connection may have ended before it is taken, which says nothing of those behind it.
    let incoming = move || listener.incoming().flatten().for_each(take);
    thread::spawn(incoming);
    Ok(address)
}

/// A proxy may go away at any time.
fn apart(stream: TcpStream, serve: fn(TcpStream) -> io::Result<()>) {
    thread::spawn(move || drop(serve(stream)));
}

fn serve_http(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let typed = |fields: &str, body: &[u8]| {
        let length = body.len();
        let head = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\n\r\n");
        [head.as_bytes(), body].concat()
    };
    let of = |body: &[u8]| typed("", body);
    let (small, mut medium, mut big) = (of(SMALL), Vec::new(), Vec::new());
    let mut written = Vec::new();
    let (mut buffer, mut filled) = ([0; 4_096], 0);
    loop {
        let came = stream.read(&mut buffer[filled..])?;
        if came == 0 {
            return Ok(());
        }
        filled += came;
        if buffer[..filled].ends_with(b"\r\n\r\n") {
            // Most connections are never asked for much, and there may be thousands.
            let made = |kept: &mut Vec<u8>, length: usize| {
                if kept.is_empty() {
                    *kept = of(&vec![b'x'; length]);
                }
            };
            let in_pieces = buffer.starts_with(b"GET /pieces ");
            let answer: &[u8] = match () {
                () if in_pieces || buffer.starts_with(b"GET /big ") => {
                    made(&mut big, BIG);
                    &big
                }
                () if buffer.starts_with(b"GET /medium ") => {
                    made(&mut medium, MEDIUM);
                    &medium
                }
                () if buffer.starts_with(b"GET /text ") => {
                    if written.is_empty() {
                        written = typed("Content-Type: text/plain\r\n", &text(BIG));
                    }
                    &written
                }
                () => &small,
            };
            let most = if in_pieces { PIECE } else { answer.len() };
            for piece in answer.chunks(most) {
                stream.write_all(piece)?;
            }
            filled = 0;
        }
    }
}

/// Words in an order that repeats late, so that to compress them takes a while.
fn text(length: usize) -> Vec<u8> {
    let mut words = Vec::with_capacity(length + 16);
    let mut state = 1_u64;
    while words.len() < length {
        // By Knuth's multiplier; the upper bits are the good ones.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let word = (state >> 52) as u16;
        words.extend_from_slice(format!("{:x} ", u32::from(word).pow(2)).as_bytes());
    }
    words.truncate(length);
    words
}

fn serve_bytes(mut stream: TcpStream) -> io::Result<()> {
    static ALL: [u8; BIG] = [b'x'; BIG];
    let mut asked = [0];
    stream.read_exact(&mut asked)?;
    match &asked {
        b"b" => stream.write_all(&ALL),
        _ => stream.write_all(SMALL),
    }
}
