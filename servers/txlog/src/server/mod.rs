//! The server: connections in front of a store.
// The files: `connection` is one connection's life, `answers` sends answers in their order.

mod answers;
mod connection;

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use evenkeel::Class;
use evenkeel::net::{TcpListener, TcpSocket, TcpStream, ToSocketAddrs, lookup_host};
use evenkeel::time::{sleep, timeout};
use tokio::sync::{Semaphore, watch};
use txlog_client::frame::{Code, Response};

use crate::advice;
use crate::store::{Store, StoreError};

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// How many connections there may be; 1 024 by default. Each may take memory for a record or
    /// two, and for the answers to its reads.
    pub connections_max: usize,
    /// How many appends of one connection may be pending; 4 096 by default. The server reads no
    /// further requests of the connection until some are durable.
    pub appends_max: usize,
    /// How many reads of one connection may be pending; 8 by default. More are refused.
    pub reads_max: usize,
    /// How many bytes of records one read returns at most; 1 MiB by default, and as much again for
    /// the rest of the frame. A single record may have more.
    pub read_bytes_max: usize,
    /// How long a read waits for a record at most; 60 seconds by default.
    pub read_wait_max: Duration,
    /// How long a hello, the rest of a frame or the reading of answers may take; 30 seconds by
    /// default.
    pub stall_max: Duration,
    /// How long connections have to end when the server closes; 10 seconds by default.
    pub drain_max: Duration,
    /// How long the store then has to make accepted records durable; 30 seconds by default.
    pub close_max: Duration,
    /// How often the store removes records that need not be kept; each second by default.
    pub maintain_every: Duration,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            connections_max: 1_024,
            appends_max: 4_096,
            reads_max: 8,
            read_bytes_max: 1 << 20,
            read_wait_max: Duration::from_secs(60),
            stall_max: Duration::from_secs(30),
            drain_max: Duration::from_secs(10),
            close_max: Duration::from_secs(30),
            maintain_every: Duration::from_secs(1),
        }
    }
}

/// A server that is bound to an address, and does not serve yet.
#[derive(Debug)]
pub struct Server<S> {
    listener: TcpListener,
    store: S,
    config: ServerConfig,
}

/// The state that all connections share.
struct Context<S> {
    store: S,
    config: ServerConfig,
    /// Becomes true when the server closes.
    closing: watch::Sender<bool>,
}

impl<S: Store> Server<S> {
    /// Listens, without accepting connections yet.
    ///
    /// # Errors
    ///
    /// An error of the system.
    pub async fn bind(
        address: impl ToSocketAddrs,
        store: S,
        config: ServerConfig,
    ) -> io::Result<Self> {
        let mut listener = Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "the name to listen on has no address",
        ));
        for address in lookup_host(address).await? {
            listener = listen(address);
            if listener.is_ok() {
                break;
            }
        }
        let listener = listener?;
        Ok(Self {
            listener,
            store,
            config,
        })
    }

    /// The address on which it listens.
    ///
    /// # Errors
    ///
    /// An error of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `ends` completes. Then it accepts no more connections or requests, answers the
    /// pending ones, and closes the store.
    ///
    /// # Errors
    ///
    /// The store's, if not all accepted records could be made durable, or not in time.
    pub async fn run(self, ends: impl Future<Output = ()>) -> Result<(), StoreError> {
        let Self {
            listener,
            store,
            config,
        } = self;
        let context = Arc::new(Context {
            store: store.clone(),
            config,
            closing: watch::Sender::new(false),
        });
        let connections_max = config.connections_max.clamp(1, 1 << 20);
        let room = Arc::new(Semaphore::new(connections_max));
        tokio::select! {
            () = accept(listener, &context, &room) => {}
            () = maintain(&store, config.maintain_every) => {}
            () = ends => {}
        }
        // The listener is closed by now, so the system refuses new connections.
        context.closing.send_replace(true);
        let drained = room.acquire_many(connections_max as u32);
        if timeout(config.drain_max, drained).await.is_err() {
            eprintln!("txlog: connections that did not end in time were cut off");
        }
        let closed = timeout(config.close_max, store.close()).await;
        closed.unwrap_or_else(|_| {
            let text = format!(
                "the store did not close within {} s: records that were not acknowledged may be \
                 there or not; see whether its disk or its server still answers",
                config.close_max.as_secs_f64()
            );
            Err(StoreError::new(Code::LogFailed, text))
        })
    }
}

/// The backlog of the listener: as long as systems commonly allow.
const BACKLOG: u32 = 4_096;

/// Listens with keep-alive, which accepted connections inherit: the system probes idle clients, so
/// that one whose machine is gone frees its place at some time.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.set_keepalive(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Accepts connections. Does not return.
async fn accept<S: Store>(listener: TcpListener, context: &Arc<Context<S>>, room: &Arc<Semaphore>) {
    let mut complaints = Complaints::default();
    loop {
        let (stream, _) = match listener.accept().await {
            Ok(accepted) => {
                complaints.pass();
                accepted
            }
            Err(error) => {
                complaints.say(format!("cannot accept: {}", advice::of_accepting(&error)));
                // Usually there are no descriptors left, which passes when connections end.
                sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        match Arc::clone(room).try_acquire_owned() {
            Ok(place) => {
                let context = Arc::clone(context);
                // Urgent as long as it only pings; see `connection`.
                drop(evenkeel::spawn_in(
                    Class::URGENT,
                    connection::begin(context, stream, place),
                ));
            }
            Err(_) => refuse(&stream, context.config.connections_max),
        }
    }
}

/// Tells a client that there is no room. The buffer of a new connection takes this at once.
fn refuse(stream: &TcpStream, connections_max: usize) {
    let mut buffer = BytesMut::new();
    Response::Fault {
        code: Code::TooManyConnections,
        text: format!("the server has {connections_max} connections, its limit; try again later"),
    }
    .encode(&mut buffer);
    // If this fails, the client only sees the connection closed.
    let _ = stream.try_write(&buffer);
}

/// Lets the store remove old records from time to time, and reports when it has failed. Does not
/// return.
async fn maintain<S: Store>(store: &S, every: Duration) {
    let (mut failures, mut removals) = <(Complaints, Complaints)>::default();
    loop {
        sleep(every).await;
        if let Some(failure) = store.failure() {
            failures.say(failure.to_string());
        }
        match store.maintain().await {
            Ok(()) => removals.pass(),
            Err(error) => removals.say(format!("cannot remove old records: {error}")),
        }
    }
}

/// Reports an error that occurs again and again only once, until it is over or another occurs, so
/// that the server's output shows what is new.
#[derive(Debug, Default)]
struct Complaints {
    said: Option<String>,
}

impl Complaints {
    fn say(&mut self, what: String) {
        if self.is_new(&what) {
            eprintln!("txlog: {what}");
        }
    }

    /// Whether this was not the last message.
    fn is_new(&mut self, what: &str) -> bool {
        let is_new = self.said.as_deref() != Some(what);
        if is_new {
            self.said = Some(what.to_owned());
        }
        is_new
    }

    /// The error is over.
    fn pass(&mut self) {
        self.said = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_again_and_again_is_said_once() {
        let mut complaints = Complaints::default();
        assert!(complaints.is_new("no files"));
        assert!(!complaints.is_new("no files"));
        assert!(complaints.is_new("no memory"));
        complaints.pass();
        assert!(complaints.is_new("no memory"));
    }
}
