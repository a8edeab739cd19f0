//! Where clients are sent: pools of servers.

use std::time::Duration;

use serde::Deserialize;
use toml::Spanned;

use super::http2::{PoolH2, Protocol};
use super::tls::{self, PoolTls};
use super::values;
use crate::proxy_protocol::Version;
use crate::socket::Address;
use crate::tls::ClientSide;

/// Servers that do the same.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// How one is chosen.
    #[serde(default)]
    pub balance: Balance,
    /// What is hashed, if that is by hash.
    pub hash_on: Option<Spanned<HashOn>>,
    /// Clients come back to their server, by a cookie.
    pub sticky: Option<Spanned<Sticky>>,
    /// The servers.
    #[serde(default, rename = "server")]
    pub servers: Vec<Spanned<Server>>,
    /// What they speak, with mode `http`.
    #[serde(default)]
    pub protocol: Protocol,
    /// More of HTTP/2.
    #[serde(default)]
    pub h2: PoolH2,
    /// TLS to them; without it, none.
    #[serde(default, deserialize_with = "tls::of_pool")]
    pub tls: Option<Spanned<PoolTls>>,
    /// How to find out which of them are up; without it, all are.
    pub check: Option<Check>,
    /// How often something is tried again.
    #[serde(default)]
    pub retries: Retries,
    /// Who waits while all servers are busy.
    #[serde(default)]
    pub queue: Queue,
    /// Requests or connections of all servers together; more wait in the queue.
    #[serde(default = "values::no_limit")]
    pub requests_max: usize,
    /// Which servers get no requests for a while, by what becomes of those that they get; without
    /// it, none.
    pub outliers: Option<Spanned<Outliers>>,
    /// How long a server that comes up takes to get its whole share.
    #[serde(default, deserialize_with = "values::optional_time")]
    pub slow_start: Option<Duration>,
    /// How long servers may take.
    #[serde(default)]
    pub timeouts: PoolTimeouts,
    /// Connections to each server that are kept for the next request.
    #[serde(default = "values::idle_connections_max")]
    pub idle_connections_max: usize,
}

impl Pool {
    /// TLS to its servers.
    pub fn tls_side(&self) -> Option<&ClientSide> {
        self.tls.as_ref()?.get_ref().side.as_ref()
    }
}

/// How a server is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Balance {
    /// In turn, by weight.
    #[default]
    RoundRobin,
    /// The one with the fewest connections for its weight.
    LeastConnections,
    /// The same one for the same key, as long as it is there.
    Hash,
}

/// What is hashed: `client`, `path` or `header:NAME`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum HashOn {
    /// The client's address.
    Client,
    /// The path, without its query.
    Path,
    /// The value of a header; requests without it go by the client's address.
    Header(String),
}

impl TryFrom<String> for HashOn {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "client" => Ok(Self::Client),
            "path" => Ok(Self::Path),
            other => match other.strip_prefix("header:") {
                Some(name) if values::is_token(name) => Ok(Self::Header(name.to_owned())),
                _ => Err(format!(
                    "{other:?} is nothing to hash: write \"client\", \"path\" or \"header:NAME\""
                )),
            },
        }
    }
}

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name, for operators.
    pub name: String,
    /// Its address.
    pub address: Address,
    /// Which addresses of a name are used.
    #[serde(default)]
    pub resolve: Resolve,
    /// The address as configured, if another one was found by its name.
    #[serde(skip)]
    pub named: Option<Address>,
    /// Its part of the work, from 0 to 256.
    #[serde(default = "values::weight")]
    pub weight: u32,
    /// Connections to it that are in use.
    #[serde(default = "values::server_connections_max")]
    pub connections_max: usize,
    /// It is told by the PROXY protocol whose connection it is. Such connections are not kept.
    pub send_proxy: Option<Version>,
    /// It begins in maintenance, until operators say otherwise.
    #[serde(default)]
    pub disabled: bool,
    /// It gets something only while all others are down or ejected.
    #[serde(default)]
    pub backup: bool,
}

impl Server {
    /// Its address as configured, by which certificates and requests of checks name it.
    pub fn named(&self) -> &Address {
        self.named.as_ref().unwrap_or(&self.address)
    }

    /// The host and the port that checks ask for.
    pub fn shown(&self) -> String {
        match self.named() {
            // A service has a host of its own for each server.
            Address::Service(_) => self.address.to_string(),
            address => address.to_string(),
        }
    }
}

/// Which addresses of a name are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resolve {
    /// The first one, as one server.
    #[default]
    First,
    /// Each, as a server of its own.
    All,
}

/// How to find out which servers are up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    /// What is tried.
    pub kind: CheckKind,
    /// The method.
    #[serde(default = "values::get")]
    pub method: String,
    /// The path that is asked for.
    #[serde(default = "values::root")]
    pub path: String,
    /// The host that is asked for; the server's address, if it is not given.
    pub host: Option<String>,
    /// The service that is asked for, with kind `grpc`; the whole server, if it is not given.
    pub service: Option<String>,
    /// Statuses of a server that is up; 200 to 399, if none are given.
    #[serde(default)]
    pub expect: Vec<u16>,
    /// The time between two checks.
    #[serde(default = "values::two_seconds", deserialize_with = "values::time")]
    pub interval: Duration,
    /// For the whole check.
    #[serde(default = "values::two_seconds", deserialize_with = "values::time")]
    pub timeout: Duration,
    /// After so many good checks in a row it is up.
    #[serde(default = "values::rise")]
    pub rise: u32,
    /// After so many bad ones it is down.
    #[serde(default = "values::fall")]
    pub fall: u32,
}

/// What a check tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CheckKind {
    /// To connect.
    Tcp,
    /// A request.
    Http,
    /// A call of `grpc.health.v1.Health`.
    Grpc,
}

/// Clients that come back to their server: by a cookie, which they get with their first answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sticky {
    /// The name of the cookie.
    pub cookie: String,
    /// How long clients keep it; until they end, if it is not given.
    #[serde(default, deserialize_with = "values::optional_time")]
    pub max_age: Option<Duration>,
    /// They send it over TLS alone.
    #[serde(default)]
    pub secure: bool,
    /// Whether they send it with requests that come from other sites.
    #[serde(default)]
    pub same_site: SameSite,
}

/// Whether a cookie is sent with requests that come from other sites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SameSite {
    /// When somebody follows a link.
    #[default]
    Lax,
    /// No.
    Strict,
    /// Yes, which needs `secure`.
    None,
}

/// Which servers get no requests for a while. A failure is a connection that cannot be made, an
/// answer that does not come or cannot be read, and a status from 500 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Outliers {
    /// After so many failures in a row; 0 switches this off.
    pub consecutive: u32,
    /// When so many of a hundred have failed in the window; 0 switches this off.
    pub failure_percent: u32,
    /// The window.
    #[serde(deserialize_with = "values::time")]
    pub window: Duration,
    /// Outcomes that the window has to have.
    pub requests_min: u32,
    /// For how long; twice as long each time that it fails again.
    #[serde(deserialize_with = "values::time")]
    pub ejection: Duration,
    /// No longer than this.
    #[serde(deserialize_with = "values::time")]
    pub ejection_max: Duration,
    /// So many of a hundred servers of the pool may be out at a time.
    pub ejected_percent_max: u32,
    /// Whether a status from 500 on is a failure.
    pub server_errors: bool,
}

impl Default for Outliers {
    fn default() -> Self {
        Self {
            consecutive: 5,
            failure_percent: 50,
            window: Duration::from_secs(10),
            requests_min: 20,
            ejection: Duration::from_secs(30),
            ejection_max: Duration::from_secs(300),
            ejected_percent_max: 50,
            server_errors: true,
        }
    }
}

/// How often something is tried again that may be: a connection that was not made, and a request
/// that may be sent twice over a connection that the server had closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retries {
    /// Attempts after the first one.
    pub max: u32,
    /// Retries of the whole pool, in percent of its requests, so that they cannot multiply the load
    /// of servers that fail for it.
    pub budget_percent: u32,
    /// As many are allowed in any case, saved up while there were none.
    pub reserve: u32,
}

impl Default for Retries {
    fn default() -> Self {
        Self {
            max: 2,
            budget_percent: 20,
            reserve: 10,
        }
    }
}

/// Who waits while all servers have their `connections_max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    /// So many wait.
    pub max: usize,
    /// For so long.
    #[serde(deserialize_with = "values::time")]
    pub timeout: Duration,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            max: 1_000,
            timeout: Duration::from_secs(5),
        }
    }
}

/// How long servers may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolTimeouts {
    /// For a connection, with its handshake of TLS.
    #[serde(deserialize_with = "values::time")]
    pub connect: Duration,
    /// For the head of the answer, from the end of the request's head.
    #[serde(deserialize_with = "values::time")]
    pub answer: Duration,
    /// Without a byte of the answer's body, and without taking any of the request's.
    #[serde(deserialize_with = "values::time")]
    pub body: Duration,
    /// For which a connection is kept: shorter than common servers keep theirs, since a request
    /// that meets a closing connection may be lost.
    #[serde(deserialize_with = "values::time")]
    pub keep: Duration,
}

impl Default for PoolTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(60),
            body: Duration::from_secs(60),
            keep: Duration::from_secs(4),
        }
    }
}
