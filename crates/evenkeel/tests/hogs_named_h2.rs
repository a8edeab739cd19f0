//! Hogs within hyper's HTTP/2, whose tasks are hyper's own, are named by what they were doing.
#![cfg(all(
    feature = "hog-stacks",
    feature = "hyper",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

use std::convert::Infallible;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use evenkeel::hyper::Executor;
use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::runtime::Handle;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};

/// How long a hog is asked for before the test gives up.
const LIMIT: Duration = Duration::from_secs(60);

const COMPUTES: Duration = Duration::from_millis(30);

#[inline(never)]
fn computes_in_the_handler() {
    let began = Instant::now();
    while began.elapsed() < COMPUTES {
        black_box(("handler", began));
    }
}

#[inline(never)]
fn computes_in_the_body() {
    let began = Instant::now();
    while began.elapsed() < COMPUTES {
        black_box(("body", began));
    }
}

/// A body that hyper polls for its only frame.
struct Slow(Option<Bytes>);

impl Body for Slow {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let frame = self.0.take();
        if frame.is_some() {
            computes_in_the_body();
        }
        Poll::Ready(frame.map(|bytes| Ok(Frame::data(bytes))))
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Slow>, Infallible> {
    if request.uri().path() == "/handler" {
        computes_in_the_handler();
        return Ok(Response::new(Slow(None)));
    }
    Ok(Response::new(Slow(Some(Bytes::from_static(b"slow")))))
}

/// The stack in which such a function was found, outermost function first.
fn stack_of(function: &str) -> Option<String> {
    let handle = Handle::current();
    let mut rows = handle.stats().hog_functions.into_iter();
    rows.find(|row| row.function.contains(function))?;
    let mut stacks = handle.hog_profile().stacks.into_iter();
    stacks.find_map(|(stack, _)| stack.contains(function).then_some(stack))
}

#[evenkeel::test(workers = 2)]
async fn what_computes_within_hypers_http_2_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = evenkeel::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        hyper::server::conn::http2::Builder::new(Executor)
            .serve_connection(stream, service_fn(answer))
            .await
    });
    let stream = TcpStream::connect(address).await.unwrap();
    let http = hyper::client::conn::http2::Builder::new(Executor);
    let (mut sender, connection) = http.handshake(stream).await.unwrap();
    drop(evenkeel::spawn(connection));

    for (path, function) in [
        ("/handler", "computes_in_the_handler"),
        ("/body", "computes_in_the_body"),
    ] {
        let began = Instant::now();
        // Beside other work, a stack may come too late.
        let stack = loop {
            let request = Request::get(format!("http://test{path}"));
            let request = request.body(Full::<Bytes>::default()).unwrap();
            let response = sender.send_request(request).await.unwrap();
            response.collect().await.unwrap();
            if let Some(stack) = stack_of(function) {
                break stack;
            }
            let rows = Handle::current().stats().hog_functions;
            assert!(began.elapsed() < LIMIT, "no {function} among {rows:#?}");
            evenkeel::time::sleep(Duration::from_millis(100)).await;
        };
        assert!(stack.contains("hyper::proto::h2"), "{stack}");
    }
    drop(sender);
    server.await.unwrap().unwrap();
}
