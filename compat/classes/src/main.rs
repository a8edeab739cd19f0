//! Serves one request for each path, and says what came of it.

use classes::{ask, routes};

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let to = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, routes()).await });
    for path in ["/plain", "/health", "/export"] {
        println!("{path}: {}", ask(to, path, "").await?);
    }
    Ok(())
}
