//! Which names a configuration has, and which servers they come to. Knows no network.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;

use toml::Spanned;

use crate::config::{Config, Pool, Resolve, Server, WEIGHT_MAX};
use crate::socket::Address;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// The addresses of a host.
    Host(String),
    /// The servers of a service.
    Service(String),
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(name) | Self::Service(name) => f.write_str(name),
        }
    }
}

/// A server that a name comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// Its address; of a host, the port is 0.
    pub address: SocketAddr,
    /// Its weight among those of a service.
    pub weight: u16,
}

/// What is known of names.
pub(super) type Known = BTreeMap<Name, Vec<Found>>;

/// The name in an address, and the port if it has one; `None` if nothing is to be asked.
fn name_of(address: &Address) -> Option<(Name, u16)> {
    match address {
        Address::Tcp(text) if !address.is_known() => {
            let (host, port) = text.rsplit_once(':')?;
            Some((Name::Host(host.to_owned()), port.parse().ok()?))
        }
        Address::Service(name) => Some((Name::Service(name.clone()), 0)),
        Address::Tcp(_) | Address::Unix(_) => None,
    }
}

/// All names that are to be asked for.
pub(super) fn names(config: &Config) -> BTreeSet<Name> {
    let pools = config.pools.values().map(Spanned::get_ref);
    let servers = pools.flat_map(|pool| &pool.servers).map(Spanned::get_ref);
    let names = servers.filter_map(|server| name_of(&server.address));
    names.map(|(name, _)| name).collect()
}

/// The pool with the addresses of its servers instead of their names. One of which nothing is known
/// stays as it is.
pub(super) fn resolved(pool: &Pool, known: &Known) -> Pool {
    let mut resolved = pool.clone();
    resolved.servers = pool
        .servers
        .iter()
        .flat_map(|spanned| {
            let server = spanned.get_ref();
            let found = name_of(&server.address).and_then(|(name, port)| {
                let found = known.get(&name).filter(|found| !found.is_empty())?;
                Some((found, port))
            });
            let servers = match found {
                None => vec![server.clone()],
                Some((found, port)) => of_name(server, found, port),
            };
            let at = spanned.span();
            servers
                .into_iter()
                .map(move |server| Spanned::new(at.clone(), server))
        })
        .collect();
    resolved
}

/// The servers that one by a name comes to.
fn of_name(server: &Server, found: &[Found], port: u16) -> Vec<Server> {
    let is_service = matches!(server.address, Address::Service(_));
    let count = match server.resolve {
        Resolve::First if !is_service => 1,
        Resolve::First | Resolve::All => found.len(),
    };
    let heaviest = found.iter().map(|found| found.weight).max().unwrap_or(0);
    let of_found = |found: &Found| {
        let mut address = found.address;
        if !is_service {
            address.set_port(port);
        }
        let mut one = server.clone();
        if count > 1 || is_service || server.resolve == Resolve::All {
            // By its address, so that it is the same one whatever others come and go.
            one.name = format!("{}@{address}", server.name);
        }
        if is_service && server.weight > 0 {
            one.weight = weight(found.weight, heaviest, server.weight);
        }
        one.address = Address::Tcp(address.to_string());
        one.named = Some(server.address.clone());
        one
    };
    found.iter().take(count).map(of_found).collect()
}

/// Weights of a service are in any proportion, and ours are at most 256. One of 0 has little.
fn weight(of: u16, heaviest: u16, otherwise: u32) -> u32 {
    if of == heaviest {
        // All are alike, or it is the one by which others are measured.
        return if heaviest == 0 { otherwise } else { WEIGHT_MAX };
    }
    (u32::from(of) * WEIGHT_MAX / u32::from(heaviest)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    const CONFIG: &str = r#"
[listener.l]
bind = "127.0.0.1:0"
mode = "tcp"
pool = "p"
[pool.p]
server = [
    { name = "one", address = "a.example:80" },
    { name = "all", address = "a.example:81", resolve = "all", weight = 3 },
    { name = "srv", address = "srv:_http._tcp.b.example" },
    { name = "plain", address = "10.0.0.9:80" },
    { name = "file", address = "unix:/run/a" },
    { name = "lost", address = "lost.example:80" },
]
"#;

    fn found(address: &str, weight: u16) -> Found {
        let address = address.parse().unwrap();
        Found { address, weight }
    }

    #[test]
    fn servers_by_name_come_to_servers_by_address() {
        let config = config::parse("test", CONFIG).unwrap();
        let (host, service) = (
            Name::Host("a.example".to_owned()),
            Name::Service("_http._tcp.b.example".to_owned()),
        );
        let lost = Name::Host("lost.example".to_owned());
        let all = BTreeSet::from([host.clone(), service.clone(), lost.clone()]);
        assert_eq!(names(&config), all);
        let known = Known::from([
            (host, vec![found("10.0.0.1:0", 0), found("[::1]:0", 0)]),
            (
                service,
                vec![found("10.0.1.1:90", 5), found("10.0.1.2:91", 10)],
            ),
            (lost, Vec::new()),
        ]);
        let pool = resolved(config.pools["p"].get_ref(), &known);
        let of = |server: &Spanned<Server>| {
            let server = server.get_ref();
            (
                server.name.clone(),
                server.address.to_string(),
                server.weight,
            )
        };
        let expected = [
            ("one", "10.0.0.1:80", 1),
            ("all@10.0.0.1:81", "10.0.0.1:81", 3),
            ("all@[::1]:81", "[::1]:81", 3),
            ("srv@10.0.1.1:90", "10.0.1.1:90", 128),
            ("srv@10.0.1.2:91", "10.0.1.2:91", 256),
            ("plain", "10.0.0.9:80", 1),
            ("file", "unix:/run/a", 1),
            ("lost", "lost.example:80", 1),
        ];
        let expected = expected.map(|(name, at, weight)| (name.to_owned(), at.to_owned(), weight));
        assert_eq!(pool.servers.iter().map(of).collect::<Vec<_>>(), expected);
        let first = pool.servers[0].get_ref();
        assert_eq!(first.shown(), "a.example:80", "as whom it is asked");
    }

    #[test]
    fn weights_of_a_service_keep_their_proportion() {
        for (of, heaviest, expected) in [
            (0, 0, 7),
            (9, 9, 256),
            (0, 9, 1),
            (1, u16::MAX, 1),
            (3, 6, 128),
        ] {
            assert_eq!(weight(of, heaviest, 7), expected, "{of} of {heaviest}");
        }
    }
}
