//! A connection to a server of a pool, with another attempt elsewhere if it is not made.
//!
//! Nothing has been sent by then, so that trying again is safe whatever was to be sent.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::Class;
use evenkeel::time::{sleep, timeout};
use tokio::io::AsyncWriteExt;

use super::{Lease, NoServer, Pool, Server};
use crate::http::{All, Place, place};
use crate::proxy_protocol;
use crate::sessions;
use crate::socket::{Ends, Socket};
use crate::stream::Stream;

/// The pause before the same server is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection, and the place of it.
#[derive(Debug)]
pub struct Dialled {
    /// The place at the server.
    pub lease: Lease,
    /// The connection.
    pub stream: Stream,
    /// It has been used before, so that the server may have closed it by now.
    pub is_reused: bool,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoConnection {
    /// There is no server for it.
    #[error(transparent)]
    NoServer(#[from] NoServer),
    /// It cannot be made.
    #[error("cannot connect to server {server} at {address}: {error}")]
    Failed {
        /// The server, after its pool.
        server: String,
        /// Its address.
        address: String,
        /// The last error.
        error: io::Error,
    },
}

impl NoConnection {
    /// How long it was waited for in vain in the queue.
    pub fn queued(&self) -> Duration {
        match self {
            Self::NoServer(NoServer::QueueTimeout(_, limit)) => *limit,
            _ => Duration::ZERO,
        }
    }
}

/// Which connection is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// One for this client alone.
    Own,
    /// One that was not used before, and may be kept for others afterwards.
    New,
    /// That, or one that waits.
    Any,
}

/// Connects to a server, or takes a connection that waits, if that is wanted.
///
/// `tried` has the servers that were tried, and gets more.
///
/// # Errors
///
/// [`NoConnection`].
pub async fn dial(
    pool: &Arc<Pool>,
    key: u64,
    ends: &Ends,
    wanted: Wanted,
    tried: &mut Vec<usize>,
) -> Result<Dialled, NoConnection> {
    let mut retries = 0;
    sessions::dials(ends.client());
    loop {
        let lease = pool.take(key, tried).await?;
        sessions::serves(pool, lease.index());
        if wanted == Wanted::Any
            && let Some(stream) = lease.server().reuse()
        {
            lease.server().counters.reused.one();
            return Ok(Dialled {
                lease,
                stream,
                is_reused: true,
            });
        }
        let error = match timeout(
            pool.config.timeouts.connect,
            connect(lease.server(), ends, wanted != Wanted::Own),
        )
        .await
        {
            Ok(Ok(stream)) => {
                return Ok(Dialled {
                    lease,
                    stream,
                    is_reused: false,
                });
            }
            Ok(Err(error)) => error,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };
        again(pool, lease, &mut retries, tried, error).await?;
    }
}

/// A place in a connection of HTTP/2 that runs in this class, whose bytes count here.
///
/// # Errors
///
/// [`NoConnection`].
pub(crate) async fn dial_two(
    pool: &Arc<Pool>,
    key: u64,
    class: Class,
    (ends, all): (&Ends, &Arc<All>),
    tried: &mut Vec<usize>,
) -> Result<(Lease, Place), NoConnection> {
    let mut retries = 0;
    sessions::dials(ends.client());
    loop {
        let lease = pool.take(key, tried).await?;
        sessions::serves(pool, lease.index());
        let nobody = Ends::default();
        let connect = connect(lease.server(), &nobody, true);
        let place = place(pool, lease.server(), class, all, connect);
        let error = match timeout(pool.config.timeouts.connect, place).await {
            Ok(Ok(place)) => {
                if place.is_reused() {
                    lease.server().counters.reused.one();
                }
                return Ok((lease, place));
            }
            Ok(Err(error)) => error,
            Err(_) => io::ErrorKind::TimedOut.into(),
        };
        again(pool, lease, &mut retries, tried, error).await?;
    }
}

/// Goes on to another attempt, if there may be one.
async fn again(
    pool: &Arc<Pool>,
    lease: Lease,
    retries: &mut u32,
    tried: &mut Vec<usize>,
    error: io::Error,
) -> Result<(), NoConnection> {
    let server = Arc::clone(lease.server());
    server.counters.connect_errors.one();
    pool.outcome(lease.index(), false);
    if *retries >= pool.config.retries.max || !pool.spend_retry() {
        return Err(NoConnection::Failed {
            server: format!("{}/{}", pool.name, server.config.name),
            address: server.config.address.to_string(),
            error,
        });
    }
    *retries += 1;
    server.counters.retries.one();
    let was_tried = tried.contains(&lease.index());
    tried.push(lease.index());
    drop(lease);
    if was_tried || pool.servers().len() == 1 {
        sleep(PAUSE).await;
    }
    Ok(())
}

/// Makes a connection, which is kept for others perhaps.
pub(super) async fn connect(server: &Server, ends: &Ends, is_kept: bool) -> io::Result<Stream> {
    // One whose client is named at its beginning is for nobody else.
    let is_kept = is_kept && server.config.send_proxy.is_none();
    let tuning = server.within.tuning(is_kept);
    let socket = Socket::connect_by(&server.config.address, tuning).await?;
    if let Some(version) = server.config.send_proxy {
        let mut header = Vec::new();
        proxy_protocol::write(version, ends, &mut header);
        (&socket).write_all(&header).await?;
    }
    let Some(tls) = &server.tls else {
        return Ok(Stream::Plain(socket));
    };
    // Connections without TLS have no place for a handshake.
    match Box::pin(tls.connect(socket)).await {
        Ok(session) => {
            server.counters.tls.shaken(&session);
            Ok(Stream::Tls(Box::new(session)))
        }
        Err(error) => {
            server.counters.tls.failed.one();
            Err(error)
        }
    }
}
