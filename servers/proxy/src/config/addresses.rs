//! Listeners whose addresses do not go together.

use std::net::SocketAddr;

use servers_common::config::Found;

use super::Config;
use crate::congestion::CongestionControl;
use crate::socket::Address;

/// What is wrong with the addresses of listeners: two that are the same, or of which one is a part
/// of the other, such as `0.0.0.0:80` and `127.0.0.1:80`. The system lets only one of them listen.
pub(super) fn problems(config: &Config) -> Vec<Found> {
    let mut found = Vec::new();
    let mut seen: Vec<(&str, &Address)> = Vec::new();
    for (name, listener) in &config.listeners {
        let bind = &listener.get_ref().bind;
        let address = bind.get_ref();
        if listener.get_ref().per_worker && matches!(address, Address::Unix(_)) {
            let said = format!(
                "listener {name} is a Unix socket, which is one for all workers: drop per_worker"
            );
            found.push(Found::new(bind.span(), said));
        }
        let control = &listener.get_ref().congestion_control;
        if matches!(control, CongestionControl::Named(_)) && matches!(address, Address::Unix(_)) {
            let said = format!(
                "listener {name} is a Unix socket, which controls no congestion: drop \
                 congestion_control"
            );
            found.push(Found::new(bind.span(), said));
        }
        if let Address::Service(_) = address {
            let said = format!(
                "listener {name} cannot listen on a service: write HOST:PORT, or unix:/PATH"
            );
            found.push(Found::new(bind.span(), said));
        }
        if address.takes_any_port() {
            continue;
        }
        let other = seen.iter().find(|(_, seen)| overlap(seen, address));
        if let Some((other, theirs)) = other {
            let said = if *theirs == address {
                format!(
                    "listeners {other} and {name} have the same address; give one of them another"
                )
            } else {
                format!(
                    "listeners {other} at {theirs} and {name} at {address} overlap: one of the \
                     addresses is a part of the other; give one of them another port"
                )
            };
            found.push(Found::new(bind.span(), said));
        }
        seen.push((name, address));
    }
    found
}

/// Whether the system lets only one of them listen, as far as that can be told without looking
/// names up.
pub(crate) fn overlap(one: &Address, other: &Address) -> bool {
    let literal = |address: &Address| match address {
        Address::Tcp(text) => text.parse::<SocketAddr>().ok(),
        Address::Unix(_) | Address::Service(_) => None,
    };
    let (Some(one_at), Some(other_at)) = (literal(one), literal(other)) else {
        return one == other;
    };
    // `[::]` is for IPv4, too, as systems commonly have it.
    let takes = |all: SocketAddr, part: SocketAddr| {
        all.ip().is_unspecified() && (all.is_ipv6() || part.is_ipv4())
    };
    let is_part = takes(one_at, other_at) || takes(other_at, one_at);
    one_at.port() == other_at.port() && (one_at.ip() == other_at.ip() || is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_overlap_if_one_is_a_part_of_the_other() {
        for (one, other, do_overlap) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::]:80", "[::1]:80", true),
            ("0.0.0.0:80", "[::1]:80", false),
            ("0.0.0.0:80", "127.0.0.1:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("a.example:80", "0.0.0.0:80", false),
            ("a.example:80", "a.example:80", true),
            ("unix:/run/a", "unix:/run/a", true),
            ("unix:/run/a", "unix:/run/b", false),
        ] {
            let address = |text: &str| text.parse::<Address>().unwrap();
            let (one, other) = (address(one), address(other));
            assert_eq!(overlap(&one, &other), do_overlap, "{one} {other}");
            assert_eq!(overlap(&other, &one), do_overlap, "{other} {one}");
        }
    }
}
