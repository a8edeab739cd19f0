//! What the programs in `bin/` share.

use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// An error that is printed, and ends a program.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Listens on the port that the first argument names, or on any that is free, and says where.
pub async fn listen(port: Option<&str>) -> Result<TcpListener, Error> {
    let port = port.unwrap_or("0").parse()?;
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    println!("listening on {}", listener.local_addr()?);
    Ok(listener)
}

/// Completes when somebody asks the process to end.
pub async fn end() {
    if let Ok(mut asked) = signal(SignalKind::interrupt()) {
        asked.recv().await;
    }
}
