//! Takes connections, up to their limits.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use evenkeel::time::{sleep, timeout};
use tokio::io::AsyncReadExt;
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{Context, Front, Place, handshake};
use crate::config::Mode;
use crate::http::{self, Refusal};
use crate::listener::Listener;
use crate::proxy_protocol;
use crate::slots::{Full, Limits, Slot};
use crate::socket::Ends;
use crate::stream::Stream;
use crate::tcp;

/// A connection that was taken. Its places are free again when it is dropped.
#[derive(Debug)]
pub struct Taken {
    context: Arc<Context>,
    place: Place,
    first: Arc<Front>,
    /// The connection.
    pub stream: Stream,
    /// Who is at its ends, by the PROXY protocol if that is spoken.
    pub ends: Ends,
    /// What was read of it, and not used.
    pub buffer: BytesMut,
    /// Whether the proxy ends.
    pub closing: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
    _slot: Option<Slot>,
}

impl Taken {
    /// Its listener, as the configuration is now; as it was, if it is gone.
    pub fn front(&self) -> Arc<Front> {
        let site = self.context.site();
        let front = site.fronts.get(&self.place);
        front.map_or_else(|| Arc::clone(&self.first), Arc::clone)
    }
}

/// Takes connections until the task is ended.
pub(super) async fn run(context: Arc<Context>, place: Place, listener: Listener) {
    loop {
        let accepted = listener.accept().await;
        let Some(front) = context.site().fronts.get(&place).map(Arc::clone) else {
            // It is gone, and so is this task in a moment.
            return;
        };
        let socket = match accepted {
            Ok(socket) => socket,
            Err(error) => {
                front.complain(&cannot_accept(&error));
                sleep(Duration::from_millis(10)).await;
                continue;
            }
        };
        // One that is over already has no ends; what it has sent would be nobody's.
        let Ok(ends) = socket.ends() else {
            continue;
        };
        // One connection per listener waits here, and the others in the backlog.
        let permits = Arc::clone(&context.permits);
        let Ok(permit) = permits.acquire_owned().await else {
            return;
        };
        context.connections.one();
        front.counters.connections.one();
        let class = front.tls.as_ref().map_or(front.class, |tls| tls.class);
        let sessions = &context.sessions;
        let registered = sessions.register(&front.name, ends.client(), class);
        let taken = Taken {
            closing: context.closing(),
            context: Arc::clone(&context),
            place: place.clone(),
            ends,
            first: front,
            stream: Stream::Plain(socket),
            buffer: BytesMut::new(),
            _permit: permit,
            _slot: None,
        };
        let session = registered.session();
        let serving = async move { registered.scope(serve(taken)).await };
        session.runs_in(evenkeel::spawn_in(class, serving).abort_handle());
    }
}

fn cannot_accept(error: &io::Error) -> String {
    format!(
        "cannot accept: {error}; if descriptors have run out, allow more, as by `ulimit -n`, or \
         lower process.connections_max"
    )
}

async fn serve(mut taken: Taken) {
    let front = Arc::clone(&taken.first);
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
    }
    let limits = Limits {
        all_max: front.config.connections_max,
        per_client_max: front.config.connections_per_client_max,
    };
    match front.slots.take(taken.ends.client(), limits) {
        Ok(slot) => taken._slot = Some(slot),
        Err(full) => {
            front.counters.refused.one();
            front.complain(&format_args!("refused a connection: {full}"));
            if front.tls.is_some() {
                // To tell it why would take a handshake.
                return taken.stream.reset();
            }
            return refuse(&taken.stream, front.config.mode, &full).await;
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

/// The buffer of a new connection takes an answer at once.
async fn refuse(stream: &Stream, mode: Mode, why: &Full) {
    match mode {
        Mode::Http => {
            // If this fails, the client sees the connection closed.
            drop(stream.write_now(&Refusal::new(503, why).write(false)));
            http::linger(stream).await;
        }
        Mode::Tcp => stream.reset(),
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
