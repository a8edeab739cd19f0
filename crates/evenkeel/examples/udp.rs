//! UDP: a server that echoes datagrams, and a client that copes with their loss.
//!
//! A datagram or its answer may get lost, so the client repeats its question a few times, each time
//! with a timeout. The server serves all its clients with one socket.
//!
//! ```sh
//! cargo run --example udp -- 127.0.0.1:7004          # the server
//! cargo run --example udp -- 127.0.0.1:7004 hello    # the client
//! ```

mod cli;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use evenkeel::net::{UdpSocket, lookup_host};
use evenkeel::time::timeout;

/// The largest payload that a datagram can carry.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// How often the client asks, and how long it waits for each answer.
const ATTEMPTS_MAX: u32 = 3;
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

const HELP: &str = "\
Sends back every datagram; given a message, sends that to such a server and prints the answer.

Usage: udp [ADDRESS [MESSAGE]]

  ADDRESS  where to listen or to ask; 127.0.0.1:7004 by default
  MESSAGE  what to ask; without it, this is the server
";

#[evenkeel::main]
async fn main() -> ExitCode {
    match cli::arguments(HELP, ["127.0.0.1:7004", ""]) {
        Ok([address, message]) => cli::end(run(&address, &message).await),
        Err(end) => end,
    }
}

async fn run(address: &str, message: &str) -> Result<(), String> {
    if message.is_empty() {
        let served = serve(address).await;
        return served.map_err(|error| format!("cannot serve on {address}: {error}"));
    }
    match ask(address, message.as_bytes()).await {
        Ok(answer) => println!("{}", String::from_utf8_lossy(&answer)),
        Err(error) => return Err(format!("cannot ask {address}: {error}")),
    }
    Ok(())
}

/// Sends every datagram back to where it came from.
async fn serve(address: &str) -> io::Result<()> {
    let socket = UdpSocket::bind(address).await?;
    println!("listening on {}", socket.local_addr()?);
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    loop {
        let (length, peer) = socket.recv_from(&mut buffer).await?;
        // One peer that cannot be reached is no reason to stop serving the others.
        if let Err(error) = socket.send_to(&buffer[..length], peer).await {
            eprintln!("{peer}: {error}");
        }
    }
}

/// Sends `message` and returns the answer.
async fn ask(address: &str, message: &[u8]) -> io::Result<Vec<u8>> {
    let server = lookup_host(address).await?.next();
    let server = server.ok_or_else(|| io::Error::other(format!("{address} has no address")))?;
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    // A connected socket receives only from its peer, and learns when the peer refuses.
    socket.connect(server).await?;
    let mut buffer = vec![0; DATAGRAM_BYTES_MAX];
    for _ in 0..ATTEMPTS_MAX {
        socket.send(message).await?;
        if let Ok(received) = timeout(ANSWER_TIMEOUT, socket.recv(&mut buffer)).await {
            buffer.truncate(received?);
            return Ok(buffer);
        }
    }
    let silence = format!("{server} did not answer {ATTEMPTS_MAX} times");
    Err(io::Error::new(io::ErrorKind::TimedOut, silence))
}
