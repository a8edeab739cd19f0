//! Checks of servers that speak HTTP/2: a request, or a call of `grpc.health.v1.Health`.

use std::io;

use ::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri, Version, header};
use bytes::{BufMut, Bytes, BytesMut};

use super::body::broken;
use crate::stream::Stream;

/// The longest answer of the health service: longer ones are none.
const MESSAGE_BYTES_MAX: usize = 1_024;

/// In the health service's answer.
const SERVING: u8 = 1;

/// Why a server is not serving, by its health service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrpcFailed {
    /// The call has failed.
    #[error("the health service says grpc-status {0}: see whether it knows check.service")]
    Status(String),
    /// It has answered with something else.
    #[error("the answer is none of grpc.health.v1.Health, with status {0}")]
    NoAnswer(u16),
    /// It does not serve.
    #[error("the health service says {0}, which is not SERVING")]
    NotServing(&'static str),
}

/// The status of the answer to a request.
///
/// # Errors
///
/// Those of the connection and of h2.
pub(crate) async fn answered(
    stream: &Stream,
    method: &str,
    host: &str,
    path: &str,
) -> io::Result<u16> {
    let wrong = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let method = Method::from_bytes(method.as_bytes()).map_err(wrong)?;
    let request = request(stream, method, host, path)?;
    let answered = ask(stream, request, None).await?;
    Ok(answered.status.as_u16())
}

/// Asks the health service for a service, or for the whole server.
///
/// # Errors
///
/// Those of the connection and of h2; and what the service says, if that is not `SERVING`.
pub(crate) async fn serving(
    stream: &Stream,
    host: &str,
    service: &str,
) -> io::Result<Result<(), GrpcFailed>> {
    let path = "/grpc.health.v1.Health/Check";
    let mut request = request(stream, Method::POST, host, path)?;
    let headers = request.headers_mut();
    let kind = HeaderValue::from_static("application/grpc");
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    let answered = ask(stream, request, Some(called(service))).await?;
    Ok(judged(&answered))
}

/// A message with the name of a service, behind its length.
fn called(service: &str) -> Bytes {
    /// Field 1, with a length.
    const SERVICE: u8 = 10;
    let mut message = BytesMut::new();
    // The configuration allows up to 255 bytes, which two bytes of seven bits can say.
    let length = u16::try_from(service.len()).unwrap_or(u16::MAX);
    if length > 0 {
        message.put_u8(SERVICE);
        if length >= 0x80 {
            message.put_u8((length & 0x7f) as u8 | 0x80);
        }
        message.put_u8((if length < 0x80 { length } else { length >> 7 }) as u8);
        message.put_slice(service.as_bytes());
    }
    let mut out = BytesMut::new();
    out.put_u8(0);
    out.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    out.put_slice(&message);
    out.freeze()
}

/// What has come of a request.
#[derive(Debug, Default)]
struct Answered {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
    trailers: HeaderMap,
}

fn judged(answered: &Answered) -> Result<(), GrpcFailed> {
    // Without a message, it is in the head.
    let said = |map: &HeaderMap| map.get("grpc-status").cloned();
    let status = said(&answered.trailers).or_else(|| said(&answered.headers));
    match status {
        Some(status) if status == "0" => {}
        Some(status) => {
            let text = String::from_utf8_lossy(status.as_bytes()).into_owned();
            return Err(GrpcFailed::Status(text));
        }
        None => return Err(GrpcFailed::NoAnswer(answered.status.as_u16())),
    }
    // Not compressed, of this length, and then field 1, a number. Without it the number is 0.
    let number = match answered.body.as_slice() {
        [0, 0, 0, 0, 0] => 0,
        [0, 0, 0, 0, 2, 8, number] => *number,
        _ => return Err(GrpcFailed::NoAnswer(answered.status.as_u16())),
    };
    match number {
        SERVING => Ok(()),
        2 => Err(GrpcFailed::NotServing("NOT_SERVING")),
        3 => Err(GrpcFailed::NotServing("SERVICE_UNKNOWN")),
        _ => Err(GrpcFailed::NotServing("UNKNOWN")),
    }
}

fn request(stream: &Stream, method: Method, host: &str, path: &str) -> io::Result<Request<()>> {
    let scheme = match stream.session() {
        Some(_) => "https",
        None => "http",
    };
    let uri = Uri::builder().scheme(scheme).authority(host);
    let uri = uri.path_and_query(path).build();
    let wrong = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = uri.map_err(wrong)?;
    *request.version_mut() = Version::HTTP_2;
    let agent = HeaderValue::from_static("evenkeel-proxy");
    request.headers_mut().insert(header::USER_AGENT, agent);
    Ok(request)
}

async fn ask(stream: &Stream, request: Request<()>, body: Option<Bytes>) -> io::Result<Answered> {
    let handshake = h2::client::Builder::new()
        .enable_push(false)
        .max_header_list_size(16 * 1_024)
        .handshake::<_, Bytes>(stream);
    let (mut send, connection) = handshake.await.map_err(broken)?;
    let asked = async move {
        let (response, mut out) = send.send_request(request, body.is_none()).map_err(broken)?;
        if let Some(body) = body {
            out.send_data(body, true).map_err(broken)?;
        }
        let (parts, mut incoming) = response.await.map_err(broken)?.into_parts();
        let mut answered = Answered {
            status: parts.status,
            headers: parts.headers,
            ..Answered::default()
        };
        while let Some(bytes) = incoming.data().await {
            let bytes = bytes.map_err(broken)?;
            let room = MESSAGE_BYTES_MAX.saturating_sub(answered.body.len());
            answered
                .body
                .extend_from_slice(&bytes[..bytes.len().min(room)]);
            if answered.body.len() >= MESSAGE_BYTES_MAX {
                // The status is known, and more is not needed.
                return Ok(answered);
            }
            let released = incoming.flow_control().release_capacity(bytes.len());
            released.map_err(broken)?;
        }
        let trailers = incoming.trailers().await.map_err(broken)?;
        answered.trailers = trailers.unwrap_or_default();
        Ok(answered)
    };
    tokio::select! {
        biased;
        answered = asked => answered,
        ended = connection => Err(match ended {
            Ok(()) => io::ErrorKind::UnexpectedEof.into(),
            Err(error) => broken(error),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_its_service() {
        assert_eq!(called(""), &[0, 0, 0, 0, 0][..]);
        assert_eq!(called("ab"), &[0, 0, 0, 0, 4, 10, 2, b'a', b'b'][..]);
        let long = "x".repeat(200);
        let head = [0, 0, 0, 0, 203, 10, 0xc8, 1];
        assert_eq!(called(&long), [&head, long.as_bytes()].concat());
    }

    #[test]
    fn a_server_serves_only_if_it_says_so() {
        let answered = |status: &'static str, body: &[u8]| {
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static(status));
            Answered {
                body: body.to_vec(),
                trailers,
                ..Answered::default()
            }
        };
        assert_eq!(judged(&answered("0", &[0, 0, 0, 0, 2, 8, 1])), Ok(()));
        for (status, body) in [
            ("5", &[][..]),
            ("0", &[]),
            ("0", &[0, 0, 0, 0, 0]),
            ("0", &[0, 0, 0, 0, 2, 8, 2]),
            ("0", &[1, 0, 0, 0, 2, 8, 1]),
        ] {
            let judged = judged(&answered(status, body));
            assert!(judged.is_err(), "{status} {body:?}");
        }
        let none = judged(&Answered::default());
        assert_eq!(none, Err(GrpcFailed::NoAnswer(200)));
    }
}
