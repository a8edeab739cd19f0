//! A TCP echo server: every connection gets back what it sends.
//!
//! The smallest whole server: one task accepts, one task per connection reads and writes. Because
//! sockets implement Tokio's I/O traits, `read` and `write_all` come from `tokio::io`; nothing of
//! Tokio's own runtime runs.
//!
//! ```sh
//! cargo run --example echo -- 127.0.0.1:7000
//! nc 127.0.0.1 7000
//! ```

use std::env;
use std::io;

use evenkeel::net::{TcpListener, TcpStream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

#[evenkeel::main]
async fn main() -> io::Result<()> {
    let address = env::args()
        .nth(1)
        .unwrap_or_else(|| "127.0.0.1:7000".to_owned());
    let listener = TcpListener::bind(address.as_str()).await?;
    println!("listening on {}", listener.local_addr()?);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                evenkeel::spawn(async move {
                    if let Err(error) = echo(stream).await {
                        eprintln!("{peer}: {error}");
                    }
                });
            }
            // Out of descriptors, say. The listener waits a little by itself before it tries
            // again, so that this loop does not spin.
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
