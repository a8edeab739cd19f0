//! Ids of requests, by which the lines of several programs are found together.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;

/// Whether requests get an `X-Request-Id`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RequestIds {
    /// What the client says stays as it is.
    #[default]
    Off,
    /// One of the proxy's, whatever the client says.
    Replace,
    /// The client's, if it is a plain word; otherwise one of the proxy's.
    Keep,
}

/// The longest id of a client that is kept.
const LEN_MAX: usize = 128;

impl RequestIds {
    /// The id of a request whose client says this.
    pub fn of(self, said: Option<&[u8]>) -> String {
        let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
        let is_word =
            |said: &&[u8]| (1..=LEN_MAX).contains(&said.len()) && said.iter().all(is_of_word);
        let kept = said.filter(|said| self == Self::Keep && is_word(said));
        match kept.and_then(|kept| std::str::from_utf8(kept).ok()) {
            Some(kept) => kept.to_owned(),
            None => fresh(),
        }
    }
}

/// One that no other request has, by keys that each process draws at random.
fn fresh() -> String {
    static KEYS: LazyLock<[RandomState; 2]> =
        LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only that no two get the same number matters.
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let [high, low] = [0, 1].map(|key: usize| KEYS[key].hash_one(number));
    format!("{high:016x}{low:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_clients_only_where_that_is_asked_for() {
        let (one, two) = (fresh(), fresh());
        assert_ne!(one, two);
        assert!(one.len() == 32 && one.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert_eq!(RequestIds::Keep.of(Some(b"abc-1")), "abc-1");
        for said in [&b""[..], b"a b", b"a\"b", &[b'a'; 129]] {
            assert_eq!(RequestIds::Keep.of(Some(said)).len(), 32);
        }
        assert_eq!(RequestIds::Keep.of(None).len(), 32);
        assert_ne!(RequestIds::Replace.of(Some(b"abc-1")), "abc-1");
    }
}
