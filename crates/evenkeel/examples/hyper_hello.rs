//! An HTTP/1.1 server with hyper.
//!
//! With the feature `hyper` a `TcpStream` goes into hyper as it is, and `evenkeel::hyper::Timer`
//! gives hyper's timeouts this runtime's clock. A client that sends its head too slowly is
//! disconnected, so that it does not occupy a connection.
//!
//! ```sh
//! cargo run --example hyper_hello --features hyper -- 127.0.0.1:7001
//! curl -i http://127.0.0.1:7001/
//! ```

mod cli;

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use evenkeel::hyper::Timer;
use evenkeel::net::TcpListener;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

const HELP: &str = "\
Answers HTTP/1.1 requests for / with a greeting.

Usage: hyper_hello [ADDRESS]

  ADDRESS  where to listen; 127.0.0.1:7001 by default, port 0 for a free one
";

#[evenkeel::main]
async fn main() -> ExitCode {
    match cli::arguments(HELP, ["127.0.0.1:7001"]) {
        Ok([address]) => cli::end(run(&address).await),
        Err(end) => end,
    }
}

async fn run(address: &str) -> Result<(), String> {
    let cannot = |error| format!("cannot listen on {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    println!("listening on {}", listener.local_addr().map_err(cannot)?);
    let mut http = http1::Builder::new();
    http.timer(Timer).header_read_timeout(HEAD_TIMEOUT);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let connection = http.serve_connection(stream, service_fn(hello));
                evenkeel::spawn(async move {
                    if let Err(error) = connection.await {
                        eprintln!("{peer}: {error}");
                    }
                });
            }
            Err(error) => eprintln!("cannot accept: {error}"),
        }
    }
}

/// Answers `GET /`, and nothing else.
async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/") => (StatusCode::OK, "Hello, world!\n"),
        (_, "/") => (
            StatusCode::METHOD_NOT_ALLOWED,
            "This page can only be read.\n",
        ),
        _ => (StatusCode::NOT_FOUND, "There is no such page.\n"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    Ok(response)
}
