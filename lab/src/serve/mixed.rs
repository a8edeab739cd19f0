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

/// A connection over HTTP/2; `apart` is who spawns the requests.
pub(crate) async fn streams<P: Platform>(stream: P::Stream, apart: bool, post_us: u64) {
    let runtime = PhantomData::<P>;
    let call = |request| async move { Ok::<_, Infallible>(handle(request, post_us).await) };
    let served = http2::Builder::new(Streams { apart, runtime })
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
