//! A server with a graceful shutdown: at Ctrl-C it stops accepting, lets running requests finish
//! within a time limit, and cuts off the rest. A second Ctrl-C cuts them off at once.
//!
//! A request is a line with a number of milliseconds, the time that it takes to serve it. The order
//! of events at the end is important:
//!
//! 1. The listener is dropped: the system refuses new connections at once.
//! 2. A `watch` channel tells each connection to close after the request that it is serving.
//! 3. A `JoinSet` shows when the last connection is done, and aborts those that are late.
//!
//! ```sh
//! cargo run --example graceful_shutdown -- 127.0.0.1:7005 10
//! echo 5000 | nc 127.0.0.1 7005      # then Ctrl-C in the server's terminal
//! ```

mod cli;

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::signal::unix::{SignalKind, signal};
use evenkeel::task::JoinSet;
use evenkeel::time::{sleep, timeout};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::watch;

/// When this many connections are open, the next one waits in the listener's backlog.
const CONNECTIONS_MAX: usize = 10_000;

/// The longest time that a request may ask for.
const WORK_MS_MAX: u64 = 60_000;

/// The longest line that is read.
const LINE_BYTES_MAX: u64 = 64;

const HELP: &str = "\
Answers each line, a number of milliseconds, after that time. At Ctrl-C it finishes what is under
way within a time limit; a second Ctrl-C ends it at once.

Usage: graceful_shutdown [ADDRESS [SECONDS]]

  ADDRESS  where to listen; 127.0.0.1:7005 by default, port 0 for a free one
  SECONDS  the time limit; 10 by default
";

#[evenkeel::main]
async fn main() -> ExitCode {
    match cli::arguments(HELP, ["127.0.0.1:7005", "10"]) {
        Ok([address, seconds]) => cli::end(run(&address, &seconds).await),
        Err(end) => end,
    }
}

async fn run(address: &str, seconds: &str) -> Result<(), String> {
    let no_limit = |_| format!("`{seconds}` is no number of seconds; see `--help`");
    let limit = Duration::from_secs(seconds.parse().map_err(no_limit)?);
    // Listening from here on, so that even an early Ctrl-C shuts down properly.
    let mut interrupts = signal(SignalKind::interrupt())
        .map_err(|error| format!("cannot listen for Ctrl-C: {error}"))?;
    let cannot = |error| format!("cannot listen on {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    println!("listening on {}", listener.local_addr().map_err(cannot)?);

    let closing = watch::Sender::new(false);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, peer)) => {
                    connections.spawn(report(peer, serve(stream, closing.subscribe())));
                }
                Err(error) => eprintln!("cannot accept: {error}"),
            },
            // Takes finished connections out of the set.
            Some(_) = connections.join_next() => {}
            _ = interrupts.recv() => break,
        }
    }

    drop(listener);
    println!("closing, {} connections open", connections.len());
    closing.send_replace(true);
    let drained = async { while connections.join_next().await.is_some() {} };
    tokio::select! {
        // The set shows below whether all were done in time.
        _ = timeout(limit, drained) => {}
        _ = interrupts.recv() => {}
    }
    println!("closed, {} connections cut off", connections.len());
    connections.shutdown().await;
    Ok(())
}

/// Waits for a connection's end, and reports its error.
async fn report(peer: SocketAddr, connection: impl Future<Output = io::Result<()>>) {
    if let Err(error) = connection.await {
        eprintln!("{peer}: {error}");
    }
}

/// Answers requests until the peer has sent its last one or the server is closing.
async fn serve(stream: TcpStream, mut closing: watch::Receiver<bool>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        let mut request = (&mut stream).take(LINE_BYTES_MAX);
        let length = tokio::select! {
            // In this order: a closing server takes no further request.
            biased;
            _ = closing.wait_for(|closing| *closing) => return Ok(()),
            length = request.read_line(&mut line) => length?,
        };
        if length == 0 {
            return Ok(());
        }
        let answer = match line.trim().parse() {
            Ok(work_ms) if work_ms <= WORK_MS_MAX => {
                sleep(Duration::from_millis(work_ms)).await;
                format!("done after {work_ms} ms\n")
            }
            _ => format!("say how many milliseconds to take, {WORK_MS_MAX} at most\n"),
        };
        stream.write_all(answer.as_bytes()).await?;
    }
}
