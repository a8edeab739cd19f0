//! How HAProxy writes values.

use std::str::FromStr;
use std::time::Duration;

/// A value and the line that says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct At<T> {
    /// The line.
    pub line: usize,
    /// What it says.
    pub value: T,
}

impl<T> At<T> {
    pub(super) const fn new(line: usize, value: T) -> Self {
        Self { line, value }
    }
}

/// The longest time that there is here.
const TIME_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A time: a number with a unit, or of milliseconds.
///
/// # Errors
///
/// What is wrong with it, or that it cannot be had here.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let us_of_unit: u64 = match unit {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return Err(format!("{text:?} is no time")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} is no time"))?;
    let time = number.checked_mul(us_of_unit).map(Duration::from_micros);
    match time {
        Some(Duration::ZERO) => Err(format!(
            "a time of {text} is none at all, and everything has a limit here: give one of up to \
             24h"
        )),
        Some(time) if time <= TIME_MAX => Ok(time),
        _ => Err(format!(
            "{text} is longer than 24h, the most that there is here"
        )),
    }
}

/// A time as it is written here.
pub(super) fn time_shown(time: Duration) -> String {
    let us = time.as_micros();
    for (unit, of) in [
        ("h", 3_600_000_000),
        ("m", 60_000_000),
        ("s", 1_000_000),
        ("ms", 1_000),
    ] {
        if us >= of && us.is_multiple_of(of) {
            return format!("{}{unit}", us / of);
        }
    }
    format!("{us}us")
}

/// A whole number.
///
/// # Errors
///
/// It is none.
pub(super) fn number<T: FromStr>(what: &str, text: Option<&String>) -> Result<T, String> {
    let text = text.ok_or_else(|| format!("{what} needs a number"))?;
    text.parse()
        .map_err(|_| format!("{what} {text} is no number that can be had here"))
}

/// A name as it may stand here: other characters become `_`.
pub(super) fn name(text: &str) -> String {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let fit = |c: char| if is_of_name(c) { c } else { '_' };
    text.chars().map(fit).take(64).collect()
}

/// An address that a server has, or that is listened on.
///
/// # Errors
///
/// It cannot be had here.
pub(super) fn address(text: &str, is_server: bool) -> Result<String, String> {
    if let Some(path) = text.strip_prefix("unix@") {
        return read(format!("unix:{path}"));
    }
    if text.starts_with('/') {
        return read(format!("unix:{text}"));
    }
    let is_six = text.starts_with("ipv6@");
    let plain = ["ipv4@", "ipv6@", "tcp@", "tcp4@", "tcp6@"]
        .iter()
        .find_map(|family| text.strip_prefix(family))
        .unwrap_or(text);
    if plain.contains('@') {
        return Err(format!(
            "the address {text} is of a sort that there is not here: name a host and a port, or \
             the path of a Unix socket"
        ));
    }
    let (host, port) = plain
        .rsplit_once(':')
        .ok_or_else(|| format!("the address {text} has no port: name one"))?;
    let port: u16 = port.parse().map_err(|_| {
        format!("the port {port:?} of {text} is not one number: name one from 1 to 65535")
    })?;
    if port == 0 && is_server {
        return Err(format!("the address {text} has no port: name one"));
    }
    let host = match host {
        "" | "*" if is_server => return Err(format!("the address {text} names no host")),
        "" | "*" if is_six => "[::]".to_owned(),
        "" | "*" => "0.0.0.0".to_owned(),
        host if host.starts_with('[') => host.to_owned(),
        host if host.contains(':') => format!("[{host}]"),
        host => host.to_owned(),
    };
    read(format!("{host}:{port}"))
}

/// An address, if it can be read as one.
fn read(address: String) -> Result<String, String> {
    let parsed: Result<crate::socket::Address, String> = address.parse();
    parsed.map(|_| address)
}

/// The addresses of a `bind`: several with commas between them, of which each may have a range of
/// ports.
///
/// # Errors
///
/// One of them cannot be had here.
pub(super) fn addresses(text: &str) -> Result<Vec<String>, String> {
    /// So many listeners may come of one line.
    const PORTS_MAX: usize = 64;
    let mut all = Vec::new();
    for one in text.split(',') {
        let range = one.rsplit_once(':').and_then(|(host, ports)| {
            let (from, to) = ports.split_once('-')?;
            Some((host, from.parse::<u16>().ok()?, to.parse::<u16>().ok()?))
        });
        match range {
            None => all.push(address(one, false)?),
            Some((host, from, to)) => {
                for port in from..=to {
                    all.push(address(&format!("{host}:{port}"), false)?);
                    if all.len() > PORTS_MAX {
                        break;
                    }
                }
            }
        }
        if all.len() > PORTS_MAX {
            return Err(format!(
                "{text} are more than {PORTS_MAX} addresses, and each is a listener here: name \
                 fewer"
            ));
        }
    }
    Ok(all)
}

/// A host as routes take it: a name without a port, or `*.` and a name.
pub(super) fn is_host(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    !name.is_empty() && name.bytes().all(is_of_host)
}

/// Whether all of it may stand in a path.
pub(super) fn is_of_path(text: &str) -> bool {
    let is_of_path = |byte: u8| byte.is_ascii_graphic() && !b"#?".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_a_unit_are_of_milliseconds() {
        for (text, shown) in [
            ("50", "50ms"),
            ("5000", "5s"),
            ("1500ms", "1500ms"),
            ("90s", "90s"),
            ("2m", "2m"),
            ("1d", "24h"),
            ("250us", "250us"),
        ] {
            assert_eq!(time_shown(time(text).unwrap()), shown, "{text}");
        }
        for text in ["", "s", "0", "0s", "1w", "25h", "99999999999999999999"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_of_all_forms_are_read() {
        for (text, address_read) in [
            (":80", "0.0.0.0:80"),
            ("*:80", "0.0.0.0:80"),
            ("ipv4@10.0.0.1:80", "10.0.0.1:80"),
            ("ipv6@*:80", "[::]:80"),
            (":::80", "[::]:80"),
            ("[2001:db8::1]:80", "[2001:db8::1]:80"),
            ("2001:db8::1:80", "[2001:db8::1]:80"),
            ("/run/x.sock", "unix:/run/x.sock"),
            ("unix@/run/x.sock", "unix:/run/x.sock"),
            ("web.example:8080", "web.example:8080"),
        ] {
            assert_eq!(address(text, false).as_deref(), Ok(address_read), "{text}");
        }
        for text in ["fd@3", "abns@x", "10.0.0.1", "10.0.0.1:", "a:b", "a:99999"] {
            assert!(address(text, false).is_err(), "{text}");
        }
        for text in ["unix@", "/run/\0.sock", "unix@/run/\0.sock"] {
            assert!(address(text, true).is_err(), "{text:?}");
        }
        assert!(address(":80", true).is_err());
        assert!(address("a:0", true).is_err());
        let several = addresses("a:80,b:81-83").unwrap();
        assert_eq!(several, ["a:80", "b:81", "b:82", "b:83"]);
        assert!(addresses("a:1-9999").is_err());
    }
}
