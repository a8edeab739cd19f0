//! Handlers that answer at once and handlers that compute for long, over one service, as services
//! have them: over HTTP/1.1, a task for each connection, and over HTTP/2, a task for each request.
//!
//! A runtime may tell tasks apart by the line of source that spawns them. Here one line spawns both
//! kinds, but for what is `apart`.

use std::convert::Infallible;
use std::marker::PhantomData;

use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper::{Method, Request, StatusCode};

use super::http::{Answer, answer, not_found};
use super::platform::Platform;
use super::work::compute;

/// HTTP/2; `APART` is who spawns the requests.
pub(crate) async fn streams<P: Platform, const APART: bool>(stream: P::Stream, post_us: u64) {
    let call = |request| async move { Ok::<_, Infallible>(handle(request, post_us).await) };
    let served = http2::Builder::new(Streams::<P, APART>(PhantomData))
        .serve_connection(P::hyper_stream(stream), service_fn(call))
        .await;
    // As over HTTP/1.1: what breaks a connection is its client's to count.
    drop(served);
}

pub(crate) async fn handle(request: Request<Incoming>, post_us: u64) -> Answer {
    match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => answer(StatusCode::OK, "text/plain", "at once\n"),
        (&Method::POST, "/") => {
            compute(post_us);
            answer(StatusCode::OK, "text/plain", "computed\n")
        }
        _ => not_found("GET / and POST /"),
    }
}

/// Spawns hyper's tasks: by the runtime's own executor, or by a line of source that spawns nothing
/// else.
struct Streams<P, const APART: bool>(PhantomData<fn() -> P>);

impl<P, const APART: bool> Clone for Streams<P, APART> {
    fn clone(&self) -> Self {
        Streams(PhantomData)
    }
}

impl<P: Platform, const APART: bool, F> Executor<F> for Streams<P, APART>
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        match APART {
            true => P::spawn(future),
            false => P::execute(future),
        }
    }
}
