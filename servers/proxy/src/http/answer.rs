//! Reads the head of an answer, and passes on those that come before it.

use std::io;

use bytes::{Buf, BytesMut};
use tokio::io::AsyncReadExt;

use super::body::Target;
use super::exchange::{Fault, Plan};
use super::framing::Framing;
use super::head::{BadHead, HeadEnd, Response, storage};
use super::patience::Patience;
use super::rewrite::OfResponse;
use crate::pool::Server;
use crate::server::Front;
use crate::stream::Stream;

/// How many interim answers a request may have.
const INTERIM_MAX: usize = 8;

/// How much is read at once of an answer's head, with the beginning of its body.
const READ_BYTES: usize = 16 * 1_024;

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// To be written, without its end.
    pub(super) out: Vec<u8>,
    pub(super) framing: Framing,
    pub(super) persists: bool,
    pub(super) upgrades: bool,
}

/// Reads the head of the answer. Interim ones go to the client at once.
pub(super) async fn read_answer(
    stream: &Stream,
    front: &Front,
    plan: &Plan,
    (server, mut origin): (&Server, &Stream),
    arrived: &mut BytesMut,
) -> Result<Answer, Fault> {
    let config = &front.config;
    let mut end = HeadEnd::default();
    let mut interim = 0;
    loop {
        let found = end.find(arrived).map_err(|bad| malformed(&bad))?;
        if found.unwrap_or(arrived.len()) > config.head_bytes_max {
            let max = config.head_bytes_max;
            let text = format!("sent a head of more than {max} bytes, head_bytes_max");
            return Err(Fault::Server(text));
        }
        let Some(length) = found else {
            arrived.reserve(READ_BYTES);
            let error = match origin.read_buf(arrived).await {
                Ok(0) => io::ErrorKind::UnexpectedEof.into(),
                Ok(_) => continue,
                Err(error) => error,
            };
            let has_begun = interim > 0 || !arrived.is_empty();
            return Err(match has_begun {
                true => Fault::Server("broke off its answer".to_owned()),
                false => Fault::Lost(error),
            });
        };
        let (status, answer) = parsed(&arrived[..length], plan)?;
        arrived.advance(length);
        if status >= 200 || answer.upgrades {
            return Ok(answer);
        }
        end = HeadEnd::default();
        interim += 1;
        if interim > INTERIM_MAX {
            return Err(Fault::Server("sent too many interim answers".to_owned()));
        }
        if !plan.is_old {
            let mut out = answer.out;
            OfResponse::end(false, false, &mut out);
            let mut target = Target {
                stream,
                patience: Patience::in_all(config.timeouts.body, config.body_rate_min),
                counters: [&server.counters.bytes_out, &front.counters.bytes_out],
            };
            target.send(&out).await.map_err(|_| Fault::ClientGone)?;
        }
    }
}

fn malformed(bad: &BadHead) -> Fault {
    Fault::Server(format!("sent an answer that cannot be passed on: {bad}"))
}

fn parsed(head: &[u8], plan: &Plan) -> Result<(u16, Answer), Fault> {
    let mut storage = storage();
    let response = Response::parse(head, plan.is_for_head, &mut storage);
    let response = response.map_err(|bad| malformed(&bad))?;
    let upgrades = response.status == 101;
    let mut protocols = (response.headers.iter())
        .filter(|header| header.name.eq_ignore_ascii_case("upgrade"))
        .map(|header| header.value);
    let is_asked = match (&plan.upgrade, protocols.next(), protocols.next()) {
        (Some(asked), Some(protocol), None) => protocol.eq_ignore_ascii_case(asked),
        _ => false,
    };
    if upgrades && !is_asked {
        return Err(Fault::Server("changed the protocol, unasked".to_owned()));
    }
    let framing = match response.framing {
        Framing::Chunked if plan.is_old => Framing::Close,
        framing => framing,
    };
    let mut out = Vec::with_capacity(head.len() + 64);
    OfResponse { framing, upgrades }.write(&response, &mut out);
    let answer = Answer {
        out,
        framing: response.framing,
        persists: response.persists,
        upgrades,
    };
    Ok((response.status, answer))
}
