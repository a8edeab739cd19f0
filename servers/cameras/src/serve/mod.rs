//! Viewers and publishers by RTSP: takes their connections, and serves each by a task of its own.
//!
//! - `connection`: one connection, up to PLAY or RECORD.
//! - `view`: sends a camera's samples; `datagrams`: as datagrams.
//! - `publish`: takes samples from a camera that publishes by itself, in the connection or as
//!   datagrams.

mod connection;
mod datagrams;
mod publish;
mod view;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use constant_time_eq::constant_time_eq;
use evenkeel::Class;
use evenkeel::net::TcpListener;
use evenkeel::task::AbortHandle;
use evenkeel::time::sleep;
use rtsp_types::{Method, Request, headers};
use servers_common::counters::Counter;
use servers_common::slots::{Limits, Slots};
use tokio::sync::Semaphore;

use datagrams::Datagrams;

use crate::cameras::Cameras;
use crate::config::{self, Account, User};
use crate::rtsp::auth::{Algorithm, digest_of, user_and_password};
use crate::rtsp::server::{Directory, Found, Permission, REALM, Reply, Server, mark_of};
use crate::tls::{Certificate, Stream};
use crate::users::{LoginError, Users};

/// Pairs of ports that publishers of datagrams have at a time, one for each track. Whoever only
/// announces streams takes some too, and is not to take all descriptors.
pub(crate) const PAIRS_MAX: usize = 512;

/// A listener at work, which ends with its connections when this is dropped.
#[derive(Debug)]
pub struct Doors {
    shared: Arc<Shared>,
    certificate: Option<Certificate>,
    address: Option<SocketAddr>,
    address_tls: Option<SocketAddr>,
    accepts: Vec<AbortHandle>,
}

/// What connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    cameras: Arc<Cameras>,
    settings: Mutex<Arc<Settings>>,
    /// What datagrams are sent by, if viewers may have some.
    datagrams: Option<Datagrams>,
    /// Pairs of ports that publishers of datagrams may have yet, all together.
    pairs: Arc<Semaphore>,
    /// Those who may watch by HTTP too.
    accounts: Arc<Users>,
    /// After so long without a packet a publisher is given up.
    silence: Duration,
    slots: Arc<Slots>,
    closing: tokio::sync::watch::Sender<bool>,
    /// Told when users and settings are other ones.
    changed: tokio::sync::watch::Sender<()>,
    counts: Counts,
}

/// What may change while it listens.
#[derive(Debug)]
struct Settings {
    /// Who may watch and publish by RTSP alone.
    users: Vec<User>,
    patience: Duration,
    limits: Limits,
}

impl Settings {
    fn of(rtsp: &config::Rtsp) -> Arc<Self> {
        let users = rtsp.users.iter().map(|user| user.get_ref().clone());
        Arc::new(Self {
            users: users.collect(),
            patience: rtsp.patience,
            limits: Limits {
                all_max: rtsp.sessions_max,
                per_client_max: rtsp.sessions_per_client_max,
            },
        })
    }
}

/// What was counted of clients.
#[derive(Debug, Default)]
pub struct Counts {
    /// Connections that were taken.
    pub connections: Counter,
    /// Those that were refused for a limit.
    pub refused: Counter,
    /// Those that were ended since they were too slow.
    pub slow: Counter,
}

/// Why nobody can connect by RTSP.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DoorsError {
    /// An address cannot be listened on.
    #[error("rtsp: cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// There are no ports for datagrams.
    #[error("rtsp.udp: cannot open sockets for datagrams: {0}")]
    Datagrams(io::Error),
}

impl Doors {
    /// Begins to listen.
    ///
    /// # Errors
    ///
    /// [`DoorsError`].
    pub async fn open(
        rtsp: &config::Rtsp,
        (accounts, certificate): (&[Account], Option<Certificate>),
        silence: Duration,
        cameras: &Arc<Cameras>,
    ) -> Result<Self, DoorsError> {
        let [plain, secured] = rtsp.addresses();
        let (plain, secured) = (bind(plain).await?, bind(secured).await?);
        let first = plain.as_ref().or(secured.as_ref());
        let datagrams = match first {
            Some((_, address)) if rtsp.udp => {
                let opened = Datagrams::open(address.ip()).await;
                Some(opened.map_err(DoorsError::Datagrams)?)
            }
            _ => None,
        };
        let shared = Arc::new(Shared {
            datagrams,
            pairs: Arc::new(Semaphore::new(PAIRS_MAX)),
            cameras: Arc::clone(cameras),
            settings: Mutex::new(Settings::of(rtsp)),
            accounts: Arc::new(Users::new(accounts)),
            silence,
            slots: Arc::default(),
            closing: tokio::sync::watch::Sender::new(false),
            changed: tokio::sync::watch::Sender::new(()),
            counts: Counts::default(),
        });
        let address = plain.as_ref().map(|(_, address)| *address);
        let address_tls = secured.as_ref().map(|(_, address)| *address);
        let mut accepts = Vec::new();
        let plain = plain.map(|(listener, _)| (listener, None));
        let secured = secured.map(|(listener, _)| (listener, certificate.clone()));
        for (listener, certificate) in plain.into_iter().chain(secured) {
            let accept = accept(Arc::clone(&shared), listener, certificate);
            accepts.push(evenkeel::spawn_in(Class::NORMAL, accept).abort_handle());
        }
        Ok(Self {
            shared,
            certificate,
            address,
            address_tls,
            accepts,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Where it listens for connections with TLS.
    pub fn address_tls(&self) -> Option<SocketAddr> {
        self.address_tls
    }

    /// Shows this certificate in connections to come.
    pub fn show(&self, certificate: &Certificate) {
        if let Some(shown) = &self.certificate {
            shown.become_like(certificate);
        }
    }

    /// Goes by other users, limits and times for connections, and requests, to come. Viewers and
    /// publishers that may be so no longer are ended.
    pub fn change(&self, rtsp: &config::Rtsp, accounts: &[Account]) {
        self.shared.accounts.become_like(&Users::new(accounts));
        let settings = &self.shared.settings;
        *settings.lock().unwrap_or_else(PoisonError::into_inner) = Settings::of(rtsp);
        self.shared.changed.send_replace(());
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        self.shared.slots.taken()
    }

    /// Datagrams to viewers that the system did not take.
    pub fn unsent(&self) -> u64 {
        let datagrams = self.shared.datagrams.as_ref();
        datagrams.map_or(0, |datagrams| datagrams.unsent.total())
    }

    /// What was counted.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }
}

impl Drop for Doors {
    fn drop(&mut self) {
        self.accepts.iter().for_each(AbortHandle::abort);
        self.shared.closing.send_replace(true);
    }
}

async fn bind(address: Option<&str>) -> Result<Option<(TcpListener, SocketAddr)>, DoorsError> {
    let Some(address) = address else {
        return Ok(None);
    };
    let listened = async {
        let listener = TcpListener::bind(address).await?;
        let local = listener.local_addr()?;
        Ok(Some((listener, local)))
    };
    listened.await.map_err(|error| DoorsError::Listen {
        address: address.to_owned(),
        error,
    })
}

async fn accept(shared: Arc<Shared>, listener: TcpListener, certificate: Option<Certificate>) {
    loop {
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // One line each time: whoever runs out of descriptors has to hear of it.
                eprintln!(
                    "evenkeel-cameras: cannot accept: {error}; if descriptors have run out, allow \
                     more, as by `ulimit -n`, or lower rtsp.sessions_max"
                );
                sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        shared.counts.connections.one();
        match shared
            .slots
            .take(Some(client.ip()), shared.settings().limits)
        {
            Ok(slot) => {
                let stream = Stream::rtsp(stream, certificate.as_ref());
                let serve = connection::serve(Arc::clone(&shared), stream, slot);
                drop(evenkeel::spawn_in(Class::NORMAL, serve));
            }
            Err(full) => {
                shared.counts.refused.one();
                // Before hands are shaken nobody understands why.
                if certificate.is_none() {
                    connection::refuse(&stream, full);
                }
            }
        }
    }
}

impl Shared {
    fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Answers a request. A password that was not found right before is compared first, apart from
    /// what the worker does for others.
    async fn answer(&self, server: &mut Server, request: &Request<Vec<u8>>) -> Reply {
        let header = request.header(&headers::AUTHORIZATION);
        let given = header.and_then(|value| user_and_password(value.as_str()));
        if *request.method() != Method::Options
            && let Some((user, password)) = given
            && let Err(error) = self.compare(&user, &password).await
        {
            return server.put_off(request, &error.to_string());
        }
        server.request(request, self)
    }

    /// Fails if it could not be compared; a wrong one is found out later.
    async fn compare(&self, user: &str, password: &str) -> Result<(), LoginError> {
        let known = Directory::password(self, user);
        let is_right = known.is_some_and(|it| constant_time_eq(it.as_bytes(), password.as_bytes()));
        if is_right || self.accounts.is_empty() {
            return Ok(());
        }
        // Of users by RTSP alone too, so that the time does not say who they are.
        match self.accounts.check(user, password).await {
            Ok(_) | Err(LoginError::Wrong) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Directory for Shared {
    fn is_open(&self) -> bool {
        self.settings().users.is_empty() && self.accounts.is_empty()
    }

    fn password(&self, user: &str) -> Option<String> {
        let settings = self.settings();
        let found = settings.users.iter().find(|known| known.name == user);
        found.map(|user| user.password.clone())
    }

    fn is_right(&self, user: &str, password: &str) -> bool {
        match Directory::password(self, user) {
            Some(known) => constant_time_eq(known.as_bytes(), password.as_bytes()),
            // It was compared before the request was looked at.
            None => self.accounts.remembered(user, password).is_some(),
        }
    }

    fn digest(&self, user: &str, realm: &str, algorithm: Algorithm) -> Option<String> {
        if let Some(password) = Directory::password(self, user) {
            return Some(digest_of(algorithm, user, realm, &password));
        }
        let account = self.accounts.account(user)?;
        let is_known = algorithm == Algorithm::Md5 && realm == REALM;
        account.digest.filter(|_| is_known)
    }

    fn knows_digests(&self) -> bool {
        self.accounts.have_digests()
    }

    fn mark(&self, user: &str) -> Option<[u8; 32]> {
        let password = Directory::password(self, user);
        let secret = password.or_else(|| self.accounts.account(user).map(|it| it.password_hash));
        secret.map(|secret| mark_of(&secret))
    }

    fn may(&self, user: &str, camera: &str, what: Permission) -> bool {
        if let Some(account) = self.accounts.account(user) {
            return what == Permission::View && account.knows(camera);
        }
        let settings = self.settings();
        let found = settings.users.iter().find(|known| known.name == user);
        found.is_some_and(|user| {
            let cameras = match what {
                Permission::View => &user.view,
                Permission::Publish => &user.publish,
            };
            cameras.iter().any(|name| name == "*" || name == camera)
        })
    }

    fn find(&self, camera: &str) -> Found {
        match self.cameras.hub().status_of(camera) {
            None => Found::Unknown,
            Some(status) => status.tracks.map_or(Found::Silent, Found::Tracks),
        }
    }

    fn datagrams(&self) -> Option<(u16, u16)> {
        self.datagrams.as_ref().map(Datagrams::ports)
    }

    fn takes_publishers(&self, camera: &str) -> bool {
        self.cameras.publisher(camera).is_some()
    }
}
