//! How long to wait before the next attempt.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// The longest pause after the first failure.
const FIRST: Duration = Duration::from_millis(50);

/// The longest pause. A server that is back is found within this time.
const MOST: Duration = Duration::from_secs(2);

/// Pauses that double with each failure up to a limit, and of which half is by chance: many clients
/// of a server that starts again do not come in the same moment.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// How long to wait after one more failure.
    pub(super) fn next(&mut self) -> Duration {
        let longest = longest(self.failures);
        self.failures = self.failures.saturating_add(1);
        // Keys that the standard library draws anew each time.
        let chance = RandomState::new().hash_one(self.failures) as u32;
        longest / 2 + (longest / 2).mul_f64(f64::from(chance) / f64::from(u32::MAX))
    }

    /// All is well again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }
}

fn longest(failures: u32) -> Duration {
    FIRST.saturating_mul(1 << failures.min(10)).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_begin_again() {
        let mut backoff = Backoff::default();
        for failures in 0..100 {
            let pause = backoff.next();
            assert!(pause >= longest(failures) / 2 && pause <= longest(failures));
        }
        assert!(backoff.next() >= MOST / 2);
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }

    #[test]
    fn clients_do_not_all_wait_equally_long() {
        let pauses = (0..20).map(|_| Backoff { failures: 9 }.next());
        let different = pauses.collect::<std::collections::HashSet<_>>();
        assert!(different.len() > 10, "{different:?}");
    }
}
