//! One request to a server, and its answer, for what the proxy itself has to know.

use std::io;

use ::http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::chunks::{BadChunk, Decoder, Recode};
use super::framing::Framing;
use super::head::{self, BadHead, HeadEnd, storage};
use crate::stream::Stream;

/// The largest head of an answer.
const HEAD_BYTES_MAX: usize = 32 * 1_024;

/// How much is read at once.
const READ_BYTES: usize = 8 * 1_024;

/// Why a request has no answer that can be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The connection.
    #[error("{0}")]
    Broken(#[from] io::Error),
    /// The head of the answer.
    #[error("its head: {0}")]
    Head(#[from] BadHead),
    /// Its body.
    #[error("its body: {0}")]
    Body(#[from] BadChunk),
    /// It is too long.
    #[error("it has more than {0} bytes")]
    Long(usize),
}

/// Sends a request by HTTP/1.1, and reads the whole answer, which has no more bytes than this. No
/// other request follows on this connection.
///
/// # Errors
///
/// [`FetchError`].
pub async fn fetch(
    mut stream: &Stream,
    request: &Request<Bytes>,
    bytes_max: usize,
) -> Result<Response<Bytes>, FetchError> {
    stream.write_all(&written(request)).await?;
    stream.flush().await?;
    let is_for_head = request.method() == Method::HEAD;
    let mut arrived = BytesMut::new();
    let (mut response, framing) = loop {
        let (response, framing) = answer(stream, &mut arrived, is_for_head).await?;
        // Interim ones say nothing that is needed here.
        if !response.status().is_informational() {
            break (response, framing);
        }
    };
    *response.body_mut() = body(stream, arrived, framing, bytes_max).await?;
    Ok(response)
}

fn written(request: &Request<Bytes>) -> Vec<u8> {
    let (uri, body) = (request.uri(), request.body());
    let target = uri.path_and_query().map_or("/", |target| target.as_str());
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let mut out = format!(
        "{} {target} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\n",
        request.method()
    )
    .into_bytes();
    for (name, value) in request.headers() {
        if !["host", "connection", "content-length"].contains(&name.as_str()) {
            out.extend_from_slice(name.as_str().as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    if !body.is_empty() || request.method() == Method::POST {
        out.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(body);
    out
}

/// The next head.
async fn answer(
    stream: &Stream,
    arrived: &mut BytesMut,
    is_for_head: bool,
) -> Result<(Response<Bytes>, Framing), FetchError> {
    let mut end = HeadEnd::default();
    let length = loop {
        if let Some(length) = end.find(arrived)? {
            break length;
        }
        if arrived.len() > HEAD_BYTES_MAX {
            return Err(FetchError::Long(HEAD_BYTES_MAX));
        }
        more(stream, arrived).await?;
    };
    let head = arrived.split_to(length);
    let mut storage = storage();
    let parsed = head::Response::parse(&head, is_for_head, &mut storage)?;
    let malformed = || BadHead::bad("a header is malformed");
    let mut response = Response::new(Bytes::new());
    let status = StatusCode::from_u16(parsed.status);
    *response.status_mut() = status.map_err(|_| BadHead::bad("the status is malformed"))?;
    for line in parsed.headers {
        let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| malformed())?;
        let value = HeaderValue::from_bytes(line.value).map_err(|_| malformed())?;
        response.headers_mut().append(name, value);
    }
    Ok((response, parsed.framing))
}

/// The body, of which this has come.
async fn body(
    stream: &Stream,
    mut arrived: BytesMut,
    framing: Framing,
    bytes_max: usize,
) -> Result<Bytes, FetchError> {
    let long = || FetchError::Long(bytes_max);
    match framing {
        Framing::None => Ok(Bytes::new()),
        Framing::Length(length) => {
            let length = usize::try_from(length).map_err(|_| long())?;
            if length > bytes_max {
                return Err(long());
            }
            while arrived.len() < length {
                more(stream, &mut arrived).await?;
            }
            arrived.truncate(length);
            Ok(arrived.freeze())
        }
        Framing::Chunked => {
            let mut decoder = Decoder::new(Recode::Plain, HEAD_BYTES_MAX);
            let mut out = Vec::new();
            while !decoder.decode(&mut arrived, &mut out)? {
                if out.len() > bytes_max {
                    return Err(long());
                }
                more(stream, &mut arrived).await?;
            }
            Ok(out.into())
        }
        Framing::Close => {
            while arrived.remaining() <= bytes_max {
                match more(stream, &mut arrived).await {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                        return Ok(arrived.freeze());
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            Err(long())
        }
    }
}

async fn more(mut stream: &Stream, arrived: &mut BytesMut) -> io::Result<()> {
    arrived.reserve(READ_BYTES);
    match stream.read_buf(arrived).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}
