//! The head of a server's answer, by either protocol, and how it goes to a client.

use std::future::poll_fn;
use std::io;

use ::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use bytes::{Buf, BytesMut};
use h2::RecvStream;
use h2::client::ResponseFuture;
use httparse::Header;
use tokio::io::AsyncReadExt;

use super::super::answer::agrees;
use super::super::exchange::{Fault, Plan};
use super::super::framing::Framing;
use super::super::head::{self, BadHead, HeadEnd, storage};
use super::super::rewrite::{OfResponse, passed_on};
use super::body::{PIECE_BYTES, broken};
use super::tunnel;
use crate::compress::Form;
use crate::counters::Counter;
use crate::policy::Lines;
use crate::pool::Server;
use crate::stream::Stream;

/// How many interim answers a request may have.
pub(super) const INTERIM_MAX: usize = 8;

/// The head of an answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    /// Without those that concern one connection; with the length, if it is said.
    pub(super) headers: HeaderMap,
    pub(super) framing: Framing,
    /// The server takes another request over HTTP/1.1.
    pub(super) persists: bool,
    /// The protocol changes, for which was asked.
    pub(super) opens: bool,
}

/// Why a server has not answered.
#[derive(Debug)]
pub(super) enum Trouble {
    /// It has said that it did not begin with this request.
    Refused(io::Error),
    /// All bodies together take too much memory.
    Full,
    /// It does not allow that another protocol is asked for.
    NoTunnels,
    /// It has answered as if nothing had been asked for but a page, by HTTP/1.1.
    NotOpened,
    /// Something else.
    Fault(Fault),
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// An answer that is waited for.
#[derive(Debug)]
pub(super) enum Awaited<'a> {
    /// By HTTP/1.1.
    One {
        stream: &'a Stream,
        /// What was read and is not used yet.
        arrived: &'a mut BytesMut,
        end: HeadEnd,
        counter: &'a Counter,
        has_begun: bool,
    },
    /// By HTTP/2.
    Two(ResponseFuture),
}

impl<'a> Awaited<'a> {
    pub(super) fn one(stream: &'a Stream, arrived: &'a mut BytesMut, counter: &'a Counter) -> Self {
        Self::One {
            stream,
            arrived,
            end: HeadEnd::default(),
            counter,
            has_begun: false,
        }
    }

    /// The connection, if it is for this request alone.
    pub(super) fn stream(&self) -> Option<&'a Stream> {
        match self {
            Self::One { stream, .. } => Some(stream),
            Self::Two(_) => None,
        }
    }

    /// The next head, which may be an interim one, and the body if that comes by HTTP/2. Cancel
    /// safe.
    pub(super) async fn next(
        &mut self,
        plan: &Plan,
        head_bytes_max: usize,
    ) -> Result<(Answer, Option<RecvStream>), Trouble> {
        match self {
            Self::One {
                stream,
                arrived,
                end,
                counter,
                has_begun,
            } => {
                let length =
                    read(stream, arrived, end, head_bytes_max, counter, *has_begun).await?;
                let answer = parsed(&arrived[..length], plan)?;
                arrived.advance(length);
                (*end, *has_begun) = (HeadEnd::default(), true);
                Ok((answer, None))
            }
            Self::Two(response) => {
                // Those before the answer come first.
                let interim = poll_fn(|cx| response.poll_informational(cx)).await;
                if let Some(interim) = interim {
                    let interim = interim.map_err(of_h2)?;
                    return Ok((of_two(interim.map(|()| true), plan)?, None));
                }
                let response = response.await.map_err(of_h2)?;
                let (parts, body) = response.into_parts();
                let ends = body.is_end_stream();
                let answer = of_two(Response::from_parts(parts, ends), plan)?;
                Ok((answer, Some(body)))
            }
        }
    }
}

/// What an error says of the request.
pub(super) fn of_h2(error: h2::Error) -> Trouble {
    let is_refused = error.reason() == Some(h2::Reason::REFUSED_STREAM);
    // Streams that the server did begin with go on after it says that it goes.
    if error.is_remote() && (is_refused || error.is_go_away()) {
        return Trouble::Refused(broken(error));
    }
    Trouble::Fault(match error.is_io() {
        true => Fault::Lost(broken(error)),
        false => Fault::Server(format!("has broken off its answer: {error}")),
    })
}

async fn read(
    mut stream: &Stream,
    arrived: &mut BytesMut,
    end: &mut HeadEnd,
    head_bytes_max: usize,
    counter: &Counter,
    has_begun: bool,
) -> Result<usize, Fault> {
    loop {
        let found = end.find(arrived).map_err(|bad| malformed(&bad))?;
        if found.unwrap_or(arrived.len()) > head_bytes_max {
            let text = format!("sent a head of more than {head_bytes_max} bytes, head_bytes_max");
            return Err(Fault::Server(text));
        }
        if let Some(length) = found {
            return Ok(length);
        }
        arrived.reserve(PIECE_BYTES);
        let error = match stream.read_buf(arrived).await {
            Ok(0) => io::ErrorKind::UnexpectedEof.into(),
            Ok(read) => {
                counter.add(read as u64);
                continue;
            }
            Err(error) => error,
        };
        return Err(match has_begun || !arrived.is_empty() {
            true => Fault::Server("broke off its answer".to_owned()),
            false => Fault::Lost(error),
        });
    }
}

fn malformed(bad: &BadHead) -> Fault {
    Fault::Server(format!("sent an answer that cannot be passed on: {bad}"))
}

fn parsed(bytes: &[u8], plan: &Plan) -> Result<Answer, Fault> {
    let mut storage = storage();
    let response = head::Response::parse(bytes, plan.is_for_head, &mut storage);
    let response = response.map_err(|bad| malformed(&bad))?;
    let unknown = || malformed(&BadHead::bad("a header is malformed"));
    let mut headers = HeaderMap::with_capacity(response.headers.len());
    for header in passed_on(response.headers) {
        let name = HeaderName::from_bytes(header.name.as_bytes()).map_err(|_| unknown())?;
        let value = HeaderValue::from_bytes(header.value).map_err(|_| unknown())?;
        headers.append(name, value);
    }
    let length = match (response.framing, response.length_said) {
        (Framing::Length(length), _) | (Framing::None, Some(length)) => Some(length),
        _ => None,
    };
    if let Some(length) = length {
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    let opens = response.status == 101 && agrees(&response, plan);
    Ok(Answer {
        status: match opens {
            true => StatusCode::SWITCHING_PROTOCOLS,
            false => status(response.status)?,
        },
        headers,
        framing: response.framing,
        persists: response.persists,
        opens,
    })
}

fn status(number: u16) -> Result<StatusCode, Fault> {
    let status = StatusCode::from_u16(number);
    let status = status.map_err(|_| malformed(&BadHead::bad("the status is malformed")))?;
    if status == StatusCode::SWITCHING_PROTOCOLS {
        return Err(Fault::Server("changed the protocol, unasked".to_owned()));
    }
    Ok(status)
}

fn of_two(response: Response<bool>, plan: &Plan) -> Result<Answer, Fault> {
    let (parts, ends) = response.into_parts();
    let status = status(parts.status.as_u16())?;
    let lines = lines(&parts.headers);
    // One that contradicts what comes was refused by h2; two are refused here.
    let said = Framing::said(&lines, 1).map_err(|bad| malformed(&bad))?;
    let is_bare = plan.is_for_head || matches!(status.as_u16(), 100..=199 | 204 | 304);
    let framing = match said {
        _ if is_bare => Framing::None,
        _ if ends => Framing::Length(0),
        // Trailers may follow even one of nothing.
        Some(Framing::Length(length)) if length > 0 => Framing::Length(length),
        _ => Framing::Chunked,
    };
    let mut headers = HeaderMap::with_capacity(parts.headers.len());
    let mut last = None;
    for (name, value) in parts.headers {
        // Without a name it is one more of the last one.
        last = name.or(last);
        if let Some(name) = &last {
            headers.append(name.clone(), value);
        }
    }
    Ok(Answer {
        status,
        headers,
        framing,
        persists: true,
        opens: status.is_success() && tunnel::is_wanted(plan),
    })
}

/// Adds lines of the configuration, which was checked: what is no header is left out.
pub(super) fn add(lines: &Lines, headers: &mut HeaderMap) {
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(value)) {
            headers.append(name, value);
        }
    }
}

/// Headers as those who read HTTP/1.1 have them.
pub(super) fn lines(headers: &HeaderMap) -> Vec<Header<'_>> {
    let pairs = headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.as_bytes()));
    pairs.map(|(name, value)| Header { name, value }).collect()
}

impl Answer {
    /// Makes the changes of the configuration. Returns the server's tag, unless they drop it.
    pub(super) fn change(&mut self, plan: &Plan, server: &Server) -> Option<HeaderValue> {
        let headers = &mut self.headers;
        let tag = headers.get(header::ETAG).cloned();
        let passage = plan.passage.as_ref();
        let is_dropped = passage.is_some_and(|passage| passage.drops_of_response("etag"));
        if let Some(passage) = &plan.passage {
            let dropped: Vec<HeaderName> = headers
                .keys()
                .filter(|name| passage.drops_of_response(name.as_str()))
                .cloned()
                .collect();
            for name in dropped {
                headers.remove(name);
            }
            add(&passage.response, headers);
        }
        if let Some(cookie) = plan.pool.cookie(plan.key, server)
            && let Ok(value) = HeaderValue::try_from(cookie)
        {
            headers.append(header::SET_COOKIE, value);
        }
        tag.filter(|_| !is_dropped)
    }

    pub(super) fn is_interim(&self) -> bool {
        self.status.is_informational() && !self.opens
    }

    /// The head as HTTP/1.1, with its end.
    pub(super) fn written(&self, framing: Framing, closes: bool, is_old: bool) -> Vec<u8> {
        let lines = lines(&self.headers);
        let length = self.headers.get(header::CONTENT_LENGTH);
        let length = length.and_then(|value| value.to_str().ok()?.parse().ok());
        let response = head::Response {
            status: self.status.as_u16(),
            reason: self.status.canonical_reason().unwrap_or_default(),
            headers: &lines,
            framing,
            length_said: length,
            persists: true,
        };
        let mut out = Vec::with_capacity(256);
        let upgrades = self.status == StatusCode::SWITCHING_PROTOCOLS;
        let rewrite = OfResponse {
            framing,
            upgrades,
            // They are made already.
            passage: None,
            form: &Form::Fixed,
        };
        rewrite.write(&response, &mut out);
        OfResponse::end(closes, is_old, &mut out);
        out
    }

    /// The head as HTTP/2.
    pub(super) fn into_two(self) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}
