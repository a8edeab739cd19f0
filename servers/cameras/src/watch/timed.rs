//! Clients that take nothing of what is written to them are cut off, and none has all connections.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::net::{Delivery, TcpListener, TcpStream};
use evenkeel::serve::Listener;
use evenkeel::time::{Sleep, sleep};
use hyper::rt::{Read, ReadBufCursor, Write};
use servers_common::slots::{Limits, Slot, Slots};

use crate::tls::{Certificate, Stream};

/// A listener whose connections fail when their peers take nothing for so long. It takes only so
/// many of one client, so that others find a place.
#[derive(Debug)]
pub struct TimedListener {
    /// The listener.
    pub listener: TcpListener,
    /// How long.
    pub patience: Duration,
    /// For TLS.
    pub certificate: Option<Certificate>,
    /// Those that are taken, WebSockets among them.
    pub slots: Arc<Slots>,
    /// How many one client may have.
    pub per_client_max: usize,
}

impl Listener for TimedListener {
    type Io = Timed;
    type Address = SocketAddr;

    async fn accept(&mut self) -> io::Result<(Timed, SocketAddr)> {
        let limits = Limits {
            // The server counts its connections, and WebSockets, by itself.
            all_max: usize::MAX,
            per_client_max: self.per_client_max,
        };
        loop {
            let (io, address) = Listener::accept(&mut self.listener).await?;
            let Ok(slot) = self.slots.take(Some(address.ip()), limits) else {
                // Before hands are shaken nobody understands why.
                if self.certificate.is_none() {
                    refuse(&io, self.per_client_max);
                }
                continue;
            };
            // A client that has gone meanwhile is noticed later, and is no error of the listener.
            _ = io.set_delivery(Delivery::Immediate);
            // Parts are written whole, and are not to wait for an answer to the one before.
            _ = io.set_nodelay(true);
            let timed = Timed {
                io: Stream::http(io, self.certificate.as_ref()),
                patience: self.patience,
                waits: None,
                _slot: slot,
            };
            return Ok((timed, address));
        }
    }
}

/// Says why, in the answer to whatever request it would send. The buffer of a new connection takes
/// that at once.
fn refuse(io: &TcpStream, per_client_max: usize) {
    let error = format!(
        "your address has {per_client_max} connections here, as many as it may have \
         (watch.connections_per_client_max)"
    );
    let body = serde_json::json!({ "error": error }).to_string();
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n\
         connection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    // If this fails, the client sees the connection closed.
    _ = io.try_write(answer.as_bytes());
}

/// Such a connection.
#[derive(Debug)]
pub struct Timed {
    io: Stream,
    patience: Duration,
    /// Since the last write that did not wait.
    waits: Option<Pin<Box<Sleep>>>,
    _slot: Slot,
}

impl Timed {
    fn bound<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let patience = self.patience;
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(patience)));
        waits.as_mut().poll(cx).map(|()| {
            let message = "the client took nothing of its answer for too long";
            Err(io::Error::new(io::ErrorKind::TimedOut, message))
        })
    }
}

impl Read for Timed {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Read::poll_read(Pin::new(&mut self.io), cx, buf)
    }
}

impl Write for Timed {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Write::poll_write(Pin::new(&mut self.io), cx, buf);
        self.bound(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Write::poll_flush(Pin::new(&mut self.io), cx);
        self.bound(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Write::poll_shutdown(Pin::new(&mut self.io), cx)
    }

    fn is_write_vectored(&self) -> bool {
        Write::is_write_vectored(&self.io)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Write::poll_write_vectored(Pin::new(&mut self.io), cx, bufs);
        self.bound(cx, written)
    }
}
