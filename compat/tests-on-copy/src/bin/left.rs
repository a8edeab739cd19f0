//! Does once what its argument names, and what is left to Tokio on Evenkeel.

use std::io::{Read, Result};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::process::Command;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(worker_threads = 1)]
async fn main() -> Result<()> {
    match std::env::args().nth(1).as_deref() {
        Some("signal") => _ = signal(SignalKind::user_defined1())?,
        Some("priority") => {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0")?;
            socket.set_nonblocking(true)?;
            // SAFETY: the socket is open for as long as it lives, and nothing closes it before.
            _ = unsafe { AsyncFd::register_with_interest(socket, Interest::PRIORITY) }?;
        }
        Some("orphan") => drop(Command::new("sleep").arg("0.2").spawn()?),
        // Waited for by a descriptor, which Evenkeel watches.
        Some("process") => _ = Command::new("true").status().await?,
        Some("file") => _ = tokio::fs::metadata("/").await?,
        Some("stdout") => {
            let mut stdout = tokio::io::stdout();
            stdout.write_all(b"said").await?;
            stdout.flush().await?;
        }
        Some("lookup") => _ = tokio::net::lookup_host("localhost:80").await?.count(),
        Some("blocking") => _ = tokio::task::spawn_blocking(|| ()).await,
        Some("set") => {
            let mut set = tokio::task::JoinSet::new();
            set.spawn_blocking(|| ());
            _ = set.join_next().await;
        }
        Some("local") => _ = Builder::new_current_thread().build_local(Default::default())?,
        Some("paused") => {
            let mut builder = Builder::new_current_thread();
            _ = builder.enable_time().start_paused(true).build()?;
        }
        Some("wait") => {
            // Until there is no more input.
            let read = || std::io::stdin().read_to_end(&mut Vec::new());
            _ = tokio::task::spawn_blocking(read).await;
        }
        _ => tokio::time::sleep(Duration::from_millis(1)).await,
    }
    Ok(())
}
