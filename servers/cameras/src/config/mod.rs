//! What the operator wrote: a file in TOML.
//!
//! [`read`] gives it with everything checked that can be checked without the network: keys that are
//! unknown, names, addresses, and values out of range. Every error says its line. The defaults
//! stand beside each key.

pub mod account;
mod described;
mod examine;
mod recording;
mod tier;

pub use account::{Account, Role};
pub use described::{Added, read_kept, write_kept};
pub use examine::name_problem;
pub use recording::{Record, Recording, Volume};
pub use servers_common::config::{ConfigError, Problem};
pub use tier::Tier;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rtsp_types::Url;
use serde::{Deserialize, Deserializer, de};
use servers_common::config::Found;
use servers_common::values;
use toml::Spanned;

use crate::events::webhook;
use crate::tls::Fingerprint;

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What concerns the process.
    #[serde(default)]
    pub process: Process,
    /// What may grow, and how far.
    #[serde(default)]
    pub limits: Limits,
    /// How cameras are connected to.
    #[serde(default)]
    pub ingest: Ingest,
    /// Where viewers and publishers connect by RTSP; nobody can, if it is not given.
    pub rtsp: Option<Spanned<Rtsp>>,
    /// How recordings are made.
    #[serde(default)]
    pub recording: Recording,
    /// Directories for recordings, by name.
    #[serde(default, rename = "volume")]
    pub volumes: BTreeMap<String, Spanned<Volume>>,
    /// Stores that recordings are copied to, by name.
    #[serde(default, rename = "tier")]
    pub tiers: BTreeMap<String, Spanned<Tier>>,
    /// Programs that are told what happens.
    #[serde(default, rename = "webhook")]
    pub webhooks: Vec<Spanned<webhook::Settings>>,
    /// Users, for RTSP and HTTP alike.
    #[serde(default, rename = "user")]
    pub users: Vec<Spanned<Account>>,
    /// Where browsers and programs connect by HTTP; nobody can, if it is not given.
    pub watch: Option<Spanned<crate::watch::Settings>>,
    /// The cameras, by name.
    #[serde(default, rename = "camera")]
    pub cameras: BTreeMap<String, Spanned<Camera>>,
}

impl Config {
    /// The users.
    pub fn accounts(&self) -> Vec<Account> {
        let accounts = self.users.iter();
        accounts.map(|account| account.get_ref().clone()).collect()
    }

    /// The files that it is read from, if it is in this one.
    pub fn files(&self, path: &Path) -> Vec<PathBuf> {
        let watch = self.watch.iter();
        let tls = watch.filter_map(|watch| watch.get_ref().tls.as_ref());
        let named = tls.flat_map(|tls| [tls.certificate.clone(), tls.key.clone()]);
        std::iter::once(path.to_owned()).chain(named).collect()
    }
}

/// What concerns the process; a change of it needs a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Process {
    /// Threads that run tasks; as many as there are processors, if it is not given.
    pub workers: Option<Spanned<usize>>,
    /// Workers that wake go before every ordinary thread of the machine.
    pub real_time: bool,
    /// The address of the page with the runtime's statistics, and of its metrics.
    pub admin_page: Option<Spanned<String>>,
    /// Where cameras are kept that requests have added; without it they are gone after a restart.
    /// From the directory of the configuration on, if it does not begin with `/`.
    pub cameras_file: Option<PathBuf>,
    /// How often the configuration and the files that it names are looked at, which are read again
    /// when they have changed; never, if it is not given.
    #[serde(deserialize_with = "values::optional_time")]
    pub watch: Option<Duration>,
}

/// What may grow, and how far.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Media of all cameras that wait in memory for viewers. What recorders hold is apart.
    #[serde(deserialize_with = "values::size")]
    pub memory: usize,
    /// The same of one camera. A group of pictures that has more than half of it is cut in two.
    #[serde(deserialize_with = "values::size")]
    pub camera_memory: usize,
    /// How far a viewer may be behind before it is moved to the newest key frame.
    #[serde(deserialize_with = "values::time")]
    pub lag: Duration,
    /// Viewers of all cameras together.
    pub viewers_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 1 << 30,
            camera_memory: 32 << 20,
            lag: Duration::from_secs(10),
            viewers_max: 4_096,
        }
    }
}

/// How cameras are connected to.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ingest {
    /// Cameras that are being connected to at the same time, up to their first packet.
    pub connects_max: usize,
    /// How long a camera may take for its connection, and for each answer.
    #[serde(deserialize_with = "values::time")]
    pub patience: Duration,
    /// After this time without a packet a session is given up.
    #[serde(deserialize_with = "values::time")]
    pub silence: Duration,
    /// The longest pause before the first attempt after a failure; drawn at random, and doubled
    /// with each failure.
    #[serde(deserialize_with = "values::time")]
    pub retry_first: Duration,
    /// The longest of all pauses.
    #[serde(deserialize_with = "values::time")]
    pub retry_max: Duration,
}

impl Default for Ingest {
    fn default() -> Self {
        Self {
            connects_max: 16,
            patience: Duration::from_secs(10),
            silence: Duration::from_secs(10),
            retry_first: Duration::from_secs(2),
            retry_max: Duration::from_secs(30),
        }
    }
}

/// Where viewers and publishers connect by RTSP.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rtsp {
    /// The address. Without users only a loopback address is taken.
    pub listen: Option<Spanned<String>>,
    /// The same for RTSP over TLS (`rtsps`), with the certificate of HTTP (`watch.tls`).
    pub listen_tls: Option<Spanned<String>>,
    /// Connections of all clients.
    #[serde(default = "sessions_max")]
    pub sessions_max: usize,
    /// Connections of one address.
    #[serde(default = "sessions_per_client_max")]
    pub sessions_per_client_max: usize,
    /// How long a client may take for a request, and for each step of taking what it is sent.
    #[serde(default = "patience", deserialize_with = "values::time")]
    pub patience: Duration,
    /// Whether viewers may have datagrams, and publishers send some, of which some may be lost.
    #[serde(default)]
    pub udp: bool,
    /// Who may.
    #[serde(default, rename = "user")]
    pub users: Vec<Spanned<User>>,
}

fn sessions_max() -> usize {
    1_000
}

fn sessions_per_client_max() -> usize {
    100
}

fn patience() -> Duration {
    Duration::from_secs(10)
}

impl Rtsp {
    /// Where it listens: in the connection as it is, and over TLS.
    pub fn addresses(&self) -> [Option<&str>; 2] {
        [&self.listen, &self.listen_tls]
            .map(|address| address.as_ref().map(|address| address.get_ref().as_str()))
    }
}

/// Who may.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The name.
    pub name: String,
    /// The password.
    pub password: String,
    /// Cameras that may be watched; `*` is all.
    #[serde(default)]
    pub view: Vec<String>,
    /// Cameras that the user may be.
    #[serde(default)]
    pub publish: Vec<String>,
}

impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Without the password, which would end up in logs.
        f.debug_struct("User")
            .field("name", &self.name)
            .field("view", &self.view)
            .field("publish", &self.publish)
            .finish_non_exhaustive()
    }
}

/// A camera.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "a table, as [camera.gate] with a url"
)]
pub struct Camera {
    /// Where its streams are; if it is not given, the camera publishes by itself.
    #[serde(default, deserialize_with = "url")]
    pub url: Option<Spanned<Url>>,
    /// Where it is asked by ONVIF for the address of its streams, instead of `url`.
    #[serde(default, deserialize_with = "onvif")]
    pub onvif: Option<Spanned<Url>>,
    /// Which of its profiles is taken, by name or token; the first one, if it is not given.
    pub profile: Option<String>,
    /// The user that it asks for.
    pub user: Option<String>,
    /// And the password.
    pub password: Option<String>,
    /// The certificate that it shows, over TLS; if it is not given, an authority that the system
    /// trusts has to vouch for it.
    pub fingerprint: Option<Fingerprint>,
    /// How its packets come.
    #[serde(default)]
    pub transport: Transport,
    /// How long packets may be held back, so that many are read at a time. Viewers see pictures
    /// that much later.
    #[serde(default = "delivery", deserialize_with = "spanned_time")]
    pub delivery: Spanned<Duration>,
    /// Where it is recorded; nowhere, if it is not given.
    pub record: Option<Spanned<Record>>,
}

impl Camera {
    /// What does not go together in how it is reached.
    pub fn address_problem(&self) -> Option<&'static str> {
        let by = |url: &Option<Spanned<Url>>, scheme: &str| {
            url.as_ref()
                .is_some_and(|url| url.get_ref().scheme() == scheme)
        };
        if self.url.is_some() && self.onvif.is_some() {
            return Some("url and onvif are two ways to say where the streams are: leave one out");
        }
        if self.profile.is_some() && self.onvif.is_none() {
            return Some("profile is for a camera with onvif");
        }
        let is_tls = by(&self.url, "rtsps") || by(&self.onvif, "https");
        (self.fingerprint.is_some() && !is_tls).then_some(
            "fingerprint is for a camera over TLS, whose url begins with rtsps://, or its onvif \
             with https://",
        )
    }

    /// Whether it is asked for its streams, and does not publish by itself.
    pub fn is_asked(&self) -> bool {
        self.url.is_some() || self.onvif.is_some()
    }

    /// What is wrong with how long its packets are held back, where sessions without a packet are
    /// given up after this time.
    pub fn delivery_problem(&self, silence: Duration) -> Option<String> {
        let delivery = *self.delivery.get_ref();
        let is_held_back = self.is_asked() && self.transport == Transport::Tcp;
        (is_held_back && delivery >= silence).then(|| {
            format!(
                "delivery is {delivery:?}, and a session without a packet for {silence:?} is given \
                 up (ingest.silence): each would break; have packets held back for less, or have \
                 silence last longer"
            )
        })
    }

    /// Whether its streams are received in the same way as another's.
    pub fn is_received_like(&self, other: &Self) -> bool {
        let apart = |camera: &Self| Self {
            record: None,
            ..camera.clone()
        };
        apart(self) == apart(other)
    }
}

impl std::fmt::Debug for Camera {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither the password nor the address, which may bear one.
        f.debug_struct("Camera")
            .field("pulls", &self.is_asked())
            .field("transport", &self.transport)
            .field("delivery", self.delivery.get_ref())
            .finish_non_exhaustive()
    }
}

/// How long packets are held back, if nothing else is said: until a camera of 1.5 Mbit/s has sent
/// what is read at once.
pub fn delivery() -> Spanned<Duration> {
    Spanned::new(0..0, Duration::from_millis(350))
}

fn spanned_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Spanned<Duration>, D::Error> {
    /// A time that [`Spanned`] can have within.
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Time(#[serde(deserialize_with = "values::time")] Duration);

    let time = Spanned::<Time>::deserialize(deserializer)?;
    Ok(Spanned::new(time.span(), time.into_inner().0))
}

/// How packets come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// In the connection.
    #[default]
    Tcp,
    /// In datagrams, of which some may be lost.
    Udp,
}

fn url<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Spanned<Url>>, D::Error> {
    let text = Spanned::<String>::deserialize(deserializer)?;
    let (at, text) = (text.span(), text.into_inner());
    let url = camera_url(&text).map_err(de::Error::custom)?;
    Ok(Some(Spanned::new(at, url)))
}

fn onvif<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Spanned<Url>>, D::Error> {
    let text = Spanned::<String>::deserialize(deserializer)?;
    let (at, text) = (text.span(), text.into_inner());
    let url = crate::onvif::device::address(&text).map_err(de::Error::custom)?;
    Ok(Some(Spanned::new(at, url)))
}

/// The address of a camera.
///
/// # Errors
///
/// It is none: what to write.
pub fn camera_url(text: &str) -> Result<Url, &'static str> {
    match Url::parse(text) {
        Ok(url) if matches!(url.scheme(), "rtsp" | "rtsps") && url.has_host() => Ok(url),
        // Not the address itself, which may bear a password.
        _ => Err(
            "this is no address of a camera: write rtsp://HOST/PATH, or rtsp://HOST:PORT/PATH; or \
             rtsps:// for TLS",
        ),
    }
}

/// Reads and checks a file.
///
/// # Errors
///
/// [`ConfigError`]: it cannot be read, or what is wrong with it.
pub fn read(path: &Path) -> Result<Config, ConfigError> {
    let file = path.display().to_string();
    servers_common::config::read(path, |config| problems(&file, config))
}

/// Reads and checks a text, whose name is for errors.
///
/// # Errors
///
/// [`ConfigError`]: what is wrong with it.
pub fn parse(file: &str, text: &str) -> Result<Config, ConfigError> {
    servers_common::config::parse(file, text, |config| problems(file, config))
}

fn problems(file: &str, config: &mut Config) -> Vec<Found> {
    let accounts = config.accounts();
    let directory = Path::new(file).parent().unwrap_or(Path::new(""));
    for tier in config.tiers.values_mut() {
        if let Some(credentials) = &mut tier.get_mut().credentials {
            *credentials = directory.join(&*credentials);
        }
    }
    if let Some(watch) = &mut config.watch {
        let watch = watch.get_mut();
        watch.accounts = accounts;
        if let Some(tls) = &mut watch.tls {
            tls.certificate = directory.join(&tls.certificate);
            tls.key = directory.join(&tls.key);
        }
    }
    examine::problems(config)
}

#[cfg(test)]
mod tests;
