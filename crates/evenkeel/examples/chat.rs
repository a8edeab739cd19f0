//! A chat room: every line that a client sends goes to all others.
//!
//! `tokio::sync` works on this runtime as it is; here a `broadcast` channel carries the lines. It
//! keeps the latest [`BACKLOG_LINES`] for all clients together, so a slow reader costs no memory;
//! it is told how many lines it has missed. A client that does not read at all is disconnected.
//!
//! ```sh
//! cargo run --example chat -- 127.0.0.1:7003
//! nc 127.0.0.1 7003      # twice, in two terminals
//! ```

mod cli;

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use evenkeel::net::{TcpListener, TcpStream};
use evenkeel::time::timeout;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{self, Receiver, Sender};

/// The longest line; the rest of a longer one becomes the next line.
const LINE_BYTES_MAX: u64 = 1024;

/// How many lines a client may fall behind.
const BACKLOG_LINES: usize = 256;

/// How long a client may leave a line unread when its socket's buffer is full.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Clone)]
struct Line {
    from: SocketAddr,
    text: Vec<u8>,
}

const HELP: &str = "\
A chat room: every line that a client sends goes to all others.

Usage: chat [ADDRESS]

  ADDRESS  where to listen; 127.0.0.1:7003 by default, port 0 for a free one
";

#[evenkeel::main]
async fn main() -> ExitCode {
    match cli::arguments(HELP, ["127.0.0.1:7003"]) {
        Ok([address]) => cli::end(run(&address).await),
        Err(end) => end,
    }
}

async fn run(address: &str) -> Result<(), String> {
    let cannot = |error| format!("cannot listen on {address}: {error}");
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    println!("listening on {}", listener.local_addr().map_err(cannot)?);
    let (room, _) = broadcast::channel(BACKLOG_LINES);
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                let room = room.clone();
                evenkeel::spawn(async move {
                    if let Err(error) = attend(stream, peer, room).await {
                        eprintln!("{peer}: {error}");
                    }
                });
            }
            Err(error) => eprintln!("cannot accept: {error}"),
        }
    }
}

/// Takes part in the room until the client hangs up or stops reading.
async fn attend(mut stream: TcpStream, peer: SocketAddr, room: Sender<Line>) -> io::Result<()> {
    // Subscribed before the welcome is sent: a client that has read it misses no later line.
    let lines = room.subscribe();
    let welcome = format!("welcome, {peer}; {} here\n", room.receiver_count());
    let (reader, mut writer) = stream.split();
    send(&mut writer, welcome.as_bytes()).await?;
    // Both directions in one task: when one ends, the other is dropped with it.
    tokio::select! {
        ended = speak(BufReader::new(reader), peer, &room) => ended,
        ended = listen(writer, peer, lines) => ended,
    }
}

/// Passes the client's lines to the room.
async fn speak(
    mut reader: impl AsyncBufReadExt + Unpin,
    from: SocketAddr,
    room: &Sender<Line>,
) -> io::Result<()> {
    loop {
        let mut text = Vec::new();
        if (&mut reader)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut text)
            .await?
            == 0
        {
            return Ok(());
        }
        if text.last() != Some(&b'\n') {
            text.push(b'\n');
        }
        // An error would mean that there are no receivers, but the client itself is one.
        let _ = room.send(Line { from, text });
    }
}

/// Passes the others' lines to the client.
async fn listen(
    mut writer: impl AsyncWrite + Unpin,
    peer: SocketAddr,
    mut lines: Receiver<Line>,
) -> io::Result<()> {
    loop {
        match lines.recv().await {
            Ok(line) if line.from == peer => {}
            Ok(line) => {
                let mut text = format!("{}: ", line.from).into_bytes();
                text.extend_from_slice(&line.text);
                send(&mut writer, &text).await?;
            }
            Err(RecvError::Lagged(missed)) => {
                send(&mut writer, format!("({missed} lines missed)\n").as_bytes()).await?;
            }
            Err(RecvError::Closed) => return Ok(()),
        }
    }
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), text: &[u8]) -> io::Result<()> {
    match timeout(WRITE_TIMEOUT, writer.write_all(text)).await {
        Ok(written) => written,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client does not read",
        )),
    }
}
