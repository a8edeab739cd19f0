//! What the operator wrote: a file in TOML.
//!
//! [`read`] gives it with everything checked that can be checked without the network: keys that
//! are unknown, names that nothing has, values out of range, and certificates, which it reads.
//! Every error says its line. The defaults survive clients that send or take slowly; what they are
//! stands beside each key.

mod acme;
mod addresses;
mod class;
mod events;
mod examine;
mod examine_policy;
mod examine_tcp;
mod files;
mod http2;
mod log;
mod matching;
mod policy;
mod pool;
mod resolver;
mod tls;
mod values;

pub use acme::ListenerAcme;
pub(crate) use addresses::overlap;
pub use class::{BUILT_IN, OfClass};
pub use events::{EventFormat, Events, Level};
pub use http2::{ListenerH2, PoolH2, Protocol};
pub use log::Log;
pub use matching::{NETWORKS_MAX, Network, Pattern};
pub use policy::{
    Compress, FixedAnswer, HeaderEdits, Per, RateLimit, Redirect, RequestEdits, Scheme, Switch,
    is_type,
};
pub use pool::{
    Balance, Check, CheckKind, HashOn, Outliers, Pool, PoolTimeouts, Queue, Resolve, Retries,
    SameSite, Server, Sticky,
};
pub use resolver::Resolver;
pub use servers_common::config::{ConfigError, Problem};
pub use tls::{Certificate, Certificates, ListenerTls, PoolTls};
pub use values::{BIND_EXAMPLE, WEIGHT_MAX};

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use servers_common::config::Found;
use toml::Spanned;

use crate::congestion::CongestionControl;
use crate::policy::RequestIds;
use crate::socket::Address;

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What concerns the process.
    #[serde(default = "values::process")]
    pub process: Spanned<Process>,
    /// What operators are told, and how.
    #[serde(default)]
    pub events: Events,
    /// How names of servers are looked up.
    #[serde(default = "values::resolver")]
    pub resolver: Spanned<Resolver>,
    /// Classes of work, by name.
    #[serde(default, rename = "class")]
    pub classes: BTreeMap<String, Spanned<OfClass>>,
    /// Logs of requests, by name.
    #[serde(default, rename = "log")]
    pub logs: BTreeMap<String, Spanned<Log>>,
    /// Where clients connect, by name.
    #[serde(default, rename = "listener")]
    pub listeners: BTreeMap<String, Spanned<Listener>>,
    /// Where they are sent, by name.
    #[serde(default, rename = "pool")]
    pub pools: BTreeMap<String, Spanned<Pool>>,
    /// The files that it was read of.
    #[serde(skip)]
    pub files: Vec<PathBuf>,
}

/// What concerns the process; a change of it needs a restart.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Process {
    /// Threads that run tasks; as many as there are processors, if it is not given.
    pub workers: Option<usize>,
    /// The longest time between two I/O checks of a busy worker; the runtime's, if it is not given.
    #[serde(deserialize_with = "values::optional_time")]
    pub io_check_bound: Option<Duration>,
    /// Events that an I/O check takes at most; as many as the runtime has it, if it is not given.
    pub io_check_events: Option<usize>,
    /// Whether workers that wake go before every ordinary thread of the machine.
    pub real_time: RealTime,
    /// Connections of clients, of all listeners together. More wait to be accepted.
    pub connections_max: usize,
    /// How long connections may go on after the signal to end.
    #[serde(deserialize_with = "values::time")]
    pub drain: Duration,
    /// How long a process that is to take over may take until it serves.
    #[serde(deserialize_with = "values::time")]
    pub upgrade_timeout: Duration,
    /// How often the files are looked at, which are read again when they have changed; never, if it
    /// is not given.
    #[serde(deserialize_with = "values::optional_time")]
    pub watch: Option<Duration>,
    /// Where the process id of the one that serves stands.
    pub pid_file: Option<PathBuf>,
    /// The path of the socket for operators.
    pub admin_socket: Option<PathBuf>,
    /// The address of the page with the runtime's statistics, and of its metrics.
    pub admin_page: Option<String>,
    /// The file with the token of the page, which others need who can connect to it.
    pub admin_page_token_file: Option<PathBuf>,
    /// Bytes of bodies that all connections of HTTP/2 together may hold.
    pub h2_held_bytes_max: usize,
}

/// Whether workers that wake go before every ordinary thread of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RealTime {
    /// If the system allows it.
    Auto,
    /// They do, or the proxy does not begin.
    Yes,
    /// They do not.
    No,
}

impl Process {
    /// The keys that have other values in another one, with their section.
    pub(crate) fn differing(&self, other: &Self) -> Vec<String> {
        macro_rules! differing {
            ($($key:ident),*) => {{
                // All of them, or this is an error.
                let Self { $($key),* } = self;
                [$((stringify!($key), *$key != other.$key)),*]
            }};
        }
        let keys = differing!(
            workers,
            io_check_bound,
            io_check_events,
            real_time,
            connections_max,
            drain,
            upgrade_timeout,
            watch,
            pid_file,
            admin_socket,
            admin_page,
            admin_page_token_file,
            h2_held_bytes_max
        );
        let differ = keys.into_iter().filter(|&(_, differs)| differs);
        differ.map(|(key, _)| format!("process.{key}")).collect()
    }

    /// Whether busy workers look for events too seldom for real-time priority, which they have to
    /// give up within 2 ms.
    pub(crate) fn looks_late(&self) -> bool {
        let bout = Duration::from_millis(2);
        self.io_check_bound.is_some_and(|bound| bound > bout)
    }
}

impl Default for Process {
    fn default() -> Self {
        Self {
            workers: None,
            io_check_bound: None,
            io_check_events: None,
            real_time: RealTime::Auto,
            connections_max: 20_000,
            drain: Duration::from_secs(30),
            upgrade_timeout: Duration::from_secs(30),
            watch: None,
            pid_file: None,
            admin_socket: None,
            admin_page: None,
            admin_page_token_file: None,
            h2_held_bytes_max: http2::ALL_HELD_BYTES_MAX,
        }
    }
}

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listener {
    /// The address.
    pub bind: Spanned<Address>,
    /// What is spoken there.
    pub mode: Mode,
    /// Where connections go, or requests that no route takes.
    pub pool: Option<Spanned<String>>,
    /// Clients are proxies, and begin with a header of the PROXY protocol.
    #[serde(default)]
    pub accept_proxy: bool,
    /// Clients speak TLS; their header of the PROXY protocol comes before it.
    pub tls: Option<Spanned<ListenerTls>>,
    /// The class of its connections; `normal`, if it is not given.
    pub class: Option<Spanned<String>>,
    /// A socket for each worker, so that connections stay with the worker that took them.
    #[serde(default)]
    pub per_worker: bool,
    /// Connections of all clients.
    #[serde(default = "values::connections_max")]
    pub connections_max: usize,
    /// Connections of one address.
    #[serde(default = "values::connections_per_client_max")]
    pub connections_per_client_max: usize,
    /// The largest head of a request, and of an answer.
    #[serde(default = "values::head_bytes_max")]
    pub head_bytes_max: usize,
    /// Bytes a second by which a body gets its time back, so that it may not be slower for longer
    /// than that; 0 switches this off.
    #[serde(default = "values::body_rate_min")]
    pub body_rate_min: u64,
    /// The kernel moves long bodies and the bytes of TCP, where neither side is over TLS.
    #[serde(default = "values::splice")]
    pub splice: bool,
    /// The congestion control of what is sent to clients.
    #[serde(default, deserialize_with = "values::congestion_control")]
    pub congestion_control: CongestionControl,
    /// What becomes of `X-Forwarded-For`.
    #[serde(default)]
    pub forwarded_for: ForwardedFor,
    /// HTTP/2, with mode `http`.
    #[serde(default)]
    pub h2: ListenerH2,
    /// How long clients may take.
    #[serde(default)]
    pub timeouts: ListenerTimeouts,
    /// How many requests there may be, beside what routes say.
    pub rate_limit: Option<Spanned<RateLimit>>,
    /// The log of its requests.
    pub log: Option<Spanned<String>>,
    /// Whether requests get an `X-Request-Id`.
    #[serde(default)]
    pub request_ids: RequestIds,
    /// What is changed in requests, before what routes change.
    pub request: Option<Spanned<RequestEdits>>,
    /// What is changed in answers, before what routes change.
    pub response: Option<Spanned<HeaderEdits>>,
    /// Which answers are compressed, if routes do not say it.
    pub compress: Option<Spanned<Switch<Compress>>>,
    /// Where requests that no route takes are to be asked for instead.
    pub redirect: Option<Spanned<Redirect>>,
    /// Which requests go where, in order: the first one that fits is taken.
    #[serde(default, rename = "route")]
    pub routes: Vec<Spanned<Route>>,
}

/// What is spoken at a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Bytes are passed on as they are.
    Tcp,
    /// HTTP/1.1 and HTTP/2.
    Http,
}

/// What becomes of `X-Forwarded-For`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ForwardedFor {
    /// Says the client's address; what the client said is dropped.
    #[default]
    Replace,
    /// The client's address comes after what it said, for clients that are proxies.
    Append,
    /// Stays as it is.
    Keep,
}

/// How long clients may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListenerTimeouts {
    /// For a header of the PROXY protocol.
    #[serde(deserialize_with = "values::time")]
    pub proxy_header: Duration,
    /// For a handshake of TLS, with the time in which it waits for its turn.
    #[serde(deserialize_with = "values::time")]
    pub handshake: Duration,
    /// For the head of a request, from its first byte, and of the first one from the connection.
    #[serde(deserialize_with = "values::time")]
    pub head: Duration,
    /// For a body, in waiting for the client; bytes give it back, by `body_rate_min`.
    #[serde(deserialize_with = "values::time")]
    pub body: Duration,
    /// Between two requests.
    #[serde(deserialize_with = "values::time")]
    pub keep_alive: Duration,
    /// Without a byte in either direction, with TCP and after an upgrade such as to a WebSocket.
    #[serde(deserialize_with = "values::time")]
    pub idle: Duration,
}

impl Default for ListenerTimeouts {
    fn default() -> Self {
        Self {
            proxy_header: Duration::from_secs(5),
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            keep_alive: Duration::from_secs(60),
            idle: Duration::from_secs(300),
        }
    }
}

/// Requests or connections that go to a pool of their own, or are answered here. All conditions
/// have to be met.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The host, without its port; `*.example.org` takes all names below `example.org`.
    pub host: Option<String>,
    /// The path, or the beginning of it up to a `/`.
    pub path: Option<String>,
    /// The path, and none below it.
    pub path_is: Option<String>,
    /// What the path begins with, wherever that ends.
    pub path_begins: Option<String>,
    /// What the path ends with.
    pub path_ends: Option<String>,
    /// Where the client is: in one of these networks.
    pub client: Option<Vec<Network>>,
    /// A pattern of the host, without its port.
    pub host_matches: Option<Pattern<true>>,
    /// A pattern of the path.
    pub path_matches: Option<Pattern>,
    /// Patterns of headers.
    #[serde(default)]
    pub header_matches: BTreeMap<String, Pattern>,
    /// One of these methods.
    pub methods: Option<Vec<String>>,
    /// These headers with these values; `*` takes any value.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// With mode `tcp`: one of these names that clients ask for by TLS, as with `host`.
    pub server_names: Option<Vec<String>>,
    /// With mode `tcp`, in place of a pool: connections are reset.
    #[serde(default)]
    pub reject: bool,
    /// The pool; or `redirect`, or `answer`.
    pub pool: Option<Spanned<String>>,
    /// Where to ask instead.
    pub redirect: Option<Spanned<Redirect>>,
    /// An answer that is always the same.
    pub answer: Option<Spanned<FixedAnswer>>,
    /// The class of these requests, from the end of their heads on; that of the listener, if it is
    /// not given.
    pub class: Option<Spanned<String>>,
    /// How many requests there may be.
    pub rate_limit: Option<Spanned<RateLimit>>,
    /// What is changed in requests.
    pub request: Option<Spanned<RequestEdits>>,
    /// What is changed in answers.
    pub response: Option<Spanned<HeaderEdits>>,
    /// Which answers are compressed.
    pub compress: Option<Spanned<Switch<Compress>>>,
}

/// Reads and checks a file.
///
/// # Errors
///
/// [`ConfigError`]: it cannot be read, or what is wrong with it.
pub fn read(path: &Path) -> Result<Config, ConfigError> {
    let check = |config: &mut Config| problems(&path.display().to_string(), config);
    let mut config = servers_common::config::read(path, check)?;
    config.files = files::files(path, &config);
    Ok(config)
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
    let mut found = examine::problems(config);
    let directory = Path::new(file).parent().unwrap_or(Path::new(""));
    found.extend(tls::read_files(config, directory));
    found
}

#[cfg(test)]
mod tests;
