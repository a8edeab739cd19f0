//! The HTTP servers: what all of them share, and those of which `GET /` is the only page.

use std::convert::Infallible;
use std::time::Instant;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};

use super::platform::Platform;

pub(crate) type Answer = Response<Full<Bytes>>;

pub(crate) async fn greet(request: Request<Incoming>) -> Answer {
    page(&request, || "on an even keel\n")
}

/// The admin page: a few words on how the server is, answered in a class of its own.
pub(crate) async fn admin<P: Platform>(request: Request<Incoming>, started: Instant) -> Answer {
    page(&request, || {
        format!("{} up {} s\n", P::NAME, started.elapsed().as_secs())
    })
}

/// The answer of a server with one page.
fn page<B: Into<Bytes>>(request: &Request<Incoming>, words: impl FnOnce() -> B) -> Answer {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => answer(StatusCode::OK, "text/plain", words()),
        _ => not_found("GET /"),
    }
}

/// Serves one connection, kept alive or closed as its client asks.
pub(crate) async fn connection<P: Platform, F>(
    stream: P::Stream,
    handler: impl Fn(Request<Incoming>) -> F + Send,
) where
    F: Future<Output = Answer> + Send,
{
    let service = service_fn(move |request| {
        let answered = handler(request);
        async move { Ok::<_, Infallible>(answered.await) }
    });
    // Without a timer: a load generator that stalls is not to be hung up on.
    let served = http1::Builder::new()
        .header_read_timeout(None)
        .serve_connection(P::hyper_stream(stream), service)
        .await;
    // Load generators close as they like; what breaks a connection is theirs to count.
    drop(served);
}

pub(crate) fn answer(status: StatusCode, content: &'static str, body: impl Into<Bytes>) -> Answer {
    let response = Response::builder()
        .status(status)
        .header(CONTENT_TYPE, content);
    response
        .body(Full::new(body.into()))
        .expect("status and type are constants")
}

pub(crate) fn not_found(known: &'static str) -> Answer {
    answer(
        StatusCode::NOT_FOUND,
        "text/plain",
        format!("not here; this server knows {known}\n"),
    )
}
