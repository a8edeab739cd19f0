//! What the server says on standard error.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Reports an error that occurs again and again only once, until it is over or another occurs, so
/// that the server's output shows what is new.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    said: Option<String>,
}

impl Complaints {
    pub(super) fn say(&mut self, what: String) {
        if self.is_new(&what) {
            eprintln!("txlog: {what}");
        }
    }

    /// Whether this was not the last message.
    fn is_new(&mut self, what: &str) -> bool {
        let is_new = self.said.as_deref() != Some(what);
        if is_new {
            self.said = Some(what.to_owned());
        }
        is_new
    }

    /// The error is over.
    pub(super) fn pass(&mut self) {
        self.said = None;
    }
}

/// Reports what strangers can cause, at a bounded rate, and how often it was not reported.
#[derive(Debug, Default)]
pub(super) struct Rated(Mutex<Said>);

#[derive(Debug, Default)]
struct Said {
    last: Option<Instant>,
    /// How often nothing was said since.
    unsaid: u64,
}

impl Rated {
    /// How often something is said at most.
    const PAUSE: Duration = Duration::from_secs(10);

    pub(super) fn say(&self, what: String) {
        if let Some(text) = self.text(what, Instant::now()) {
            eprintln!("txlog: {text}");
        }
    }

    fn text(&self, what: String, now: Instant) -> Option<String> {
        let mut said = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_early = |last: Instant| now.saturating_duration_since(last) < Self::PAUSE;
        if said.last.is_some_and(is_early) {
            said.unsaid += 1;
            return None;
        }
        said.last = Some(now);
        Some(match std::mem::take(&mut said.unsaid) {
            0 => what,
            unsaid => format!("{what}; so did {unsaid} more before, of which nothing was said"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_again_and_again_is_said_once() {
        let mut complaints = Complaints::default();
        assert!(complaints.is_new("no files"));
        assert!(!complaints.is_new("no files"));
        assert!(complaints.is_new("no memory"));
        complaints.pass();
        assert!(complaints.is_new("no memory"));
    }

    #[test]
    fn what_strangers_cause_is_said_seldom_and_counted() {
        let (rated, begin) = (Rated::default(), Instant::now());
        let text = |ms| rated.text("failed".to_owned(), begin + Duration::from_millis(ms));
        assert_eq!(text(0).as_deref(), Some("failed"));
        for ms in [1, 5_000, 9_999] {
            assert_eq!(text(ms), None);
        }
        let said = text(10_000).unwrap();
        assert!(said.contains("3 more"), "{said}");
        assert_eq!(text(10_001), None);
        assert!(text(20_000).unwrap().contains("1 more"));
        assert_eq!(text(30_000).as_deref(), Some("failed"));
    }
}
