//! How the line of a request is written.
//!
//! What clients say cannot end its line, nor its quotes: other bytes than visible ones of ASCII are
//! written as `\xHH`, and long texts are cut off.

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::text::{Style, address, number, second, status};

/// How a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// As the first web servers did.
    Common,
    /// The same, with where the client came from, and what it is.
    #[default]
    Combined,
    /// An object of JSON.
    Json,
}

/// All that is known of a request at its end. Text of the client is written as `escaped` does it,
/// so that it is visible ASCII.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// When the head of the request was read.
    pub time: Timestamp,
    /// Who asked.
    pub client: Option<IpAddr>,
    /// The listener.
    pub listener: &'a str,
    /// The route, if one took it.
    pub route: &'a str,
    /// The class in which it was served.
    pub class: &'a str,
    /// The method, the target and the version as in the first line; empty if there was none.
    pub request: [&'a str; 3],
    /// The host that was asked for.
    pub host: &'a str,
    /// `Referer`.
    pub referer: &'a str,
    /// `User-Agent`.
    pub user_agent: &'a str,
    /// Its id.
    pub id: &'a str,
    /// The status of the answer; 0 if there was none.
    pub status: u16,
    /// The version of TLS.
    pub tls: &'a str,
    /// The pool.
    pub pool: &'a str,
    /// The server that was tried last.
    pub server: &'a str,
    /// Bytes that the server was sent.
    pub bytes_in: u64,
    /// Bytes that the client was sent, with the head.
    pub bytes_out: u64,
    /// In the queue of the pool.
    pub queue: Duration,
    /// For a connection to a server.
    pub connect: Duration,
    /// From then on to the head of the answer.
    pub answer: Duration,
    /// From the head of the request to the end of the answer.
    pub total: Duration,
    /// For which it was being computed.
    pub processor: Duration,
    /// Attempts after the first one.
    pub retries: usize,
    /// The answer was sent whole.
    pub is_whole: bool,
    /// Why not, or why it is an error of the proxy; empty if it is neither.
    pub cause: &'a str,
}

/// The same as data, in the order in which it is written.
#[derive(Serialize)]
struct Object<'a> {
    time: String,
    client: Option<IpAddr>,
    listener: &'a str,
    route: &'a str,
    class: &'a str,
    method: &'a str,
    target: &'a str,
    version: &'a str,
    host: &'a str,
    referer: &'a str,
    user_agent: &'a str,
    request_id: &'a str,
    tls: &'a str,
    status: u16,
    pool: &'a str,
    server: &'a str,
    bytes_in: u64,
    bytes_out: u64,
    queue_us: u128,
    connect_us: u128,
    answer_us: u128,
    total_us: u128,
    processor_us: u128,
    retries: usize,
    whole: bool,
    cause: &'a str,
}

impl Format {
    /// Writes a line, with its end.
    pub fn write(self, record: &Record<'_>, out: &mut Vec<u8>) {
        match self {
            Self::Common => common(record, out),
            Self::Combined => {
                common(record, out);
                for text in [record.referer, record.user_agent] {
                    let text = if text.is_empty() { "-" } else { text };
                    add(&[" \"", text, "\""], out);
                }
            }
            Self::Json => {
                // Of numbers and texts, writing to memory: neither can fail.
                drop(serde_json::to_writer(&mut *out, &Object::from(record)));
            }
        }
        out.push(b'\n');
    }
}

fn common(record: &Record<'_>, out: &mut Vec<u8>) {
    match record.client {
        Some(client) => address(client, out),
        None => out.push(b'-'),
    }
    add(&[" - - ["], out);
    second(record.time, Style::Common, out);
    let [method, target, version] = record.request;
    if method.is_empty() {
        add(&["] \"-\" "], out);
    } else {
        add(&["] \"", method, " ", target, " ", version, "\" "], out);
    }
    status(record.status, out);
    out.push(b' ');
    number(record.bytes_out, out);
}

fn add(texts: &[&str], out: &mut Vec<u8>) {
    for text in texts {
        out.extend_from_slice(text.as_bytes());
    }
}

/// With microseconds.
fn precise(time: Timestamp) -> String {
    let mut out = Vec::with_capacity(27);
    let us = second(time, Style::Iso, &mut out);
    // It is ASCII.
    let second = String::from_utf8_lossy(&out);
    format!("{second}.{us:06}Z")
}

impl<'a> From<&Record<'a>> for Object<'a> {
    fn from(record: &Record<'a>) -> Self {
        let [method, target, version] = record.request;
        Self {
            time: precise(record.time),
            client: record.client,
            listener: record.listener,
            route: record.route,
            class: record.class,
            method,
            target,
            version,
            host: record.host,
            referer: record.referer,
            user_agent: record.user_agent,
            request_id: record.id,
            tls: record.tls,
            status: record.status,
            pool: record.pool,
            server: record.server,
            bytes_in: record.bytes_in,
            bytes_out: record.bytes_out,
            queue_us: record.queue.as_micros(),
            connect_us: record.connect.as_micros(),
            answer_us: record.answer.as_micros(),
            total_us: record.total.as_micros(),
            processor_us: record.processor.as_micros(),
            retries: record.retries,
            whole: record.is_whole,
            cause: record.cause,
        }
    }
}

/// Adds text of a client, of which at most so many bytes are written.
pub(super) fn escaped(text: &[u8], bytes_max: usize, out: &mut String) {
    let written = &text[..text.len().min(bytes_max)];
    let is_plain = |&byte: &u8| (b' '..=b'~').contains(&byte) && !b"\"\\".contains(&byte);
    match str::from_utf8(written) {
        // Most is.
        Ok(plain) if written.iter().all(is_plain) => out.push_str(plain),
        _ => {
            for &byte in written {
                match byte {
                    b'"' | b'\\' => {
                        out.push('\\');
                        out.push(char::from(byte));
                    }
                    b' '..=b'~' => out.push(char::from(byte)),
                    other => out.push_str(&format!("\\x{other:02x}")),
                }
            }
        }
    }
    if text.len() > bytes_max {
        out.push_str("...");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record<'static> {
        Record {
            time: "2026-11-26T13:05:33.25Z".parse().unwrap(),
            client: Some("192.0.2.7".parse().unwrap()),
            listener: "web",
            route: "web/route1",
            class: "bulk",
            request: ["GET", "/a?b", "HTTP/1.1"],
            host: "a.example",
            referer: "",
            user_agent: "curl/8",
            id: "77",
            status: 200,
            tls: "1.3",
            pool: "app",
            server: "one",
            bytes_in: 10,
            bytes_out: 2_326,
            queue: Duration::from_micros(1),
            connect: Duration::from_micros(2),
            answer: Duration::from_micros(3),
            total: Duration::from_micros(4),
            processor: Duration::from_micros(5),
            retries: 1,
            is_whole: true,
            cause: "",
        }
    }

    fn line(format: Format, record: &Record<'_>) -> String {
        let mut out = Vec::new();
        format.write(record, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_as_others_read_them() {
        let common = "192.0.2.7 - - [26/Nov/2026:13:05:33 +0000] \"GET /a?b HTTP/1.1\" 200 2326";
        assert_eq!(line(Format::Common, &record()), format!("{common}\n"));
        assert_eq!(
            line(Format::Combined, &record()),
            format!("{common} \"-\" \"curl/8\"\n")
        );
        let json = line(Format::Json, &record());
        let object: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(json.ends_with("}\n"));
        for (key, value) in [
            ("time", serde_json::json!("2026-11-26T13:05:33.250000Z")),
            ("client", serde_json::json!("192.0.2.7")),
            ("class", serde_json::json!("bulk")),
            ("target", serde_json::json!("/a?b")),
            ("bytes_out", serde_json::json!(2_326)),
            ("processor_us", serde_json::json!(5)),
            ("whole", serde_json::json!(true)),
        ] {
            assert_eq!(object[key], value, "{key}");
        }
        let nothing = Record {
            client: None,
            request: [""; 3],
            status: 400,
            ..record()
        };
        assert_eq!(
            line(Format::Common, &nothing),
            "- - - [26/Nov/2026:13:05:33 +0000] \"-\" 400 2326\n"
        );
    }

    #[test]
    fn what_a_client_says_ends_neither_its_line_nor_its_quotes() {
        let escaped = |text, bytes_max| {
            let mut out = "|".to_owned();
            super::escaped(text, bytes_max, &mut out);
            out
        };
        assert_eq!(escaped(b"a\"b\\c\n\xff", 100), "|a\\\"b\\\\c\\x0a\\xff");
        assert_eq!(escaped(b"abcdef", 3), "|abc...");
        assert_eq!(escaped("\u{e4}b".as_bytes(), 1), "|\\xc3...");
    }
}
