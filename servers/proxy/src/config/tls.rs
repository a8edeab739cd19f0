//! TLS: of listeners, and to the servers of pools. Files are read with the configuration, so that
//! what is wrong with them is found with everything else, and before anything is changed.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::{MapAccess, SeqAccess, Visitor, value};
use serde::{Deserialize, Deserializer, de};
use servers_common::config::Found;
use servers_common::values::optional_age;
use toml::Spanned;

use super::http2::{ListenerH2, Protocol};
use super::{Config, Listener, ListenerAcme, Mode, Pool, values};
use crate::tls::{self, ClientSide, MinVersion, Offer, Own, ServerSide, TlsError, Verify};

/// TLS of a listener.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerTls {
    /// The certificate, or several.
    pub certificate: Option<Spanned<Certificates>>,
    /// In its place: one that the listener gets by itself.
    pub acme: Option<Spanned<ListenerAcme>>,
    /// The key of the one certificate; by default it is in the file of the certificate.
    pub key: Option<Spanned<PathBuf>>,
    /// The authorities of clients, who have to come with a certificate then.
    pub client_ca: Option<Spanned<PathBuf>>,
    /// How long before the end of a certificate operators are told.
    #[serde(default, deserialize_with = "optional_age")]
    pub expiry_warning: Option<Duration>,
    /// The oldest version.
    #[serde(default)]
    pub min_version: MinVersion,
    /// What servers speak, with mode `tcp`: protocols by their names in ALPN, the best one first.
    pub alpn: Option<Spanned<Vec<String>>>,
    /// Whether clients may keep their sessions, to resume them.
    #[serde(default = "values::yes")]
    pub tickets: bool,
    /// How many sessions are kept here, for clients who do not keep them.
    #[serde(default = "values::sessions_max")]
    pub sessions_max: usize,
    /// The class of handshakes; that of the listener, if it is not given.
    pub class: Option<Spanned<String>>,
    /// Handshakes at a time.
    #[serde(default = "values::handshakes_max")]
    pub handshakes_max: usize,
    /// What was read of the files.
    #[serde(skip)]
    pub side: Option<ServerSide>,
}

/// Certificates of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Certificates {
    /// The one file.
    One(PathBuf),
    /// Several, with their keys. The first is the default, and the others are for their names.
    Many(Vec<Certificate>),
}

/// One of several certificates.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// The file, with those that lead to its authority.
    pub file: Spanned<PathBuf>,
    /// The key; by default it is in the same file.
    pub key: Option<Spanned<PathBuf>>,
}

/// TLS to the servers of a pool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolTls {
    /// Whether servers have to show by a certificate who they are.
    pub verify: Option<bool>,
    /// Whose certificates; those that the system trusts, if it is not given.
    pub ca: Option<Spanned<PathBuf>>,
    /// The name in the certificates of all servers; by default that of each one's address.
    pub server_name: Option<Spanned<String>>,
    /// The proxy's own certificate, for servers that ask for one.
    pub certificate: Option<Spanned<PathBuf>>,
    /// Its key; by default it is in the same file.
    pub key: Option<Spanned<PathBuf>>,
    /// How long before the end of that certificate operators are told.
    #[serde(deserialize_with = "optional_age")]
    pub expiry_warning: Option<Duration>,
    /// The oldest version.
    pub min_version: MinVersion,
    /// What was read of the files.
    #[serde(skip)]
    pub side: Option<ClientSide>,
}

impl<'de> Deserialize<'de> for Certificates {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany;

        impl<'de> Visitor<'de> for OneOrMany {
            type Value = Certificates;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the path of a certificate, or tables with file and key")
            }

            fn visit_str<E: de::Error>(self, path: &str) -> Result<Certificates, E> {
                Ok(Certificates::One(path.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Certificates, A::Error> {
                let list = value::SeqAccessDeserializer::new(list);
                Deserialize::deserialize(list).map(Certificates::Many)
            }
        }
        deserializer.deserialize_any(OneOrMany)
    }
}

/// `tls = true`, or a table.
pub(super) fn of_pool<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Spanned<PoolTls>>, D::Error> {
    struct Switch;

    impl<'de> Visitor<'de> for Switch {
        type Value = Option<PoolTls>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("true, false, or a table such as { ca = \"FILE\" }")
        }

        fn visit_bool<E: de::Error>(self, is_on: bool) -> Result<Self::Value, E> {
            Ok(is_on.then(PoolTls::default))
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            Deserialize::deserialize(value::MapAccessDeserializer::new(map)).map(Some)
        }
    }

    struct OnOrOff(Option<PoolTls>);

    impl<'de> Deserialize<'de> for OnOrOff {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(Switch).map(Self)
        }
    }
    let read = Spanned::<OnOrOff>::deserialize(deserializer)?;
    let at = read.span();
    Ok(read.into_inner().0.map(|tls| Spanned::new(at, tls)))
}

/// Reads the files, of which the paths that do not begin with a `/` are from this directory on.
/// Returns what is wrong with them.
pub(super) fn read_files(config: &mut Config, directory: &Path) -> Vec<Found> {
    let mut reader = Reader {
        directory,
        found: Vec::new(),
    };
    let answers = |listener: &Spanned<Listener>| {
        listener.get_ref().mode == Mode::Http && listener.get_ref().tls.is_none()
    };
    let has_answers = config.listeners.values().any(answers);
    for (name, listener) in &mut config.listeners {
        let listener = listener.get_mut();
        if let Some(tls) = &mut listener.tls {
            let at = tls.span();
            let spoken = (listener.mode, listener.h2);
            if let Some(acme) = &mut tls.get_mut().acme {
                let at = acme.span();
                reader.acme(name, has_answers, acme.get_mut(), &at);
            }
            let side = reader.listener(name, spoken, tls.get_ref(), &at);
            tls.get_mut().side = side;
        }
    }
    for (name, pool) in &mut config.pools {
        let pool = pool.get_mut();
        if let Some(tls) = &pool.tls {
            let side = reader.pool(name, tls, pool);
            if let Some(tls) = &mut pool.tls {
                tls.get_mut().side = side;
            }
        }
    }
    reader.found
}

/// Reads files, and says what is wrong with them.
pub(super) struct Reader<'a> {
    directory: &'a Path,
    found: Vec<Found>,
}

impl Reader<'_> {
    pub(super) fn say(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.found.push(Found::new(at, message.into()));
    }

    /// The result, or nothing and what is wrong at this place.
    pub(super) fn good<T>(&mut self, at: Range<usize>, result: Result<T, String>) -> Option<T> {
        result.map_err(|why| self.say(at, why)).ok()
    }

    pub(super) fn path(&self, path: &Path) -> PathBuf {
        self.directory.join(path)
    }

    fn listener(
        &mut self,
        name: &str,
        spoken: (Mode, ListenerH2),
        tls: &ListenerTls,
        at: &Range<usize>,
    ) -> Option<ServerSide> {
        let certificates = self.certificates(name, tls, at);
        let mut identities = Vec::new();
        for (index, certificate) in certificates.iter().enumerate() {
            let Some(identity) = self.identity(&certificate.file, certificate.key.as_ref()) else {
                continue;
            };
            if index > 0 && tls::names(&identity.identity).is_empty() {
                let file = certificate.file.get_ref().display();
                let said = format!(
                    "no client would get {file}, as it has no name of a host: put it first, or \
                     leave it out"
                );
                self.say(certificate.file.span(), said);
            }
            identities.push(identity);
        }
        let clients = match &tls.client_ca {
            None => None,
            Some(path) => {
                let read = tls::authorities(&self.path(path.get_ref()));
                Some(self.good(path.span(), read.map_err(|why| why.to_string()))?)
            }
        };
        let live = tls
            .acme
            .as_ref()
            .and_then(|acme| acme.get_ref().live.clone());
        // What is wrong was said.
        if identities.is_empty() && live.is_none() {
            return None;
        }
        let side = ServerSide::new(Offer {
            certificates: identities,
            live,
            clients,
            min_version: tls.min_version,
            protocols: protocols(spoken, tls),
            tickets: tls.tickets,
            sessions_max: tls.sessions_max,
        });
        self.good(at.clone(), side)
    }

    /// The files of a listener's certificates.
    fn certificates(
        &mut self,
        name: &str,
        tls: &ListenerTls,
        at: &Range<usize>,
    ) -> Vec<Certificate> {
        let Some(given) = &tls.certificate else {
            match (&tls.acme, &tls.key) {
                (None, _) => {
                    let said = format!(
                        "listener {name} has no certificate: give it one, or have it get one by \
                         [listener.{name}.tls.acme]"
                    );
                    self.say(at.clone(), said);
                }
                (Some(_), Some(key)) => {
                    let said = "a key without a certificate: the one of tls.acme has its own";
                    self.say(key.span(), said);
                }
                (Some(_), None) => {}
            }
            return Vec::new();
        };
        if let Some(acme) = &tls.acme {
            let said = format!(
                "listener {name} has a certificate and gets one by itself: drop one of both, or \
                 have two listeners"
            );
            self.say(acme.span(), said);
        }
        match given.get_ref() {
            Certificates::One(file) => {
                let file = Spanned::new(given.span(), file.clone());
                let key = tls.key.clone();
                vec![Certificate { file, key }]
            }
            Certificates::Many(several) => {
                if let Some(key) = &tls.key {
                    let said = "each of several certificates has a key of its own, in its table";
                    self.say(key.span(), said);
                }
                if several.is_empty() {
                    let said = format!("listener {name} has a list of no certificates: add one");
                    self.say(given.span(), said);
                }
                several.clone()
            }
        }
    }

    fn pool(&mut self, name: &str, tls: &Spanned<PoolTls>, pool: &Pool) -> Option<ClientSide> {
        let (at, tls) = (tls.span(), tls.get_ref());
        let verify = match (tls.verify, &tls.ca) {
            (Some(false), Some(ca)) => {
                let said = format!("pool {name} does not verify its servers: drop ca, or verify");
                self.say(ca.span(), said);
                return None;
            }
            (Some(false), None) => Verify::Nothing,
            (_, Some(ca)) => {
                let read = tls::authorities(&self.path(ca.get_ref()));
                Verify::By(self.good(ca.span(), read.map_err(|why| why.to_string()))?)
            }
            (_, None) => Verify::By(self.good(at.clone(), tls::system_authorities())?),
        };
        let own = match (&tls.certificate, &tls.key) {
            (Some(certificate), key) => Some(self.identity(certificate, key.as_ref())?),
            (None, Some(key)) => {
                let said = format!("pool {name} has a key and no certificate");
                self.say(key.span(), said);
                return None;
            }
            (None, None) => None,
        };
        let named = match &tls.server_name {
            None => None,
            Some(named) => {
                let text = named.get_ref().clone();
                let wrong = format!("{text:?} is no name that a certificate could have");
                let read = text.try_into().map_err(|_| wrong);
                Some(self.good(named.span(), read)?)
            }
        };
        let protocols = match pool.protocol {
            Protocol::One => Vec::new(),
            Protocol::Two => vec![tls::H2.to_vec()],
        };
        let side = ClientSide::new(verify, own, named, tls.min_version, protocols);
        let side = self.good(at, side)?;
        for server in &pool.servers {
            if let Err(why) = side.connector(&server.get_ref().address) {
                let said = format!("{why}: give pool.{name}.tls.server_name");
                self.say(server.span(), said);
            }
        }
        Some(side)
    }

    fn identity(
        &mut self,
        file: &Spanned<PathBuf>,
        key: Option<&Spanned<PathBuf>>,
    ) -> Option<Arc<Own>> {
        let key = key.unwrap_or(file);
        let (path, key_path) = (self.path(file.get_ref()), self.path(key.get_ref()));
        let read = tls::identity(&path, &key_path);
        let place = |why: &TlsError| match why.path == path {
            true => file.span(),
            false => key.span(),
        };
        let read = read.map_err(|why| self.say(place(&why), why.to_string()));
        read.ok().map(|read| Arc::new(Own::new(&path, read)))
    }
}

/// What may be spoken over TLS, the best one first. Which one it is, the session says.
fn protocols((mode, h2): (Mode, ListenerH2), tls: &ListenerTls) -> Vec<Vec<u8>> {
    match (mode, &tls.alpn) {
        (Mode::Http, _) if h2.only => vec![tls::H2.to_vec()],
        (Mode::Http, _) if h2.enabled => vec![tls::H2.to_vec(), b"http/1.1".to_vec()],
        (Mode::Http, _) => vec![b"http/1.1".to_vec()],
        (Mode::Tcp, None) => Vec::new(),
        (Mode::Tcp, Some(names)) => {
            let names = names.get_ref().iter();
            names.map(|name| name.clone().into_bytes()).collect()
        }
    }
}
