//! The HTTP servers: what all of them share, those of which `GET /` is the only page, and those
//! that answer at once or compute for long, over HTTP/1.1, a task for each connection, and over
//! HTTP/2, a task for each request.

use std::convert::Infallible;
use std::marker::PhantomData;
use std::time::Instant;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};

use super::platform::Platform;
use super::work::compute;

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

/// A connection over HTTP/2; `apart` is who spawns the requests.
pub(crate) async fn streams<P: Platform>(stream: P::Stream, apart: bool, post_us: u64) {
    let runtime = PhantomData::<P>;
    let call = |request| async move { Ok::<_, Infallible>(mixed(request, post_us).await) };
    let served = http2::Builder::new(Streams { apart, runtime })
        .serve_connection(P::hyper_stream(stream), service_fn(call))
        .await;
    // As over HTTP/1.1: what breaks a connection is its client's to count.
    drop(served);
}

/// Answers at once or computes, as services do both over one connection. A runtime may tell tasks
/// apart by the line of source that spawns them: here one line spawns both kinds, but for what is
/// `apart`.
pub(crate) async fn mixed(request: Request<Incoming>, post_us: u64) -> Answer {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => answer(StatusCode::OK, "text/plain", "at once\n"),
        (&Method::POST, "/") => {
            compute(post_us);
            answer(StatusCode::OK, "text/plain", "computed\n")
        }
        _ => not_found("GET / and POST /"),
    }
}

/// Spawns hyper's tasks: by the runtime's own executor, or, if they are `apart`, by a line of
/// source that spawns nothing else.
#[derive(Clone)]
struct Streams<P> {
    apart: bool,
    runtime: PhantomData<P>,
}

impl<P: Platform, F: Future<Output = ()> + Send + 'static> Executor<F> for Streams<P> {
    fn execute(&self, future: F) {
        match self.apart {
            true => P::spawn(future),
            false => P::execute(future),
        }
    }
}
