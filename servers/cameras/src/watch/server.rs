//! The listener with its limits.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use evenkeel::Class;
use evenkeel::net::TcpListener;
use evenkeel::serve::Served as Ended;
use evenkeel::task::JoinHandle;
use tokio::sync::oneshot;

use super::access::{Access, TokenError};
use super::routes::{Served, Watch, router};
use super::settings::Settings;
use super::timed::TimedListener;
use super::webrtc::{self, WebRtc};
use crate::tls::{Certificate, TlsError};

/// How long a client may take for the head of a request, and without taking any of an answer.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// How long the end waits for answers that are under way.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// Requests that share a connection.
const STREAMS_MAX: u32 = 32;

/// Why nothing can be watched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The address is none.
    #[error(
        "{0:?} is no address to listen on; write an IP address and a port, such as \
             127.0.0.1:8090"
    )]
    Address(String),
    /// Others than this machine could connect.
    #[error(
        "{0} can be reached by others, so tokens are needed, or users: add [[watch.token]] or \
             [[user]], or listen on 127.0.0.1"
    )]
    NeedsToken(SocketAddr),
    /// The certificate.
    #[error("watch.tls: {0}")]
    Tls(#[from] TlsError),
    /// A token is none.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// WebRTC.
    #[error(transparent)]
    WebRtc(#[from] webrtc::settings::SettingsError),
    /// WebRTC cannot begin.
    #[error(transparent)]
    WebRtcBegin(#[from] webrtc::BeginError),
    /// The system's error.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// The error.
        error: std::io::Error,
    },
}

/// A server. Dropped, it goes on until the runtime ends.
pub struct Server {
    address: SocketAddr,
    gate: Gate,
    webrtc: Option<Arc<WebRtc>>,
    stop: oneshot::Sender<()>,
    serves: JoinHandle<Ended>,
}

/// Checks settings without listening.
///
/// # Errors
///
/// As [`Server::begin`].
pub fn check(settings: &Settings) -> Result<(SocketAddr, Gate), WatchError> {
    let address: SocketAddr =
        (settings.listen.parse()).map_err(|_| WatchError::Address(settings.listen.clone()))?;
    let access = Access::new(&settings.tokens)?.with_users(&settings.accounts);
    if !access.needs_token() && !address.ip().to_canonical().is_loopback() {
        return Err(WatchError::NeedsToken(address));
    }
    if let Some(webrtc) = &settings.webrtc {
        webrtc.places()?;
    }
    let certificate = settings.tls.as_ref().map(Certificate::read).transpose()?;
    let gate = Gate {
        access,
        certificate,
    };
    Ok((address, gate))
}

/// Who is let in, and the certificate. A clone is the same, also when it changes.
#[derive(Clone, Debug)]
pub struct Gate {
    access: Access,
    certificate: Option<Certificate>,
}

impl Gate {
    /// The certificate, if there is TLS.
    pub fn certificate(&self) -> Option<&Certificate> {
        self.certificate.as_ref()
    }

    /// Is like another one, for requests and connections to come. Whether there is TLS does not
    /// change.
    pub fn become_like(&self, other: &Self) {
        self.access.become_like(&other.access);
        if let (Some(certificate), Some(other)) = (&self.certificate, &other.certificate) {
            certificate.become_like(other);
        }
    }
}

impl Server {
    /// Listens, and serves in the class for urgent work: answers are short, and what is long is
    /// done in other classes.
    ///
    /// # Errors
    ///
    /// [`WatchError`].
    pub async fn begin(settings: &Settings, watch: Watch) -> Result<Self, WatchError> {
        let (address, gate) = check(settings)?;
        let failed = |error| WatchError::Listen { address, error };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let webrtc = match &settings.webrtc {
            None => None,
            Some(of) => Some(WebRtc::begin(&watch.hub, of, &of.places()?).await?),
        };
        let access = gate.access.clone();
        let served: Arc<Served> = Served::new(watch, access, settings, webrtc.clone());
        let (stop, stopped) = oneshot::channel();
        let listener = TimedListener {
            listener,
            patience: PATIENCE,
            certificate: gate.certificate.clone(),
            slots: Arc::default(),
            per_client_max: settings.connections_per_client_max,
        };
        let serve = evenkeel::serve(listener, router(served))
            .max_connections(settings.connections_max)
            .max_concurrent_streams(STREAMS_MAX)
            .header_read_timeout(Some(PATIENCE))
            .drain_limit(DRAIN_MAX)
            .with_graceful_shutdown(async {
                if stopped.await.is_err() {
                    // The handle was dropped, and the server goes on.
                    std::future::pending().await
                }
            });
        let serves = evenkeel::spawn_in(Class::URGENT, async { serve.await });
        Ok(Self {
            address,
            gate,
            webrtc,
            stop,
            serves,
        })
    }

    /// Where it listens, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What may be changed while it serves.
    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Sessions of WebRTC, if there are any.
    pub fn webrtc(&self) -> Option<&Arc<WebRtc>> {
        self.webrtc.as_ref()
    }

    /// Ends it: answers under way are finished, for some seconds at most.
    pub async fn end(self) {
        if let Some(webrtc) = &self.webrtc {
            webrtc.port().end_all();
        }
        // Both fail only if it has ended already, as the runtime ends.
        _ = self.stop.send(());
        _ = self.serves.await;
    }
}
