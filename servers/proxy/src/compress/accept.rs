//! Which coding a client takes, by its `Accept-Encoding` (RFC 9110, section 12.5.3).

use serde::Deserialize;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
pub enum Coding {
    /// RFC 8878.
    #[serde(rename = "zstd")]
    Zstd,
    /// RFC 7932.
    #[serde(rename = "br")]
    Brotli,
    /// RFC 1952.
    #[serde(rename = "gzip")]
    Gzip,
}

impl Coding {
    /// As `Content-Encoding` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// Also by the name that is left from before.
    fn is_named(self, name: &[u8]) -> bool {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        is(self.name()) || (self == Self::Gzip && is("x-gzip"))
    }
}

/// The coding that the client likes best, and among equals the first one that is offered.
pub fn accepted(said: &[u8], offered: &[Coding]) -> Option<Coding> {
    let mut best: Option<(u16, Coding)> = None;
    for &coding in offered {
        let quality = quality(said, coding);
        if quality > best.map_or(0, |(quality, _)| quality) {
            best = Some((quality, coding));
        }
    }
    best.map(|(_, coding)| coding)
}

/// In thousandths; 0 if the client does not take it.
fn quality(said: &[u8], coding: Coding) -> u16 {
    let mut of_all = 0;
    for item in said.split(|&byte| byte == b',') {
        let mut parts = item.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let name = parts.next().unwrap_or_default();
        let quality = parts.find_map(weight).unwrap_or(1_000);
        if coding.is_named(name) {
            return quality;
        }
        if name == b"*" {
            of_all = quality;
        }
    }
    of_all
}

/// What `q=0.5` says, in thousandths; nothing else is a weight, and what is malformed is 0.
fn weight(parameter: &[u8]) -> Option<u16> {
    let [b'q' | b'Q', b'=', digits @ ..] = parameter else {
        return None;
    };
    let text = std::str::from_utf8(digits).unwrap_or_default();
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if part.len() > 3 || !is_number(part) {
        return Some(0);
    }
    let thousandths: u16 = format!("{part:0<3}").parse().unwrap_or(0);
    Some(match whole {
        "1" if thousandths == 0 => 1_000,
        "0" => thousandths,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_client_decides_and_among_equals_the_order() {
        let all = [Coding::Zstd, Coding::Brotli, Coding::Gzip];
        for (said, coding) in [
            ("gzip", Some(Coding::Gzip)),
            ("gzip, deflate, br, zstd", Some(Coding::Zstd)),
            ("gzip;q=1.0, br;q=0.9", Some(Coding::Gzip)),
            ("GZIP ; q=0.5 , br;Q=0.501", Some(Coding::Brotli)),
            ("*", Some(Coding::Zstd)),
            ("*;q=0.1, gzip", Some(Coding::Gzip)),
            ("*, zstd;q=0, br;q=0", Some(Coding::Gzip)),
            ("x-gzip", Some(Coding::Gzip)),
            ("identity, deflate", None),
            ("gzip;q=0", None),
            ("gzip;q=0.000", None),
            ("gzip;q=2", None),
            ("gzip;q=x", None),
            ("gzip;q=0.1234", None),
            ("gzippy", None),
            ("", None),
            (",;,", None),
        ] {
            assert_eq!(accepted(said.as_bytes(), &all), coding, "{said}");
        }
        let some = accepted(b"br, gzip", &[Coding::Gzip]);
        assert_eq!(some, Some(Coding::Gzip));
    }
}
