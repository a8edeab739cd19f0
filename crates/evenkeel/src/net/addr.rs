//! Socket addresses, and the lookup of names.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::{option, vec};

use crate::runtime;

use self::sealed::Targets;

/// A value that can be turned into socket addresses: an address, a list of them, or a name with a
/// port.
///
/// Addresses, and text that spells one, are used at once. A name is looked up by the system's
/// resolver on a blocking thread, as the resolver has no other interface.
///
/// The trait is sealed: it is implemented for the types listed below and for no others.
pub trait ToSocketAddrs: sealed::Sealed {}

impl<T: sealed::Sealed + ?Sized> ToSocketAddrs for T {}

/// Looks up the addresses that `host` stands for, in the order in which the system prefers them.
///
/// The iterator is empty only if `host` is an empty list of addresses.
///
/// # Errors
///
/// The name cannot be resolved, the text is not of the form `host:port`, or the queue of blocking
/// work is full.
///
/// # Cancel safety
///
/// Cancel safe. A lookup that has begun on its blocking thread runs to its end, and its result is
/// dropped.
///
/// # Examples
///
/// ```
/// # evenkeel::runtime::Runtime::new().unwrap().block_on(async {
/// let mut addresses = evenkeel::net::lookup_host("localhost:80").await?;
/// assert!(addresses.all(|address| address.ip().is_loopback()));
/// # Ok::<(), std::io::Error>(()) }).unwrap();
/// ```
pub async fn lookup_host<T: ToSocketAddrs>(
    host: T,
) -> io::Result<impl Iterator<Item = SocketAddr>> {
    resolve(host).await
}

/// The addresses of `host`, without a lookup where no name is involved.
pub(super) async fn resolve<T: ToSocketAddrs>(host: T) -> io::Result<Addresses> {
    match host.targets() {
        Targets::One(address) => Ok(Addresses::One(Some(address).into_iter())),
        Targets::Many(addresses) => Ok(Addresses::Many(addresses.into_iter())),
        Targets::HostAndPort(text) => look_up(text).await,
        Targets::Host(host, port) => look_up((host, port)).await,
    }
}

async fn look_up<T>(name: T) -> io::Result<Addresses>
where
    T: std::net::ToSocketAddrs<Iter = vec::IntoIter<SocketAddr>> + fmt::Debug + Send + 'static,
{
    let looked_up = runtime::spawn_blocking(move || {
        name.to_socket_addrs().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot look up {name:?}: {error}"))
        })
    });
    match looked_up.await {
        Ok(addresses) => addresses.map(Addresses::Many),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Calls `attempt` with each address of `host` until it succeeds. Returns the last error if none
/// does.
pub(super) async fn each_address<T, R, F>(
    host: T,
    mut attempt: impl FnMut(SocketAddr) -> F,
) -> io::Result<R>
where
    T: ToSocketAddrs,
    F: Future<Output = io::Result<R>>,
{
    let mut failure = None;
    for address in resolve(host).await? {
        match attempt(address).await {
            Ok(done) => return Ok(done),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(no_address))
}

pub(super) fn no_address() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "no socket address to use: the list given is empty",
    )
}

/// Socket addresses, one by one. A single one, by far the most common case, costs no allocation.
#[derive(Debug)]
pub(super) enum Addresses {
    One(option::IntoIter<SocketAddr>),
    Many(vec::IntoIter<SocketAddr>),
}

impl Iterator for Addresses {
    type Item = SocketAddr;

    fn next(&mut self) -> Option<SocketAddr> {
        match self {
            Self::One(address) => address.next(),
            Self::Many(addresses) => addresses.next(),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self {
            Self::One(address) => address.size_hint(),
            Self::Many(addresses) => addresses.size_hint(),
        }
    }
}

mod sealed {
    use std::net::SocketAddr;

    /// A host before any lookup.
    #[derive(Debug, PartialEq, Eq)]
    pub enum Targets {
        One(SocketAddr),
        Many(Vec<SocketAddr>),
        HostAndPort(String),
        Host(String, u16),
    }

    pub trait Sealed {
        fn targets(&self) -> Targets;
    }
}

impl<T: sealed::Sealed + ?Sized> sealed::Sealed for &T {
    fn targets(&self) -> Targets {
        (**self).targets()
    }
}

/// Types that hold an address.
macro_rules! known {
    ($($type:ty),* $(,)?) => {$(
        impl sealed::Sealed for $type {
            fn targets(&self) -> Targets {
                Targets::One((*self).into())
            }
        }
    )*};
}

known!(
    SocketAddr,
    SocketAddrV4,
    SocketAddrV6,
    (IpAddr, u16),
    (Ipv4Addr, u16),
    (Ipv6Addr, u16)
);

impl sealed::Sealed for [SocketAddr] {
    fn targets(&self) -> Targets {
        match self {
            [address] => Targets::One(*address),
            addresses => Targets::Many(addresses.to_vec()),
        }
    }
}

impl<const N: usize> sealed::Sealed for [SocketAddr; N] {
    fn targets(&self) -> Targets {
        self.as_slice().targets()
    }
}

impl sealed::Sealed for Vec<SocketAddr> {
    fn targets(&self) -> Targets {
        self.as_slice().targets()
    }
}

impl sealed::Sealed for str {
    fn targets(&self) -> Targets {
        match self.parse() {
            Ok(address) => Targets::One(address),
            Err(_) => Targets::HostAndPort(self.to_owned()),
        }
    }
}

impl sealed::Sealed for String {
    fn targets(&self) -> Targets {
        self.as_str().targets()
    }
}

impl sealed::Sealed for (&str, u16) {
    fn targets(&self) -> Targets {
        let (host, port) = *self;
        match host.parse::<IpAddr>() {
            Ok(ip) => Targets::One((ip, port).into()),
            Err(_) => Targets::Host(host.to_owned(), port),
        }
    }
}

impl sealed::Sealed for (String, u16) {
    fn targets(&self) -> Targets {
        (self.0.as_str(), self.1).targets()
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::sealed::Sealed as _;
    use super::*;

    #[test]
    fn an_address_in_any_spelling_needs_no_lookup() {
        let v4: SocketAddr = "127.0.0.1:80".parse().unwrap();
        let v6: SocketAddr = "[::1]:80".parse().unwrap();
        assert_eq!(v4.targets(), Targets::One(v4));
        assert_eq!("127.0.0.1:80".targets(), Targets::One(v4));
        assert_eq!(String::from("[::1]:80").targets(), Targets::One(v6));
        assert_eq!(("127.0.0.1", 80).targets(), Targets::One(v4));
        assert_eq!(("::1", 80).targets(), Targets::One(v6));
        assert_eq!((Ipv4Addr::LOCALHOST, 80).targets(), Targets::One(v4));
        assert_eq!([v4, v6][..].targets(), Targets::Many(vec![v4, v6]));
        assert_eq!([v6].targets(), Targets::One(v6));
    }

    #[test]
    fn anything_else_is_a_name() {
        assert_eq!(
            "a.test:80".targets(),
            Targets::HostAndPort("a.test:80".into())
        );
        assert_eq!("a.test".targets(), Targets::HostAndPort("a.test".into()));
        assert_eq!(
            (String::from("a.test"), 80).targets(),
            Targets::Host("a.test".into(), 80)
        );
    }
}
