//! The last requests of a listener that were refused for what they say, for operators.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use evenkeel::time::Instant;

/// How many are kept.
const KEPT: usize = 16;

/// How much of each is kept.
const BYTES_KEPT: usize = 256;

/// The last requests that were refused.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<VecDeque<Refused>>);

/// A request that was refused.
#[derive(Clone, Debug)]
pub struct Refused {
    /// When.
    pub at: Instant,
    /// Whose it was; nobody knows on a Unix socket.
    pub client: Option<IpAddr>,
    /// With which status.
    pub status: u16,
    /// Why.
    pub why: String,
    /// What it begins with; what is not visible is escaped.
    pub begins_with: String,
}

impl Refusals {
    /// Notes one, of which these bytes have come.
    pub fn note(&self, client: Option<IpAddr>, status: u16, why: &str, bytes: &[u8]) {
        let begin = &bytes[..bytes.len().min(BYTES_KEPT)];
        let refused = Refused {
            at: Instant::now(),
            client,
            status,
            why: why.to_owned(),
            begins_with: begin.escape_ascii().to_string(),
        };
        let mut kept = self.kept();
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(refused);
    }

    /// Those that are kept, the oldest first.
    pub fn all(&self) -> Vec<Refused> {
        self.kept().iter().cloned().collect()
    }

    /// Forgets them.
    pub fn clear(&self) {
        self.kept().clear();
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<Refused>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_are_kept_and_of_each_its_beginning() {
        let refusals = Refusals::default();
        for status in 0..40 {
            refusals.note(None, status, "why", &[b'\r'; 4_096]);
        }
        let all = refusals.all();
        let kept: Vec<u16> = all.iter().map(|refused| refused.status).collect();
        assert_eq!(kept, (24..40).collect::<Vec<u16>>());
        assert_eq!(all[0].begins_with, "\\r".repeat(BYTES_KEPT));
        refusals.clear();
        assert!(refusals.all().is_empty());
    }
}
