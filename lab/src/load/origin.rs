//! `load origin`: what stands behind a relay. `GET /large` answers with a megabyte, whatever else
//! is asked for with nothing; one thread serves all.

use std::io;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::args::AnswerArgs;
use super::net;
use crate::error::Result;

/// Bytes of a large object.
const LARGE_LEN: usize = 1_000_000;
/// The path that has one.
pub(super) const LARGE_PATH: &str = "/large";
/// Bytes of one write: a kernel that is not interrupted in the middle of a system call keeps
/// everybody else on this processor waiting for that long.
const PIECE_LEN: usize = 32 * 1024;
static PIECE: [u8; PIECE_LEN] = [b'.'; PIECE_LEN];
/// Bytes of a connection under way at once. Left to itself, the kernel lets a megabyte be under way
/// where none of it has to travel, and handles what one acknowledgement sets free without letting
/// anybody else run: for milliseconds, which would be measured as the latency of whatever waits
/// for this processor. This is what a client at 1 Gbit/s and 1 ms away has under way.
pub(super) const WINDOW_LEN: u32 = 128 * 1024;
/// A request's head that is longer is not answered.
const HEAD_LEN_MAX: usize = 8 * 1024;

pub(crate) fn run(args: &AnswerArgs) -> Result<()> {
    net::answer("origin", args, serve)
}

async fn serve(mut stream: TcpStream) -> io::Result<()> {
    // Without it, more is under way than should be.
    let _ = SockRef::from(&stream).set_send_buffer_size(WINDOW_LEN as usize);
    let mut received = Vec::with_capacity(HEAD_LEN_MAX);
    loop {
        let Some((body_len, closes)) = take_request(&mut received)? else {
            if stream.read_buf(&mut received).await? == 0 {
                return Ok(());
            }
            continue;
        };
        let connection = if closes { "close" } else { "keep-alive" };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {body_len}\r\nConnection: {connection}\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await?;
        for at in (0..body_len).step_by(PIECE_LEN) {
            stream
                .write_all(&PIECE[..PIECE_LEN.min(body_len - at)])
                .await?;
        }
        if closes {
            return Ok(());
        }
    }
}

/// Takes the request out of `received` that it starts with, and says how long a body it asks for
/// and whether the connection is to be closed then; `None` if it is not whole yet.
fn take_request(received: &mut Vec<u8>) -> io::Result<Option<(usize, bool)>> {
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
    Ok(Some((if is_large { LARGE_LEN } else { 0 }, closes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_taken_when_it_is_whole() {
        let mut received = b"GET /large HTTP/1.1\r\nConnection: close\r\n".to_vec();
        assert_eq!(take_request(&mut received).expect("so far so good"), None);
        received.extend_from_slice(b"\r\nGET / HTTP/1.1\r\n\r\n");
        let large = take_request(&mut received).expect("good");
        assert_eq!(large, Some((LARGE_LEN, true)));
        let empty = take_request(&mut received).expect("good");
        assert_eq!(empty, Some((0, false)));
        assert!(received.is_empty());
        assert!(take_request(&mut b"SSH-2.0\r\n\r\n".to_vec()).is_err());
        assert!(take_request(&mut b"GET / HTTP/1.1\r\nA: ".repeat(900)).is_err());
    }
}
