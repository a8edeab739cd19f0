//! When each request is due. Open loop: the schedule is fixed before the first request and knows
//! nothing of answers.

use std::time::Duration;

/// `total` moments, evenly spaced, the first at zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Pace {
    per_second: f64,
    total: u64,
}

impl Pace {
    /// `per_second` moments a second for `duration`.
    pub(crate) fn new(per_second: f64, duration: Duration) -> Self {
        debug_assert!(per_second > 0.0);
        let total = (duration.as_secs_f64() * per_second).round();
        Pace {
            per_second,
            total: total as u64,
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// How long after the start moment `index` is.
    pub(crate) fn due_at(&self, index: u64) -> Duration {
        Duration::from_secs_f64(index as f64 / self.per_second)
    }

    /// How many moments have come when `elapsed` has passed since the start.
    pub(crate) fn due_by(&self, elapsed: Duration) -> u64 {
        let guess = (elapsed.as_secs_f64() * self.per_second) as u64;
        // Floating point may be off by one either way; `due_at` decides.
        let first = guess.saturating_sub(1);
        let due = (first..)
            .take_while(|&index| self.due_at(index) <= elapsed)
            .last();
        due.map_or(0, |index| index + 1).min(self.total)
    }

    /// How often to look at the schedule: each moment, but not more often than a timer can usefully
    /// fire.
    pub(crate) fn tick(&self) -> Duration {
        const SHORTEST: Duration = Duration::from_micros(100);
        Duration::from_secs_f64(1.0 / self.per_second).max(SHORTEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kilohertz_is_a_request_each_millisecond() {
        let pace = Pace::new(1_000.0, Duration::from_secs(2));
        assert_eq!(pace.total(), 2_000);
        assert_eq!(pace.due_at(0), Duration::ZERO);
        assert_eq!(pace.due_at(1_500), Duration::from_millis(1_500));
        assert_eq!(pace.tick(), Duration::from_millis(1));
    }

    #[test]
    fn each_request_is_due_from_its_own_moment_on() {
        for per_second in [1_000.0, 7_000.0, 42_808.2, 0.3] {
            let pace = Pace::new(per_second, Duration::from_secs(30));
            for index in [0, 1, 2, 7, 999, 100_000]
                .into_iter()
                .filter(|&i| i < pace.total())
            {
                let due_at = pace.due_at(index);
                assert_eq!(
                    pace.due_by(due_at),
                    index + 1,
                    "{per_second}/s, request {index}"
                );
                if let Some(before) = due_at.checked_sub(Duration::from_nanos(2)) {
                    assert_eq!(pace.due_by(before), index, "{per_second}/s, before {index}");
                }
            }
        }
    }

    #[test]
    fn nothing_is_due_after_the_end() {
        let pace = Pace::new(100.0, Duration::from_secs(1));
        assert_eq!(pace.due_by(Duration::from_secs(3_600)), 100);
        assert_eq!(
            Pace::new(10.0, Duration::ZERO).due_by(Duration::from_secs(1)),
            0
        );
    }

    #[test]
    fn a_fast_schedule_is_looked_at_in_batches() {
        assert_eq!(
            Pace::new(1e6, Duration::from_secs(1)).tick(),
            Duration::from_micros(100)
        );
    }
}
