//! The server: connections in front of a store.
// The files: `connection` is one connection's life, `answers` what goes back and in which order.

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

/// What a server takes, and how long it waits.
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// How many connections there may be; 1 024 by default. Each may take memory for a record or
    /// two, and for what it reads.
    pub connections_max: usize,
    /// How many appends of one connection may be under way; 4 096 by default. A connection with
    /// more is not read from until some are durable.
    pub appends_max: usize,
    /// How many reads of one connection may be under way; 8 by default. More are refused.
    pub reads_max: usize,
    /// How many bytes of records one read brings at most; 1 MiB by default, and as much again for
    /// what the frame says of them. One record may have more.
    pub read_bytes_max: usize,
    /// How long a read waits for a record at most; 60 seconds by default.
    pub read_wait_max: Duration,
    /// How long a hello, the rest of a frame or the taking of answers may take; 30 seconds by
    /// default.
    pub stall_max: Duration,
    /// How long connections have to end when the server closes; 10 seconds by default.
    pub drain_max: Duration,
    /// How long the store then has to make durable what it took; 30 seconds by default.
    pub close_max: Duration,
    /// How often the store is asked to give up what need not be kept; each second by default.
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

/// A server that is bound to an address, and not yet running.
#[derive(Debug)]
pub struct Server<S> {
    listener: TcpListener,
    store: S,
    config: ServerConfig,
}

/// What all connections share.
struct Context<S> {
    store: S,
    config: ServerConfig,
    /// Becomes true when the server closes.
    closing: watch::Sender<bool>,
}

impl<S: Store> Server<S> {
    /// Listens, without taking connections yet.
    ///
    /// # Errors
    ///
    /// The system's.
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

    /// Where it listens.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `ends` completes. Then takes no more connections or requests, answers what is
    /// under way, and closes the store.
    ///
    /// # Errors
    ///
    /// The store's, if not all that it took could be made durable, or not in time.
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
            eprintln!("txlog: connections were cut off that did not end in time");
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

/// Connections that wait to be taken: as many as systems commonly allow.
const BACKLOG: u32 = 4_096;

/// Listens, so that a client whose machine is gone gives its place back some day: an idle one is
/// asked by the system now and then whether it is there, which connections have from the listener.
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

/// Takes connections. Does not return.
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
                // Mostly there are no descriptors left, which passes when connections end.
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

/// Says that there is no room. A new connection's buffer takes that without waiting.
fn refuse(stream: &TcpStream, connections_max: usize) {
    let mut buffer = BytesMut::new();
    Response::Fault {
        code: Code::TooManyConnections,
        text: format!("the server has {connections_max} connections, and takes no more; try later"),
    }
    .encode(&mut buffer);
    // If it does not, the client hears nothing but the end.
    let _ = stream.try_write(&buffer);
}

/// Lets the store give up what need not be kept, now and then, and says when it has failed. Does
/// not return.
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

/// What goes wrong again and again is said once, until it is over or something else is wrong:
/// whoever reads a server's output looks for what is new.
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

    /// Whether this was not said last.
    fn is_new(&mut self, what: &str) -> bool {
        let is_new = self.said.as_deref() != Some(what);
        if is_new {
            self.said = Some(what.to_owned());
        }
        is_new
    }

    /// It is over.
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
