//! An axum application.
//!
//! axum's `serve` needs Tokio's sockets, so axum's feature `tokio` is off. The router is a tower
//! service: `TowerToHyperService` makes a hyper service of it, and hyper serves it on sockets of
//! this runtime. Extractors, state and limits work as usual.
//!
//! ```sh
//! cargo run --example axum_app --features hyper -- 127.0.0.1:7002
//! curl http://127.0.0.1:7002/hello/Ada
//! curl --data 'some text' http://127.0.0.1:7002/shout
//! curl http://127.0.0.1:7002/visits
//! ```

mod cli;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::routing::{get, post};
use evenkeel::hyper::Timer;
use evenkeel::net::TcpListener;
use hyper::server::conn::http1;
use hyper_util::service::TowerToHyperService;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest body that a request may have. axum answers a larger one with 413.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The state that the handlers share.
#[derive(Default)]
struct Visits(AtomicU64);

const HELP: &str = "\
Serves an axum application: GET /hello/NAME, POST /shout, GET /visits.

Usage: axum_app [ADDRESS]

  ADDRESS  where to listen; 127.0.0.1:7002 by default, port 0 for a free one
";

#[evenkeel::main]
async fn main() -> ExitCode {
    match cli::arguments(HELP, ["127.0.0.1:7002"]) {
        Ok([address]) => cli::end(run(&address).await),
        Err(end) => end,
    }
}

async fn run(address: &str) -> Result<(), String> {
    let cannot = |error| format!("cannot listen on {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    println!("listening on {}", listener.local_addr().map_err(cannot)?);
    let app = application();
    let mut http = http1::Builder::new();
    http.timer(Timer).header_read_timeout(HEAD_TIMEOUT);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                // A router is cheap to clone: its routes are shared.
                let service = TowerToHyperService::new(app.clone());
                let connection = http.serve_connection(stream, service);
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

fn application() -> Router {
    Router::new()
        .route("/hello/{name}", get(hello))
        .route("/shout", post(shout))
        .route("/visits", get(visits))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(Arc::new(Visits::default()))
}

async fn hello(State(visits): State<Arc<Visits>>, Path(name): Path<String>) -> String {
    // Relaxed: a plain count, which orders nothing else.
    visits.0.fetch_add(1, Ordering::Relaxed);
    format!("Hello, {name}!\n")
}

/// Returns the body in capitals; axum refuses a body that is not UTF-8.
async fn shout(text: String) -> String {
    text.to_uppercase()
}

async fn visits(State(visits): State<Arc<Visits>>) -> String {
    // Relaxed: as above.
    format!("{}\n", visits.0.load(Ordering::Relaxed))
}
