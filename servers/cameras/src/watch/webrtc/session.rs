//! The task of one session: it passes datagrams and media between the socket, the library and the
//! camera, and ends when the browser has gone.
//!
//! ```text
//!  asked by HTTP ──▶ waits for ICE and DTLS ──▶ sends ──▶ over: by HTTP, by the browser, by
//!                     │ 10 s at most              │       its silence, by the camera
//!                     └───────────────────────────┴──────▶
//! ```
//!
//! Packets go out some at a time with pauses between, and nothing is taken from the camera before
//! those of the last sample are out: what waits for a browser is one sample, and a browser that is
//! sent too much is moved on by the hub, as any other viewer.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::time::{Instant, sleep_until};

use super::feed::{Feed, FeedError};
use super::peer::{Peer, Told};
use super::port::{Datagram, Port, Registered};
use super::stun;

/// How long ICE and DTLS may take.
const SETUP_MAX: Duration = Duration::from_secs(10);
/// How long the browser may be silent: as long as consent lasts (RFC 7675, section 5.1).
const CONSENT_MAX: Duration = Duration::from_secs(30);
/// Packets that go out at once, and the pause after them: 74 Mbit/s at most for each browser. More
/// at once would overflow buffers on the way, less would make key frames late.
const BURST: usize = 16;
const PAUSE: Duration = Duration::from_millis(2);

/// A session at work.
pub(super) struct Session {
    port: Arc<Port>,
    registered: Registered,
    peer: Peer,
    feed: Feed,
    told: Vec<Told>,
    began: Instant,
    heard: Instant,
    /// When packets may go out again.
    paused: Instant,
    /// Where the browser was when its keys were agreed on. Nothing is sent to other machines later,
    /// so that nobody can have media sent to somebody who does not want them.
    bound: Option<IpAddr>,
    last_source: Option<IpAddr>,
    needs_key: bool,
}

/// Why a session is over.
#[derive(Debug)]
enum End {
    /// Somebody wants it.
    Asked,
    /// The browser has ended it, or the library.
    Peer,
    /// The browser has not come, or has gone.
    Silent,
    /// The camera.
    Feed(#[expect(dead_code, reason = "it is shown in debugging")] FeedError),
}

impl Session {
    pub(super) fn new(port: Arc<Port>, registered: Registered, peer: Peer, feed: Feed) -> Self {
        let now = Instant::now();
        Self {
            port,
            registered,
            peer,
            feed,
            told: Vec::new(),
            began: now,
            heard: now,
            paused: now,
            bound: None,
            last_source: None,
            needs_key: false,
        }
    }

    /// Until it is over, or `lost` is ready.
    pub(super) async fn run(mut self, lost: impl Future<Output = ()>) {
        let end = tokio::select! {
            end = self.go() => end,
            () = lost => End::Asked,
        };
        if !matches!(end, End::Peer) && self.peer.close().is_ok() {
            // The browser is told, if it still listens.
            _ = self.turn().await;
        }
    }

    async fn go(&mut self) -> End {
        loop {
            let Ok(due) = self.turn().await else {
                return End::Peer;
            };
            if !self.peer.is_alive() {
                return End::Peer;
            }
            let limit = match self.bound {
                None => self.began + SETUP_MAX,
                Some(_) => self.heard + CONSENT_MAX,
            };
            let now = Instant::now();
            if now >= limit {
                return End::Silent;
            }
            let is_empty = self.feed.packets.is_empty();
            if std::mem::take(&mut self.needs_key) {
                match self.feed.rewind(now.into()) {
                    Ok(true) => self.registered.counts().rewinds.one(),
                    // It is asked for again if it is still needed.
                    Ok(false) => {}
                    Err(error) => return End::Feed(error),
                }
            }
            let sends = self.bound.is_some();
            let happened = tokio::select! {
                biased;
                () = self.registered.stop.notified() => return End::Asked,
                Some(datagram) = self.registered.inbox.recv() => self.receive(datagram),
                () = sleep_until(self.paused), if sends && !is_empty => {
                    self.burst();
                    Ok(())
                }
                event = self.feed.next(), if sends && is_empty => {
                    self.feed.take(event, now.into()).map_err(End::Feed)
                }
                () = sleep_until(due.min(limit)) => Ok(()),
            };
            if let Err(end) = happened {
                return end;
            }
        }
    }

    /// Sends what is to be sent. Returns when there is more to do, or that it is over.
    async fn turn(&mut self) -> Result<Instant, End> {
        let due = self.peer.turn(Instant::now().into(), &mut self.told);
        let mut is_over = false;
        for told in self.told.drain(..) {
            match told {
                Told::Send(target, datagram) => self.port.send(target, &datagram).await,
                Told::Connected => self.bound = self.last_source,
                Told::NeedsKey => self.needs_key = true,
                Told::Reported { packets, lost } => {
                    self.registered.counts().packets.add(packets);
                    self.registered.counts().lost.add(lost);
                }
                Told::Ended => is_over = true,
            }
        }
        match due {
            Ok(due) if !is_over => Ok(due.into()),
            _ => Err(End::Peer),
        }
    }

    fn receive(&mut self, (source, datagram): Datagram) -> Result<(), End> {
        let counts = self.registered.counts();
        if self.bound.is_some_and(|bound| bound != source.ip()) {
            counts.strange.one();
            return Ok(());
        }
        let now = Instant::now();
        self.last_source = Some(source.ip());
        match self.peer.receive(now.into(), source, &datagram) {
            Ok(true) if stun::is_stun(&datagram) => {
                self.heard = now;
                if !self.registered.reached_from(source) {
                    self.registered.counts().strange.one();
                }
            }
            Ok(true) => {}
            Ok(false) => counts.strange.one(),
            // Once keys are agreed on, what cannot be read is somebody else's.
            Err(_) if self.bound.is_some() => counts.strange.one(),
            Err(_) => return Err(End::Peer),
        }
        Ok(())
    }

    fn burst(&mut self) {
        for _ in 0..BURST {
            let Some(packet) = self.feed.packets.pop() else {
                break;
            };
            self.peer.send(packet);
        }
        if !self.feed.packets.is_empty() {
            self.paused = Instant::now() + PAUSE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::choice::Choice;
    use super::super::choice::tests::h264;
    use super::super::{peer, port};
    use super::*;
    use crate::hub::{Hub, Limits};

    /// Waits for so many seconds of a clock that moves only when there is nothing else to do.
    async fn seconds(seconds: u64) {
        evenkeel::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// A session of which nothing is heard.
    async fn silent(hub: &Arc<Hub>) -> (Arc<Port>, Session) {
        let port = Arc::new(port::tests::open().await);
        let registered = port::tests::register(&port, "user");
        let track = h264(66, 0x40);
        let choice = |offer: &str| Choice::of(offer, std::slice::from_ref(&track)).unwrap();
        let (peer, choice) = peer::tests::silent(choice);
        let feed = Feed::begin(hub, "gate", &choice, Instant::now().into()).unwrap();
        let session = Session::new(Arc::clone(&port), registered, peer, feed);
        (port, session)
    }

    #[test]
    fn a_browser_that_never_comes_or_has_gone_is_given_up() {
        let runtime = evenkeel::runtime::Builder::new().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let hub = Hub::new(Limits::default());
            hub.add("gate").unwrap();
            let _publisher = hub.publish("gate", vec![h264(66, 0x40)]).unwrap();
            for (is_connected, limit) in [(false, 10), (true, 30)] {
                let (port, mut session) = silent(&hub).await;
                session.bound = is_connected.then(|| IpAddr::from([192, 0, 2, 9]));
                let ended = evenkeel::spawn(session.run(std::future::pending()));
                seconds(limit - 1).await;
                assert_eq!(port.sessions(), 1, "{is_connected}");
                assert_eq!(hub.status_of("gate").unwrap().viewers, 1);
                seconds(2).await;
                assert_eq!(port.sessions(), 0, "{is_connected}");
                ended.await.unwrap();
                assert_eq!(hub.status_of("gate").unwrap().viewers, 0);
            }
        });
    }
}
