//! The beginning of a client's connection over TLS: its place, its time, its class, and what is
//! said if it fails.

use std::time::Duration;

use bytes::BytesMut;
use evenkeel::time::timeout;
use tokio::io::AsyncWriteExt;

use super::{Front, Taken};
use crate::config::Mode;
use crate::http::{self, Refusal};
use crate::socket::Socket;
use crate::stream::Stream;
use crate::tls::{self, Failure, Listening, Place, Session, Shed};

/// How long a client that does not speak TLS may take for the answer that says so.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// Shakes hands, in the class of handshakes, and goes on in that of the listener; `None` if there
/// is no TLS, which was said then.
pub(super) async fn begin(mut taken: Taken, front: &Front, tls: &Listening) -> Option<Taken> {
    let max = front.config.tls.as_ref()?.get_ref().handshakes_max;
    let place = match tls.handshakes.take(max) {
        Ok(place) => place,
        Err(why) => {
            taken.stream.reset();
            shed(front, why);
            return None;
        }
    };
    let Stream::Plain(socket) = taken.stream else {
        return None;
    };
    let begun = std::mem::replace(&mut taken.buffer, BytesMut::new());
    let limit = front.config.timeouts.handshake;
    let whose = match taken.ends.client() {
        Some(address) => format!("no TLS with a client at {address}"),
        None => "no TLS with a client".to_owned(),
    };
    let counters = &front.counters.tls;
    match timeout(limit, shaken(front, tls, socket, begun, place)).await {
        Ok(Ok((session, true))) => {
            // It has seen what it wanted to.
            Stream::Tls(Box::new(session)).finish_now();
        }
        Ok(Ok((session, false))) => {
            counters.shaken(&session);
            taken.stream = Stream::Tls(Box::new(session));
            // Only outside tasks this is an error, and connections are served by tasks.
            let _ = evenkeel::task::change_class(front.class);
            return Some(taken);
        }
        Ok(Err(failure)) => failed(front, &whose, failure).await,
        Err(_) => {
            counters.failed.one();
            front.complain(&format_args!(
                "{whose}: no handshake within {limit:?}, timeouts.handshake"
            ));
        }
    }
    None
}

/// Shakes hands with a client, or with an authority that asks for a name; and whether it was one.
async fn shaken(
    front: &Front,
    tls: &Listening,
    socket: Socket,
    mut begun: BytesMut,
    mut place: Place,
) -> Result<(Session, bool), Failure> {
    let mut answer = None;
    // Only while a certificate is ordered; at other times there is no room for it.
    if front.challenges.are_secured() {
        let asked = Box::pin(tls::asked(&socket, &mut begun, &mut place)).await?;
        answer = asked.and_then(|name| front.challenges.secured(&name));
    }
    let is_of_acme = answer.is_some();
    let config = answer.unwrap_or_else(|| tls.config());
    let session = tls::accept(socket, begun, config, place).await?;
    Ok((session, is_of_acme))
}

fn shed(front: &Front, why: Shed) {
    front.counters.tls_shed.one();
    front.complain(&why);
}

/// Counts it, tells the operator, and the client if that can be done.
async fn failed(front: &Front, whose: &str, failure: Failure) {
    let counters = &front.counters.tls;
    match failure {
        // As browsers and monitors do it.
        Failure::Silent => {}
        Failure::Shed(why) => shed(front, why),
        Failure::Broken(error) => {
            counters.failed.one();
            front.complain(&format_args!("{whose}: {error}"));
        }
        Failure::Plain(socket) => {
            counters.failed.one();
            front.complain(&format_args!("{whose}: it speaks something else"));
            let stream = Stream::Plain(socket);
            if front.config.mode == Mode::Http {
                let why = "this port speaks TLS: ask for https, and not http";
                let refusal = Refusal::new(400, why).write(false);
                let _ = timeout(ANSWER_MAX, (&stream).write_all(&refusal)).await;
            }
            http::linger(&stream).await;
        }
        Failure::Tls(error, socket) => {
            counters.failed.one();
            let why = tls::of_client(&error);
            front.complain(&format_args!("{whose}: {why}"));
            // Or the system might discard the alert that says why.
            http::linger(&Stream::Plain(socket)).await;
        }
    }
}
