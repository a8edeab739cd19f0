//! Answers that are compressed on their way, where a client or a server speaks HTTP/2.
//!
//! As between two that speak HTTP/1.1 (`http::squeeze`): what has come is passed on before more is
//! waited for, and the work is done by tasks that compute, so that no worker waits for it.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use ::http::{HeaderMap, HeaderValue, header};
use bytes::Bytes;

use super::super::exchange::Plan;
use super::super::framing::Framing;
use super::answer::{Answer, lines};
use super::body::{Broken, Passed, Piece, deliver};
use super::held::All;
use super::sink::Sink;
use super::source::Source;
use crate::compress::{Form, Squeeze, push, weak};

/// How much is gathered before it is sent.
const OUT_BYTES: usize = 16 * 1_024;

/// What becomes of an answer, whose headers are as its server has sent them.
pub(super) fn form(answer: &Answer, plan: &Plan) -> Form {
    let passage = plan.passage.as_ref();
    let Some(offer) = passage.and_then(|passage| passage.offer.as_ref()) else {
        return Form::Fixed;
    };
    let said = answer.headers.get(header::CONTENT_LENGTH);
    let said = said.and_then(|length| length.to_str().ok()?.parse().ok());
    let length = match answer.framing {
        Framing::Length(length) => Some(length),
        _ => said,
    };
    let may_code = !plan.is_for_head && !plan.is_old && answer.framing != Framing::None;
    let headers = lines(&answer.headers);
    offer.form(answer.status.as_u16(), &headers, length, may_code)
}

/// Says in the head of an answer how its body is compressed, and that other clients may get another
/// one. `tag` is the server's, unless the configuration drops it.
pub(super) fn coded(answer: &mut Answer, form: &Form, tag: Option<HeaderValue>) {
    let varies = form.varies(&lines(&answer.headers));
    let headers = &mut answer.headers;
    if varies {
        let value = HeaderValue::from_static("accept-encoding");
        headers.append(header::VARY, value);
    }
    let Some(coding) = form.coding() else { return };
    headers.remove(header::CONTENT_LENGTH);
    headers.remove(header::ACCEPT_RANGES);
    let name = HeaderValue::from_static(coding.name());
    headers.insert(header::CONTENT_ENCODING, name);
    if let Some(tag) = tag
        && let Ok(tag) = HeaderValue::from_bytes(&weak(tag.as_bytes()))
    {
        headers.insert(header::ETAG, tag);
    }
    answer.framing = Framing::Chunked;
}

/// Forwards a body to its end, compressed.
///
/// # Errors
///
/// [`Broken`].
pub(super) async fn squeezed(
    source: &mut Source<'_>,
    sink: &mut Sink<'_>,
    all: &Arc<All>,
    mut squeeze: Box<Squeeze>,
    passed: Passed<'_>,
) -> Result<(), Broken> {
    let mut out = Out {
        coded: Vec::new(),
        held: source.held(),
        all,
        passed,
    };
    let mut has_begun = false;
    loop {
        let piece = {
            let mut next = pin!(source.next());
            match poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await {
                Poll::Ready(piece) => piece?,
                Poll::Pending => {
                    let encoder = &mut squeeze.encoder;
                    encoder.flush(&mut out.coded).map_err(Broken::From)?;
                    if !has_begun {
                        // The head does not wait for the body.
                        sink.head().await.map_err(|_| Broken::To)?;
                    }
                    out.send(sink).await?;
                    tokio::select! {
                        biased;
                        _ = sink.gone() => return Err(Broken::To),
                        piece = next => piece?,
                    }
                }
            }
        };
        has_begun = true;
        let (bytes, trailers) = match piece {
            Piece::Data(bytes) => (bytes, None),
            Piece::Last(bytes) => (bytes, Some(HeaderMap::new())),
            Piece::End(trailers) => (Bytes::new(), Some(trailers)),
        };
        let pushed = push(squeeze, bytes, std::mem::take(&mut out.coded)).await;
        (squeeze, _, out.coded) = pushed.map_err(Broken::From)?;
        if out.coded.len() >= OUT_BYTES {
            out.send(sink).await?;
        }
        if let Some(trailers) = trailers {
            let finished = squeeze.encoder.finish(&mut out.coded);
            finished.map_err(Broken::From)?;
            out.send(sink).await?;
            return deliver(sink, Piece::End(trailers), all, out.held).await;
        }
        source.release();
    }
}

/// What is compressed, and not sent yet.
struct Out<'a> {
    coded: Vec<u8>,
    held: usize,
    all: &'a Arc<All>,
    passed: Passed<'a>,
}

impl Out<'_> {
    async fn send(&mut self, sink: &mut Sink<'_>) -> Result<(), Broken> {
        if self.coded.is_empty() {
            return Ok(());
        }
        let coded = Bytes::from(std::mem::take(&mut self.coded));
        self.passed.add(coded.len());
        deliver(sink, Piece::Data(coded), self.all, self.held).await
    }
}
