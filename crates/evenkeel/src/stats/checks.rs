//! I/O checks, by reason and by outcome.

use std::ops::Sub;

use crate::counters::accounts::{CheckOrigin, ORIGINS};
use crate::sched::shared::Shared;

use super::since::Subtract;

/// I/O checks, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct Checks {
    /// The bound on the time between checks had passed.
    pub due: CheckCounts,
    /// There was nothing else to do. Workers sleep in these checks.
    pub idle: CheckCounts,
    /// While spinning.
    pub spin: CheckCounts,
    /// Visits: by another worker than the queue's owner, which was stuck in a poll.
    pub monitor: CheckCounts,
}

impl Checks {
    /// All checks.
    pub fn total(&self) -> u64 {
        [self.due, self.idle, self.spin, self.monitor]
            .iter()
            .map(CheckCounts::total)
            .fold(0, u64::saturating_add)
    }
}

/// I/O checks, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct CheckCounts {
    /// Checks that found events.
    pub found: u64,
    /// Checks that found none.
    pub empty: u64,
}

impl CheckCounts {
    /// All checks.
    pub fn total(&self) -> u64 {
        self.found.saturating_add(self.empty)
    }
}

impl Sub for Checks {
    type Output = Checks;

    fn sub(mut self, earlier: Checks) -> Checks {
        self.subtract(&earlier);
        self
    }
}

impl Sub for CheckCounts {
    type Output = CheckCounts;

    fn sub(mut self, earlier: CheckCounts) -> CheckCounts {
        self.subtract(&earlier);
        self
    }
}

pub(super) fn read(shared: &Shared) -> Checks {
    let mut counts = [CheckCounts::default(); ORIGINS];
    for seat in &shared.seats {
        for (sum, [found, empty]) in counts.iter_mut().zip(&seat.accounts.checks) {
            sum.found += found.load();
            sum.empty += empty.load();
        }
    }
    Checks {
        due: counts[CheckOrigin::Due as usize],
        idle: counts[CheckOrigin::Idle as usize],
        spin: counts[CheckOrigin::Spin as usize],
        monitor: counts[CheckOrigin::Visit as usize],
    }
}
