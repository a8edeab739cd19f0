//! How long to pause after a failure.

use std::time::Duration;

/// Pauses that double with each failure, each drawn between half of it and all.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// The first pause is at most `first`, and none is longer than `max`.
    pub fn new(first: Duration, max: Duration) -> Self {
        Self {
            first,
            max,
            failures: 0,
        }
    }

    /// It worked.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }

    /// The pause after another failure. All bits of `random` are.
    pub fn next(&mut self, random: u32) -> Duration {
        // Beyond 2^20 times the first pause, each is the longest.
        let factor = 1_u32 << self.failures.min(20);
        self.failures += 1;
        let most = self.first.saturating_mul(factor).min(self.max);
        most / 2 + part(most / 2, random)
    }

    /// A pause before the first attempt, between none and half of the first one.
    pub fn spread(&self, random: u32) -> Duration {
        part(self.first / 2, random)
    }
}

/// A part of the time, in 2^32.
fn part(time: Duration, random: u32) -> Duration {
    time.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_are_drawn_at_random() {
        let (first, max) = (Duration::from_secs(2), Duration::from_secs(30));
        let mut backoff = Backoff::new(first, max);
        let longest: Vec<u64> = (0..6).map(|_| backoff.next(u32::MAX).as_secs()).collect();
        assert_eq!(longest, [2, 4, 8, 16, 30, 30]);
        backoff.succeeded();
        let shortest: Vec<u64> = (0..6).map(|_| backoff.next(0).as_secs()).collect();
        assert_eq!(shortest, [1, 2, 4, 8, 15, 15]);
        for _ in 0..100 {
            assert_eq!(backoff.next(0).as_secs(), 15);
        }
        assert_eq!(backoff.spread(0), Duration::ZERO);
        assert_eq!(backoff.spread(u32::MAX), Duration::from_secs(1));
    }
}
