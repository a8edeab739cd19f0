//! A request/response pair over kept-alive connections, for proxies where no database is installed:
//! 64 bytes asked, 256 answered, one request at a time on each connection.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::args::{AnswerArgs, RequestArgs};
use super::http::HttpSummary;
use super::latency::Latencies;
use super::queue::connect_blocking;
use crate::error::{Error, Result};

const REQUEST_LEN: usize = 64;
const RESPONSE_LEN: usize = 256;
/// How long an answer may take before its connection is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Says where it listens, then `ready`, then answers until it is ended.
pub(crate) fn respond(args: &AnswerArgs) -> Result<()> {
    let refused = Error::listen("listen", args.listen);
    let listener = TcpListener::bind(args.listen).map_err(&refused)?;
    let address = listener.local_addr().map_err(&refused)?;
    println!("respond {address}\nready");
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => drop(thread::spawn(move || answer_all(stream))),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
    Ok(())
}

/// Asks on every connection until the time is over.
pub(crate) fn request(args: &RequestArgs) -> Result<HttpSummary> {
    let start = Instant::now();
    let end = start + args.seconds;
    let asking: Vec<_> = (0..args.connections)
        .map(|_| connect(args.target).map(|stream| thread::spawn(move || ask(stream, end))))
        .collect::<Result<_>>()?;
    let (mut all, mut failed) = (Latencies::new(), 0);
    for thread in asking {
        // A thread that panicked has no latencies to give; its request failed.
        let (latencies, broken) = thread.join().unwrap_or_else(|_| (Latencies::new(), 1));
        failed += broken;
        all.absorb(&latencies);
    }
    Ok(HttpSummary {
        failed,
        ..HttpSummary::of(&all, start)
    })
}

fn connect(target: SocketAddr) -> Result<TcpStream> {
    let stream = connect_blocking(target)?;
    let bounded = stream.set_read_timeout(Some(PATIENCE));
    bounded.map_err(Error::connect(target))?;
    Ok(stream)
}

/// The latencies of one connection, and whether it broke.
fn ask(mut stream: TcpStream, end: Instant) -> (Latencies, u64) {
    let mut latencies = Latencies::new();
    let mut response = [0; RESPONSE_LEN];
    while Instant::now() < end {
        let begun = Instant::now();
        let asked = stream.write_all(&[b'?'; REQUEST_LEN]);
        if asked
            .and_then(|()| stream.read_exact(&mut response))
            .is_err()
        {
            return (latencies, 1);
        }
        latencies.record(begun.elapsed());
    }
    (latencies, 0)
}

fn answer_all(mut stream: TcpStream) {
    let mut request = [0; REQUEST_LEN];
    // The option only saves time; a connection that ends, ends its thread.
    let _ = stream.set_nodelay(true);
    while stream.read_exact(&mut request).is_ok() {
        if stream.write_all(&[b'!'; RESPONSE_LEN]).is_err() {
            return;
        }
    }
}
