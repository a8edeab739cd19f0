//! What is answered to an authority that asks whether a name is ours: by HTTP (RFC 8555, section
//! 8.3), or by TLS (RFC 8737).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::ServerConfig;
use serde::Deserialize;

/// Where an authority asks.
const PREFIX: &str = "/.well-known/acme-challenge/";

/// How an authority sees whether a name is ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Challenge {
    /// It asks a listener of HTTP, at port 80.
    #[default]
    #[serde(rename = "http-01")]
    Http,
    /// It asks a listener with TLS, at port 443.
    #[serde(rename = "tls-alpn-01")]
    Tls,
}

impl fmt::Display for Challenge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http-01",
            Self::Tls => "tls-alpn-01",
        })
    }
}

/// The answers to the challenges of all orders under way: one for each name.
#[derive(Debug, Default)]
pub struct Challenges(Mutex<Answers>);

#[derive(Debug, Default)]
struct Answers {
    /// By tokens.
    plain: BTreeMap<String, String>,
    /// By names.
    secured: BTreeMap<String, Arc<ServerConfig>>,
}

impl Challenges {
    /// The answer to a request for this target, if it is one of a challenge that is known. Others
    /// may be for a server behind the proxy.
    pub fn answer(&self, target: &str) -> Option<String> {
        let token = target.strip_prefix(PREFIX)?;
        self.all().plain.get(token).cloned()
    }

    /// Whether any authority may ask by TLS at the moment, so that first messages are looked at.
    pub fn are_secured(&self) -> bool {
        !self.all().secured.is_empty()
    }

    /// How an authority is answered that asks for this name by TLS.
    pub fn secured(&self, name: &str) -> Option<Arc<ServerConfig>> {
        let name = name.to_ascii_lowercase();
        self.all().secured.get(&name).map(Arc::clone)
    }

    /// Answers a challenge with this, until what is returned is dropped.
    pub(super) fn put(self: &Arc<Self>, token: &str, answer: &str) -> Answered {
        let known = self.all().plain.insert(token.to_owned(), answer.to_owned());
        drop(known);
        self.answered(Place::Token(token.to_owned()))
    }

    /// The same by TLS.
    pub(super) fn put_secured(self: &Arc<Self>, name: &str, answer: Arc<ServerConfig>) -> Answered {
        let known = self.all().secured.insert(name.to_owned(), answer);
        drop(known);
        self.answered(Place::Name(name.to_owned()))
    }

    fn answered(self: &Arc<Self>, place: Place) -> Answered {
        Answered {
            of: Arc::clone(self),
            place,
        }
    }

    fn all(&self) -> MutexGuard<'_, Answers> {
        // Each change is made whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A challenge that is answered.
#[derive(Debug)]
pub(super) struct Answered {
    of: Arc<Challenges>,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Token(String),
    Name(String),
}

impl Drop for Answered {
    fn drop(&mut self) {
        let mut all = self.of.all();
        match &self.place {
            Place::Token(token) => drop(all.plain.remove(token)),
            Place::Name(name) => drop(all.secured.remove(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_challenge_is_answered_as_long_as_its_order_goes_on() {
        let all = Arc::new(Challenges::default());
        let one = all.put("abc", "abc.key");
        let target = "/.well-known/acme-challenge/abc";
        assert_eq!(all.answer(target).as_deref(), Some("abc.key"));
        assert_eq!(all.answer("/.well-known/acme-challenge/abcd"), None);
        assert_eq!(all.answer("/abc"), None);
        drop(one);
        assert_eq!(all.answer(target), None);
    }

    #[test]
    fn by_tls_it_is_answered_for_its_name() {
        let all = Arc::new(Challenges::default());
        assert!(!all.are_secured());
        let one = all.put_secured(
            "a.example",
            crate::tls::challenge("a.example", &[7; 32]).unwrap(),
        );
        assert!(all.are_secured() && all.secured("A.example").is_some());
        assert!(all.secured("b.example").is_none());
        drop(one);
        assert!(!all.are_secured() && all.secured("a.example").is_none());
    }
}
