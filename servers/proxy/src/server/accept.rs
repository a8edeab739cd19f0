//! Takes connections, up to their limits.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use evenkeel::time::{Instant, sleep, timeout};
use servers_common::slots::{Full, Limits, Slot};
use tokio::io::AsyncReadExt;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{Context, Front, Place, handshake};
use crate::config::Mode;
use crate::http::{self, Refusal};
use crate::listener::Listener;
use crate::proxy_protocol;
use crate::socket::{Ends, Socket};
use crate::stream::Stream;
use crate::tcp;

/// A connection that was taken. Its places are free again when it is dropped.
#[derive(Debug)]
pub struct Taken {
    context: Arc<Context>,
    place: Arc<Place>,
    first: Known,
    /// The connection.
    pub stream: Stream,
    /// Who is at its ends, by the PROXY protocol if that is spoken.
    pub ends: Ends,
    /// What was read of it, and not used.
    pub buffer: BytesMut,
    /// Whether its listener takes no more connections.
    stop: watch::Receiver<Stop>,
    slot: Slot,
    _permit: OwnedSemaphorePermit,
}

impl Taken {
    /// Its listener, as the configuration is now; as it was, if it is gone.
    pub fn front(&self) -> Arc<Front> {
        if self.first.edition == self.context.edition() {
            return Arc::clone(&self.first.front);
        }
        let now = Known::of(&self.context, &self.place);
        now.map_or_else(|| Arc::clone(&self.first.front), |known| known.front)
    }

    /// The same, if it is another one than what was known.
    pub fn newer(&self, known: &Arc<Front>) -> Option<Arc<Front>> {
        let is_known = self.first.edition == self.context.edition();
        if is_known && Arc::ptr_eq(known, &self.first.front) {
            return None;
        }
        Some(self.front())
    }

    /// Waits until its listener takes no more connections: it is gone, or another process has it,
    /// or the proxy ends.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut stop = self.stop.clone();
        // Whoever could say more of a listener is gone after it.
        async move { drop(stop.wait_for(|stop| *stop != Stop::Not).await) }
    }
}

/// A listener, as the configuration with this edition has it.
#[derive(Clone, Debug)]
struct Known {
    edition: u64,
    front: Arc<Front>,
}

impl Known {
    fn of(context: &Context, place: &Place) -> Option<Self> {
        // Before the site, which may so be newer, and is looked at once more in that case.
        let edition = context.edition();
        let front = Arc::clone(context.site().fronts.get(place)?);
        Some(Self { edition, front })
    }
}

/// How a listener stops to take connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It goes on.
    Not,
    /// Nobody listens there any more: those that wait in the backlog are taken, since the system
    /// would reset them.
    Close,
    /// Another process has the socket now, and with it those that wait.
    HandOver,
}

/// How long the backlog has to be silent before its socket is closed, and how long that is waited
/// for: whoever connects without end would otherwise keep it open.
const SILENCE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Takes connections until it is told to stop.
pub(super) async fn run(
    context: Arc<Context>,
    place: Place,
    listener: Arc<Listener>,
    stop: watch::Receiver<Stop>,
) {
    let place = Arc::new(place);
    let mut last = Known::of(&context, &place);
    let mut watched = stop.clone();
    // Begun once, as to begin it costs more than to look.
    let mut told = pin!(watched.wait_for(|stop| *stop != Stop::Not));
    while *stop.borrow() == Stop::Not {
        // Nothing is lost: a connection that was not accepted is still in the backlog.
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            _ = &mut told => break,
        };
        if last.as_ref().map(|known| known.edition) != Some(context.edition()) {
            // If it is gone, so is this task in a moment.
            last = Known::of(&context, &place).or(last);
        }
        let Some(known) = last.clone() else {
            continue;
        };
        match accepted {
            Ok(accepted) => admit(&context, &place, known, (accepted, &stop)).await,
            Err(error) => {
                known.front.complain(&cannot_accept(&error));
                sleep(Duration::from_millis(10)).await;
            }
        }
    }
    let how = *stop.borrow();
    let Some(known) = last.filter(|_| how == Stop::Close) else {
        return;
    };
    let (silence, time_max) = SILENCE;
    let until = Instant::now() + time_max;
    while Instant::now() < until
        && let Ok(Ok(accepted)) = timeout(silence, listener.accept()).await
    {
        admit(&context, &place, known.clone(), (accepted, &stop)).await;
    }
}

fn cannot_accept(error: &io::Error) -> String {
    format!(
        "cannot accept: {error}; if descriptors have run out, allow more, as by `ulimit -n`, or \
         lower process.connections_max"
    )
}

fn limits(front: &Front) -> Limits {
    Limits {
        all_max: front.config.connections_max,
        per_client_max: front.config.connections_per_client_max,
    }
}

/// Begins to serve a connection, or refuses it.
///
/// The place at the listener comes before the one of the process, so that what one client opens
/// beyond its limit holds none of the process's.
async fn admit(
    context: &Arc<Context>,
    place: &Arc<Place>,
    known: Known,
    ((socket, ends), stop): ((Socket, Ends), &watch::Receiver<Stop>),
) {
    let front = &*known.front;
    context.connections.one();
    front.counters.connections.one();
    // Behind a proxy it is not known yet whose it is.
    let client = ends.client().filter(|_| !front.config.accept_proxy);
    let class = front.tls.as_ref().map_or(front.class, |tls| tls.class);
    let slot = match front.slots.take(client, limits(front)) {
        Ok(slot) => slot,
        Err(full) => {
            // Beyond those that are told at leisure, the answer is sent and the connection closed.
            let telling = Arc::clone(&context.refusals).try_acquire_owned();
            let stream = Stream::Plain(socket);
            let is_told = refused(front, &stream, full);
            if let (true, Ok(telling)) = (is_told, telling) {
                drop(evenkeel::spawn_in(class, async move {
                    http::linger(&stream).await;
                    drop(telling);
                }));
            }
            return;
        }
    };
    // One connection per listener waits here, and the others in the backlog.
    let permits = Arc::clone(&context.permits);
    let Ok(permit) = permits.acquire_owned().await else {
        return;
    };
    let sessions = &context.sessions;
    let registered = sessions.register(&front.name, ends.client(), class);
    let session = registered.session();
    let is_plain = front.tls.is_none() && !front.config.accept_proxy;
    let mode = front.config.mode;
    let taken = Taken {
        stop: stop.clone(),
        context: Arc::clone(context),
        place: Arc::clone(place),
        ends,
        first: known,
        stream: Stream::Plain(socket),
        buffer: BytesMut::new(),
        slot,
        _permit: permit,
    };
    // A task has no place for what its connection does not need.
    let task = match (is_plain, mode) {
        (true, Mode::Http) => evenkeel::spawn_in(class, registered.scope(http::serve(taken))),
        (true, Mode::Tcp) => evenkeel::spawn_in(class, registered.scope(tcp::serve(taken))),
        (false, _) => evenkeel::spawn_in(class, registered.scope(serve(taken))),
    };
    session.runs_in(task.abort_handle());
}

/// Serves a connection that begins with a header of the PROXY protocol, with TLS, or both.
async fn serve(mut taken: Taken) {
    let front = Arc::clone(&taken.first.front);
    if front.config.accept_proxy {
        let header = timeout(front.config.timeouts.proxy_header, header(&mut taken)).await;
        let why = match header {
            Ok(Ok(())) => None,
            Ok(Err(why)) => Some(why),
            Err(_) => Some("no header of the PROXY protocol has come in time".to_owned()),
        };
        if let Some(why) = why {
            front.counters.refused.one();
            front.complain(&why);
            return;
        }
        if let Err(full) = taken.slot.is_of(taken.ends.client(), limits(&front)) {
            let Taken { stream, slot, .. } = taken;
            // The place is not held by one that is refused.
            drop(slot);
            if refused(&front, &stream, full) {
                http::linger(&stream).await;
            }
            return;
        }
    }
    if let Some(tls) = &front.tls {
        match handshake::begin(taken, &front, tls).await {
            Some(secured) => taken = secured,
            None => return,
        }
    }
    match front.config.mode {
        Mode::Http => http::serve(taken).await,
        Mode::Tcp => tcp::serve(taken).await,
    }
}

/// Counts it and tells whom it concerns; whether the client was told, and may need a moment to read
/// it. The buffer of a new connection takes an answer at once.
fn refused(front: &Front, stream: &Stream, why: Full) -> bool {
    let why = said(why);
    front.counters.refused.one();
    front.complain(&format_args!("refused a connection: {why}"));
    // Over TLS, to tell it why would take a handshake.
    let is_told = front.tls.is_none() && front.config.mode == Mode::Http;
    if is_told {
        // If this fails, the client sees the connection closed.
        drop(stream.write_now(&Refusal::new(503, &why).write(false)));
    } else {
        stream.reset();
    }
    is_told
}

/// What a client is told whose connection is one too many.
fn said(why: Full) -> String {
    match why {
        Full::All(max) => {
            format!("this listener has {max} connections, its connections_max; try again later")
        }
        Full::Client(max) => format!(
            "your address has {max} connections here, its connections_per_client_max; close some, \
             or try again later"
        ),
        Full::Off => "this listener is switched off by its operators; try again later".to_owned(),
    }
}

/// Reads whose connection it is.
async fn header(taken: &mut Taken) -> Result<(), String> {
    loop {
        let parsed = proxy_protocol::parse(&taken.buffer);
        if let Some(header) = parsed.map_err(|error| error.to_string())? {
            taken.buffer.advance(header.bytes);
            if let Some(ends) = header.ends {
                taken.ends = ends;
            }
            return Ok(());
        }
        let mut stream = &taken.stream;
        match stream.read_buf(&mut taken.buffer).await {
            Ok(0) => return Err("a connection ended before its header of PROXY".to_owned()),
            Ok(_) => {}
            Err(error) => return Err(format!("cannot read a header of PROXY: {error}")),
        }
    }
}
