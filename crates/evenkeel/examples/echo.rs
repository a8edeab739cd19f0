//! A TCP echo server: every connection gets back what it sends.
//!
//! The smallest complete server: one task accepts, one task per connection reads and writes.
//! Sockets implement Tokio's I/O traits, so `read` and `write_all` come from `tokio::io`. Tokio's
//! runtime is not used.
//!
//! ```sh
//! cargo run --example echo -- 127.0.0.1:7000
//! nc 127.0.0.1 7000
//! ```

mod cli;

use std::io;
use std::process::ExitCode;

use evenkeel::net::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const HELP: &str = "\
Sends back every byte of every TCP connection.

Usage: echo [ADDRESS]

  ADDRESS  where to listen; 127.0.0.1:7000 by default, port 0 for a free one
";

#[evenkeel::main]
async fn main() -> ExitCode {
    match cli::arguments(HELP, ["127.0.0.1:7000"]) {
        Ok([address]) => cli::end(run(&address).await),
        Err(end) => end,
    }
}

async fn run(address: &str) -> Result<(), String> {
    let cannot = |error| format!("cannot listen on {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    println!("listening on {}", listener.local_addr().map_err(cannot)?);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                evenkeel::spawn(async move {
                    if let Err(error) = echo(stream).await {
                        eprintln!("{peer}: {error}");
                    }
                });
            }
            // No descriptor is left, for example. The listener waits a little before it tries
            // again, so this loop does not spin.
            Err(error) => eprintln!("cannot accept: {error}"),
        }
    }
}

/// Sends back what arrives until the peer has sent its last byte.
async fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let length = stream.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        stream.write_all(&buffer[..length]).await?;
    }
}
