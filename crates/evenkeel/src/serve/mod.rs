//! Serving HTTP: a service on a listener, with limits and a graceful shutdown.
//!
//! [`serve()`] takes a tower service, such as axum's `Router`, and [`serve_hyper`] one of hyper's.
//! Both speak HTTP/1 and HTTP/2, whichever the client begins with (without TLS, HTTP/2 has to be
//! begun with prior knowledge), and upgrades such as WebSockets.
//!
//! # What is limited
//!
//! - [`max_connections`](Serve::max_connections): more wait in the listener's backlog.
//! - [`max_concurrent_streams`](Serve::max_concurrent_streams): with HTTP/2, how many requests
//!   share a connection at once; 200 if it is not set. So requests at once are at most
//!   `max_connections` times this, by default two million: set both to what the handlers can take.
//! - [`header_read_timeout`](Serve::header_read_timeout): a client that sends no complete head of a
//!   request is cut off, also one that says nothing at all. With HTTP/2, where requests share a
//!   connection, only the first has to come within it; later a client that answers no ping is cut
//!   off.
//! - [`drain_limit`](Serve::drain_limit): how long a shutdown waits for requests.
//!
//! What a handler takes, and what a body may have, is up to the service: tower and axum have layers
//! for it. A client that sends the rest of a body slowly, or reads an answer slowly, keeps its
//! connection for as long as the service lets it; a shutdown cuts it off.
//!
//! # What an error of accepting does
//!
//! It is reported, and the server goes on: after 10 ms, doubling to a second while errors follow
//! each other. So a process without descriptors neither spins nor stops serving.

mod connection;
mod listener;
mod requests;
mod run;
mod sockets;

use std::error::Error;
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::service::TowerToHyperService;

use crate::task::JoinError;

pub use connection::Peer;
pub use listener::Listener;

/// The default of [`Serve::max_connections`]: below the usual limit of descriptors of a service.
pub const CONNECTIONS_MAX: usize = 10_000;
/// The default of [`Serve::max_concurrent_streams`], which is also hyper's.
pub const CONCURRENT_STREAMS_MAX: u32 = 200;
/// The default of [`Serve::header_read_timeout`], which is also hyper's.
pub const HEADER_READ_TIMEOUT: Duration = Duration::from_secs(30);
/// As good as none. hyper adds the timeout to the time, and panics where no clock reaches.
const HEADER_READ_TIMEOUT_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// The default of [`Serve::drain_limit`]: what supervisors of services usually grant.
pub const DRAIN_LIMIT: Duration = Duration::from_secs(30);

/// An error of the service's or of a connection.
pub(crate) type AnyError = Box<dyn Error + Send + Sync>;
/// The future of [`Serve`].
type Serving = Pin<Box<dyn Future<Output = Served> + Send>>;

/// Serves a tower service on a listener, until it is told to end.
///
/// Each connection is a task in the class of the task that serves, with a clone of the service.
///
/// # Examples
///
/// ```
/// use axum::{Router, routing::get};
/// use evenkeel::net::TcpListener;
///
/// #[evenkeel::main]
/// async fn main() -> std::io::Result<()> {
///     let app = Router::new().route("/", get(|| async { "Hello!\n" }));
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
/// #   stop.send(()).unwrap();
///     let served = evenkeel::serve(listener, app)
///         .max_connections(1_000)
///         .on_error(|error| eprintln!("{error}"))
///         .with_graceful_shutdown(async { _ = stopped.await })
///         .await;
///     println!("{} connections, {} cut off", served.connections, served.cut_off);
///     Ok(())
/// }
/// ```
pub fn serve<L, S>(listener: L, service: S) -> Serve<L, TowerToHyperService<S>>
where
    L: Listener,
{
    serve_hyper(listener, TowerToHyperService::new(service))
}

/// Serves a service of hyper's on a listener, until it is told to end. Otherwise as [`serve()`].
///
/// # Examples
///
/// ```
/// use std::convert::Infallible;
///
/// use evenkeel::net::TcpListener;
/// use hyper::{Response, service::service_fn};
///
/// #[evenkeel::main]
/// async fn main() -> std::io::Result<()> {
///     let hello = service_fn(|_| async {
///         Ok::<_, Infallible>(Response::new("Hello!\n".to_owned()))
///     });
///     let listener = TcpListener::bind("127.0.0.1:0").await?;
///     evenkeel::serve::serve_hyper(listener, hello)
///         .with_graceful_shutdown(async { /* wait for a signal */ })
///         .await;
///     Ok(())
/// }
/// ```
pub fn serve_hyper<L, S>(listener: L, service: S) -> Serve<L, S>
where
    L: Listener,
{
    Serve {
        listener,
        service,
        shutdown: Box::pin(std::future::pending()),
        settings: Settings {
            connections_max: CONNECTIONS_MAX,
            streams_max: CONCURRENT_STREAMS_MAX,
            header_read_timeout: Some(HEADER_READ_TIMEOUT),
            drain_limit: DRAIN_LIMIT,
            on_error: None,
        },
    }
}

/// A server that is being set up; awaiting it serves. See [`serve()`].
///
/// # Cancel safety
///
/// If the future is dropped, all connections are cut off.
#[must_use = "a server does nothing unless it is awaited"]
pub struct Serve<L, S> {
    listener: L,
    service: S,
    shutdown: Pin<Box<dyn Future<Output = ()> + Send>>,
    settings: Settings,
}

#[derive(Clone)]
struct Settings {
    connections_max: usize,
    streams_max: u32,
    header_read_timeout: Option<Duration>,
    drain_limit: Duration,
    on_error: Option<OnError>,
}

type OnError = Arc<dyn Fn(&ServeError) + Send + Sync>;

impl Settings {
    fn report(&self, error: ServeError) {
        if let Some(on_error) = &self.on_error {
            on_error(&error);
        }
    }
}

impl<L, S> Serve<L, S> {
    /// How many connections are served at once; at least 1. More wait in the backlog of the
    /// listener, which the system limits. One that was upgraded no longer counts: whoever takes it
    /// over has to limit how many there are. One whose client has gone counts until its handlers
    /// have ended. Default: [`CONNECTIONS_MAX`].
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.settings.connections_max = connections.max(1);
        self
    }

    /// How many requests a client of HTTP/2 may have under way on a connection; at least 1. It is
    /// told so, and more are refused. With HTTP/1 there is one at a time. A request that its client
    /// takes back no longer counts, and its handler is dropped as soon as its poll returns.
    /// Default: [`CONCURRENT_STREAMS_MAX`].
    ///
    /// All connections together have at most [`max_connections`](Self::max_connections) times as
    /// many.
    pub fn max_concurrent_streams(mut self, streams: u32) -> Self {
        self.settings.streams_max = streams.max(1);
        self
    }

    /// How long a client may take for the head of a request, from its connection or from the answer
    /// before; `None` for no limit. An idle connection ends by it, too. Default:
    /// [`HEADER_READ_TIMEOUT`].
    pub fn header_read_timeout(mut self, timeout: Option<Duration>) -> Self {
        let within_reach = |timeout: Duration| timeout.min(HEADER_READ_TIMEOUT_MAX);
        self.settings.header_read_timeout = timeout.map(within_reach);
        self
    }

    /// How long a shutdown waits for requests that are under way, also for handlers whose client
    /// has gone. Connections that are open then are cut off. A handler whose poll does not return
    /// cannot be: a second later, it and its connection are left to end by themselves. Default:
    /// [`DRAIN_LIMIT`].
    ///
    /// A client that has not sent a whole head since it connected is waited for a second at most.
    /// One that had an answer, and stalls in the middle of its next head, is waited for like a
    /// request, or until its [`header_read_timeout`](Self::header_read_timeout).
    pub fn drain_limit(mut self, limit: Duration) -> Self {
        self.settings.drain_limit = limit;
        self
    }

    /// Ends the server when `shutdown` is ready. The listener is closed at once; idle connections
    /// end, and others after the answers that are under way, within the
    /// [`drain_limit`](Self::drain_limit).
    ///
    /// Connections that were upgraded no longer belong to the server, and are not waited for.
    pub fn with_graceful_shutdown(
        mut self,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        self.shutdown = Box::pin(shutdown);
        self
    }

    /// Calls `hook` with each error: of accepting, of connections, of handlers that panic. Most
    /// errors of connections are clients that have gone away. By default they are not reported.
    ///
    /// It must not block.
    pub fn on_error(mut self, hook: impl Fn(&ServeError) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Some(Arc::new(hook));
        self
    }
}

impl<L: fmt::Debug, S> fmt::Debug for Serve<L, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serve")
            .field("listener", &self.listener)
            .finish_non_exhaustive()
    }
}

/// What became of a server that was shut down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Served {
    /// How many connections were accepted.
    pub connections: u64,
    /// How many were cut off, as they or their handlers did not end within the limit.
    pub cut_off: usize,
}

/// Something that went wrong, and the server goes on.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// A connection could not be accepted.
    Accept(io::Error),
    /// A connection ended with an error: hyper's, the service's, or
    /// [`TimedOut`](io::ErrorKind::TimedOut) if the first request did not come in time.
    Connection(Box<dyn Error + Send + Sync>),
    /// The task of a connection, or of a request over HTTP/2, ended early, as a handler panicked.
    Task(JoinError),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accept(error) => write!(f, "cannot accept a connection: {error}"),
            Self::Connection(error) => write!(f, "a connection ended early: {error}"),
            Self::Task(error) => write!(f, "a task of a connection ended early: {error}"),
        }
    }
}

impl Error for ServeError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(match self {
            Self::Accept(error) => error,
            Self::Connection(error) => error.as_ref(),
            Self::Task(error) => error,
        })
    }
}
