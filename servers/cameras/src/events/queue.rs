//! Events that wait for one webhook. Pure: the time is an argument.

use std::collections::VecDeque;
use std::time::Duration;

use super::Event;

/// Events that wait at most. Beyond it the oldest go, which is counted.
pub const WAITING_MAX: usize = 1_000;
/// Attempts for an event, after which it is given up: some twenty minutes.
pub const ATTEMPTS_MAX: u32 = 25;
/// The pause after the first failure; each next one is twice as long, up to the last.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The queue.
#[derive(Debug, Default)]
pub struct Queue {
    waiting: VecDeque<(u64, Event)>,
    next: u64,
    /// Failures of the first one.
    failures: u32,
    /// Events that were dropped.
    pub dropped: u64,
    /// Events that were told.
    pub told: u64,
    /// Attempts that failed.
    pub failed: u64,
}

impl Queue {
    /// Adds one; the oldest goes if there are too many.
    pub fn add(&mut self, event: Event) {
        if self.waiting.len() >= WAITING_MAX {
            self.waiting.pop_front();
            self.failures = 0;
            self.dropped += 1;
        }
        self.waiting.push_back((self.next, event));
        self.next += 1;
    }

    /// The one that is to be told now, with its number.
    pub fn first(&self) -> Option<(u64, Event)> {
        self.waiting.front().cloned()
    }

    /// An attempt for an event is over. Returns how long to wait before the next attempt.
    pub fn attempted(&mut self, number: u64, is_told: bool) -> Duration {
        let is_first = self
            .waiting
            .front()
            .is_some_and(|(first, _)| *first == number);
        if is_told {
            self.told += 1;
        } else {
            self.failed += 1;
        }
        // It may have been dropped meanwhile.
        if !is_first {
            return Duration::ZERO;
        }
        if is_told {
            self.waiting.pop_front();
            self.failures = 0;
            return Duration::ZERO;
        }
        self.failures += 1;
        let pause = PAUSE_FIRST.saturating_mul(1 << (self.failures - 1).min(16));
        if self.failures >= ATTEMPTS_MAX {
            self.waiting.pop_front();
            self.failures = 0;
            self.dropped += 1;
        }
        pause.min(PAUSE_MAX)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn event(name: usize) -> Event {
        Event {
            time_ms: 1,
            event: Kind::CameraLost,
            name: name.to_string(),
            why: None,
            gops: None,
        }
    }

    #[test]
    fn what_fails_is_tried_again_later_and_later_and_given_up() {
        let mut queue = Queue::default();
        queue.add(event(0));
        queue.add(event(1));
        let (number, _) = queue.first().unwrap();
        let pauses: Vec<_> = (0..ATTEMPTS_MAX)
            .map(|_| queue.attempted(number, false))
            .collect();
        assert_eq!(pauses[..3], [1, 2, 4].map(|times| PAUSE_FIRST * times));
        assert_eq!(*pauses.last().unwrap(), PAUSE_MAX);
        assert_eq!((queue.len(), queue.dropped), (1, 1));
        let (number, next) = queue.first().unwrap();
        assert_eq!(next, event(1));
        assert_eq!(queue.attempted(number, false), PAUSE_FIRST);
        assert_eq!(queue.attempted(number, true), Duration::ZERO);
        assert!(queue.is_empty());
        assert_eq!((queue.told, queue.failed), (1, u64::from(ATTEMPTS_MAX) + 1));
    }

    #[test]
    fn only_so_many_wait_and_one_that_was_dropped_meanwhile_takes_no_other_with_it() {
        let mut queue = Queue::default();
        queue.add(event(0));
        let (number, _) = queue.first().unwrap();
        for name in 1..=WAITING_MAX {
            queue.add(event(name));
        }
        assert_eq!((queue.len(), queue.dropped), (WAITING_MAX, 1));
        assert_eq!(queue.attempted(number, true), Duration::ZERO);
        assert_eq!(queue.len(), WAITING_MAX);
        assert_eq!(queue.first().unwrap().1, event(1));
    }
}
