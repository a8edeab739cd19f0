//! One HTTP call to a server under test.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::peers::Peer;
use crate::process::Server;
use crate::serve::RuntimeStats;

/// The JSON that `GET path` answers with 200.
pub(crate) fn get<T: DeserializeOwned>(
    address: SocketAddr,
    path: &str,
    patience: Duration,
) -> io::Result<T> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let answer = ask(address, &request, patience)?;
    Ok(serde_json::from_slice(body(&answer)?)?)
}

/// The line of JSON that a connection is answered with, unasked.
pub(crate) fn line<T: DeserializeOwned>(address: SocketAddr, patience: Duration) -> io::Result<T> {
    Ok(serde_json::from_slice(&ask(address, "", patience)?)?)
}

fn ask(address: SocketAddr, request: &str, patience: Duration) -> io::Result<Vec<u8>> {
    /// Longer answers are cut, and then are no JSON.
    const ANSWER_LEN_MAX: u64 = 16 * 1024 * 1024;
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_LEN_MAX).read_to_end(&mut answer)?;
    Ok(answer)
}

/// What the runtime says of itself; absent where it does not, or does not answer.
pub(crate) fn accounts(server: &Server, peer: Peer) -> Option<RuntimeStats> {
    let api = server.address("api").ok().filter(|_| peer.has_stats())?;
    get(api, "/stats", Duration::from_secs(2)).ok()
}

/// Waits until somebody listens there.
pub(crate) fn until_listening(
    program: &str,
    address: SocketAddr,
    patience: Duration,
) -> Result<(), Error> {
    let deadline = Instant::now() + patience;
    while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
        if Instant::now() >= deadline {
            return Err(Error::not_ready(program, patience));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn body(answer: &[u8]) -> io::Result<&[u8]> {
    let broken = |reason: String| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(answer) {
        Ok(httparse::Status::Complete(head_len)) if response.code == Some(200) => {
            Ok(&answer[head_len..])
        }
        Ok(_) => Err(broken(format!("answered {:?}, not 200", response.code))),
        Err(error) => Err(broken(format!("answered no HTTP: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_follows_the_head_of_a_200() {
        assert_eq!(
            body(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n{}").expect("a good answer"),
            b"{}"
        );
        assert!(body(b"HTTP/1.1 404 Not Found\r\n\r\n{}").is_err());
        assert!(body(b"HTTP/1.1 200 OK\r\nA: b").is_err());
        assert!(body(b"").is_err());
    }
}
