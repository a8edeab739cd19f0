//! What connections to servers on this machine are given.
//!
//! The kernel learns what a connection needs while that is in use. Between two programs of one
//! machine much of that is known, and learning takes more processor time than what is sent
//! (`docs/notebook/proxy-cost.md`).

use std::fs;
use std::net::SocketAddr;

use evenkeel::net::TcpSocket;

use crate::congestion;
use crate::socket::Address;

/// How much a server may send ahead to a connection that serves one client. A window begins with
/// 64 KiB, and such a connection may be over before the kernel has let it grow.
const WINDOW: u32 = 1_024 * 1_024;

/// The most that the system allows for a receive buffer.
const LIMIT: &str = "/proc/sys/net/core/rmem_max";

/// What connections to a server are given; nothing if it is elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Within {
    /// The congestion control.
    pub(crate) control: Option<String>,
    /// How much the server may send ahead to those that serve one client. Buffers of those that are
    /// kept for further requests grow.
    pub(crate) window: Option<u32>,
}

impl Within {
    /// As it is for a server at this address. A name is not looked up for it.
    pub fn at(server: &Address) -> Self {
        let Address::Tcp(server) = server else {
            return Self::default();
        };
        let server = server.parse::<SocketAddr>().ok();
        let server = server.filter(|server| server.ip().to_canonical().is_loopback());
        server.map_or_else(Self::default, |server| Self {
            control: congestion::within(server.ip()),
            // One that is cut short would not grow any more.
            window: (limit() >= WINDOW).then_some(WINDOW),
        })
    }

    /// A connection is to be made, which is kept afterwards, perhaps.
    pub fn tuning(&self, is_kept: bool) -> Option<Tuning<'_>> {
        let tuning = Tuning {
            control: self.control.as_deref(),
            window: self.window.filter(|_| !is_kept),
        };
        (tuning != Tuning::default()).then_some(tuning)
    }
}

/// What a socket is given before it connects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tuning<'a> {
    control: Option<&'a str>,
    window: Option<u32>,
}

impl Tuning<'_> {
    /// Gives it to a socket, if the system allows it: all works as well without.
    pub fn give(self, socket: &TcpSocket) {
        #[cfg(target_os = "linux")]
        if let Some(name) = self.control {
            let _ = socket.set_congestion_control(name);
        }
        if let Some(bytes) = self.window {
            let _ = socket.set_recv_buffer_size(bytes);
        }
    }
}

/// 0 if it is not known.
fn limit() -> u32 {
    let text = fs::read_to_string(LIMIT).unwrap_or_default();
    text.trim().parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(server: &str) -> Within {
        Within::at(&server.parse().unwrap())
    }

    #[test]
    fn servers_on_this_machine_are_those_at_addresses_of_the_loopback_interface() {
        let within = at("127.0.0.1:80");
        assert_eq!(at("[::1]:80"), within);
        assert_eq!(at("[::ffff:127.0.0.1]:80"), within);
        assert_eq!(within.window.is_some(), limit() >= WINDOW);
        for server in [
            "192.0.2.1:80",
            "0.0.0.0:80",
            "localhost:80",
            "unix:/run/s",
            "srv:_h.a.b",
        ] {
            assert_eq!(at(server), Within::default(), "{server}");
        }
    }

    #[test]
    fn all_have_another_control_and_those_that_are_not_kept_a_window() {
        let within = Within {
            control: Some("reno".into()),
            window: Some(WINDOW),
        };
        let tuning = |window| Tuning {
            control: Some("reno"),
            window,
        };
        assert_eq!(within.tuning(true), Some(tuning(None)));
        assert_eq!(within.tuning(false), Some(tuning(Some(WINDOW))));
        let elsewhere = Within::default();
        assert!(elsewhere.tuning(true).is_none() && elsewhere.tuning(false).is_none());
    }
}
