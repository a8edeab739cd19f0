//! Clients that come back to their server: by a cookie that names it, without telling its name.

use std::fmt::Write;

use super::core::hash;
use crate::config::{SameSite, Sticky};

/// What a cookie says of this server. It is the same in every process, so that a client also comes
/// back to its server through another proxy, and after a restart.
pub(super) fn token(server: &str) -> u64 {
    // 0 says that nothing is known.
    hash(server.as_bytes()).max(1)
}

/// The token in the cookies of a request, whose headers are these; 0 if there is none.
pub fn said<'h>(sticky: &Sticky, cookies: impl Iterator<Item = &'h [u8]>) -> u64 {
    let mut pairs = cookies.flat_map(|line| line.split(|&byte| byte == b';'));
    let value = pairs.find_map(|pair| {
        let rest = pair.trim_ascii().strip_prefix(sticky.cookie.as_bytes())?;
        rest.strip_prefix(b"=")
    });
    let text = value.and_then(|value| std::str::from_utf8(value).ok());
    let digits = text.filter(|text| text.len() == 16);
    digits.map_or(0, |digits| u64::from_str_radix(digits, 16).unwrap_or(0))
}

/// The value of `Set-Cookie` that has a client come back to this server.
pub(super) fn cookie(sticky: &Sticky, server: &str) -> String {
    let (name, token) = (&sticky.cookie, token(server));
    let mut text = format!("{name}={token:016x}; Path=/; HttpOnly");
    if let Some(age) = sticky.max_age {
        // Writing to memory cannot fail.
        let _ = write!(text, "; Max-Age={}", age.as_secs());
    }
    if sticky.secure {
        text.push_str("; Secure");
    }
    text.push_str(match sticky.same_site {
        SameSite::Lax => "; SameSite=Lax",
        SameSite::Strict => "; SameSite=Strict",
        SameSite::None => "; SameSite=None",
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_read_as_it_was_set() {
        let sticky: Sticky =
            toml::from_str("cookie = \"srv\"\nmax_age = \"1h\"\nsecure = true").unwrap();
        let set = cookie(&sticky, "one");
        let (pair, attributes) = set.split_once("; ").unwrap();
        assert_eq!(
            attributes,
            "Path=/; HttpOnly; Max-Age=3600; Secure; SameSite=Lax"
        );
        assert!(!pair.contains("one"));
        let line = format!("a=b; xsrv=1; {pair};c=d");
        let read = |lines: &[&str]| said(&sticky, lines.iter().map(|line| line.as_bytes()));
        assert_eq!(read(&["z=1", &line]), token("one"));
        assert_ne!(token("one"), token("two"));
        for other in [
            "srv=",
            "srv=zz",
            "srv=12",
            "srv",
            "",
            "srv=0000000000000000",
        ] {
            assert_eq!(read(&[other]), 0, "{other}");
        }
    }
}
