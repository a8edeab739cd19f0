//! The necessary part of NATS's text protocol. Pure: it decodes and encodes bytes.
//!
//! ```text
//! server:  INFO {json}               client:  CONNECT {json}
//!          MSG subject sid [reply] bytes       PUB subject [reply] bytes
//!          HMSG subject sid [reply] head all   HPUB subject [reply] head all
//!          PING, PONG, +OK, -ERR 'text'        SUB subject sid, PING, PONG
//! ```
//!
//! A line ends in CR LF. A message's bytes follow its line, and are followed by another CR LF.
//! Headers begin with a line `NATS/1.0`, which may have a status, and end in an empty line.

use bytes::{BufMut, Bytes, BytesMut};

/// The longest line that is accepted; an INFO of a large cluster has some thousands of bytes.
const LINE_BYTES_MAX: usize = 256 * 1024;

/// The longest message that is accepted: the most that a NATS server allows.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// An operation of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// About itself, as JSON.
    Info(Bytes),
    /// A message to a subscriber.
    Message(Message),
    /// It asks for a pong.
    Ping,
    /// The answer to a ping.
    Pong,
    /// Success.
    Ok,
    /// An error.
    Error(String),
}

/// A message to a subscriber.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The subject it was sent to.
    pub subject: String,
    /// All its headers, if it has some.
    pub headers: Bytes,
    /// Its payload.
    pub payload: Bytes,
}

/// The server violates the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// A malformed line.
    #[error("NATS sent a line that makes no sense: {0:?}")]
    Line(String),
    /// A line or a message that is too long.
    #[error("NATS sent {0} bytes where fewer are allowed")]
    TooLong(usize),
    /// A message that does not end where its line said.
    #[error("a message of NATS does not end where it said")]
    End,
}

impl Message {
    /// The status on the headers' first line; 0 if there is none.
    pub fn status(&self) -> u16 {
        let text = String::from_utf8_lossy(&self.headers);
        let first = text.lines().next().unwrap_or_default();
        let status = first.split_ascii_whitespace().nth(1);
        status.and_then(|status| status.parse().ok()).unwrap_or(0)
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<String> {
        let text = String::from_utf8_lossy(&self.headers);
        text.lines().skip(1).find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    }
}

/// Takes the next operation from the bytes that have arrived, if it is complete.
///
/// # Errors
///
/// [`ProtocolError`]; the bytes that follow cannot be decoded.
pub fn next(buffer: &mut BytesMut) -> Result<Option<Operation>, ProtocolError> {
    let Some(end) = buffer.windows(2).position(|two| two == b"\r\n") else {
        return match buffer.len() {
            ..=LINE_BYTES_MAX => Ok(None),
            bytes => Err(ProtocolError::TooLong(bytes)),
        };
    };
    if end > LINE_BYTES_MAX {
        return Err(ProtocolError::TooLong(end));
    }
    let line = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let (word, rest) = line.split_once([' ', '\t']).unwrap_or((&line, ""));
    let operation = match word.to_ascii_uppercase().as_str() {
        "MSG" => return message(buffer, end + 2, rest, false),
        "HMSG" => return message(buffer, end + 2, rest, true),
        "INFO" => Operation::Info(Bytes::copy_from_slice(rest.as_bytes())),
        "PING" => Operation::Ping,
        "PONG" => Operation::Pong,
        "+OK" => Operation::Ok,
        "-ERR" => Operation::Error(rest.trim_matches('\'').to_owned()),
        _ => return Err(nonsense(&line)),
    };
    drop(buffer.split_to(end + 2));
    Ok(Some(operation))
}

/// Decodes a message whose line ended before `begin`, and had these arguments.
fn message(
    buffer: &mut BytesMut,
    begin: usize,
    arguments: &str,
    has_headers: bool,
) -> Result<Option<Operation>, ProtocolError> {
    let words: Vec<&str> = arguments.split_ascii_whitespace().collect();
    let numbers = if has_headers { 2 } else { 1 };
    // A subject and a subscription come first, and optionally one to reply to.
    if !(2 + numbers..=3 + numbers).contains(&words.len()) {
        return Err(nonsense(arguments));
    }
    let number = |at: usize| -> Result<usize, ProtocolError> {
        words[at].parse().map_err(|_| nonsense(arguments))
    };
    let all = number(words.len() - 1)?;
    let headers = match has_headers {
        true => number(words.len() - 2)?,
        false => 0,
    };
    if all > MESSAGE_BYTES_MAX {
        return Err(ProtocolError::TooLong(all));
    }
    if headers > all {
        return Err(nonsense(arguments));
    }
    let subject = words[0].to_owned();
    if buffer.len() < begin + all + 2 {
        return Ok(None);
    }
    if buffer[begin + all..begin + all + 2] != *b"\r\n" {
        return Err(ProtocolError::End);
    }
    let mut bytes = buffer
        .split_to(begin + all + 2)
        .freeze()
        .slice(begin..begin + all);
    let headers = bytes.split_to(headers);
    Ok(Some(Operation::Message(Message {
        subject,
        headers,
        payload: bytes,
    })))
}

fn nonsense(line: &str) -> ProtocolError {
    ProtocolError::Line(line.chars().take(80).collect())
}

/// Adds a CONNECT.
pub fn connect(json: &str, buffer: &mut BytesMut) {
    buffer.put_slice(format!("CONNECT {json}\r\n").as_bytes());
}

/// Adds a SUB.
pub fn subscribe(subject: &str, id: u64, buffer: &mut BytesMut) {
    buffer.put_slice(format!("SUB {subject} {id}\r\n").as_bytes());
}

/// Adds a PING.
pub fn ping(buffer: &mut BytesMut) {
    buffer.put_slice(b"PING\r\n");
}

/// Adds a PONG.
pub fn pong(buffer: &mut BytesMut) {
    buffer.put_slice(b"PONG\r\n");
}

/// Adds a PUB, or with headers an HPUB.
pub fn publish(
    subject: &str,
    reply: &str,
    headers: &[(&str, &str)],
    payload: &[u8],
    buffer: &mut BytesMut,
) {
    if headers.is_empty() {
        let line = format!("PUB {subject} {reply} {}\r\n", payload.len());
        buffer.put_slice(line.as_bytes());
    } else {
        let head = head_of(headers);
        let all = head.len() + payload.len();
        let line = format!("HPUB {subject} {reply} {} {all}\r\n", head.len());
        buffer.put_slice(line.as_bytes());
        buffer.put_slice(head.as_bytes());
    }
    buffer.put_slice(payload);
    buffer.put_slice(b"\r\n");
}

/// How many bytes headers take in a message. They count as the payload does.
pub fn head_bytes(headers: &[(&str, &str)]) -> usize {
    match headers {
        [] => 0,
        headers => head_of(headers).len(),
    }
}

fn head_of(headers: &[(&str, &str)]) -> String {
    let mut head = String::from("NATS/1.0\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    head
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<Operation>, ProtocolError> {
        let mut buffer = BytesMut::from(bytes);
        let mut operations = Vec::new();
        while let Some(operation) = next(&mut buffer)? {
            operations.push(operation);
        }
        Ok(operations)
    }

    #[test]
    fn what_a_server_says_is_understood() {
        let said = b"INFO {\"a\":1}\r\nPING\r\n+OK\r\n-ERR 'no'\r\nMSG a.b 1 5\r\nhello\r\n\
            HMSG c 1 d 12 14\r\nNATS/1.0\r\n\r\nhi\r\n";
        let operations = all(said).unwrap();
        assert_eq!(
            operations[0],
            Operation::Info(Bytes::from_static(b"{\"a\":1}"))
        );
        assert_eq!(operations[1..3], [Operation::Ping, Operation::Ok]);
        assert_eq!(operations[3], Operation::Error("no".to_owned()));
        let Operation::Message(message) = &operations[4] else {
            panic!("{operations:?}")
        };
        assert_eq!(
            (message.subject.as_str(), &message.payload[..]),
            ("a.b", &b"hello"[..])
        );
        let Operation::Message(message) = &operations[5] else {
            panic!("{operations:?}")
        };
        assert_eq!((message.status(), &message.payload[..]), (0, &b"hi"[..]));
    }

    #[test]
    fn headers_and_their_status_are_found() {
        let message = Message {
            subject: String::new(),
            headers: Bytes::from_static(b"NATS/1.0 404 Not Found\r\nNats-Sequence: 7\r\n\r\n"),
            payload: Bytes::new(),
        };
        assert_eq!(message.status(), 404);
        assert_eq!(message.header("nats-sequence").as_deref(), Some("7"));
        assert_eq!(message.header("other"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4_096, ..ProptestConfig::default() })]

        #[test]
        fn any_bytes_are_understood_or_an_error(
            word in prop::sample::select(vec!["MSG", "HMSG", "INFO", "PING", "-ERR", "X", ""]),
            rest in "[ -~]{0,30}",
            bytes in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let mut said = format!("{word} {rest}\r\n").into_bytes();
            said.extend(bytes);
            let _ = all(&said);
        }

        /// However the bytes are split on their way, they decode to the same.
        #[test]
        fn pieces_say_the_same_as_the_whole(
            payload in prop::collection::vec(any::<u8>(), 0..60),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut said = format!("PING\r\nMSG a 1 r {}\r\n", payload.len()).into_bytes();
            said.extend(&payload);
            said.extend(b"\r\nPONG\r\n");
            let whole = all(&said).unwrap();
            prop_assert_eq!(whole.len(), 3);
            let cut = cut.index(said.len());
            let mut buffer = BytesMut::from(&said[..cut]);
            let mut operations = Vec::new();
            while let Some(operation) = next(&mut buffer).unwrap() {
                operations.push(operation);
            }
            buffer.extend_from_slice(&said[cut..]);
            while let Some(operation) = next(&mut buffer).unwrap() {
                operations.push(operation);
            }
            prop_assert_eq!(operations, whole);
        }
    }
}
