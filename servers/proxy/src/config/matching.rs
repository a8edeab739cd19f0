//! What routes ask for beside whole texts: networks of clients, and patterns.

use std::net::IpAddr;

use ipnet::IpNet;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

/// The most networks of a route. They are gone through one by one for each request.
pub const NETWORKS_MAX: usize = 1_000;

/// The longest pattern, and the largest machine that may be made of one.
const PATTERN_BYTES_MAX: usize = 4_096;
const MACHINE_BYTES_MAX: usize = 1 << 20;

/// Addresses of clients: a network such as `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Network(IpNet);

impl Network {
    /// Whether it has this address.
    pub fn has(&self, client: IpAddr) -> bool {
        self.0.contains(&client)
    }
}

impl TryFrom<String> for Network {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let network = match text.parse::<IpAddr>() {
            Ok(address) => IpNet::from(address),
            Err(_) => text.parse().map_err(|_| {
                format!(
                    "{text:?} is no network: write one such as \"10.0.0.0/8\" or \
                     \"2001:db8::/32\", or an address"
                )
            })?,
        };
        match network.trunc() == network {
            true => Ok(Self(network)),
            false => Err(format!(
                "{text:?} has bits behind its length: write {}, or another length",
                network.trunc()
            )),
        }
    }
}

/// A regular expression, which is found anywhere in a text unless it says where. Hosts are compared
/// in any case. The time of a search grows with the text alone, whatever the expression.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern<const IN_ANY_CASE: bool = false> {
    text: String,
    regex: Regex,
}

impl<const IN_ANY_CASE: bool> Pattern<IN_ANY_CASE> {
    /// Whether it is in this text.
    pub fn is_in(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }
}

/// Two are the same if they are written so.
impl<const IN_ANY_CASE: bool> PartialEq for Pattern<IN_ANY_CASE> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<const IN_ANY_CASE: bool> Eq for Pattern<IN_ANY_CASE> {}

impl<const IN_ANY_CASE: bool> TryFrom<String> for Pattern<IN_ANY_CASE> {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES_MAX {
            let length = text.len();
            return Err(format!(
                "a pattern of {length} bytes is too long: it may have {PATTERN_BYTES_MAX}"
            ));
        }
        let regex = RegexBuilder::new(&text)
            .unicode(false)
            .case_insensitive(IN_ANY_CASE)
            .size_limit(MACHINE_BYTES_MAX)
            .dfa_size_limit(MACHINE_BYTES_MAX)
            .build();
        let regex = regex.map_err(|error| {
            // The crate draws where it is, in several lines; the last one says what.
            let said = error.to_string();
            let last = said.lines().last().unwrap_or_default().trim();
            let why = last.trim_start_matches("error: ");
            format!("{text:?} is no pattern: {why}")
        })?;
        Ok(Self { text, regex })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Result<Network, String> {
        Network::try_from(text.to_owned())
    }

    #[test]
    fn networks_have_their_addresses_and_no_others() {
        for (text, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.0"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("2001:db8::/32", "2001:db8:1::1", "2001:db9::"),
            ("::1", "::1", "127.0.0.1"),
            ("0.0.0.0/0", "192.0.2.1", "::1"),
        ] {
            let network = network(text).unwrap();
            assert!(network.has(inside.parse().unwrap()), "{text} {inside}");
            assert!(!network.has(outside.parse().unwrap()), "{text} {outside}");
        }
        for (text, said) in [
            ("10.0.0.1/8", "10.0.0.0/8"),
            ("10.0.0.0/33", "no network"),
            ("a.example", "no network"),
        ] {
            assert!(network(text).unwrap_err().contains(said), "{text}");
        }
    }

    #[test]
    fn patterns_are_found_anywhere_and_hosts_in_any_case() {
        let pattern = |text: &str| Pattern::<false>::try_from(text.to_owned());
        let of_host = Pattern::<true>::try_from("^www[0-9]+\\.".to_owned()).unwrap();
        assert!(of_host.is_in(b"WWW1.a.example"));
        assert!(!of_host.is_in(b"a.www1.example"));
        assert!(pattern("/v[0-9]/").unwrap().is_in(b"/api/v2/x"));
        assert!(!pattern("/V[0-9]/").unwrap().is_in(b"/api/v2/x"));
        assert!(pattern("(?i)/V[0-9]/").unwrap().is_in(b"/api/v2/\xff"));
        for (text, said) in [
            ("(", "unclosed"),
            ("(?=a)", "look"),
            ("(a)\\1", "backreferences"),
            ("a{1000}{1000}", "size limit"),
        ] {
            let error = pattern(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
        let long = pattern(&"a".repeat(5_000)).unwrap_err();
        assert!(long.contains("too long"), "{long}");
    }
}
