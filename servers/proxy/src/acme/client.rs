//! Requests to an authority, each on a connection of its own: there are few.

use std::pin::Pin;
use std::time::Duration;

use ::http::uri::Scheme;
use ::http::{Request, Response, Uri};
use bytes::Bytes;
use evenkeel::time::timeout;
use http_body_util::{BodyExt, Collected};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};

use crate::http::{self, FetchError};
use crate::socket::{Address, Socket};
use crate::stream::Stream;
use crate::tls::ClientSide;

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// What the largest answer has.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Asks an authority that shows in this way who it is.
#[derive(Debug)]
pub(super) struct Client(pub(super) ClientSide);

/// Why a request has no answer.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("the URL {0} is neither of https nor of this machine")]
    Url(Uri),
    #[error("no answer from {0} within {ANSWER_MAX:?}")]
    Slow(String),
    #[error("cannot ask {0}: {1}")]
    Broken(String, std::io::Error),
    #[error("{0} gives no good answer: {1}")]
    Bad(String, FetchError),
    #[error("no TLS with {0}: {1}")]
    Name(String, String),
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let trust = self.0.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            // Nothing can fail here, as its type says.
            let body = body.collect().await.map(Collected::to_bytes);
            let body = body.unwrap_or_default();
            let answer = answered(&trust, &Request::from_parts(parts, body)).await;
            let (parts, body) = answer
                .map_err(|why| Error::Other(Box::new(why)))?
                .into_parts();
            Ok(BytesResponse {
                parts,
                body: Box::new(body),
            })
        })
    }
}

async fn answered(trust: &ClientSide, request: &Request<Bytes>) -> Result<Response<Bytes>, Failed> {
    let uri = request.uri();
    let is_tls = is_tls(uri).ok_or_else(|| Failed::Url(uri.clone()))?;
    let host = uri.host().unwrap_or_default();
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let whom = format!("{host}:{port}");
    let asked = async {
        let address = Address::Tcp(whom.clone());
        let broken = |error| Failed::Broken(whom.clone(), error);
        let socket = Socket::connect(&address).await.map_err(broken)?;
        let stream = if is_tls {
            let connector = trust.connector(&address);
            let connector = connector.map_err(|why| Failed::Name(whom.clone(), why))?;
            Stream::Tls(Box::new(connector.connect(socket).await.map_err(broken)?))
        } else {
            Stream::Plain(socket)
        };
        let fetched = http::fetch(&stream, request, ANSWER_BYTES_MAX).await;
        stream.finish_now();
        fetched.map_err(|why| Failed::Bad(whom.clone(), why))
    };
    let asked = timeout(ANSWER_MAX, asked).await;
    asked.unwrap_or_else(|_| Err(Failed::Slow(whom)))
}

/// Whether an authority may be asked by this URL: over TLS, or without it on this machine.
pub fn is_allowed(uri: &Uri) -> bool {
    is_tls(uri).is_some()
}

/// Whether TLS is spoken there; `None` for a URL that is not to be asked: without TLS anybody on
/// the way could say what he likes, except on this machine.
fn is_tls(uri: &Uri) -> Option<bool> {
    let host = uri.host()?;
    let is_here = ["localhost", "127.0.0.1", "[::1]"].contains(&host);
    match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => Some(true),
        Some(scheme) if *scheme == Scheme::HTTP && is_here => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_https_and_this_machine_are_asked() {
        for (uri, said) in [
            ("https://a.example/directory", Some(true)),
            ("http://127.0.0.1:14000/dir", Some(false)),
            ("http://localhost/dir", Some(false)),
            ("http://a.example/directory", None),
            ("ftp://a.example/", None),
            ("/directory", None),
        ] {
            assert_eq!(is_tls(&uri.parse().unwrap()), said, "{uri}");
        }
    }
}
