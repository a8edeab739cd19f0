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
use crate::compress::{Form, Squeeze};
use crate::pool::Server;
use crate::server::Front;
use crate::stream::Stream;

/// How many interim answers a request may have.
const INTERIM_MAX: usize = 8;

/// How much is read at once of the rest of an answer's head, with the beginning of its body.
const READ_BYTES: usize = 16 * 1_024;

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Answer {
    /// To be written, without its end.
    pub(super) out: Vec<u8>,
    pub(super) status: u16,
    pub(super) framing: Framing,
    pub(super) persists: bool,
    pub(super) upgrades: bool,
    /// Compresses the body.
    pub(super) squeeze: Option<Box<Squeeze>>,
}

impl Answer {
    /// Where the body ends for the client.
    pub(super) fn sent_as(&self) -> Framing {
        match self.squeeze {
            Some(_) => Framing::Chunked,
            None => self.framing,
        }
    }
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
            let read = if arrived.is_empty() {
                origin.read_first(arrived).await
            } else {
                arrived.reserve(READ_BYTES);
                origin.read_buf(arrived).await
            };
            let error = match read {
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
        let answer = parsed(&arrived[..length], plan, server)?;
        let status = answer.status;
        arrived.advance(length);
        if status >= 200 || answer.upgrades {
            front.counters.statuses.note(status);
            server.counters.statuses.note(status);
            if let Some(note) = &plan.note {
                note.answered(status);
            }
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
                is_client: true,
                noted: plan.note.as_ref().map(|note| &note.bytes_out),
            };
            target.send(&out).await.map_err(|_| Fault::ClientGone)?;
        }
    }
}

fn malformed(bad: &BadHead) -> Fault {
    Fault::Server(format!("sent an answer that cannot be passed on: {bad}"))
}

fn parsed(head: &[u8], plan: &Plan, server: &Server) -> Result<Answer, Fault> {
    let mut storage = storage();
    let response = Response::parse(head, plan.is_for_head, &mut storage);
    let response = response.map_err(|bad| malformed(&bad))?;
    let upgrades = response.status == 101;
    if upgrades && !agrees(&response, plan) {
        return Err(Fault::Server("changed the protocol, unasked".to_owned()));
    }
    let form = form(&response, plan);
    let framing = match (response.framing, &form) {
        (_, Form::Squeezed(_)) => Framing::Chunked,
        (Framing::Chunked, _) if plan.is_old => Framing::Close,
        (framing, _) => framing,
    };
    let mut out = Vec::with_capacity(head.len() + 64);
    let rewrite = OfResponse {
        framing,
        upgrades,
        passage: plan.passage.as_deref(),
        form: &form,
    };
    rewrite.write(&response, &mut out);
    if response.status >= 200
        && let Some(cookie) = plan.pool.cookie(plan.key, server)
    {
        out.extend_from_slice(b"set-cookie: ");
        out.extend_from_slice(cookie.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    Ok(Answer {
        out,
        status: response.status,
        framing: response.framing,
        persists: response.persists,
        upgrades,
        squeeze: match form {
            Form::Squeezed(squeeze) => Some(squeeze),
            Form::Fixed | Form::Plain => None,
        },
    })
}

/// Whether an answer names the protocol to which the client wants to change, and no other one.
pub(super) fn agrees(response: &Response<'_>, plan: &Plan) -> bool {
    let mut protocols = (response.headers.iter())
        .filter(|header| header.name.eq_ignore_ascii_case("upgrade"))
        .map(|header| header.value);
    match (&plan.upgrade, protocols.next(), protocols.next()) {
        (Some(asked), Some(protocol), None) => protocol.eq_ignore_ascii_case(asked),
        _ => false,
    }
}

/// Whether the body is compressed on its way.
fn form(response: &Response<'_>, plan: &Plan) -> Form {
    let offer = plan
        .passage
        .as_ref()
        .and_then(|passage| passage.offer.as_ref());
    let Some(offer) = offer else {
        return Form::Fixed;
    };
    let length = match response.framing {
        Framing::Length(length) => Some(length),
        Framing::None => response.length_said,
        Framing::Chunked | Framing::Close => None,
    };
    let may_code = !plan.is_for_head && !plan.is_old && response.framing != Framing::None;
    offer.form(response.status, response.headers, length, may_code)
}
