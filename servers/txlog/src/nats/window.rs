//! For how long NATS knows message ids. Pure.
//!
//! It knows those of the stream's `duplicate_window`. When that becomes shorter, NATS forgets the
//! others; when it becomes longer, it does not learn them again. So for a while after that it knows
//! fewer than the window says.

use std::time::Duration;

use evenkeel::time::Instant;

/// What was seen of a stream's window. What changed while nobody looked, to and fro, is not known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    is: Duration,
    /// When it was seen to have become longer.
    grown: Option<Instant>,
}

impl Window {
    pub(super) fn new(is: Duration) -> Self {
        Self { is, grown: None }
    }

    /// It is so long now.
    pub(super) fn see(&mut self, is: Duration, now: Instant) {
        if is > self.is {
            self.grown = Some(now);
        }
        self.is = is;
    }

    /// NATS knows all ids that are no older than this.
    pub(super) fn reach(&self, now: Instant) -> Duration {
        let since = self.grown.map(|grown| now.saturating_duration_since(grown));
        since.map_or(self.is, |since| since.min(self.is))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nats_does_not_learn_again_what_it_has_forgotten() {
        let [short, long] = [10, 120].map(Duration::from_secs);
        let begin = Instant::now();
        let after = |seconds| begin + Duration::from_secs(seconds);
        let mut window = Window::new(long);
        window.see(long, after(1));
        assert_eq!(window.reach(after(2)), long);
        window.see(short, after(3));
        assert_eq!(window.reach(after(4)), short);
        window.see(long, after(5));
        window.see(long, after(6));
        for (seconds, reach) in [(5, 0), (25, 20), (124, 119), (300, 120)] {
            assert_eq!(window.reach(after(seconds)), Duration::from_secs(reach));
        }
    }
}
