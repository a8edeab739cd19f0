//! Whether the next batch waits for the tasks that the last one has woken. No thread, clock or I/O.
//!
//! Most tasks that append have more to append. If the next batch begins without them, they wait for
//! all of it and then for their own: nearly two rounds of writing and syncing. If it waits the
//! short time until they are back, they wait for one round. Tasks that serve a network take longer,
//! so waiting is tried seldom if nobody came.

use std::time::Duration;

/// The wait ends if nobody comes for this fraction of a sync's time.
const MOMENT: u32 = 8;
/// A longer sync counts as this long: the woken tasks need no longer to come back, and the wait
/// keeps a processor busy.
const SYNC_MAX: Duration = Duration::from_millis(10);
/// The most batches for which waiting is not tried again.
const PAUSE_MAX: u32 = 32;

/// Whether waiting has paid off lately.
#[derive(Debug, Default)]
pub(super) struct Company {
    /// For how many batches not to wait.
    pause: u32,
    /// For how many batches not to wait after the latest wait in vain.
    in_vain: u32,
}

#[derive(Debug)]
pub(super) struct Gathering {
    /// The number of records if all tasks came back.
    hoped: usize,
    /// The number of records when the wait began.
    at_first: usize,
    seen: usize,
    seen_at: Duration,
    /// The time of the last sync, at most [`SYNC_MAX`].
    sync: Duration,
}

impl Company {
    /// Begins a wait for `hoped` records, of which `seen` are there already, if it is worth a try.
    pub(super) fn gather(
        &mut self,
        hoped: usize,
        seen: usize,
        sync: Duration,
    ) -> Option<Gathering> {
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        (seen < hoped).then_some(Gathering {
            hoped,
            at_first: seen,
            seen,
            seen_at: Duration::ZERO,
            sync: sync.min(SYNC_MAX),
        })
    }

    /// Learns from a wait: it has paid off if a quarter of the hoped-for records came.
    pub(super) fn learn(&mut self, gathering: &Gathering) {
        debug_assert!(gathering.at_first < gathering.hoped);
        let came = gathering.seen - gathering.at_first;
        if came >= (gathering.hoped - gathering.at_first).div_ceil(4) {
            *self = Self::default();
        } else {
            self.in_vain = (2 * self.in_vain).clamp(1, PAUSE_MAX);
            self.pause = self.in_vain;
        }
    }
}

impl Gathering {
    /// Whether to wait on, with `seen` records after `now`: not if all are there, none came for a
    /// moment, or it has taken as long as a sync.
    pub(super) fn goes_on(&mut self, seen: usize, now: Duration) -> bool {
        if seen > self.seen {
            (self.seen, self.seen_at) = (seen, now);
        }
        seen < self.hoped && now < self.sync && now < self.seen_at + self.sync / MOMENT
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    const SYNC: Duration = Duration::from_micros(800);

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_wait_ends_when_all_came_or_none_for_a_moment_or_after_a_sync() {
        let mut company = Company::default();
        let mut all = company.gather(100, 10, SYNC).unwrap();
        assert!(all.goes_on(10, us(50)) && all.goes_on(99, us(90)));
        assert!(!all.goes_on(100, us(91)));

        let mut moment = company.gather(100, 10, SYNC).unwrap();
        assert!(moment.goes_on(10, us(99)));
        assert!(moment.goes_on(11, us(101)), "one came");
        assert!(moment.goes_on(11, us(200)));
        assert!(!moment.goes_on(11, us(201)));

        let mut long = company.gather(1_000, 0, SYNC).unwrap();
        assert!((1..800).all(|at| long.goes_on(at as usize, us(at))));
        assert!(!long.goes_on(800, SYNC));
    }

    /// After a device has hung for half a minute, a worker must not be busy for seconds while a
    /// record waits.
    #[test]
    fn a_long_sync_does_not_lengthen_the_wait() {
        let mut company = Company::default();
        let hung = Duration::from_secs(30);
        let mut alone = company.gather(2, 1, hung).unwrap();
        assert!(!alone.goes_on(1, us(2_000)), "nobody came");
        let mut some = company.gather(1_000, 1, hung).unwrap();
        assert!((2..20).all(|at| some.goes_on(at as usize, us(500 * at))));
        assert!(!some.goes_on(20, us(10_000)));
    }

    #[test]
    fn waits_in_vain_become_rarer_until_one_pays_off() {
        let mut company = Company::default();
        assert!(company.gather(5, 5, SYNC).is_none(), "all are there");
        for pause in [1, 2, 4, 8, 16, 32, 32] {
            let mut wait = company.gather(100, 60, SYNC).unwrap();
            wait.goes_on(69, us(1));
            company.learn(&wait);
            for _ in 0..pause {
                assert!(company.gather(100, 60, SYNC).is_none());
            }
        }
        let mut wait = company.gather(100, 60, SYNC).unwrap();
        wait.goes_on(70, us(1));
        company.learn(&wait);
        assert!(company.gather(100, 60, SYNC).is_some());
    }
}
