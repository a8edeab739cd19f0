//! How often the monitor looks at the workers.
//!
//! Workers that are not stuck look at each other, and rouse the monitor. The monitor itself has to
//! find the case that all workers are stuck at once, and the sooner it looks again, the sooner it
//! does. But a look takes a wake-up, which costs 5 to 30 us of processor time, depending on the
//! machine. So the monitor measures what its looks cost, and limits them to a fixed part of a
//! processor. After several hogs more are likely, and it looks at the shortest interval.

use std::time::Duration;

/// What looks may use while there are no hogs, as one part in so many of a processor.
const PART: u32 = 250;
/// The shortest and the longest time between looks, in hand-off thresholds.
const SHORTEST: u32 = 2;
const LONGEST: u32 = 8;
/// So many hogs within this time are no accident. To the guest, a processor that the host took away
/// in the middle of a poll looks like one that computes, until it is given back.
const SEVERAL: usize = 4;
const LATELY: Duration = Duration::from_secs(2);
/// For this long after a hog more are likely, if there is one worker, which no other looks at.
const LATELY_ALONE: Duration = Duration::from_secs(10);
/// What a look costs before any was measured.
const COST: Duration = Duration::from_micros(15);

/// See the module's documentation. Times count from any fixed moment.
#[derive(Debug)]
pub(super) struct LookPace {
    after: Duration,
    /// There is one worker.
    alone: bool,
    /// What a look costs: a moving average.
    cost: Duration,
    /// When the last hogs were found, the latest first.
    found: [Option<Duration>; SEVERAL],
}

impl LookPace {
    /// `after` is the hand-off threshold.
    pub(super) fn new(after: Duration, workers: usize) -> Self {
        Self {
            after,
            alone: workers == 1,
            cost: COST,
            found: [None; SEVERAL],
        }
    }

    /// The hand-off threshold may have changed.
    pub(super) fn go_by(&mut self, after: Duration) {
        self.after = after;
    }

    pub(super) fn found(&mut self, now: Duration) {
        self.found.rotate_right(1);
        self.found[0] = Some(now);
    }

    /// `looks` looks used this much processor time.
    pub(super) fn cost(&mut self, looks: u32, used: Duration) {
        if let Some(each) = used.checked_div(looks) {
            self.cost = self.cost - self.cost / 4 + each / 4;
        }
    }

    /// Whether more hogs are likely.
    pub(super) fn expects_hogs(&self, now: Duration) -> bool {
        let (hog, lately) = if self.alone {
            (self.found[0], LATELY_ALONE)
        } else {
            (self.found[SEVERAL - 1], LATELY)
        };
        hog.is_some_and(|at| now.saturating_sub(at) < lately)
    }

    /// How long until the next look.
    pub(super) fn pause(&self, now: Duration) -> Duration {
        let (shortest, longest) = (SHORTEST * self.after, LONGEST * self.after);
        if self.expects_hogs(now) {
            return shortest;
        }
        (PART * self.cost).clamp(shortest, longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AFTER: Duration = Duration::from_millis(1);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    fn at_cost(each: Duration) -> LookPace {
        let mut pace = LookPace::new(AFTER, 2);
        (0..50).for_each(|_| pace.cost(8, 8 * each));
        pace
    }

    #[test]
    fn looks_use_no_more_than_their_part() {
        for cost in [9, 10, 15, 20, 26] {
            let pause = at_cost(us(cost)).pause(ms(0));
            let part = us(cost).as_secs_f64() / pause.as_secs_f64();
            assert!((0.0039..0.0041).contains(&part), "{cost} us: {part}");
        }
    }

    #[test]
    fn neither_cheap_nor_dear_looks_go_beyond_the_bounds() {
        assert_eq!(at_cost(us(1)).pause(ms(0)), 2 * AFTER);
        assert_eq!(at_cost(ms(1)).pause(ms(0)), 8 * AFTER);
    }

    #[test]
    fn a_few_hogs_are_accidents_and_several_are_not() {
        let mut pace = at_cost(us(20));
        let usual = pace.pause(ms(0));
        for at in [1_000, 1_001, 1_002] {
            pace.found(ms(at));
            assert_eq!(pace.pause(ms(at)), usual);
        }
        pace.found(ms(3_500));
        assert_eq!(pace.pause(ms(3_501)), usual, "the first was long ago");
        pace.found(ms(3_600));
        pace.found(ms(3_700));
        pace.found(ms(3_800));
        assert_eq!(pace.pause(ms(3_801)), 2 * AFTER);
        assert_eq!(pace.pause(ms(5_499)), 2 * AFTER);
        assert_eq!(pace.pause(ms(5_500)), usual);
    }

    #[test]
    fn a_lone_worker_is_looked_at_more_often_after_any_hog() {
        let mut pace = LookPace::new(AFTER, 1);
        let usual = pace.pause(ms(0));
        pace.found(ms(1_000));
        assert_eq!(pace.pause(ms(1_001)), 2 * AFTER);
        assert_eq!(pace.pause(ms(10_999)), 2 * AFTER);
        assert_eq!(pace.pause(ms(11_000)), usual);
    }

    #[test]
    fn no_looks_cost_nothing() {
        let mut pace = LookPace::new(AFTER, 2);
        pace.cost(0, ms(5));
        assert_eq!(pace.pause(ms(0)), PART * COST);
    }
}
