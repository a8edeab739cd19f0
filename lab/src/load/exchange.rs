//! One HTTP/1.1 request and its answer.

use std::io;
use std::net::SocketAddr;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::TcpStream;

/// Bytes of an answer's head that are looked at: beyond it the answer is broken.
const HEAD_LEN_MAX: usize = 16 * 1024;
/// What is read of an answer at once before its head is whole.
const PIECE_LEN: usize = 4 * 1024;
const DISCARDED_MAX: usize = 1024 * 1024;

/// Sends a request and takes its answer, head and body, telling of each part that came.
pub(super) async fn exchange(
    stream: &mut TcpStream,
    request: &[u8],
    mut received: impl FnMut(usize),
) -> io::Result<()> {
    stream.write_all(request).await?;
    let mut head = Vec::with_capacity(PIECE_LEN);
    let whole = loop {
        received(some(stream.read_buf(&mut head).await?)?);
        if let Some(whole) = answer_len(&head)? {
            break whole;
        }
    };
    let mut left = whole.saturating_sub(head.len());
    while left > 0 {
        let len = some(discard(stream, left).await?)?;
        received(len);
        left -= len;
    }
    Ok(())
}

pub(super) async fn until_closed(mut stream: TcpStream) -> io::Result<()> {
    while stream.read(&mut [0; PIECE_LEN]).await? > 0 {}
    Ok(())
}

/// The length of what was read, which may not be the end.
fn some(len: usize) -> io::Result<usize> {
    match len {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        len => Ok(len),
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
    let broken = |reason: &str| io::Error::new(io::ErrorKind::InvalidData, reason);
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response.parse(received);
    let head_len =
        match parsed.map_err(|error| broken(&format!("the answer's head is broken: {error}")))? {
            httparse::Status::Complete(head_len) => head_len,
            httparse::Status::Partial if received.len() <= HEAD_LEN_MAX => return Ok(None),
            httparse::Status::Partial => return Err(broken("the answer's head is too long")),
        };
    if response.code != Some(200) {
        let code = response.code.unwrap_or(0);
        return Err(broken(&format!("the answer is {code}, not 200")));
    }
    let mut headers = response.headers.iter();
    let len = headers.find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let len = len.and_then(|header| std::str::from_utf8(header.value).ok()?.trim().parse().ok());
    let len: usize = len.ok_or_else(|| broken("the answer has no length"))?;
    Ok(Some(head_len.saturating_add(len)))
}

/// Takes bytes from a stream without looking at them. Linux need not even copy them (`MSG_TRUNC`),
/// so that what fetches large objects is not what holds them up.
async fn discard(stream: &TcpStream, most: usize) -> io::Result<usize> {
    let most = most.min(DISCARDED_MAX);
    let mut unread = Vec::with_capacity(most);
    let take = || {
        let unread = &mut unread.spare_capacity_mut()[..most];
        SockRef::from(stream).recv_with_flags(unread, libc::MSG_TRUNC)
    };
    stream.async_io(Interest::READABLE, take).await
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

    #[tokio::test]
    async fn what_is_discarded_is_gone_and_no_more_than_that() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let (mut far, _) = listener.accept().await.expect("one came");
        far.write_all(&[b'x'; 5_000]).await.expect("it is open");
        far.write_all(b"end").await.expect("it is open");
        let mut left = 5_000;
        while left > 0 {
            let most = left.min(1_000);
            let len = discard(&stream, most).await.expect("something is there");
            assert!((1..=most).contains(&len), "{len} of {left}");
            left -= len;
        }
        drop(far);
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.expect("it ends");
        assert_eq!(rest, b"end");
    }
}
