//! An axum application.
//!
//! axum's own `serve` needs Tokio's sockets, so axum's feature `tokio` is off, and
//! `evenkeel::serve` takes the router instead. Extractors, state and limits work as usual. At
//! Ctrl-C it stops accepting, and lets running requests finish.
//!
//! ```sh
//! cargo run --example axum_app --features serve -- 127.0.0.1:7002
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
use evenkeel::net::TcpListener;
use evenkeel::signal::unix::{SignalKind, signal};

/// When this many connections are open, the next one waits in the listener's backlog.
const CONNECTIONS_MAX: usize = 10_000;

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
    // Listening from here on, so that even an early Ctrl-C shuts down properly.
    let mut interrupts = signal(SignalKind::interrupt())
        .map_err(|error| format!("cannot listen for Ctrl-C: {error}"))?;
    let cannot = |error| format!("cannot listen on {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    println!("listening on {}", listener.local_addr().map_err(cannot)?);
    let served = evenkeel::serve(listener, application())
        .max_connections(CONNECTIONS_MAX)
        .header_read_timeout(Some(HEAD_TIMEOUT))
        .on_error(|error| eprintln!("{error}"))
        .with_graceful_shutdown(async move { _ = interrupts.recv().await })
        .await;
    println!("closed, {} connections cut off", served.cut_off);
    Ok(())
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
