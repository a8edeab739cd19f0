//! Connections from Evenkeel's own listeners, in what hyper-util has for Tokio's.

use std::io;
use std::net::SocketAddr;

use hyper_util::rt::TokioIo;

use super::Listener;
use crate::net::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Segments are sent at once (`TCP_NODELAY`), as hyper gathers what belongs together.
impl Listener for TcpListener {
    type Io = TokioIo<TcpStream>;
    type Address = SocketAddr;

    async fn accept(&mut self) -> io::Result<(Self::Io, SocketAddr)> {
        let (stream, peer) = Self::accept(self).await?;
        // It fails if the peer has gone, which reading will find out.
        let _ = stream.set_nodelay(true);
        Ok((TokioIo::new(stream), peer))
    }
}

impl Listener for UnixListener {
    type Io = TokioIo<UnixStream>;
    type Address = std::os::unix::net::SocketAddr;

    async fn accept(&mut self) -> io::Result<(Self::Io, Self::Address)> {
        let (stream, peer) = Self::accept(self).await?;
        Ok((TokioIo::new(stream), peer))
    }
}
