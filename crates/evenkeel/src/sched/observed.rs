//! What the neighbours of a worker have seen of its poll, while it lasts.
//!
//! A poll that lasts by the clock need not be stuck: on a busy machine the kernel often takes the
//! processor away in the middle of a poll, for some milliseconds. To rouse the monitor each time
//! costs two thread switches, some tens of microseconds. So who sees such a poll first asks what
//! processor time its thread has used since an earlier look, and whether it is blocked, which takes
//! less than a microsecond. Only a poll that computes or is blocked is reported, or one of which
//! that cannot be found out. What cannot be found out is no proof that it computes.
//!
//! The words belong together, but are read and written by any neighbour one by one, all Relaxed:
//! they are hints. What is mixed up leads to a report too many, or to none; then the monitor finds
//! the poll at its own pace.

use crate::sync::atomic::{AtomicU64, Ordering};

/// The processor time of a thread that could not be asked.
const UNKNOWN: u64 = u64::MAX;
/// When to look again at a poll that was reported: never. It was found to compute, or it may be
/// blocked or anything else.
const COMPUTES: u64 = u64::MAX;
const MAY_BE_STUCK: u64 = u64::MAX - 1;

/// See the module's documentation. All numbers are cycles.
#[derive(Debug)]
pub(crate) struct Observed {
    /// When the poll began.
    since: AtomicU64,
    /// The processor time of its thread when it was seen first, or [`UNKNOWN`].
    cpu: AtomicU64,
    /// When to look again; [`COMPUTES`] or [`MAY_BE_STUCK`] once the poll was reported.
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
    /// stuck when it has lasted for `limit`, and has certainly computed for half of that or may be
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
            self.cpu.store(cpu.unwrap_or(UNKNOWN), Ordering::Relaxed);
            self.again.store(since + limit, Ordering::Relaxed);
            self.since.store(since, Ordering::Relaxed);
            if now - since < limit {
                return false;
            }
        }
        // Relaxed: as above.
        let before = self.cpu.load(Ordering::Relaxed);
        let used = cpu.filter(|_| before != UNKNOWN);
        let used = used.map(|cpu| cpu.saturating_sub(before));
        let again = match used.map(|used| (limit / 2).saturating_sub(used)) {
            Some(0) => COMPUTES,
            // It cannot have computed for long enough before.
            Some(missing) if thread.is_runnable() == Some(true) => now + missing.max(limit / 8),
            _ => MAY_BE_STUCK,
        };
        self.again.store(again, Ordering::Relaxed);
        again >= MAY_BE_STUCK
    }

    /// Whether the poll that began at `since` was found to compute for too long: its thread's
    /// processor time says so.
    pub(crate) fn has_computed(&self, since: u64) -> bool {
        // Relaxed, both: see the module.
        self.since.load(Ordering::Relaxed) == since
            && self.again.load(Ordering::Relaxed) == COMPUTES
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
        assert!(!observed.has_computed(5));
        assert!(observed.is_stuck(5, 1_130, LIMIT, &runs(8_110)));
        assert!(observed.has_computed(5) && !observed.has_computed(4));
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
        assert!(!observed.has_computed(7));
    }

    #[test]
    fn where_nothing_can_be_asked_all_that_last_are_reported() {
        let observed = Observed::new();
        let unknown = Thread(None, None);
        assert!(!observed.is_stuck(5, 505, LIMIT, &unknown));
        assert!(observed.is_stuck(5, 1_005, LIMIT, &unknown));
        assert!(observed.is_stuck(7, 5_000, LIMIT, &unknown));
        assert!(!observed.is_stuck(7, 6_000, LIMIT, &unknown), "said");
    }

    /// Its lock was taken at one of the looks, say.
    #[test]
    fn what_could_not_be_found_out_is_no_proof_that_a_poll_computes() {
        let observed = Observed::new();
        let unknown = Thread(None, None);
        assert!(!observed.is_stuck(5, 505, LIMIT, &unknown));
        assert!(observed.is_stuck(5, 1_005, LIMIT, &runs(9_000)), "at once");
        assert!(!observed.has_computed(5), "its time before is not known");
        assert!(!observed.is_stuck(7, 2_000, LIMIT, &runs(9_000)));
        assert!(observed.is_stuck(7, 3_000, LIMIT, &unknown));
        assert!(!observed.has_computed(7), "its time now is not known");
        let of_which_little = Thread(Some(9_100), None);
        assert!(!observed.is_stuck(9, 4_000, LIMIT, &runs(9_000)));
        assert!(observed.is_stuck(9, 5_000, LIMIT, &of_which_little));
        assert!(!observed.has_computed(9), "it has not");
    }
}
