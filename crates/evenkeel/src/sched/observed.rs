//! What the neighbours of a worker have seen of its poll, while it lasts.
//!
//! A poll that lasts by the clock need not be stuck: on a busy machine the kernel often takes the
//! processor away in the middle of a poll, for some milliseconds. To rouse the monitor each time
//! costs two thread switches, some tens of microseconds. So who sees such a poll first asks what
//! processor time its thread has used since an earlier look, and whether it is blocked, which takes
//! less than a microsecond. Only a poll that computes or is blocked is reported.
//!
//! The words belong together, but are read and written by any neighbour one by one, all Relaxed:
//! they are hints. What is mixed up leads to a report too many, or to none; then the monitor finds
//! the poll at its own pace.

use crate::sync::atomic::{AtomicU64, Ordering};

/// See the module's documentation. All numbers are cycles.
#[derive(Debug)]
pub(crate) struct Observed {
    /// When the poll began.
    since: AtomicU64,
    /// The processor time of its thread when it was seen first.
    cpu: AtomicU64,
    /// When to look again; never once the poll was reported.
    again: AtomicU64,
}

/// What can be asked about a thread.
pub(crate) trait Ask {
    /// Its processor time so far, in cycles; `None` if that cannot be known now.
    fn cpu(&self) -> Option<u64>;
    /// Whether it runs or is ready to; `None` likewise.
    fn is_runnable(&self) -> Option<bool>;
}

impl Observed {
    pub(crate) fn new() -> Self {
        Self {
            since: AtomicU64::new(0),
            cpu: AtomicU64::new(0),
            again: AtomicU64::new(0),
        }
    }

    /// Whether the poll that began at `since` is stuck, and nobody has said so yet. It counts as
    /// stuck when it has lasted for `limit`, and has certainly computed for half of that or is
    /// blocked. `now` is at least half the limit after `since`.
    pub(crate) fn is_stuck(&self, since: u64, now: u64, limit: u64, thread: &impl Ask) -> bool {
        // Relaxed, here and below: see the module.
        let is_new = self.since.load(Ordering::Relaxed) != since;
        if !is_new && now < self.again.load(Ordering::Relaxed) {
            return false;
        }
        let cpu = thread.cpu();
        if is_new {
            // Relaxed, all: as above.
            self.cpu.store(cpu.unwrap_or(0), Ordering::Relaxed);
            self.again.store(since + limit, Ordering::Relaxed);
            self.since.store(since, Ordering::Relaxed);
            if now - since < limit {
                return false;
            }
        }
        // Relaxed: as above.
        let before = self.cpu.load(Ordering::Relaxed);
        let used = cpu.map(|cpu| cpu.saturating_sub(before));
        let missing = used.map_or(0, |used| (limit / 2).saturating_sub(used));
        if missing == 0 || thread.is_runnable() != Some(true) {
            self.again.store(u64::MAX, Ordering::Relaxed);
            return true;
        }
        // It cannot have computed for long enough before.
        let again = now + missing.max(limit / 8);
        self.again.store(again, Ordering::Relaxed);
        false
    }

    /// Whether the poll that began at `since` was found stuck.
    pub(crate) fn was_stuck(&self, since: u64) -> bool {
        // Relaxed, both: see the module.
        self.since.load(Ordering::Relaxed) == since
            && self.again.load(Ordering::Relaxed) == u64::MAX
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    const LIMIT: u64 = 1_000;

    /// Its processor time, and whether it is runnable.
    struct Thread(Option<u64>, Option<bool>);

    impl Ask for Thread {
        fn cpu(&self) -> Option<u64> {
            self.0
        }

        fn is_runnable(&self) -> Option<bool> {
            self.1
        }
    }

    fn runs(cpu: u64) -> Thread {
        Thread(Some(cpu), Some(true))
    }

    #[test]
    fn a_poll_that_computes_is_stuck_soon_after_the_limit_and_reported_once() {
        let observed = Observed::new();
        assert!(!observed.is_stuck(5, 505, LIMIT, &runs(7_500)));
        assert!(!observed.is_stuck(5, 904, LIMIT, &runs(9_000)), "too soon");
        assert!(!observed.is_stuck(5, 1_005, LIMIT, &runs(7_990)));
        assert!(!observed.was_stuck(5));
        assert!(observed.is_stuck(5, 1_130, LIMIT, &runs(8_110)));
        assert!(observed.was_stuck(5) && !observed.was_stuck(4));
        assert!(!observed.is_stuck(5, 9_005, LIMIT, &runs(16_000)), "said");
        assert!(!observed.is_stuck(9_500, 10_000, LIMIT, &runs(17_000)));
        assert!(observed.is_stuck(9_500, 10_500, LIMIT, &runs(17_500)));
    }

    #[test]
    fn a_thread_that_is_not_scheduled_is_not_stuck_and_looked_at_again() {
        let observed = Observed::new();
        assert!(!observed.is_stuck(5, 505, LIMIT, &runs(100)));
        assert!(!observed.is_stuck(5, 1_005, LIMIT, &runs(100)));
        assert!(!observed.is_stuck(5, 1_504, LIMIT, &runs(700)), "too soon");
        assert!(!observed.is_stuck(5, 1_505, LIMIT, &runs(400)));
        assert!(!observed.is_stuck(5, 1_705, LIMIT, &runs(599)));
        assert!(observed.is_stuck(5, 4_005, LIMIT, &runs(600)));
    }

    #[test]
    fn a_blocked_thread_is_stuck_at_the_first_look_behind_the_limit() {
        let observed = Observed::new();
        let blocked = Thread(Some(100), Some(false));
        assert!(!observed.is_stuck(5, 505, LIMIT, &blocked), "not yet");
        assert!(observed.is_stuck(5, 1_005, LIMIT, &blocked));
        assert!(observed.is_stuck(7, 5_000, LIMIT, &blocked), "seen late");
    }

    #[test]
    fn where_nothing_can_be_asked_all_that_last_are_reported() {
        let observed = Observed::new();
        let unknown = Thread(None, None);
        assert!(!observed.is_stuck(5, 505, LIMIT, &unknown));
        assert!(observed.is_stuck(5, 1_005, LIMIT, &unknown));
        assert!(observed.is_stuck(7, 5_000, LIMIT, &unknown));
    }
}
