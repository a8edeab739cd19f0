//! The server: connections in front of a store.
// The files: `logs` owns the logs and knows who has them open, `source` is the seam to where those
// with names are; `accept` takes connections, `peers` knows them all and who has a place, `memory`
// who may take how much, `login` what a connection may do; `stranger` serves those who may
// nothing, `connection` is another connection's life, `requests` begins what it asks for, `reads`
// reads for it, `lookups` looks other things up, `queue` has the pending appends, `answers` sends
// answers in their order; `health` says whether an append would be acknowledged, by `looks` where
// none was lately.

mod accept;
mod answers;
mod complaints;
mod connection;
mod counters;
mod error;
mod handshake;
mod health;
mod login;
mod logless;
mod logs;
mod looks;
mod lookups;
mod memory;
mod observer;
mod peers;
mod queue;
mod reads;
mod requests;
mod source;
mod stream;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::net::{TcpListener, ToSocketAddrs};
use evenkeel::time::timeout;
use tokio::sync::{Semaphore, watch};
use txlog_client::frame::Code;

use self::complaints::Rated;
use self::counters::Counters;
pub use self::error::BindError;
pub use self::handshake::CLASS as HANDSHAKE_CLASS;
use self::logs::Logs;
use self::memory::Memory;
pub use self::observer::{Observer, metrics_page};
pub use self::peers::LEAVING_MAX;
use self::peers::Peers;
pub use self::source::{Boxed, LogSource, Page};
use crate::access::Security;
use crate::store::{Store, StoreError};

/// How many bytes of records and their lengths a batch may have.
pub const BATCH_BYTES_MAX: usize = 1 << 20;

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// How many connections there may be; 1 024 by default.
    pub connections_max: usize,
    /// How many further connections may ping, but not append or read; 32 by default. The idlest of
    /// them leaves for a newcomer.
    pub reserve_max: usize,
    /// How much memory all connections together may take for requests and answers, in bytes; 512
    /// MiB by default. 64 KiB are set aside for each connection that there may be, and 128 more if
    /// the server speaks TLS; of the rest, a
    /// quarter is for appends and the others are for reads. The store's own memory, the program's
    /// and the kernel's come on top.
    pub memory_bytes: usize,
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
    /// Whether the server ends when its log without a name has failed for good; not by default:
    /// then it answers reads.
    pub exit_on_failure: bool,
    /// How many logs with names are open at a time; 128 by default. 1 MiB of the memory is set
    /// aside for each. One that no connection has is closed when another needs its place.
    pub open_logs_max: usize,
    /// How long a log stays open that no connection has; a minute by default. One that has failed
    /// for good is closed at once, so that the next connection opens it again.
    pub log_idle_max: Duration,
    /// Whether a client may create logs; not by default.
    pub create_logs: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            connections_max: 1_024,
            reserve_max: 32,
            memory_bytes: 512 << 20,
            appends_max: 4_096,
            reads_max: 8,
            read_bytes_max: 1 << 20,
            read_wait_max: Duration::from_secs(60),
            stall_max: Duration::from_secs(30),
            drain_max: Duration::from_secs(10),
            close_max: Duration::from_secs(30),
            maintain_every: Duration::from_secs(1),
            exit_on_failure: false,
            open_logs_max: 128,
            log_idle_max: Duration::from_secs(60),
            create_logs: false,
        }
    }
}

/// A server that is bound to an address, and does not serve yet.
pub struct Server<S: Store> {
    listener: TcpListener,
    context: Arc<Context<S>>,
    reload: Reload,
}

/// Makes a running server read its files of tokens, certificates and settings again.
#[derive(Clone, Debug)]
pub struct Reload {
    asked: Arc<watch::Sender<u64>>,
    done: Arc<watch::Sender<u64>>,
}

impl Reload {
    fn new() -> Self {
        Self {
            asked: Arc::default(),
            done: Arc::default(),
        }
    }

    /// Does so soon. What is wrong is said on standard error, and then nothing changes.
    pub fn request(&self) {
        self.asked.send_modify(|count| *count += 1);
    }

    /// Waits until the last request has been met. Never returns if the server does not run.
    pub async fn done(&self) {
        let asked = *self.asked.borrow();
        // The sender is in `self`, so this cannot fail.
        let _ = self.done.subscribe().wait_for(|done| *done >= asked).await;
    }
}

/// The state that all connections share.
struct Context<S: Store> {
    logs: Logs<S>,
    config: ServerConfig,
    memory: Memory,
    peers: Arc<Peers>,
    security: Security,
    counters: Arc<Counters>,
    /// What is said of failed logins.
    logins: Rated,
    /// Turns of those who look for a time.
    seeks: Semaphore,
    /// What is said of failed handshakes.
    handshakes: Rated,
    /// Becomes true when the server closes.
    closing: watch::Sender<bool>,
}

impl<S: Store> Server<S> {
    /// Listens for a server of one log, without accepting connections yet. Everybody may do
    /// everything, so only a loopback address can be listened on.
    ///
    /// # Errors
    ///
    /// As [`bind_secured`](Server::bind_secured).
    pub async fn bind(
        address: impl ToSocketAddrs,
        store: S,
        config: ServerConfig,
    ) -> Result<Self, BindError> {
        Self::bind_logs(address, Some(store), None, config).await
    }

    /// Listens for a server of several logs: one that has no name, if there is one, and those with
    /// names from a source. As [`bind`](Self::bind) in all else.
    ///
    /// # Errors
    ///
    /// As [`bind_secured`](Self::bind_secured).
    pub async fn bind_logs(
        address: impl ToSocketAddrs,
        unnamed: Option<S>,
        named: Option<Box<dyn LogSource<S>>>,
        config: ServerConfig,
    ) -> Result<Self, BindError> {
        let security = Security::default();
        Self::bind_secured(address, (unnamed, named), config, security).await
    }

    /// Listens for a server of these logs, as [`bind_logs`](Self::bind_logs) has them, that is
    /// protected like this.
    ///
    /// # Errors
    ///
    /// [`BindError`]: the address cannot be listened on, or not without more protection, or the
    /// memory is too little.
    pub async fn bind_secured(
        address: impl ToSocketAddrs,
        (unnamed, named): (Option<S>, Option<Box<dyn LogSource<S>>>),
        config: ServerConfig,
        security: Security,
    ) -> Result<Self, BindError> {
        let config = ServerConfig {
            connections_max: config.connections_max.clamp(1, 1 << 20),
            reserve_max: config.reserve_max.min(1 << 20),
            ..config
        };
        let bytes_max = unnamed.as_ref().map_or(0, Store::record_bytes_max);
        let of_named = named.as_ref().map_or(0, |named| named.record_bytes_max());
        let open_max = named.as_ref().map_or(0, |_| config.open_logs_max.max(1));
        let connection_bytes = memory::connection_bytes(security.tls.is_some());
        let most = (bytes_max.max(of_named), open_max);
        let memory = Memory::new(&config, connection_bytes, most)?;
        let listener = accept::bind(address, &security).await?;
        let context = Context {
            logs: Logs::new(unnamed, named, config),
            config,
            memory,
            peers: Arc::new(Peers::new(config.connections_max, config.reserve_max)),
            security,
            counters: Arc::default(),
            logins: Rated::default(),
            seeks: Semaphore::new(lookups::SEEKS_MAX),
            handshakes: Rated::default(),
            closing: watch::Sender::new(false),
        };
        Ok(Self {
            listener,
            context: Arc::new(context),
            reload: Reload::new(),
        })
    }

    /// By which it is watched.
    pub fn observer(&self) -> Observer<S> {
        Observer::new(&self.context)
    }

    /// By which it reads its files again.
    pub fn reload(&self) -> Reload {
        self.reload.clone()
    }

    /// The address on which it listens.
    ///
    /// # Errors
    ///
    /// An error of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `ends` completes, or the log without a name fails for good and the server is to
    /// end then. Then it accepts no more connections or requests, answers the pending ones, and
    /// closes the logs.
    ///
    /// # Errors
    ///
    /// A store's, if not all accepted records could be made durable, or not in time.
    pub async fn run(self, ends: impl Future<Output = ()>) -> Result<(), StoreError> {
        let Self {
            listener,
            context,
            reload,
        } = self;
        let config = context.config;
        tokio::select! {
            () = accept::accept(listener, &context) => {}
            () = context.logs.maintain(&config) => {}
            () = context.memory.guard(&context.peers) => {}
            () = login::reload(&context, &reload) => {}
            () = ends => {}
        }
        // The listener is closed by now, so the system refuses new connections.
        context.closing.send_replace(true);
        let gone = timeout(config.drain_max, context.peers.gone()).await;
        if gone.is_err() {
            eprintln!("txlog: connections that did not end in time were cut off");
        }
        let closed = timeout(config.close_max, context.logs.close()).await;
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

impl<S: Store> fmt::Debug for Server<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("listener", &self.listener)
            .field("config", &self.context.config)
            .finish_non_exhaustive()
    }
}
