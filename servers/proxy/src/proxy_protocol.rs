//! The PROXY protocol, by which a proxy says whose connection it passes on: versions 1 and 2.
//!
//! A header stands before the first byte of the connection. Whoever may connect to a listener that
//! takes one may claim any address, so it is taken only where the configuration says so, and then
//! a connection without one is an error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use serde::Deserialize;

use crate::socket::Ends;

/// The longest header that is taken; that of version 2 may have additions, which are skipped.
pub const HEADER_BYTES_MAX: usize = 2_048;

/// How a header is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Version {
    /// As a line of text.
    V1,
    /// As bytes.
    V2,
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whose connection it is; `None`: the proxy's own, or the addresses are of another family.
    pub ends: Option<Ends>,
    /// Its length.
    pub bytes: usize,
}

/// Why something is no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// It begins as none.
    #[error(
        "the connection does not begin with a header of the PROXY protocol: have the proxy before \
         this one send it, or drop accept_proxy"
    )]
    Missing,
    /// It breaks the rules of its version.
    #[error("the header of the PROXY protocol is malformed")]
    Malformed,
    /// It is longer than [`HEADER_BYTES_MAX`].
    #[error("the header of the PROXY protocol has more than {HEADER_BYTES_MAX} bytes")]
    TooLong,
}

/// The beginning of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// The beginning of version 1.
const WORD: &[u8] = b"PROXY ";

/// The longest line of version 1, with its end.
const LINE_BYTES_MAX: usize = 107;

/// The fixed part of version 2.
const FIXED: usize = 16;

/// Reads a header from the beginning of a connection; `None` if more bytes are needed.
///
/// # Errors
///
/// [`HeaderError`].
pub fn parse(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    if begins(bytes, SIGNATURE) {
        parse_v2(bytes)
    } else if begins(bytes, WORD) {
        parse_v1(bytes)
    } else {
        Err(HeaderError::Missing)
    }
}

/// Writes the header of a connection between these ends.
pub fn write(version: Version, ends: &Ends, out: &mut Vec<u8>) {
    match version {
        Version::V1 => write_v1(ends, out),
        Version::V2 => write_v2(ends, out),
    }
}

/// Whether the bytes are the beginning, or a part of it.
fn begins(bytes: &[u8], with: &[u8]) -> bool {
    let common = bytes.len().min(with.len());
    bytes[..common] == with[..common]
}

fn parse_v1(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    let seen = &bytes[..bytes.len().min(LINE_BYTES_MAX)];
    let Some(end) = memchr::memchr(b'\n', seen) else {
        return if bytes.len() >= LINE_BYTES_MAX {
            Err(HeaderError::Malformed)
        } else {
            Ok(None)
        };
    };
    let line = seen[..end]
        .strip_suffix(b"\r")
        .ok_or(HeaderError::Malformed)?;
    let line = std::str::from_utf8(line).map_err(|_| HeaderError::Malformed)?;
    let mut words = line.split(' ').skip(1);
    let ends = match words.next() {
        // What follows is to be ignored.
        Some("UNKNOWN") => None,
        Some(family @ ("TCP4" | "TCP6")) => {
            let mut word = || words.next().ok_or(HeaderError::Malformed);
            let (client, server) = (address(word()?)?, address(word()?)?);
            let (from, to) = (port(word()?)?, port(word()?)?);
            let is_of_family = |address: IpAddr| address.is_ipv4() == (family == "TCP4");
            if words.next().is_some() || !is_of_family(client) || !is_of_family(server) {
                return Err(HeaderError::Malformed);
            }
            let addresses = (SocketAddr::new(client, from), SocketAddr::new(server, to));
            Some(Ends {
                addresses: Some(addresses),
            })
        }
        _ => return Err(HeaderError::Malformed),
    };
    Ok(Some(Header {
        ends,
        bytes: end + 1,
    }))
}

fn address(word: &str) -> Result<IpAddr, HeaderError> {
    word.parse().map_err(|_| HeaderError::Malformed)
}

/// A number without sign and leading zeros.
fn port(word: &str) -> Result<u16, HeaderError> {
    let is_plain = word.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain || (word.len() > 1 && word.starts_with('0')) {
        return Err(HeaderError::Malformed);
    }
    word.parse().map_err(|_| HeaderError::Malformed)
}

fn parse_v2(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    if bytes.len() < FIXED {
        return Ok(None);
    }
    let length = FIXED + usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    let (version, command, family) = (bytes[12] >> 4, bytes[12] & 15, bytes[13]);
    if version != 2 || command > 1 {
        return Err(HeaderError::Malformed);
    }
    if length > HEADER_BYTES_MAX {
        return Err(HeaderError::TooLong);
    }
    let Some(rest) = bytes.get(FIXED..length) else {
        return Ok(None);
    };
    let addresses = match (command, family) {
        (1, 0x11) => Some(addresses::<4>(rest)?),
        (1, 0x21) => Some(addresses::<16>(rest)?),
        // Of the proxy itself, such as a check; or of a family that nothing here uses.
        _ => None,
    };
    let ends = addresses.map(|addresses| Ends {
        addresses: Some(addresses),
    });
    Ok(Some(Header {
        ends,
        bytes: length,
    }))
}

/// Two addresses of so many bytes, and two ports.
fn addresses<const N: usize>(rest: &[u8]) -> Result<(SocketAddr, SocketAddr), HeaderError>
where
    IpAddr: From<[u8; N]>,
{
    let at = |from: usize, to: usize| rest.get(from..to).ok_or(HeaderError::Malformed);
    let ip = |from: usize| -> Result<IpAddr, HeaderError> {
        let octets: [u8; N] = at(from, from + N)?
            .try_into()
            .map_err(|_| HeaderError::Malformed)?;
        Ok(octets.into())
    };
    let port = |from: usize| -> Result<u16, HeaderError> {
        let bytes = at(from, from + 2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let client = SocketAddr::new(ip(0)?, port(2 * N)?);
    let server = SocketAddr::new(ip(N)?, port(2 * N + 2)?);
    Ok((client, server))
}

fn write_v1(ends: &Ends, out: &mut Vec<u8>) {
    let Some((client, server)) = ends.addresses.map(of_one_family) else {
        out.extend_from_slice(b"PROXY UNKNOWN\r\n");
        return;
    };
    let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
    let line = format!(
        "PROXY {family} {} {} {} {}\r\n",
        client.ip(),
        server.ip(),
        client.port(),
        server.port()
    );
    out.extend_from_slice(line.as_bytes());
}

fn write_v2(ends: &Ends, out: &mut Vec<u8>) {
    out.extend_from_slice(SIGNATURE);
    let Some((client, server)) = ends.addresses.map(of_one_family) else {
        // A connection of a family that is not said.
        out.extend_from_slice(&[0x21, 0x00, 0, 0]);
        return;
    };
    match (client.ip(), server.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend_from_slice(&[0x21, 0x11, 0, 12]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
        }
        (from, to) => {
            out.extend_from_slice(&[0x21, 0x21, 0, 36]);
            out.extend_from_slice(&as_v6(from).octets());
            out.extend_from_slice(&as_v6(to).octets());
        }
    }
    out.extend_from_slice(&client.port().to_be_bytes());
    out.extend_from_slice(&server.port().to_be_bytes());
}

/// Both as IPv4, if they are; both as IPv6 otherwise.
fn of_one_family((client, server): (SocketAddr, SocketAddr)) -> (SocketAddr, SocketAddr) {
    let (from, to) = (client.ip().to_canonical(), server.ip().to_canonical());
    let (from, to) = match (from, to) {
        (IpAddr::V4(_), IpAddr::V4(_)) => (from, to),
        _ => (IpAddr::V6(as_v6(from)), IpAddr::V6(as_v6(to))),
    };
    (
        SocketAddr::new(from, client.port()),
        SocketAddr::new(to, server.port()),
    )
}

fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::to_ipv6_mapped(&address),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends(client: &str, server: &str) -> Ends {
        Ends {
            addresses: Some((client.parse().unwrap(), server.parse().unwrap())),
        }
    }

    #[test]
    fn lines_are_read_as_the_protocol_says() {
        let line = b"PROXY TCP4 192.0.2.1 198.51.100.9 56324 443\r\nGET";
        let header = parse(line).unwrap().unwrap();
        assert_eq!(header.bytes, line.len() - 3);
        assert_eq!(
            header.ends,
            Some(ends("192.0.2.1:56324", "198.51.100.9:443"))
        );
        let unknown = parse(b"PROXY UNKNOWN ffff:f...f whatever\r\n").unwrap();
        assert_eq!(unknown.unwrap().ends, None);
        assert_eq!(parse(b"PRO"), Ok(None));
        assert_eq!(parse(b""), Ok(None));
        assert_eq!(parse(b"GET / HTTP/1.1\r\n"), Err(HeaderError::Missing));
        for wrong in [
            "PROXY TCP4 192.0.2.1 198.51.100.9 56324 443\n",
            "PROXY TCP4 192.0.2.1 198.51.100.9 56324\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.9 56324 443 1\r\n",
            "PROXY TCP4 192.0.2.1  198.51.100.9 56324 443\r\n",
            "PROXY TCP4 ::1 ::2 56324 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.9 +6324 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.9 056324 443\r\n",
            "PROXY TCP4 192.0.2.1 198.51.100.9 66324 443\r\n",
            "PROXY TCP4 192.0.2.256 198.51.100.9 1 443\r\n",
            "PROXY UDP4 192.0.2.1 198.51.100.9 1 443\r\n",
        ] {
            assert_eq!(
                parse(wrong.as_bytes()),
                Err(HeaderError::Malformed),
                "{wrong}"
            );
        }
        assert_eq!(
            parse(&[b"PROXY ", &[b'x'; 101][..]].concat()),
            Err(HeaderError::Malformed)
        );
    }

    #[test]
    fn what_version_two_says_of_itself_is_checked() {
        let header = |version: u8, family: u8, length: u16, rest: &[u8]| {
            let mut bytes = SIGNATURE.to_vec();
            bytes.extend([version, family]);
            bytes.extend(length.to_be_bytes());
            bytes.extend(rest);
            parse(&bytes)
        };
        // Of the proxy itself, with something added.
        let own = header(0x20, 0, 3, b"abcGET").unwrap().unwrap();
        assert_eq!((own.ends, own.bytes), (None, FIXED + 3));
        assert_eq!(header(0x20, 0, 3, b"ab"), Ok(None));
        assert_eq!(
            header(0x11, 0x11, 12, &[0; 12]),
            Err(HeaderError::Malformed)
        );
        assert_eq!(
            header(0x22, 0x11, 12, &[0; 12]),
            Err(HeaderError::Malformed)
        );
        assert_eq!(
            header(0x21, 0x11, 11, &[0; 11]),
            Err(HeaderError::Malformed)
        );
        assert_eq!(
            header(0x21, 0x21, 35, &[0; 35]),
            Err(HeaderError::Malformed)
        );
        assert_eq!(header(0x21, 0x11, 65_535, b""), Err(HeaderError::TooLong));
        // Another family is taken, and said to be unknown.
        assert_eq!(header(0x21, 0x31, 2, b"xx").unwrap().unwrap().ends, None);
    }

    #[test]
    fn two_families_are_said_as_one() {
        let mut out = Vec::new();
        write(
            Version::V1,
            &ends("192.0.2.1:1", "[2001:db8::1]:2"),
            &mut out,
        );
        assert_eq!(out, b"PROXY TCP6 ::ffff:192.0.2.1 2001:db8::1 1 2\r\n");
        out.clear();
        write(
            Version::V1,
            &ends("[::ffff:192.0.2.1]:1", "192.0.2.2:2"),
            &mut out,
        );
        assert_eq!(out, b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
        out.clear();
        write(Version::V1, &Ends::default(), &mut out);
        assert_eq!(out, b"PROXY UNKNOWN\r\n");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            client: ([u8; 16], u16), server: ([u8; 16], u16), v4: bool, v2: bool, tail: Vec<u8>,
        ) {
            let end = |(octets, port): ([u8; 16], u16)| {
                let ip = match v4 {
                    true => IpAddr::from([octets[0], octets[1], octets[2], octets[3]]),
                    // Not one that would be said as IPv4.
                    false => IpAddr::from([&[0x20], &octets[1..]].concat()
                        .try_into().map(|octets: [u8; 16]| octets).unwrap()),
                };
                SocketAddr::new(ip, port)
            };
            let ends = Ends { addresses: Some((end(client), end(server))) };
            let mut bytes = Vec::new();
            write(if v2 { Version::V2 } else { Version::V1 }, &ends, &mut bytes);
            let length = bytes.len();
            bytes.extend(tail);
            let header = parse(&bytes).unwrap().unwrap();
            prop_assert_eq!(header, Header { ends: Some(ends), bytes: length });
            for cut in 0..length {
                prop_assert_eq!(parse(&bytes[..cut]), Ok(None));
            }
        }

        #[test]
        fn no_bytes_are_a_header_of_more_than_there_is(
            bytes: Vec<u8>, begin in 0..3usize,
        ) {
            let begin: &[u8] = [&b""[..], WORD, SIGNATURE][begin];
            let all = [begin, &bytes].concat();
            if let Ok(Some(header)) = parse(&all) {
                prop_assert!(header.bytes <= all.len());
            }
        }
    }
}
