//! WebSockets, and other protocols to which a client of HTTP/2 changes by an extended CONNECT (RFC
//! 8441), with servers that know them by the `Upgrade` of HTTP/1.1.
//!
//! ```text
//!  CONNECT, :protocol ──▶ GET, Upgrade, a key ──▶ 101 with what belongs to the key ──▶ 200
//!  DATA of the stream ◀──────────── bytes, both ways, until both have ended ────────▶ connection
//! ```

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::request::Parts;
use ::http::{HeaderMap, Method, StatusCode};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::BytesMut;
use evenkeel::time::timeout;
use h2::ext::Protocol;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::AsyncWriteExt;

use super::super::exchange::Plan;
use super::super::framing::Framing;
use super::super::patience::Patience;
use super::super::refusal::Refusal;
use super::answer::Answer;
use super::body::{Broken, pipe};
use super::held::All;
use super::sink::Sink;
use super::source::Source;
use crate::counters::Counter;
use crate::stream::Stream;

/// What is appended to a key before it is digested (RFC 6455).
const APPENDED: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Headers of the handshake between the proxy and the server, which HTTP/2 does without.
pub(super) const HANDSHAKE: [&str; 2] = ["sec-websocket-key", "sec-websocket-accept"];

/// The longest name of a protocol.
const PROTOCOL_BYTES_MAX: usize = 64;

/// Whom nothing else ends is ended when nothing has come in either direction for `timeouts.idle`.
/// This is for one direction alone.
const ONE_DIRECTION_MAX: Duration = Duration::from_secs(24 * 3_600);

/// The time of each side of a tunnel.
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

/// A key for the server, which shows by its answer that it knows WebSockets.
pub(super) fn key() -> Result<String, Refusal> {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Refusal::new(500, "the system gives no random bytes; try again later"))?;
    Ok(STANDARD.encode(bytes))
}

/// Whether an answer has what belongs to the key, if there was one.
pub(super) fn belongs(headers: &HeaderMap, key: Option<&str>) -> bool {
    let Some(key) = key else { return true };
    let whole = digest(
        &SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{APPENDED}").as_bytes(),
    );
    let accept = headers.get("sec-websocket-accept");
    accept.is_some_and(|accept| accept.as_bytes() == STANDARD.encode(whole).as_bytes())
}

/// The answer to the client.
pub(super) fn opened(mut answer: Answer) -> Answer {
    for name in HANDSHAKE {
        answer.headers.remove(name);
    }
    answer.status = StatusCode::OK;
    answer.framing = Framing::Close;
    answer.persists = false;
    answer
}

/// A tunnel that is open: what comes from the client and where it goes, and the other way.
pub(super) struct Tunnel<'t, 'a> {
    pub(super) up: &'t mut Source<'a>,
    pub(super) down: Sink<'t>,
    pub(super) origin: &'t Stream,
    pub(super) arrived: &'t mut BytesMut,
    /// From the client to the server, and back.
    pub(super) counters: [&'t Counter; 2],
}

impl Tunnel<'_, '_> {
    /// Passes bytes on until both directions have ended, or one is broken off, or nothing comes for
    /// too long.
    pub(super) async fn run(self, plan: &Plan, all: &Arc<All>, idle: Duration) -> io::Result<()> {
        let Self {
            up,
            mut down,
            origin,
            arrived,
            counters: [to_server, from_server],
        } = self;
        let (came, went) = (Counter::default(), Counter::default());
        let done = {
            let forth = async {
                let mut sink = Sink::one(origin, Vec::new(), false, patience(), to_server);
                pipe(up, &mut sink, all, Some(&came)).await.map_err(cut)?;
                // The end of this direction; the other one goes on.
                let mut origin = origin;
                origin.shutdown().await
            };
            let back = async {
                let framing = Framing::Close;
                let mut source = Source::one(origin, arrived, framing, 0, patience(), from_server);
                pipe(&mut source, &mut down, all, Some(&went))
                    .await
                    .map_err(cut)
            };
            let mut moving = pin!(async { tokio::try_join!(forth, back).map(drop) });
            let mut seen = (0, 0);
            loop {
                if let Ok(done) = timeout(idle, &mut moving).await {
                    break done;
                }
                let now = (came.total(), went.total());
                if now == seen {
                    break Err(io::ErrorKind::TimedOut.into());
                }
                seen = now;
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
