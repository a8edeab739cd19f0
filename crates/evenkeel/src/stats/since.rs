//! The difference of two snapshots.

use std::time::Duration;

use super::checks::{CheckCounts, Checks};
use super::classes::ClassStats;
use super::deliveries::{DeliveryStats, OutputStats, ReadinessStats};
use super::heavy::HeavyStats;
use super::hogs::{HogFunction, HogStacks, HogStats};
use super::lanes::{DiskStats, LaneStats};
use super::splices::SpliceStats;
use super::workers::WorkerStats;

/// Turns a figure into what it has grown by since an earlier snapshot.
pub(super) trait Subtract {
    fn subtract(&mut self, earlier: &Self);
}

/// Implements [`Subtract`] for the fields that count. The others are of the current state, and
/// stay.
macro_rules! subtract {
    ($($type:ident: $($field:ident),+;)+) => {$(
        impl Subtract for $type {
            fn subtract(&mut self, earlier: &Self) {
                $(self.$field.subtract(&earlier.$field);)+
            }
        }
    )+};
}

subtract! {
    WorkerStats: run_by_class, check, spin, park, steal, lend, wall, parks, steals, helps,
        spin_hits, spin_misses;
    ClassStats: run, heavy, polls, hogs, waits, poll_lengths;
    HeavyStats: hand_offs, early, given_up, refused, monitor;
    HogStats: count, blocked, total;
    HogStacks: taken, skipped, failed, unnamed;
    Checks: due, idle, spin, monitor;
    CheckCounts: found, empty;
    ReadinessStats: events, deliveries;
    DeliveryStats: deliveries, bytes, reads, empty_reads, bytes_per_delivery, added_delay, swept;
    OutputStats: writes, bytes;
    SpliceStats: splices, bytes, refused;
    LaneStats: done, refused, expired, waits, runs;
    DiskStats: ring_reads;
}

impl Subtract for HogFunction {
    fn subtract(&mut self, earlier: &Self) {
        self.count.subtract(&earlier.count);
        self.ended.subtract(&earlier.ended);
        self.blocked.subtract(&earlier.blocked);
        self.total.subtract(&earlier.total);
        self.subtract_spans(earlier);
    }
}

impl Subtract for u64 {
    fn subtract(&mut self, earlier: &Self) {
        *self = self.saturating_sub(*earlier);
    }
}

impl Subtract for Duration {
    fn subtract(&mut self, earlier: &Self) {
        *self = self.saturating_sub(*earlier);
    }
}

/// By place, as workers and classes neither come nor go.
impl<T: Subtract> Subtract for Vec<T> {
    fn subtract(&mut self, earlier: &Self) {
        for (row, before) in self.iter_mut().zip(earlier) {
            row.subtract(before);
        }
    }
}

/// Rows that come and go: each less the one of the `earlier` that is the same.
pub(super) fn subtract_matching<T: Subtract>(
    rows: &mut [T],
    earlier: &[T],
    is_same: impl Fn(&T, &T) -> bool,
) {
    for row in rows {
        if let Some(before) = earlier.iter().find(|before| is_same(row, before)) {
            row.subtract(before);
        }
    }
}
