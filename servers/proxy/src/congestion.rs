//! The congestion control of connections (`TCP_CONGESTION`).
//!
//! One that paces, such as BBR, spreads what it sends by a timer of the kernel for each connection
//! (`sch_fq` or, without it, TCP's own: Linux, `net/ipv4/tcp_output.c`, `tcp_pacing_check`).
//! Between two programs of one machine there is no link to be shared, and the timers cost more than
//! what is sent: a megabyte of HTTP took twice the processor time (`docs/notebook/proxy-cost.md`).

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;

#[cfg(target_os = "linux")]
use nix::sys::socket::{getsockopt, setsockopt, sockopt};

/// Every Linux has it, and lets everybody use it.
const RENO: &str = "reno";

/// The system's own, for sockets that ask for no other.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Names are no longer (`TCP_CA_NAME_MAX`, with a zero at the end).
const NAME_MAX: usize = 15;

/// The congestion control of what is sent to clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CongestionControl {
    /// The system's own; where that paces and clients are on this machine, Reno.
    #[default]
    Auto,
    /// The system's own.
    System,
    /// This one.
    Named(String),
}

impl CongestionControl {
    /// As it is written in a configuration.
    pub fn parse(text: &str) -> Option<Self> {
        let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
        match text {
            "auto" => Some(Self::Auto),
            "system" => Some(Self::System),
            "" => None,
            name if name.len() <= NAME_MAX && name.bytes().all(is_of_name) => {
                Some(Self::Named(name.to_owned()))
            }
            _ => None,
        }
    }

    /// Has a socket that listens at this address use it, and the connections that it takes from
    /// now on.
    ///
    /// # Errors
    ///
    /// The system does not have the one that is named, or does not allow it. If none is named, all
    /// works as well without this.
    pub fn set(&self, listener: &impl AsFd, address: IpAddr) -> io::Result<()> {
        let wanted = match (self, system()) {
            // Also one that it has already, or it would follow the system's.
            (Self::Named(name), _) => {
                let set = set(listener, &name.into());
                return set.map_err(|error| io::Error::new(error.kind(), said(name, error)));
            }
            (Self::System, Some(system)) => system,
            (Self::Auto, Some(system)) => automatic(system, address),
            (Self::System | Self::Auto, None) => return Ok(()),
        };
        if !has(listener, &wanted) {
            let _ = set(listener, &wanted);
        }
        Ok(())
    }
}

/// The control of connections to an address where only this machine is, if they are not to go by
/// the system's own.
pub fn within(address: IpAddr) -> Option<String> {
    let system = system()?;
    let chosen = automatic(system.clone(), address);
    (chosen != system).then(|| chosen.to_string_lossy().into_owned())
}

#[cfg(target_os = "linux")]
fn has(listener: &impl AsFd, wanted: &OsStr) -> bool {
    getsockopt(listener, sockopt::TcpCongestion).is_ok_and(|it| text(&it) == text(wanted))
}

#[cfg(target_os = "linux")]
fn set(socket: &impl AsFd, wanted: &OsString) -> io::Result<()> {
    Ok(setsockopt(socket, sockopt::TcpCongestion, wanted)?)
}

/// Other systems go by their own.
#[cfg(not(target_os = "linux"))]
fn has(_listener: &impl AsFd, _wanted: &OsStr) -> bool {
    true
}

#[cfg(not(target_os = "linux"))]
fn set(_socket: &impl AsFd, _wanted: &OsString) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// The system's own control, or what is better than that at an address where only this machine
/// connects.
fn automatic(system: OsString, address: IpAddr) -> OsString {
    let paces = text(&system).starts_with("bbr");
    if paces && address.to_canonical().is_loopback() {
        return RENO.into();
    }
    system
}

fn system() -> Option<OsString> {
    let name = fs::read_to_string(DEFAULT).ok()?;
    Some(name.trim().into())
}

/// Without the zeros that the system puts behind it.
fn text(name: &OsStr) -> &str {
    name.to_str().unwrap_or_default().trim_end_matches('\0')
}

fn said(name: &str, error: io::Error) -> String {
    let allowed = fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    let allowed = allowed.unwrap_or_default();
    let allowed = match allowed.trim() {
        "" => String::new(),
        names => format!(" (everybody may use: {names})"),
    };
    format!(
        "congestion_control {name:?} cannot be used: {error}; have the kernel load it (modprobe \
         tcp_{name}) and allow it (net.ipv4.tcp_allowed_congestion_control), or choose another \
         one{allowed}"
    )
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn what_is_automatic_goes_by_who_can_connect_and_by_what_the_system_has() {
        for (system, address, chosen) in [
            ("bbr", "127.0.0.1", "reno"),
            ("bbr3", "::1", "reno"),
            ("bbr", "::ffff:127.0.0.1", "reno"),
            ("bbr", "0.0.0.0", "bbr"),
            ("bbr", "::", "bbr"),
            ("bbr", "192.0.2.1", "bbr"),
            ("cubic", "127.0.0.1", "cubic"),
            ("dctcp", "::1", "dctcp"),
        ] {
            let is = automatic(system.into(), address.parse().unwrap());
            assert_eq!(is, chosen, "{system} at {address}");
        }
    }

    #[test]
    fn connections_within_the_machine_differ_from_the_system_where_that_paces() {
        let system = system().unwrap();
        let chosen = automatic(system.clone(), LOOPBACK);
        let differs = (chosen != system).then(|| chosen.to_string_lossy().into_owned());
        assert_eq!(within(LOOPBACK), differs);
        assert_eq!(within("192.0.2.1".parse().unwrap()), None);
    }

    #[test]
    fn names_are_those_that_a_system_may_have() {
        let named = |name: &str| Some(CongestionControl::Named(name.to_owned()));
        for (text, is) in [
            ("auto", Some(CongestionControl::Auto)),
            ("system", Some(CongestionControl::System)),
            ("bbr", named("bbr")),
            ("fifteen_letters", named("fifteen_letters")),
            ("sixteen__letters", None),
            ("", None),
            ("two words", None),
            ("a\0b", None),
        ] {
            assert_eq!(CongestionControl::parse(text), is, "{text:?}");
        }
    }

    #[test]
    fn connections_have_that_of_their_listener_from_then_on() {
        let listener = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let taken = || {
            let _client = TcpStream::connect(address).unwrap();
            let (taken, _) = listener.accept().unwrap();
            let name = getsockopt(&taken, sockopt::TcpCongestion).unwrap();
            text(&name).to_owned()
        };
        let system = text(&system().unwrap()).to_owned();
        assert_eq!(taken(), system);
        let reno = CongestionControl::Named(RENO.to_owned());
        reno.set(&listener, LOOPBACK).unwrap();
        assert_eq!(taken(), RENO);
        CongestionControl::System.set(&listener, LOOPBACK).unwrap();
        assert_eq!(taken(), system);
        CongestionControl::Auto.set(&listener, LOOPBACK).unwrap();
        assert_eq!(taken(), text(&automatic((&system).into(), LOOPBACK)));

        let none = CongestionControl::Named("no-such".to_owned());
        let error = none.set(&listener, LOOPBACK).unwrap_err().to_string();
        assert!(
            error.contains("congestion_control \"no-such\" cannot be used"),
            "{error}"
        );
        assert!(error.contains(RENO), "{error}");
    }
}
