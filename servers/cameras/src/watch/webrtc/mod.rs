//! Live pictures by WebRTC: a browser asks by WHEP (draft-ietf-wish-whep), and is sent a camera's
//! samples as they are, in datagrams.
//!
//! - [`settings`]: what the operator may set.
//! - [`offer`]: what a browser offers; [`choice`]: what of a camera's tracks it gets.
//! - [`peer`]: a browser's session, in the library's hands; [`stamps`]: the times of what is sent;
//!   [`packets`]: what waits to be sent. No I/O.
//! - [`feed`]: from a cursor at the hub to packets; `session`: the task of a session.
//! - [`origins`]: pages of other servers that may ask.
//! - [`port`]: the one socket, and whose each datagram is; [`stun`]: whom a question is for.
//! - `requests`: WHEP over HTTP.
//!
//! A session costs no descriptor. What its handshake computes is done in a task that begins in the
//! heavy pool for that; what it sends is charged to the class for bulk work.

pub mod choice;
pub mod feed;
pub mod offer;
pub mod origins;
pub mod packets;
pub mod peer;
pub mod port;
pub(super) mod requests;
mod session;
pub mod settings;
pub mod stamps;
pub mod stun;

pub use settings::Settings;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use evenkeel::Class;
use servers_common::slots::Full;
use str0m::IceCreds;
use str0m::config::DtlsCert;
use str0m::crypto::from_feature_flags;

use crate::hub::{Hub, SubscribeError};
use choice::{Choice, ChoiceError};
use feed::{Feed, FeedError};
use peer::{Identity, Peer, PeerError};
use port::{Key, Port};
use session::Session;
use settings::Places;

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WhepError {
    /// The camera sends nothing.
    #[error("the camera sends nothing now; try again when it is live")]
    NotLive,
    /// What is offered does not fit what the camera sends.
    #[error(transparent)]
    Choice(#[from] ChoiceError),
    /// The offer cannot be answered.
    #[error(transparent)]
    Peer(#[from] PeerError),
    /// The library has given up on the offer.
    #[error("the description cannot be answered: it contradicts itself")]
    Contradiction,
    /// There are as many sessions as there may be.
    #[error("{0} sessions of WebRTC are open, as many as may be (watch.webrtc.sessions_max)")]
    Full(usize),
    /// The client has as many as it may.
    #[error(
        "{0} sessions of WebRTC are open from this address, as many as may be \
         (watch.webrtc.sessions_per_client_max)"
    )]
    FullClient(usize),
    /// There are too many viewers, or there is no camera.
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    /// Nothing can be sent.
    #[error(transparent)]
    Feed(#[from] FeedError),
    /// The system has no random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
}

impl From<Full> for WhepError {
    fn from(full: Full) -> Self {
        match full {
            Full::Client(max) => Self::FullClient(max),
            Full::All(max) => Self::Full(max),
            // Nobody switches it off.
            Full::Off => Self::Full(0),
        }
    }
}

/// Why it cannot begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BeginError {
    /// The socket.
    #[error("watch.webrtc: cannot listen on {0}: {1}")]
    Listen(std::net::SocketAddr, io::Error),
    /// The certificate.
    #[error("watch.webrtc: no certificate can be made for DTLS")]
    Certificate,
}

/// Sessions of WebRTC.
pub struct WebRtc {
    port: Arc<Port>,
    hub: Arc<Hub>,
    certificate: DtlsCert,
}

impl std::fmt::Debug for WebRtc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the key.
        f.debug_struct("WebRtc")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// A session that has begun.
#[derive(Debug, PartialEq, Eq)]
pub struct Begun {
    /// What it is known by.
    pub key: Key,
    /// The name that the browser asks for, which changes when ICE begins anew.
    pub user: String,
    /// The answer to the offer.
    pub answer: String,
}

impl WebRtc {
    /// Opens the socket. The certificate of DTLS is made now: its fingerprint is in each answer.
    ///
    /// # Errors
    ///
    /// [`BeginError`].
    pub async fn begin(
        hub: &Arc<Hub>,
        settings: &Settings,
        places: &Places,
    ) -> Result<Arc<Self>, BeginError> {
        let provider = from_feature_flags();
        let certificate = provider.dtls_provider.generate_certificate();
        let opened = Port::open(settings, places).await;
        Ok(Arc::new(Self {
            port: Arc::new(opened.map_err(|error| BeginError::Listen(places.listen, error))?),
            hub: Arc::clone(hub),
            certificate: certificate.ok_or(BeginError::Certificate)?,
        }))
    }

    /// The socket with its counts.
    pub fn port(&self) -> &Arc<Port> {
        &self.port
    }

    /// Begins a session of a camera for an offer of this client. It ends when `lost` is ready: then
    /// the client may not watch any more.
    ///
    /// # Errors
    ///
    /// [`WhepError`].
    pub async fn offer(
        &self,
        camera: &str,
        client: IpAddr,
        offer: &str,
        lost: impl Future<Output = ()> + Send + 'static,
    ) -> Result<Begun, WhepError> {
        let slot = self.port.slot(client)?;
        let status = self.hub.status_of(camera);
        let tracks = status.and_then(|status| status.tracks);
        let choice = Choice::of(offer, &tracks.ok_or(WhepError::NotLive)?)?;
        let (user, password, id) = (word()?, word()?, word()?);
        let mut sequence = [0; 2];
        getrandom::fill(&mut sequence)?;
        let now = Instant::from(evenkeel::time::Instant::now());
        let feed = Feed::begin(&self.hub, camera, &choice, now).map_err(|error| match error {
            FeedError::Reordered => WhepError::Choice(ChoiceError::Reordered),
            FeedError::Subscribe(error) => WhepError::Subscribe(error),
            error => WhepError::Feed(error),
        })?;
        let identity = Identity {
            certificate: self.certificate.clone(),
            credentials: IceCreds {
                ufrag: user.clone(),
                pass: password,
            },
        };
        let candidates = self.port.candidates().to_vec();
        let sequence = u16::from_be_bytes(sequence);
        // In a task of its own: should an offer break the library, it breaks nothing else.
        let answered = evenkeel::task::Builder::new()
            .class(Class::NORMAL)
            .computes(true)
            .spawn(async move { Peer::answer(&choice, identity, &candidates, sequence, now) });
        let (peer, answer) = answered.await.map_err(|_| WhepError::Contradiction)??;
        let key = Key {
            camera: camera.to_owned(),
            id,
        };
        let registered = self.port.register(slot, &user, key.clone());
        let session = Session::new(Arc::clone(&self.port), registered, peer, feed);
        drop(
            evenkeel::task::Builder::new()
                .class(Class::BULK)
                .computes(true)
                .spawn(session.run(lost)),
        );
        Ok(Begun { key, user, answer })
    }
}

/// Something that nobody can guess, of 128 bits.
fn word() -> Result<String, getrandom::Error> {
    let mut random = [0; 16];
    getrandom::fill(&mut random)?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
