//! Connections of HTTP/2 to a server, each of which has many requests at a time.
//!
//! A connection belongs to a class, in which its task runs, so that what a route's requests cost is
//! charged to the route, and none waits for the frames of another class. It is closed when it has
//! had no request for `timeouts.keep`, and given up when its server sends nothing, not even an
//! answer to a PING.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::http::Request;
use bytes::Bytes;
use evenkeel::Class;
use evenkeel::time::{Instant, timeout};
use h2::client::{Builder, ResponseFuture, SendRequest};
use h2::{Ping, SendStream};
use tokio::sync::oneshot;

use super::body::PIECE_BYTES;
use super::gather::Gather;
use super::held::{All, Line};
use super::wire::Wire;
use crate::config;
use crate::pool::{Pool, Server};
use crate::stream::Stream;

/// The largest head of an answer.
const HEAD_BYTES_MAX: u32 = 64 * 1_024;

/// What a connection holds that its server has not taken yet.
const HELD_BYTES_MAX: usize = 1 << 20;

/// How often a connection is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// After so many looks at a silent server with requests, it is asked for a sign, and after so many
/// more without one its connection is given up.
const SILENT_MAX: u32 = 10;

/// The largest window.
const WINDOW_MAX: usize = (1 << 31) - 1;

/// The connections to a server.
#[derive(Debug, Default)]
pub struct Lines {
    list: Mutex<Vec<Arc<Shared>>>,
    /// One connects, and the others wait for the places that it brings.
    connecting: tokio::sync::Mutex<()>,
}

/// A connection.
#[derive(Debug)]
struct Shared {
    class: Class,
    send: SendRequest<Bytes>,
    line: Arc<Line>,
    streams_max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Requests.
    open: usize,
    /// It has had one before.
    was_used: bool,
    /// When it is closed, if no request comes.
    until: Instant,
    /// It takes no more.
    is_over: bool,
}

/// The place of a request in a connection, which is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    shared: Arc<Shared>,
    keep: Duration,
    is_reused: bool,
}

impl Lines {
    /// How many connections there are without a request.
    pub fn idle(&self) -> usize {
        let list = self.list();
        list.iter()
            .filter(|shared| shared.state().open == 0)
            .count()
    }

    /// Takes no more requests in any of them, which end with those that they have.
    pub fn close(&self) {
        let closed = std::mem::take(&mut *self.list());
        for shared in &closed {
            shared.state().is_over = true;
        }
    }

    fn free(&self, class: Class, keep: Duration) -> Option<Place> {
        let mut list = self.list();
        let is_over = |shared: &mut Arc<Shared>| shared.state().is_over;
        let over: Vec<_> = list.extract_if(.., is_over).collect();
        let found = list.iter().find_map(|shared| {
            let fits = shared.class == class;
            fits.then(|| Place::take(shared, keep)).flatten()
        });
        drop(list);
        // Without the lock, as h2 wakes when the last one of a connection goes.
        drop(over);
        found
    }

    /// Closes what has had no request for long.
    fn sweep(&self) {
        let now = Instant::now();
        let is_late = |shared: &mut Arc<Shared>| {
            let state = shared.state();
            state.is_over || (state.open == 0 && state.until <= now)
        };
        let late: Vec<_> = self.list().extract_if(.., is_late).collect();
        drop(late);
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Shared>>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Numbers, which no panic can leave half-changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    fn take(shared: &Arc<Shared>, keep: Duration) -> Option<Self> {
        // A server that allows none for the moment is asked all the same, and lets it wait.
        let allowed = shared.send.current_max_send_streams().max(1);
        let mut state = shared.state();
        if state.is_over || state.open >= shared.streams_max.min(allowed) {
            return None;
        }
        state.open += 1;
        Some(Self {
            is_reused: std::mem::replace(&mut state.was_used, true),
            shared: Arc::clone(shared),
            keep,
        })
    }

    /// Whether the connection has had requests before, so that the server may be closing it.
    pub(crate) fn is_reused(&self) -> bool {
        self.is_reused
    }

    /// Whether the server takes an extended CONNECT, which it says when a connection begins. Waits
    /// for that.
    pub(super) async fn takes_tunnels(&self, limit: Duration) -> bool {
        let is_allowed = || self.shared.send.is_extended_connect_protocol_enabled();
        // One that does not say it in time does not allow it.
        is_allowed() || (timeout(limit, self.line().settled()).await.is_ok() && is_allowed())
    }

    /// Sends the head of a request.
    pub(super) fn send(
        &self,
        request: Request<()>,
        is_end: bool,
    ) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
        let sent = self.shared.send.clone().send_request(request, is_end);
        if sent.is_err() {
            self.shared.state().is_over = true;
        }
        sent
    }

    /// The account of the connection.
    pub(super) fn line(&self) -> &Line {
        &self.shared.line
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.open -= 1;
        state.until = Instant::now() + self.keep;
    }
}

/// A place at a server: in a connection of this class that has one, or in a new one.
///
/// # Errors
///
/// Those of the system, of TLS and of h2.
pub(crate) async fn place(
    pool: &Pool,
    server: &Arc<Server>,
    class: Class,
    all: &Arc<All>,
    connect: impl Future<Output = io::Result<Stream>>,
) -> io::Result<Place> {
    let (lines, keep) = (&server.lines, pool.config.timeouts.keep);
    if let Some(place) = lines.free(class, keep) {
        return Ok(place);
    }
    let _connecting = lines.connecting.lock().await;
    if let Some(place) = lines.free(class, keep) {
        return Ok(place);
    }
    let stream = connect.await?;
    if stream.session().is_some_and(|session| !session.is_http2()) {
        let why = "it does not speak HTTP/2 (by ALPN): let it, or drop protocol = \"h2\"";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let line = Arc::new(Line::new(all, HELD_BYTES_MAX));
    let (said, begun) = oneshot::channel();
    let driven = drive(
        stream,
        Arc::clone(server),
        pool.config.h2,
        Arc::clone(&line),
        said,
    );
    drop(evenkeel::spawn_in(class, driven));
    let closed = || io::Error::from(io::ErrorKind::ConnectionAborted);
    let (send, known) = begun.await.map_err(|_| closed())?;
    let shared = Arc::new(Shared {
        class,
        send,
        line,
        streams_max: pool.config.h2.streams_max,
        state: Mutex::new(State {
            open: 0,
            was_used: false,
            until: Instant::now() + keep,
            is_over: false,
        }),
    });
    // If it has ended already, nobody waits for this.
    drop(known.send(Arc::downgrade(&shared)));
    let place = Place::take(&shared, keep).ok_or_else(closed)?;
    lines.list().push(shared);
    Ok(place)
}

/// What a connection's task and the one that wants it tell each other.
type Begun = (SendRequest<Bytes>, oneshot::Sender<Weak<Shared>>);

/// Reads and writes the frames of a connection until it ends.
async fn drive(
    stream: Stream,
    server: Arc<Server>,
    config: config::PoolH2,
    line: Arc<Line>,
    said: oneshot::Sender<Begun>,
) {
    let counters = &server.counters;
    let out = Arc::new(Gather::new(&stream, &line, &counters.bytes_in));
    let wire = Wire::of_server(&stream, &line, &counters.bytes_out, &out);
    let size = |bytes: usize| u32::try_from(bytes.min(WINDOW_MAX)).unwrap_or(u32::MAX >> 1);
    let mut builder = Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(size(config.window))
        // So that answers which nobody takes hold up no others.
        .initial_connection_window_size(size(config.window.saturating_mul(config.streams_max)))
        .max_header_list_size(HEAD_BYTES_MAX)
        .max_send_buffer_size(4 * PIECE_BYTES);
    let Ok((send, mut connection)) = builder.handshake(wire).await else {
        return;
    };
    let (known, shared) = oneshot::channel();
    if said.send((send, known)).is_err() {
        return;
    }
    let Ok(shared) = shared.await else { return };
    out.begin();
    let mut pings = connection.ping_pong();
    let (mut read, mut silent) = (0, 0);
    loop {
        let polled = poll_fn(|cx| {
            if Pin::new(&mut connection).poll(cx).is_ready() {
                return Poll::Ready(());
            }
            out.poll_rest(cx)
        });
        if timeout(LOOK, polled).await.is_ok() {
            break;
        }
        server.lines.sweep();
        // Streams that wait to send go by it; a server may take its time at any rate.
        out.look(0);
        let waits = shared.upgrade().is_some_and(|one| one.state().open > 0);
        silent = if waits && line.read() == read {
            silent + 1
        } else {
            0
        };
        read = line.read();
        match silent {
            SILENT_MAX => {
                if let Some(pings) = &mut pings {
                    // The answer to the last one counts as what has come. It has to be taken away
                    // before another one, and nobody waits for it.
                    let _ = pings.poll_pong(&mut Context::from_waker(Waker::noop()));
                    // One that is under way is as good.
                    let _ = pings.send_ping(Ping::opaque());
                }
            }
            silent if silent >= 2 * SILENT_MAX => break,
            _ => {}
        }
    }
    if let Some(shared) = shared.upgrade() {
        shared.state().is_over = true;
    }
    server.lines.sweep();
    line.settle();
    drop(connection);
    stream.finish_now();
}
