//! The heads that are passed on: written anew, without what concerns one connection alone.

use std::net::IpAddr;

use httparse::Header;

use super::framing::Framing;
use super::head::{Request, Response, connection_tokens};
use crate::compress::{Form, weak};
use crate::config::ForwardedFor;
use crate::policy::{Lines, Passage};
use crate::text::{address, number, status};

/// What the proxy adds to a request.
#[derive(Clone, Copy, Debug)]
pub struct OfRequest<'a> {
    /// Whose it is; nobody knows that on a Unix socket.
    pub client: Option<IpAddr>,
    /// It came over TLS.
    pub is_tls: bool,
    /// What becomes of `X-Forwarded-For`, and of `X-Forwarded-Proto`.
    pub forwarded_for: ForwardedFor,
    /// What the configuration changes.
    pub passage: Option<&'a Passage>,
}

/// What the proxy makes of an answer.
#[derive(Clone, Copy, Debug)]
pub struct OfResponse<'a> {
    /// How the body is passed on.
    pub framing: Framing,
    /// The protocol changes.
    pub upgrades: bool,
    /// What the configuration changes.
    pub passage: Option<&'a Passage>,
    /// Whether the body is compressed.
    pub form: &'a Form,
}

/// Headers that concern one connection, or are written anew.
const OF_CONNECTION: [&str; 8] = [
    "connection",
    "content-length",
    "http2-settings",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// Headers that a request's `Connection` cannot take away, as what they say is the proxy's, or is
/// needed to understand the request.
const KEPT: [&str; 4] = ["expect", "host", FORWARDED_FOR, FORWARDED_PROTO];

const FORWARDED_FOR: &str = "x-forwarded-for";

const FORWARDED_PROTO: &str = "x-forwarded-proto";

impl OfRequest<'_> {
    /// Writes the head of a request, as HTTP/1.1.
    pub fn write(&self, request: &Request<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(request.method.as_bytes());
        out.push(b' ');
        let target = self.passage.and_then(|passage| passage.target.as_deref());
        out.extend_from_slice(target.unwrap_or(request.target).as_bytes());
        out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
        let host = self.passage.and_then(|passage| passage.host.as_deref());
        out.extend_from_slice(host.unwrap_or(request.host).as_bytes());
        out.extend_from_slice(b"\r\n");
        self.fields(request, |name, value| line(name, value, out));
        framing(request.framing, out);
        if let Some(protocol) = request.upgrade {
            out.extend_from_slice(b"connection: upgrade\r\n");
            line("upgrade", protocol, out);
        }
        out.extend_from_slice(b"\r\n");
    }

    /// What is passed on and what is added, without the host and what says where the body ends.
    pub(super) fn fields(&self, request: &Request<'_>, mut add: impl FnMut(&str, &[u8])) {
        for header in passed_on(request.headers) {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            let passage = self.passage;
            if passage.is_some_and(|passage| passage.drops_of_request(header.name)) {
                continue;
            }
            if is("host") || (is("expect") && !request.expects_continue) {
                continue;
            }
            if is(FORWARDED_FOR) && self.forwarded_for != ForwardedFor::Keep {
                continue;
            }
            if is(FORWARDED_PROTO) && self.forwarded_for == ForwardedFor::Replace {
                continue;
            }
            add(header.name, header.value);
        }
        self.forwarded_for(request.headers, &mut add);
        self.forwarded_proto(request.headers, &mut add);
        if let Some(passage) = self.passage {
            for (name, value) in &passage.request {
                add(name, value.as_bytes());
            }
        }
    }

    fn forwarded_for(&self, headers: &[Header<'_>], add: &mut impl FnMut(&str, &[u8])) {
        let before = headers
            .iter()
            .filter(|header| header.name.eq_ignore_ascii_case(FORWARDED_FOR));
        match (self.forwarded_for, self.client) {
            (ForwardedFor::Keep, _) | (ForwardedFor::Replace, None) => {}
            (ForwardedFor::Replace, Some(client)) => {
                // The longest address has 39 characters.
                let mut text = Vec::with_capacity(39);
                address(client, &mut text);
                add(FORWARDED_FOR, &text);
            }
            // All in one line, as some read the first one alone.
            (ForwardedFor::Append, client) => {
                let mut all: Vec<u8> = Vec::new();
                for header in before {
                    all.extend_from_slice(header.value);
                    all.extend_from_slice(b", ");
                }
                match client {
                    Some(client) => address(client, &mut all),
                    None => all.truncate(all.len().saturating_sub(2)),
                }
                if !all.is_empty() {
                    add(FORWARDED_FOR, &all);
                }
            }
        }
    }

    /// A client that is a proxy knows better what its own client speaks.
    fn forwarded_proto(&self, headers: &[Header<'_>], add: &mut impl FnMut(&str, &[u8])) {
        let is_said = || {
            let mut names = headers.iter().map(|header| header.name);
            names.any(|name| name.eq_ignore_ascii_case(FORWARDED_PROTO))
        };
        let is_ours = match self.forwarded_for {
            ForwardedFor::Replace => true,
            ForwardedFor::Append => !is_said(),
            ForwardedFor::Keep => false,
        };
        if is_ours {
            let scheme: &[u8] = if self.is_tls { b"https" } else { b"http" };
            add(FORWARDED_PROTO, scheme);
        }
    }
}

impl OfResponse<'_> {
    /// Writes the head of an answer, as HTTP/1.1, without its end.
    pub fn write(&self, response: &Response<'_>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"HTTP/1.1 ");
        status(response.status, out);
        out.push(b' ');
        out.extend_from_slice(response.reason.as_bytes());
        out.extend_from_slice(b"\r\n");
        let drops = |name: &str| {
            let passage = self.passage;
            passage.is_some_and(|passage| passage.drops_of_response(name)) || self.form.drops(name)
        };
        for header in passed_on(response.headers).filter(|header| !drops(header.name)) {
            line(header.name, header.value, out);
        }
        // Interim answers are not what the configuration means.
        if response.status >= 200 || self.upgrades {
            lines(self.passage.map(|passage| &passage.response), out);
        }
        self.coded(response.headers, out);
        match (self.framing, response.length_said) {
            // Of what the answer to another method would have.
            (Framing::None, Some(length)) => framing(Framing::Length(length), out),
            (said, _) => framing(said, out),
        }
        if self.upgrades {
            out.extend_from_slice(b"connection: upgrade\r\n");
            let protocol = |header: &&Header<'_>| header.name.eq_ignore_ascii_case("upgrade");
            if let Some(header) = response.headers.iter().find(protocol) {
                line("upgrade", header.value, out);
            }
        }
    }

    /// Says how the body is compressed, and that other clients may get another one.
    fn coded(&self, headers: &[Header<'_>], out: &mut Vec<u8>) {
        if self.form.varies(headers) {
            line("vary", b"accept-encoding", out);
        }
        if let Some(coding) = self.form.coding() {
            line("content-encoding", coding.name().as_bytes(), out);
            let mut tags = headers.iter();
            let tag = tags.find(|header| header.name.eq_ignore_ascii_case("etag"));
            let is_dropped = self.passage.is_some_and(|it| it.drops_of_response("etag"));
            if let Some(tag) = tag.filter(|_| !is_dropped) {
                line("etag", &weak(tag.value), out);
            }
        }
    }

    /// Writes the end of the head: whether the client's connection ends after this answer, and that
    /// it does not to those whose version is old.
    pub fn end(closes: bool, is_old: bool, out: &mut Vec<u8>) {
        if closes {
            out.extend_from_slice(b"connection: close\r\n");
        } else if is_old {
            out.extend_from_slice(b"connection: keep-alive\r\n");
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// The headers that do not concern this connection alone.
pub(super) fn passed_on<'b>(headers: &'b [Header<'b>]) -> impl Iterator<Item = &'b Header<'b>> {
    let names_more = connection_tokens(headers).any(|token| {
        !OF_CONNECTION
            .iter()
            .chain(&["close"])
            .any(|name| token.eq_ignore_ascii_case(name.as_bytes()))
    });
    headers.iter().filter(move |header| {
        let is_one_of = |names: &[&str]| {
            names
                .iter()
                .any(|name| header.name.eq_ignore_ascii_case(name))
        };
        let is_named = || {
            connection_tokens(headers)
                .any(|token| token.eq_ignore_ascii_case(header.name.as_bytes()))
        };
        let is_dropped = names_more && !is_one_of(&KEPT) && is_named();
        !is_dropped && !is_one_of(&OF_CONNECTION) && !looks_like_one(header.name)
    })
}

/// Whether a name is that of a header that is written here, or says where a body ends, for programs
/// that take `_` and `-` for the same.
fn looks_like_one(name: &str) -> bool {
    let as_written = |byte: u8| {
        if byte == b'_' {
            b'-'
        } else {
            byte.to_ascii_lowercase()
        }
    };
    let is = |other: &&str| name.bytes().map(as_written).eq(other.bytes());
    name.contains('_') && OF_CONNECTION.iter().chain(&KEPT).any(is)
}

fn lines(lines: Option<&Lines>, out: &mut Vec<u8>) {
    for (name, value) in lines.into_iter().flatten() {
        line(name, value.as_bytes(), out);
    }
}

fn line(name: &str, value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn framing(framing: Framing, out: &mut Vec<u8>) {
    match framing {
        Framing::None | Framing::Close => {}
        Framing::Length(length) => {
            out.extend_from_slice(b"content-length: ");
            number(length, out);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(b"transfer-encoding: chunked\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::head::storage;
    use super::*;

    fn request(text: &str, forwarded_for: ForwardedFor) -> String {
        let mut storage = storage();
        let request = Request::parse(text.as_bytes(), &mut storage).unwrap();
        let mut out = Vec::new();
        let client = Some("192.0.2.7".parse().unwrap());
        OfRequest {
            client,
            is_tls: true,
            forwarded_for,
            passage: None,
        }
        .write(&request, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_request_loses_what_concerns_its_connection() {
        let text = "GET http://a/b?c HTTP/1.1\r\nHost: a\r\nConnection: x-own, keep-alive\r\n\
                    X-Own: 1\r\nX-Other: 2\r\nTE: trailers\r\nKeep-Alive: 3\r\nUpgrade: h2c\r\n\
                    Proxy-Connection: close\r\n\r\n";
        assert_eq!(
            request(text, ForwardedFor::Keep),
            "GET /b?c HTTP/1.1\r\nhost: a\r\nX-Other: 2\r\n\r\n"
        );
    }

    #[test]
    fn names_that_some_read_as_those_of_the_proxy_are_dropped() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: 10.0.0.1\r\n\
                    X-Forwarded_For: 10.0.0.2\r\nX_Forwarded_Proto: x\r\n\
                    Content_Length: 5\r\nTransfer_Encoding: x\r\n\
                    X_Own: 1\r\nHTTP2-Settings: x\r\n\r\n";
        assert_eq!(
            request(text, ForwardedFor::Replace),
            "GET / HTTP/1.1\r\nhost: a\r\nX_Own: 1\r\nx-forwarded-for: 192.0.2.7\r\n\
             x-forwarded-proto: https\r\n\r\n"
        );
    }

    #[test]
    fn a_request_cannot_take_away_what_the_proxy_says() {
        let text = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 03\r\n\
                    X-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Proto: gopher\r\n\
                    Connection: host, x-forwarded-for, x-forwarded-proto, content-length\r\n\r\n";
        assert_eq!(
            request(text, ForwardedFor::Replace),
            "POST / HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.7\r\n\
             x-forwarded-proto: https\r\ncontent-length: 3\r\n\r\n"
        );
        assert!(
            request(text, ForwardedFor::Append).contains("x-forwarded-for: 10.0.0.1, 192.0.2.7\r")
        );
        assert!(request(text, ForwardedFor::Append).contains("X-Forwarded-Proto: gopher\r"));
        let kept = request(text, ForwardedFor::Keep);
        assert!(kept.contains("X-Forwarded-For: 10.0.0.1\r") && !kept.contains("192.0.2.7"));
    }

    #[test]
    fn a_server_is_told_what_its_client_speaks() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for forwarded_for in [ForwardedFor::Replace, ForwardedFor::Append] {
            let written = request(text, forwarded_for);
            assert!(written.contains("x-forwarded-proto: https\r"), "{written}");
        }
        assert!(!request(text, ForwardedFor::Keep).contains("x-forwarded"));
    }

    #[test]
    fn an_upgrade_and_an_expectation_are_passed_on() {
        let text = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                    Expect: 100-continue\r\n\r\n";
        assert_eq!(
            request(text, ForwardedFor::Keep),
            "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
        );
        let text = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\
                    Transfer-Encoding: chunked\r\n\r\n";
        assert_eq!(
            request(text, ForwardedFor::Keep),
            "POST / HTTP/1.1\r\nhost: a\r\nExpect: 100-continue\r\n\
             transfer-encoding: chunked\r\n\r\n"
        );
    }

    #[test]
    fn an_answer_says_how_its_connection_goes_on() {
        let text = "HTTP/1.1 404 \r\nConnection: close\r\nContent-Length: 3\r\nX: y\r\n\r\n";
        let answer = |is_for_head: bool, closes: bool, is_old: bool| {
            let mut storage = storage();
            let response = Response::parse(text.as_bytes(), is_for_head, &mut storage).unwrap();
            let (framing, upgrades) = (response.framing, false);
            let mut out = Vec::new();
            OfResponse {
                framing,
                upgrades,
                passage: None,
                form: &Form::Fixed,
            }
            .write(&response, &mut out);
            OfResponse::end(closes, is_old, &mut out);
            String::from_utf8(out).unwrap()
        };
        let begin = "HTTP/1.1 404 \r\nX: y\r\ncontent-length: 3\r\n";
        assert_eq!(answer(false, false, false), format!("{begin}\r\n"));
        assert_eq!(answer(true, false, false), format!("{begin}\r\n"));
        assert_eq!(
            answer(false, true, true),
            format!("{begin}connection: close\r\n\r\n")
        );
        assert_eq!(
            answer(false, false, true),
            format!("{begin}connection: keep-alive\r\n\r\n")
        );
    }
}
