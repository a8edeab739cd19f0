//! Servers behind the proxy.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::LIMIT;
use super::client::header;

/// A request that has come.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// The method and the target.
    pub(crate) line: String,
    /// All lines of the head, with names as they came.
    pub(crate) head: String,
    /// The body, as it came.
    pub(crate) body: Vec<u8>,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        header(&self.head.to_ascii_lowercase(), name).map(str::to_owned)
    }
}

/// What is answered.
pub(crate) enum Reply {
    /// These bytes, and the connection goes on.
    Go(Vec<u8>),
    /// These bytes, and it ends.
    End(Vec<u8>),
}

impl Reply {
    /// An answer with this body.
    pub(crate) fn text(body: &str) -> Self {
        let length = body.len();
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}");
        Self::Go(text.into_bytes())
    }
}

/// A server, whose threads end with it and its connections.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    ends: AtomicBool,
    connections: AtomicUsize,
    open: AtomicUsize,
    asked: Mutex<Vec<Asked>>,
}

impl Origin {
    /// Answers requests.
    pub(crate) fn http(reply: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        Self::raw(move |mut stream, _, asked| {
            let mut buffer = Vec::new();
            while let Ok(Some(request)) = request(&mut stream, &mut buffer) {
                asked.lock().unwrap().push(request.clone());
                let (bytes, ends) = match reply(&request) {
                    Reply::Go(bytes) => (bytes, false),
                    Reply::End(bytes) => (bytes, true),
                };
                if stream.write_all(&bytes).is_err() || ends {
                    break;
                }
            }
        })
    }

    /// Answers every request with its own name.
    pub(crate) fn named(name: &'static str) -> Self {
        Self::http(move |_| Reply::text(name))
    }

    /// Answers one request of each connection, and closes it at the next one.
    pub(crate) fn closing_at_the_second() -> Self {
        Self::raw(|mut stream, _, asked| {
            let mut buffer = Vec::new();
            for number in 0..2 {
                let Ok(Some(request)) = request(&mut stream, &mut buffer) else {
                    return;
                };
                asked.lock().unwrap().push(request);
                if number == 0 {
                    let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    stream.write_all(text).unwrap();
                }
            }
        })
    }

    /// Does this with each connection, which ends with it.
    pub(crate) fn raw(
        serve: impl Fn(TcpStream, usize, &Mutex<Vec<Asked>>) + Send + Sync + 'static,
    ) -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), serve)
    }

    /// The same at this address.
    pub(crate) fn at(
        address: SocketAddr,
        serve: impl Fn(TcpStream, usize, &Mutex<Vec<Asked>>) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let (shared, serve) = (Arc::clone(&state), Arc::new(serve));
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if shared.ends.load(Ordering::SeqCst) {
                    break;
                }
                let stream = stream.unwrap();
                stream.set_read_timeout(Some(LIMIT)).unwrap();
                stream.set_nodelay(true).unwrap();
                let connection = shared.connections.fetch_add(1, Ordering::SeqCst);
                shared.open.fetch_add(1, Ordering::SeqCst);
                let (state, serve) = (Arc::clone(&shared), Arc::clone(&serve));
                thread::spawn(move || {
                    serve(stream, connection, &state.asked);
                    state.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self {
            address,
            state,
            accepting: Some(accepting),
        }
    }

    /// How it stands in a configuration.
    pub(crate) fn config(&self, pool: &str, name: &str) -> String {
        let address = self.address;
        format!("[[pool.{pool}.server]]\nname = \"{name}\"\naddress = \"{address}\"\n")
    }

    /// How many connections it has had.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// How many it has.
    pub(crate) fn open(&self) -> usize {
        self.state.open.load(Ordering::SeqCst)
    }

    /// What it was asked.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().unwrap().clone()
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::SeqCst);
        // Wakes the one that waits.
        drop(TcpStream::connect(self.address));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// Reads the next request; `None` at the end of the connection.
pub(crate) fn request(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<Option<Asked>> {
    let end = loop {
        if let Some(end) = find(buffer, b"\r\n\r\n") {
            break end + 4;
        }
        if read(stream, buffer)? == 0 {
            return Ok(None);
        }
    };
    let head: Vec<u8> = buffer.drain(..end).collect();
    let head = String::from_utf8(head).unwrap();
    let lower = head.to_ascii_lowercase();
    let length = if header(&lower, "transfer-encoding") == Some("chunked") {
        loop {
            if let Some(end) = end_of_chunks(buffer) {
                break end;
            }
            if read(stream, buffer)? == 0 {
                return Ok(None);
            }
        }
    } else {
        header(&lower, "content-length").map_or(0, |length| length.parse().unwrap())
    };
    while buffer.len() < length {
        if read(stream, buffer)? == 0 {
            return Ok(None);
        }
    }
    let line = head.lines().next().unwrap();
    Ok(Some(Asked {
        line: line.strip_suffix(" HTTP/1.1").unwrap().to_owned(),
        body: buffer.drain(..length).collect(),
        head,
    }))
}

/// Where a body in chunks ends, with its trailers.
fn end_of_chunks(buffer: &[u8]) -> Option<usize> {
    // Bodies of tests do not have this in their chunks.
    let last = match buffer.starts_with(b"0\r\n") {
        true => 0,
        false => find(buffer, b"\r\n0\r\n")? + 2,
    };
    Some(last + find(&buffer[last..], b"\r\n\r\n")? + 4)
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|part| part == what)
}

fn read(stream: &mut impl Read, buffer: &mut Vec<u8>) -> io::Result<usize> {
    let mut part = [0; 16 * 1024];
    let came = stream.read(&mut part)?;
    buffer.extend_from_slice(&part[..came]);
    Ok(came)
}
