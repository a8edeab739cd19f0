//! How names of servers are looked up.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;

use super::values;

/// How names of servers are looked up.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resolver {
    /// Who is asked; those of the system, if none is given.
    pub servers: Vec<SocketAddr>,
    /// For an answer.
    #[serde(deserialize_with = "values::time")]
    pub timeout: Duration,
    /// How often it is asked again if none comes.
    pub attempts: usize,
    /// A name is not asked for more often, whatever its answer says.
    #[serde(deserialize_with = "values::time")]
    pub ttl_min: Duration,
    /// Nor more rarely.
    #[serde(deserialize_with = "values::time")]
    pub ttl_max: Duration,
    /// Addresses of one name.
    pub addresses_max: usize,
}

impl Default for Resolver {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: Duration::from_secs(2),
            attempts: 2,
            ttl_min: Duration::from_secs(1),
            ttl_max: Duration::from_secs(300),
            addresses_max: 64,
        }
    }
}
