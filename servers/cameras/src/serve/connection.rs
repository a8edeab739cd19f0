//! One connection of a client: requests and answers, up to PLAY or RECORD.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::net::{Delivery, TcpStream};
use evenkeel::time::{Instant, timeout, timeout_at};
use rtsp_types::Message;
use servers_common::slots::{Full, Slot};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::OwnedSemaphorePermit;

use super::{Shared, publish, view};
use crate::ingest::datagrams::Pair;
use crate::ingest::session::make_room;
use crate::rtsp::server::{Action, Server};
use crate::rtsp::{Frame, Wire};
use crate::tls::Stream;

/// How long a client may be silent between two requests, before it plays.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) stream: Stream,
    pub(super) wire: Wire,
    pub(super) patience: Duration,
    /// For datagrams of a publisher, as they were set up.
    pub(super) pairs: Vec<Pair>,
    /// Places of those that were opened, as long as the connection lasts.
    places: Vec<OwnedSemaphorePermit>,
}

/// Why a connection is over. Clients come and go; only the counters tell of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It was closed, from either side, or broke.
    Over,
    /// The client did not take or send what it had to in time.
    Slow,
    /// It sent nonsense.
    Nonsense,
}

/// Serves a client until it is gone.
pub(super) async fn serve(shared: Arc<Shared>, stream: Stream, slot: Slot) {
    let mut closing = shared.closing.subscribe();
    if let Some(socket) = stream.socket() {
        // Without it answers would be held back; a client that is served later is no harm.
        let _ = socket.set_nodelay(true);
    }
    let mut connection = Connection {
        stream,
        wire: Wire::default(),
        patience: shared.settings().patience,
        pairs: Vec::new(),
        places: Vec::new(),
    };
    let end = tokio::select! {
        end = talk(&shared, &mut connection) => end,
        _ = closing.wait_for(|closing| *closing) => End::Over,
    };
    if end == End::Slow {
        shared.counts.slow.one();
    }
    drop(slot);
}

/// Says why, in the answer to whatever request it would send. The buffer of a new connection takes
/// that at once.
pub(super) fn refuse(stream: &TcpStream, why: Full) {
    let body = match why {
        Full::Client(max) => format!(
            "your address has {max} connections here, as many as it may have \
             (sessions_per_client_max)\n"
        ),
        Full::All(max) => format!(
            "{max} clients are connected, as many as may be (sessions_max); try again later\n"
        ),
        Full::Off => "the server takes no clients now; try again later\n".to_owned(),
    };
    let answer = format!(
        "RTSP/1.0 503 Service Unavailable\r\nCSeq: 1\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    // If this fails, the client sees the connection closed.
    let _ = stream.try_write(answer.as_bytes());
}

async fn talk(shared: &Arc<Shared>, connection: &mut Connection) -> End {
    let (mut nonce, mut session) = ([0; 16], [0; 8]);
    if getrandom::fill(&mut nonce).is_err() || getrandom::fill(&mut session).is_err() {
        // Without random numbers passwords could be replayed.
        return End::Over;
    }
    let mut server = Server::new(nonce, u64::from_be_bytes(session));
    let mut deadline = Instant::now() + connection.patience;
    loop {
        let request = match timeout_at(deadline, connection.frame()).await {
            Err(_) => return End::Slow,
            Ok(Err(end)) => return end,
            Ok(Ok(Frame::Message(Message::Request(request)))) => request,
            // Packets that nobody has asked for win no time, however many there are.
            Ok(Ok(_)) if Instant::now() >= deadline => return End::Slow,
            Ok(Ok(_)) => continue,
        };
        if server.wants_ports(&request, &**shared)
            && let Some(pair) = connection.pair(shared).await
        {
            server.offer_ports(pair);
        }
        let reply = shared.answer(&mut server, &request).await;
        if let Err(end) = connection.send(&reply.bytes).await {
            return end;
        }
        let ended = match reply.action {
            Action::None | Action::Pause => Ok(()),
            Action::End => Err(End::Over),
            Action::Play {
                camera,
                tracks,
                set_up,
            } => view::run(shared, connection, &mut server, &camera, &tracks, &set_up).await,
            Action::Record {
                camera,
                offers,
                set_up,
            } => publish::run(shared, connection, &mut server, &camera, &offers, &set_up).await,
        };
        if let Err(end) = ended {
            return end;
        }
        deadline = Instant::now() + IDLE_MAX;
    }
}

impl Connection {
    /// The next frame.
    ///
    /// # Cancel safety
    ///
    /// If it is cancelled, nothing is lost.
    pub(super) async fn frame(&mut self) -> Result<Frame, End> {
        loop {
            match self.wire.frame() {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => {}
                Err(_) => return Err(End::Nonsense),
            }
            make_room(&mut self.wire);
            match self.stream.read_buf(self.wire.buffer()).await {
                Ok(0) | Err(_) => return Err(End::Over),
                Ok(_) => {}
            }
        }
    }

    /// Sends all of it. Each part that the client takes gives it its time again.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), End> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match timeout(self.patience, self.stream.write(rest)).await {
                Err(_) => return Err(End::Slow),
                Ok(Ok(written @ 1..)) => rest = &rest[written..],
                Ok(_) => return Err(End::Over),
            }
        }
        // What TLS has taken is not yet sent.
        match timeout(self.patience, self.stream.flush()).await {
            Err(_) => Err(End::Slow),
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(End::Over),
        }
    }

    /// Has packets held back for so long, so that many are read at a time: an optimisation, without
    /// which it works too.
    pub(super) fn hold_back(&self, bytes: usize, delay: Duration) {
        if let Some(socket) = self.stream.socket() {
            let _ = socket.set_delivery(Delivery::Coalesce { bytes, delay });
        }
    }

    /// Who is connected.
    pub(super) fn peer(&self) -> Option<IpAddr> {
        let peer = self.stream.socket()?.peer_addr().ok()?;
        Some(peer.ip())
    }

    /// Opens two more ports for datagrams, of packets and of reports. `None` if none are free, or
    /// as many are open as may be.
    async fn pair(&mut self, shared: &Shared) -> Option<(u16, u16)> {
        let place = Arc::clone(&shared.pairs).try_acquire_owned().ok()?;
        let local = self.stream.socket()?.local_addr().ok()?;
        let pair = Pair::open(local.ip()).await.ok()?;
        let ports = (pair.port, pair.port + 1);
        self.pairs.push(pair);
        self.places.push(place);
        Some(ports)
    }
}
