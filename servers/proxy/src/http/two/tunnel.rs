//! WebSockets, and other protocols that are asked for by an extended CONNECT of HTTP/2 (RFC 8441)
//! on one side at least. On the other one it is the same, or the `Upgrade` of HTTP/1.1.
//!
//! ```text
//!  CONNECT, :protocol ──▶ GET, Upgrade, a key ──▶ 101 with what belongs to the key ──▶ 200
//!  GET, Upgrade, a key ──▶ CONNECT, :protocol ──▶ 200 ──▶ 101 with what belongs to the key
//!  CONNECT, :protocol ──▶ CONNECT, :protocol ──▶ 200 ──▶ 200
//!      then bytes, both ways, until both have ended: DATA of a stream, or all of a connection
//! ```

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ::http::request::Parts;
use ::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use evenkeel::time::timeout;
use h2::ext::Protocol;
use h2::{RecvStream, SendStream};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::{SecureRandom, SystemRandom};

use super::super::exchange::{Fault, Plan};
use super::super::framing::Framing;
use super::super::head::{HTTP_2, Request};
use super::super::patience::Patience;
use super::super::refusal::Refusal;
use super::answer::Answer;
use super::body::{Broken, Passed, pipe};
use super::held::{All, Line};
use super::sink::Sink;
use super::source::Source;
use crate::counters::{Counter, OfServer};
use crate::silence::Silence;
use crate::socket::Socket;
use crate::stream::Stream;

/// What is appended to a key before it is digested (RFC 6455).
const APPENDED: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Headers of the handshake between the proxy and the server, which HTTP/2 does without.
pub(super) const HANDSHAKE: [&str; 2] = ["sec-websocket-key", "sec-websocket-accept"];

/// What both sides are asked for where they speak HTTP/1.1.
const WEBSOCKET: &str = "websocket";

/// The bytes of a key, before they are encoded.
const KEY_BYTES: usize = 16;

/// The longest name of a protocol.
const PROTOCOL_BYTES_MAX: usize = 64;

/// Whom nothing else ends is ended when nothing has come in either direction for `timeouts.idle`.
/// So is a peer who takes nothing for so long of what waits for it. This is for what comes in one
/// direction alone.
const ONE_DIRECTION_MAX: Duration = Duration::from_secs(24 * 3_600);

/// The time of who sends in one direction of a tunnel.
pub(super) fn patience() -> Patience {
    Patience::each(ONE_DIRECTION_MAX)
}

/// The protocol to which a client wants to change.
///
/// # Errors
///
/// [`Refusal`]: it cannot be passed on.
pub(super) fn asked(parts: &Parts) -> Result<Option<&str>, Refusal> {
    if parts.method != Method::CONNECT {
        return Ok(None);
    }
    let Some(protocol) = parts.extensions.get::<Protocol>() else {
        let why = "CONNECT without a :protocol asks for a forward proxy, which this is not: ask \
                   that one";
        return Err(Refusal::new(405, why));
    };
    let name = protocol.as_str();
    // It stands in a line of its own before the server.
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._+/".contains(&byte);
    if !(1..=PROTOCOL_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_of_token) {
        let why = "the :protocol is malformed; mend what sends this";
        return Err(Refusal::new(400, why));
    }
    Ok(Some(name))
}

/// The protocol for which a server of HTTP/2 is asked. A client of HTTP/1.1 may ask for others than
/// WebSockets: then it gets an answer to its request, as if it had not.
pub(super) fn of_server<'b>(request: &Request<'b>) -> Option<&'b str> {
    let protocol = std::str::from_utf8(request.upgrade?).ok()?;
    let is_websocket = request.method == "GET" && protocol.eq_ignore_ascii_case(WEBSOCKET);
    match request.minor_version {
        HTTP_2 => Some(protocol),
        _ => is_websocket.then_some(WEBSOCKET),
    }
}

/// The key of a client of HTTP/1.1 that asks for a WebSocket, to which the answer has to belong.
///
/// # Errors
///
/// [`Refusal`]: there is no good one.
pub(in super::super) fn key_of_client(request: &Request<'_>) -> Result<Option<String>, Refusal> {
    if request.minor_version == HTTP_2 || of_server(request).is_none() {
        return Ok(None);
    }
    let mut keys = (request.headers.iter())
        .filter(|line| line.name.eq_ignore_ascii_case(HANDSHAKE[0]))
        .map(|line| line.value);
    if let (Some(key), None) = (keys.next(), keys.next())
        && STANDARD.decode(key).is_ok_and(|key| key.len() == KEY_BYTES)
        && let Ok(key) = std::str::from_utf8(key)
    {
        return Ok(Some(key.to_owned()));
    }
    let why =
        "a WebSocket has one Sec-WebSocket-Key, with 16 bytes by Base64; mend what sends this";
    Err(Refusal::new(400, why))
}

/// Whether a request that comes or goes by HTTP/2 asks for another protocol.
pub(super) fn is_wanted(plan: &Plan) -> bool {
    match &plan.two {
        None => plan.upgrade.is_some(),
        Some(request) => request.method() == Method::CONNECT,
    }
}

/// A key for the server, which shows by its answer that it knows WebSockets.
pub(super) fn key() -> Result<String, Refusal> {
    let mut bytes = [0; KEY_BYTES];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Refusal::new(500, "the system gives no random bytes; try again later"))?;
    Ok(STANDARD.encode(bytes))
}

/// Verifies that a server of HTTP/1.1 has agreed to the WebSocket that it was asked for.
///
/// # Errors
///
/// [`Fault`]: it has not.
pub(super) fn verified(answer: &Answer, plan: &Plan) -> Result<(), Fault> {
    // By HTTP/2 it has no key.
    let key = plan.websocket_key.as_deref().filter(|_| plan.two.is_none());
    if belongs(&answer.headers, key) {
        return Ok(());
    }
    let why = "agreed to a WebSocket, and not to the one that was asked for";
    Err(Fault::Server(why.to_owned()))
}

/// Whether an answer has what belongs to the key, if there was one.
fn belongs(headers: &HeaderMap, key: Option<&str>) -> bool {
    let Some(key) = key else { return true };
    let accept = headers.get(HANDSHAKE[1]);
    accept.is_some_and(|said| said.as_bytes() == accepted(key).as_bytes())
}

/// What belongs to a key.
fn accepted(key: &str) -> String {
    let text = format!("{key}{APPENDED}");
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// The answer to a client of HTTP/2.
pub(super) fn opened_to_two(mut answer: Answer) -> Answer {
    for name in HANDSHAKE {
        answer.headers.remove(name);
    }
    // No answer that opens a tunnel has a body.
    answer.headers.remove(header::CONTENT_LENGTH);
    answer.status = StatusCode::OK;
    answer.framing = Framing::Close;
    answer.persists = false;
    answer
}

/// The answer to a client of HTTP/1.1.
pub(super) fn opened_to_one(answer: Answer, plan: &Plan) -> Answer {
    let mut answer = opened_to_two(answer);
    answer.status = StatusCode::SWITCHING_PROTOCOLS;
    let headers = &mut answer.headers;
    headers.insert(header::UPGRADE, HeaderValue::from_static(WEBSOCKET));
    // Letters of Base64.
    let accept = plan.websocket_key.as_deref().map(accepted);
    if let Some(Ok(accept)) = accept.map(HeaderValue::try_from) {
        headers.insert(HANDSHAKE[1], accept);
    }
    answer
}

/// The server's side of a tunnel.
pub(super) struct Far<'t> {
    forth: Sink<'t>,
    back: Source<'t>,
}

impl<'t> Far<'t> {
    /// By HTTP/1.1, of which this was read on.
    pub(super) fn one(
        stream: &'t Stream,
        arrived: &'t mut BytesMut,
        counters: &'t OfServer,
        idle: Duration,
    ) -> Self {
        let (framing, counter) = (Framing::Close, &counters.bytes_out);
        let patience_of_sink = Patience::each(idle);
        let (head, counter_in) = (Vec::new(), &counters.bytes_in);
        Self {
            forth: Sink::one(stream, head, false, patience_of_sink, counter_in),
            back: Source::one(stream, arrived, framing, 0, patience(), counter),
        }
    }

    /// By HTTP/2, of which so much may come before it is asked for.
    pub(super) fn two(
        stream: &'t mut SendStream<Bytes>,
        line: &'t Line,
        back: Option<RecvStream>,
        (window, idle): (usize, Duration),
    ) -> Self {
        Self {
            forth: Sink::two(stream, line, Patience::each(idle)),
            back: match back {
                Some(back) => Source::two(back, window, patience()),
                // There is one with each answer.
                None => Source::none(patience()),
            },
        }
    }
}

/// A tunnel that is open: what comes from the client and where it goes, and the other way.
pub(super) struct Tunnel<'t, 'a> {
    pub(super) up: &'t mut Source<'a>,
    pub(super) down: Sink<'t>,
    pub(super) far: Far<'t>,
}

impl Tunnel<'_, '_> {
    /// Passes bytes on until both directions have ended, or one is broken off, or nothing comes for
    /// too long.
    pub(super) async fn run(self, plan: &Plan, all: &Arc<All>, idle: Duration) -> io::Result<()> {
        let Self { up, down, far } = self;
        let Far { forth, mut back } = far;
        let (came, went) = (Counter::default(), Counter::default());
        let passed = |noted, is_answer| Passed {
            noted: Some(noted),
            is_answer,
        };
        let (to_server, to_client) = (passed(&came, false), passed(&went, true));
        // Who takes nothing is given up by the patience of what waits for it.
        let waits = [const { AtomicBool::new(false) }; 2];
        let mut taken = [forth.socket(), down.socket()].map(|one| one.map(Socket::taken));
        let (mut forth, mut down) = (forth.telling(&waits[0]), down.telling(&waits[1]));
        let done = {
            // The end of one direction is passed on, and the other one goes on.
            let forth = async {
                pipe(up, &mut forth, all, to_server).await.map_err(cut)?;
                forth.shut().await
            };
            let back = async {
                let passed = pipe(&mut back, &mut down, all, to_client).await;
                passed.map_err(cut)?;
                down.shut().await
            };
            let mut moving = pin!(async { tokio::try_join!(forth, back).map(drop) });
            let mut silence = Silence::default();
            loop {
                if let Ok(done) = timeout(Silence::look(idle), &mut moving).await {
                    break done;
                }
                // Relaxed: the flags guard nothing.
                let waits = waits.iter().any(|waits| waits.load(Ordering::Relaxed));
                let taken = taken.iter_mut().flatten().map(|taken| taken());
                let is_busy = waits || taken.sum::<u64>() > 0;
                if silence.is_long(came.total() + went.total(), is_busy) {
                    break Err(io::ErrorKind::TimedOut.into());
                }
            }
        };
        if let Some(note) = &plan.note {
            note.bytes_in.add(came.total());
            note.bytes_out.add(went.total());
        }
        done
    }
}

fn cut(broken: Broken) -> io::Error {
    match broken {
        Broken::From(error) => error,
        Broken::To | Broken::Bad(_) => io::ErrorKind::BrokenPipe.into(),
        Broken::Full => io::ErrorKind::OutOfMemory.into(),
    }
}

#[cfg(test)]
mod tests {
    use ::http::Request;

    use super::*;

    #[test]
    fn an_answer_belongs_to_its_key() {
        // The example of RFC 6455.
        let key = "dGhlIHNhbXBsZSBub25jZQ==";
        let mut headers = HeaderMap::new();
        assert!(belongs(&headers, None));
        assert!(!belongs(&headers, Some(key)));
        let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".parse().unwrap();
        headers.insert("sec-websocket-accept", accept);
        assert!(belongs(&headers, Some(key)));
        assert!(!belongs(&headers, Some("b3RoZXIga2V5IGhlcmUhIQ==")));
        assert_ne!(super::key().unwrap(), super::key().unwrap());
    }

    #[test]
    fn the_name_of_a_protocol_ends_no_line() {
        let asked = |method: Method, protocol: Option<&'static str>| {
            let (mut parts, ()) = Request::new(()).into_parts();
            parts.method = method;
            if let Some(protocol) = protocol {
                parts.extensions.insert(Protocol::from_static(protocol));
            }
            super::asked(&parts)
                .map(|name| name.map(str::to_owned))
                .map_err(|refusal| refusal.status)
        };
        assert_eq!(asked(Method::GET, None), Ok(None));
        assert_eq!(asked(Method::CONNECT, None), Err(405));
        let known = Some("websocket".to_owned());
        assert_eq!(asked(Method::CONNECT, Some("websocket")), Ok(known));
        for name in ["", "a\r\nb: c", "a b", "a,b"] {
            assert_eq!(asked(Method::CONNECT, Some(name)), Err(400), "{name:?}");
        }
    }
}
