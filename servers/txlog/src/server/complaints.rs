//! What the server says on standard error.

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
}
