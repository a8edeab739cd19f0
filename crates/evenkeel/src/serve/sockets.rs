//! Connections from the runtime's own listeners.
//!
//! Beneath Tokio, `compat/above/serve/sockets.rs` is in this file's place: see `hyper/sockets.rs`.

use std::io;
use std::net::SocketAddr;

use super::Listener;
use crate::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Segments are sent at once (`TCP_NODELAY`), as hyper gathers what belongs together.
impl Listener for TcpListener {
    type Io = TcpStream;
    type Address = SocketAddr;

    async fn accept(&mut self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = Self::accept(self).await?;
        // It fails if the peer has gone, which reading will find out.
        let _ = stream.set_nodelay(true);
        Ok((stream, peer))
    }
}

impl Listener for UnixListener {
    type Io = UnixStream;
    type Address = std::os::unix::net::SocketAddr;

    async fn accept(&mut self) -> io::Result<(UnixStream, Self::Address)> {
        Self::accept(self).await
    }
}
