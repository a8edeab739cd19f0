//! How an answer goes to a client, by either protocol.

use std::future::pending;
use std::sync::Arc;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, SendStream};

use super::super::exchange::{End, Fault, Plan};
use super::super::framing::Framing;
use super::super::refusal::Refusal;
use super::answer::{Answer, Trouble};
use super::body::reset;
use super::call::of_client;
use super::held::Line;
use super::refuse;
use super::sink::Sink;
use crate::server::Front;
use crate::stream::Stream;

/// To whom the answer goes.
#[derive(Debug)]
pub(super) enum Reply<'a> {
    One(&'a Stream),
    Two {
        respond: SendResponse<Bytes>,
        /// Once the head is sent.
        body: Option<SendStream<Bytes>>,
        line: Arc<Line>,
    },
}

impl Reply<'_> {
    /// Until the client takes its request back.
    pub(super) async fn gone(&mut self) {
        match self {
            Self::One(_) => pending().await,
            Self::Two {
                respond,
                body: None,
                ..
            } => drop(reset(|cx| respond.poll_reset(cx)).await),
            Self::Two {
                body: Some(body), ..
            } => drop(reset(|cx| body.poll_reset(cx)).await),
        }
    }

    /// Passes on an interim answer.
    pub(super) async fn interim(
        &mut self,
        answer: Answer,
        front: &Front,
        plan: &Plan,
    ) -> Result<(), Fault> {
        match self {
            Self::One(_) if plan.is_old => Ok(()),
            Self::One(stream) => {
                let head = answer.written(Framing::None, false, false);
                let patience = of_client(front, plan);
                let counter = &front.counters.bytes_out;
                let mut sink = Sink::one(stream, head, false, patience, counter);
                sink.head().await.map_err(|_| Fault::ClientGone)
            }
            Self::Two { respond, .. } => respond
                .send_informational(answer.into_two())
                .map_err(|_| Fault::ClientGone),
        }
    }

    /// Begins the answer; `None` if it has no body, and all of it is sent.
    pub(super) fn begin<'s>(
        &'s mut self,
        answer: Answer,
        closes: bool,
        front: &'s Front,
        plan: &Plan,
    ) -> Result<Option<Sink<'s>>, Trouble> {
        let patience = of_client(front, plan);
        match self {
            Self::One(stream) => {
                let framing = match answer.framing {
                    Framing::Chunked if plan.is_old => Framing::Close,
                    framing => framing,
                };
                let head = answer.written(framing, closes, plan.is_old);
                let is_chunked = framing == Framing::Chunked;
                let counter = &front.counters.bytes_out;
                Ok(Some(Sink::one(stream, head, is_chunked, patience, counter)))
            }
            Self::Two {
                respond,
                body,
                line,
            } => {
                let is_end = matches!(answer.framing, Framing::None | Framing::Length(0));
                let sent = respond.send_response(answer.into_two(), is_end);
                let stream = body.insert(sent.map_err(|_| Fault::ClientGone)?);
                Ok((!is_end).then(|| Sink::two(stream, line, patience)))
            }
        }
    }

    /// How a client's connection ends of whose answer a part is missing.
    pub(super) fn broken(&self, has_end: bool) -> End {
        match self {
            Self::One(_) if has_end => End::Close,
            Self::One(_) | Self::Two { .. } => End::Reset,
        }
    }

    /// Ends a request of HTTP/2 that has not ended by itself.
    pub(super) fn finish(self, end: Result<End, Refusal>, plan: &Plan) {
        let Self::Two { respond, body, .. } = self else {
            return;
        };
        match (end, body) {
            (Err(refusal), None) => refuse(respond, &refusal, plan.is_for_head, plan.is_grpc),
            (Err(_) | Ok(End::Reset), Some(mut body)) => body.send_reset(Reason::INTERNAL_ERROR),
            _ => {}
        }
    }
}
