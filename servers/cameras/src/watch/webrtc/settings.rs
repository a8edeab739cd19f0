//! What the operator may set about WebRTC, and where browsers are told to send.

use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;

use super::origins::is_origin;

/// Addresses that are offered at most: browsers try each of them.
const HOSTS_MAX: usize = 8;
/// Origins, each of which is compared with that of a request.
const ORIGINS_MAX: usize = 16;

/// The settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where datagrams of all sessions are taken: an IP address and a port of UDP.
    pub listen: String,
    /// Where browsers reach this machine: IP addresses, with a port if it is another one than that
    /// of `listen`. Without any, `listen` has to name an address.
    pub hosts: Vec<String>,
    /// Pages of other servers that may watch, as browsers name their origins.
    pub origins: Vec<String>,
    /// Sessions at once.
    pub sessions_max: usize,
    /// The same of one address, or of one network of IPv6 with 64 bits.
    pub sessions_per_client_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: "0.0.0.0:8189".to_owned(),
            hosts: Vec::new(),
            origins: Vec::new(),
            sessions_max: 100,
            sessions_per_client_max: 16,
        }
    }
}

/// What is wrong with the settings.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// The address is none.
    #[error(
        "watch.webrtc.listen: {0:?} is no address; write an IP address and a port, such as \
         0.0.0.0:8189"
    )]
    Listen(String),
    /// A host is none.
    #[error(
        "watch.webrtc.hosts: {0:?} is no address; write the IP address by which browsers reach \
         this machine, with a port if it is another one than that of listen"
    )]
    Host(String),
    /// A host cannot be reached through the socket.
    #[error(
        "watch.webrtc.hosts: {host} is of another family than listen, {listen}; listen on [::] \
         for both"
    )]
    Family {
        /// The host.
        host: IpAddr,
        /// Where it is listened.
        listen: SocketAddr,
    },
    /// Nobody would know where to send.
    #[error(
        "watch.webrtc.hosts is empty, and listen, {0}, names no address of this machine; add the \
         addresses by which browsers reach it"
    )]
    NoHosts(SocketAddr),
    /// There are too many.
    #[error("watch.webrtc.hosts has {0} addresses; {HOSTS_MAX} at most, as browsers try each")]
    TooMany(usize),
    /// An origin is none.
    #[error(
        "watch.webrtc.origins: {0:?} is no origin of pages; write the beginning of their address \
         as browsers send it, such as https://player.example: in small letters, and without a path"
    )]
    Origin(String),
    /// There are too many.
    #[error("watch.webrtc.origins has {0} origins; {ORIGINS_MAX} at most")]
    TooManyOrigins(usize),
}

/// Settings that are good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Where it is listened.
    pub listen: SocketAddr,
    hosts: Vec<(IpAddr, Option<u16>)>,
}

impl Settings {
    /// Checks them without listening.
    ///
    /// # Errors
    ///
    /// [`SettingsError`].
    pub fn places(&self) -> Result<Places, SettingsError> {
        let listen: SocketAddr =
            (self.listen.parse()).map_err(|_| SettingsError::Listen(self.listen.clone()))?;
        if self.hosts.len() > HOSTS_MAX {
            return Err(SettingsError::TooMany(self.hosts.len()));
        }
        if self.origins.len() > ORIGINS_MAX {
            return Err(SettingsError::TooManyOrigins(self.origins.len()));
        }
        if let Some(wrong) = self.origins.iter().find(|it| !is_origin(it)) {
            return Err(SettingsError::Origin(wrong.clone()));
        }
        let mut hosts = Vec::new();
        for text in &self.hosts {
            let (ip, port) = host(text).ok_or_else(|| SettingsError::Host(text.clone()))?;
            let takes_both = listen.is_ipv6() && listen.ip().is_unspecified();
            if ip.is_ipv4() != listen.is_ipv4() && !takes_both {
                return Err(SettingsError::Family { host: ip, listen });
            }
            hosts.push((ip, port));
        }
        if hosts.is_empty() {
            if listen.ip().is_unspecified() {
                return Err(SettingsError::NoHosts(listen));
            }
            hosts.push((listen.ip(), None));
        }
        Ok(Places { listen, hosts })
    }
}

/// An address that somebody can send to, with a port or without.
fn host(text: &str) -> Option<(IpAddr, Option<u16>)> {
    let (ip, port) = match text.parse::<SocketAddr>() {
        Ok(address) => (address.ip(), Some(address.port())),
        Err(_) => (text.parse().ok()?, None),
    };
    (!ip.is_unspecified() && !ip.is_multicast() && port != Some(0)).then_some((ip, port))
}

impl Places {
    /// What browsers are told, with the port that was opened.
    pub fn candidates(&self, opened: u16) -> Vec<SocketAddr> {
        let candidate = |&(ip, port): &(IpAddr, Option<u16>)| {
            SocketAddr::new(ip.to_canonical(), port.unwrap_or(opened))
        };
        self.hosts.iter().map(candidate).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(listen: &str, hosts: &[&str]) -> Result<Places, SettingsError> {
        let settings = Settings {
            listen: listen.to_owned(),
            hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
            ..Settings::default()
        };
        settings.places()
    }

    #[test]
    fn hosts_are_offered_with_their_port_or_that_of_the_socket() {
        let places = with("0.0.0.0:8189", &["192.0.2.7", "198.51.100.1:9000"]).unwrap();
        let expected = ["192.0.2.7:8189", "198.51.100.1:9000"];
        assert_eq!(
            places.candidates(8189),
            expected.map(|it| it.parse().unwrap())
        );
        let places = with("127.0.0.1:0", &[]).unwrap();
        assert_eq!(places.candidates(7), ["127.0.0.1:7".parse().unwrap()]);
        let both = with("[::]:8189", &["192.0.2.7", "2001:db8::7"]).unwrap();
        assert_eq!(both.candidates(8189).len(), 2);
    }

    #[test]
    fn what_is_no_origin_is_refused_with_its_name() {
        let with = |origins: Vec<String>| {
            let settings = Settings {
                listen: "127.0.0.1:0".to_owned(),
                origins,
                ..Settings::default()
            };
            settings.places().map(|_| ())
        };
        let good = "https://player.example".to_owned();
        assert_eq!(with(vec![good.clone(); 16]), Ok(()));
        let many = with(vec![good.clone(); 17]);
        assert_eq!(many, Err(SettingsError::TooManyOrigins(17)));
        let any = "*".to_owned();
        assert_eq!(
            with(vec![good, any.clone()]),
            Err(SettingsError::Origin(any))
        );
    }

    #[test]
    fn what_nobody_can_send_to_is_refused() {
        let listen = "0.0.0.0:8189".parse().unwrap();
        assert_eq!(
            with("0.0.0.0:8189", &[]),
            Err(SettingsError::NoHosts(listen))
        );
        for host in ["camera.example", "0.0.0.0", "192.0.2.7:0", "224.0.0.1", ""] {
            let expected = Err(SettingsError::Host(host.to_owned()));
            assert_eq!(with("0.0.0.0:8189", &[host]), expected, "{host}");
        }
        let listened = with("8189", &["192.0.2.7"]);
        assert_eq!(listened, Err(SettingsError::Listen("8189".to_owned())));
        let other = with("0.0.0.0:8189", &["2001:db8::7"]);
        assert!(matches!(other, Err(SettingsError::Family { .. })));
        let many = with("0.0.0.0:8189", &["192.0.2.7"; 9]);
        assert_eq!(many, Err(SettingsError::TooMany(9)));
    }
}
