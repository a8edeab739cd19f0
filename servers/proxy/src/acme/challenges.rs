//! What is answered to an authority that asks whether a name is ours (RFC 8555, section 8.3).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where an authority asks.
const PREFIX: &str = "/.well-known/acme-challenge/";

/// The answers to the challenges of all orders under way: one for each name.
#[derive(Debug, Default)]
pub struct Challenges(Mutex<BTreeMap<String, String>>);

impl Challenges {
    /// The answer to a request for this target, if it is one of a challenge that is known. Others
    /// may be for a server behind the proxy.
    pub fn answer(&self, target: &str) -> Option<String> {
        let token = target.strip_prefix(PREFIX)?;
        self.all().get(token).cloned()
    }

    /// Answers a challenge with this, until what is returned is dropped.
    pub(super) fn put(self: &Arc<Self>, token: &str, answer: &str) -> Answered {
        self.all().insert(token.to_owned(), answer.to_owned());
        Answered {
            of: Arc::clone(self),
            token: token.to_owned(),
        }
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        // Each change is made whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A challenge that is answered.
#[derive(Debug)]
pub(super) struct Answered {
    of: Arc<Challenges>,
    token: String,
}

impl Drop for Answered {
    fn drop(&mut self) {
        self.of.all().remove(&self.token);
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
}
