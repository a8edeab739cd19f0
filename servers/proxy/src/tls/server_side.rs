//! What a listener is to its clients.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use evenkeel::Class;
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::server::{
    NoServerSessionStorage, ProducesTickets, ResolvesServerCert, ServerSessionMemoryCache,
    StoresServerSessions, WebPkiClientVerifier,
};

use super::MinVersion;
use super::files::Authorities;
use super::live::Live;
use super::names::ByName;
use super::own::Own;
use super::places::Handshakes;
use super::tickets::{TicketKeys, Tickets};

/// What a listener offers.
#[derive(Debug)]
pub struct Offer {
    /// Its certificates; the first is the default.
    pub certificates: Vec<Arc<Own>>,
    /// The one that takes the place of those, of which there is none then.
    pub live: Option<Arc<Live>>,
    /// Whose certificates clients have to come with, if they have to.
    pub clients: Option<Authorities>,
    /// The oldest version.
    pub min_version: MinVersion,
    /// The protocols that may be spoken over TLS, the best one first; if there is none, nothing is
    /// said of it.
    pub protocols: Vec<Vec<u8>>,
    /// Whether sessions may be resumed by what their clients keep.
    pub tickets: bool,
    /// How many are kept here, for clients who do not keep them.
    pub sessions_max: usize,
}

/// TLS of a listener, as its files were when it was made. Two are equal if these and what was asked
/// for were.
#[derive(Clone)]
pub struct ServerSide {
    config: ServerConfig,
    /// Says whether sessions of another one may be resumed: who is let in has not changed.
    resumes: Resumes,
    tickets: Option<Arc<Tickets>>,
    certificates: Vec<Arc<Own>>,
    live: Option<Arc<Live>>,
    digest: u64,
}

impl PartialEq for ServerSide {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

/// By what sessions are resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Resumes {
    clients: Option<u64>,
    tickets: bool,
    sessions_max: usize,
}

impl Resumes {
    /// The same in each process of this program.
    fn digest(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

impl ServerSide {
    /// Makes it.
    ///
    /// # Errors
    ///
    /// What is wrong.
    pub fn new(offer: Offer) -> Result<Self, String> {
        let resumes = Resumes {
            clients: offer.clients.as_ref().map(|clients| clients.digest),
            tickets: offer.tickets,
            sessions_max: offer.sessions_max,
        };
        let mut hasher = DefaultHasher::new();
        (resumes, offer.min_version, &offer.protocols).hash(&mut hasher);
        let certificates = offer.certificates.iter();
        for certificate in certificates.flat_map(|own| &own.identity.cert) {
            certificate.as_ref().hash(&mut hasher);
        }
        // Which one it is at the moment changes nothing.
        offer
            .live
            .as_ref()
            .map(|live| live.path())
            .hash(&mut hasher);
        let provider = Arc::new(default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(offer.min_version.versions())
            .map_err(|why| why.to_string())?;
        let builder = match &offer.clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let roots = Arc::clone(&clients.roots);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
                builder.with_client_cert_verifier(verifier.map_err(|why| why.to_string())?)
            }
        };
        let identities = offer.certificates.iter();
        let identities = identities.map(|own| Arc::clone(&own.identity));
        let by_name = || Arc::new(ByName::new(identities.collect()));
        let mut config = builder.with_cert_resolver(match &offer.live {
            Some(live) => Arc::clone(live) as Arc<dyn ResolvesServerCert>,
            None => by_name(),
        });
        config.alpn_protocols = offer.protocols;
        let mut tickets = None;
        if offer.tickets {
            let made = Tickets::new().ok_or("the system gives no random bytes")?;
            let made = tickets.insert(Arc::new(made));
            config.ticketer = Arc::clone(made) as Arc<dyn ProducesTickets>;
        }
        config.session_storage = match offer.sessions_max {
            0 => Arc::new(NoServerSessionStorage {}),
            max => ServerSessionMemoryCache::new(max),
        };
        if !offer.tickets && offer.sessions_max == 0 {
            config.send_tls13_tickets = 0;
        }
        Ok(Self {
            config,
            resumes,
            tickets,
            certificates: offer.certificates,
            live: offer.live,
            digest: hasher.finish(),
        })
    }

    /// Its certificates, the default first.
    pub fn certificates(&self) -> &[Arc<Own>] {
        &self.certificates
    }
}

impl fmt::Debug for ServerSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSide")
            .field("resumes", &self.resumes)
            .finish_non_exhaustive()
    }
}

/// TLS of a listener at work.
#[derive(Debug)]
pub struct Listening {
    config: Arc<ServerConfig>,
    resumes: Resumes,
    tickets: Option<Arc<Tickets>>,
    /// The certificate that it gets by itself.
    pub live: Option<Arc<Live>>,
    /// The class in which its handshakes run.
    pub class: Class,
    /// Those that are under way.
    pub handshakes: Arc<Handshakes>,
}

impl Listening {
    /// Begins to work. Handshakes of the one before go on, and its sessions can be resumed, unless
    /// other clients are let in now.
    pub fn new(side: &ServerSide, class: Class, before: Option<&Self>, permits: usize) -> Self {
        let mut config = side.config.clone();
        let mut tickets = side.tickets.clone();
        if let Some(before) = before.filter(|before| before.resumes == side.resumes) {
            let old: (Arc<dyn ProducesTickets>, Arc<dyn StoresServerSessions>) = (
                Arc::clone(&before.config.ticketer),
                Arc::clone(&before.config.session_storage),
            );
            (config.ticketer, config.session_storage) = old;
            tickets.clone_from(&before.tickets);
        }
        let mut live = side.live.clone();
        let known = before.and_then(|before| before.live.as_ref());
        if let (Some(own), Some(known)) = (&live, known)
            && known.path() == own.path()
        {
            // Whoever keeps it goes on with this one. The file may be another one by now.
            if let Some(read) = own.take_read() {
                known.follow(read);
            }
            config.cert_resolver = Arc::clone(known) as Arc<dyn ResolvesServerCert>;
            live = Some(Arc::clone(known));
        }
        let handshakes = before.map(|before| Arc::clone(&before.handshakes));
        Self {
            config: Arc::new(config),
            resumes: side.resumes,
            tickets,
            live,
            class,
            handshakes: handshakes.unwrap_or_else(|| Arc::new(Handshakes::new(permits))),
        }
    }

    /// How it shakes hands.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// The keys of its tickets, for a process that takes over.
    pub fn ticket_keys(&self) -> Option<TicketKeys> {
        let tickets = self.tickets.as_ref()?;
        Some(tickets.keys(self.resumes.digest()))
    }

    /// Goes on with the keys of an earlier process, unless other clients are let in now.
    pub fn restore(&self, keys: &TicketKeys) {
        if let Some(tickets) = &self.tickets
            && keys.of == self.resumes.digest()
        {
            tickets.restore(keys);
        }
    }
}
