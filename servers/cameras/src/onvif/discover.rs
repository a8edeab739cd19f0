//! The search for cameras: a question to all on the network, and their answers (WS-Discovery).

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use evenkeel::net::UdpSocket;
use evenkeel::time::{Instant, timeout_at};

use super::document::Element;

/// Where cameras listen for it.
pub const GROUP: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(239, 255, 255, 250)), 3_702);

/// Cameras that are told of.
pub const FOUND_MAX: usize = 4_096;

/// A camera that has answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Found {
    /// From where.
    pub from: IpAddr,
    /// Where it is asked by ONVIF.
    pub addresses: Vec<String>,
    /// What it calls itself.
    pub name: Option<String>,
    /// What it is.
    pub hardware: Option<String>,
}

/// Asks from this address, and waits for so long.
///
/// # Errors
///
/// The system's.
pub async fn discover(local: IpAddr, to: SocketAddr, wait: Duration) -> io::Result<Vec<Found>> {
    let socket = UdpSocket::bind((local, 0)).await?;
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let message = message(random);
    socket.send_to(probe(&message).as_bytes(), to).await?;
    let (until, mut found) = (Instant::now() + wait, Vec::<Found>::new());
    let mut datagram = vec![0; 64 << 10];
    while let Ok(received) = timeout_at(until, socket.recv_from(&mut datagram)).await {
        let (len, from) = match received {
            // Nobody listens at an address that was given.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => continue,
            received => received?,
        };
        let text = String::from_utf8_lossy(&datagram[..len]);
        for one in matches(&text, &message, from.ip()) {
            // One may answer by several of its addresses.
            if found.len() < FOUND_MAX && found.iter().all(|it| it.addresses != one.addresses) {
                found.push(one);
            }
        }
    }
    found.sort_by_key(|one| one.from);
    Ok(found)
}

/// The name of a question, by which answers are told.
fn message(random: [u8; 16]) -> String {
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    let (a, b, c, d, e) = (
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    );
    format!("uuid:{a}-{b}-{c}-{d}-{e}")
}

fn probe(message: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
         <s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\" \
         xmlns:a=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\" \
         xmlns:d=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\" \
         xmlns:n=\"http://www.onvif.org/ver10/network/wsdl\"><s:Header>\
         <a:MessageID>{message}</a:MessageID>\
         <a:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</a:To>\
         <a:Action>http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe</a:Action></s:Header>\
         <s:Body><d:Probe><d:Types>n:NetworkVideoTransmitter</d:Types></d:Probe></s:Body>\
         </s:Envelope>"
    )
}

/// The cameras that an answer to this question tells of; none of anything else.
fn matches(text: &str, message: &str, from: IpAddr) -> Vec<Found> {
    let Ok(document) = Element::read(text) else {
        return Vec::new();
    };
    let related = document.said("RelatesTo").unwrap_or_default();
    // Some leave out what stands before the number.
    if related
        .trim_start_matches("urn:")
        .trim_start_matches("uuid:")
        != message.trim_start_matches("uuid:")
    {
        return Vec::new();
    }
    let matches = document.all("ProbeMatch").into_iter().filter_map(|one| {
        let addresses: Vec<String> = one
            .said("XAddrs")?
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let scopes = one.said("Scopes").unwrap_or_default();
        let scope = |kind: &str| {
            let begins = format!("onvif://www.onvif.org/{kind}/");
            let mut found = scopes
                .split_whitespace()
                .filter_map(|it| it.strip_prefix(&*begins));
            found.next().map(readable)
        };
        Some(Found {
            from,
            addresses,
            name: scope("name"),
            hardware: scope("hardware"),
        })
    });
    matches.collect()
}

/// A part of an address as people read it, without what would change a terminal.
fn readable(part: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        let pair = (byte == b'%').then(|| [rest.next(), rest.next()]);
        let number = match pair {
            Some([Some(high), Some(low)]) => {
                let pair = [high, low];
                let digits = std::str::from_utf8(&pair).ok();
                digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())
            }
            Some(_) => None,
            None => Some(byte),
        };
        bytes.push(number.unwrap_or(b'?'));
    }
    let text = String::from_utf8_lossy(&bytes);
    text.chars().filter(|letter| !letter.is_control()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_to_other_questions_are_left_out() {
        let message = message([0x1f; 16]);
        assert_eq!(message, "uuid:1f1f1f1f-1f1f-1f1f-1f1f-1f1f1f1f1f1f");
        let answer = |related: &str| {
            format!(
                "<e xmlns:w=\"x\"><w:RelatesTo>{related}</w:RelatesTo><ProbeMatches><ProbeMatch>\
                 <XAddrs>http://a/ http://b/</XAddrs><Scopes>onvif://www.onvif.org/name/A%20%1bB \
                 onvif://www.onvif.org/hardware/X%</Scopes></ProbeMatch></ProbeMatches></e>"
            )
        };
        let from = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for good in [message.clone(), format!("urn:{message}")] {
            let found = matches(&answer(&good), &message, from);
            assert_eq!(found[0].addresses, ["http://a/", "http://b/"]);
            assert_eq!(found[0].name.as_deref(), Some("A B"));
            assert_eq!(found[0].hardware.as_deref(), Some("X?"));
        }
        assert_eq!(matches(&answer("uuid:2"), &message, from), []);
        assert_eq!(matches("nonsense", &message, from), []);
    }
}
