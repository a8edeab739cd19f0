//! Hogs: what a task is known for, and how it is reported.
//!
//! A task that was caught at a long poll is *heavy*: its next polls run in the heavy lane, until
//! some in a row were short. The first time that takes four, and each relapse doubles it, up to 64,
//! so that a task which computes now and then does not go back and forth.

use std::panic::Location;
use std::time::Duration;

use crate::blocking;
use crate::class::Class;
use crate::runtime::handle::Handle;
use crate::sync::Arc;
use crate::sync::atomic::Ordering;
use crate::task::cell::Header;

use super::places::{HogRow, Known};
use super::shared::Shared;

/// Its polls run in the heavy lane.
const HEAVY: u8 = 1;
/// It was caught at a long poll.
const HOGGED: u8 = 1 << 1;
/// Its place waits to be told what it was like.
const TRACKED: u8 = 1 << 2;
/// How often it came back from the lane, up to four times; the two bits from here on.
const RETURNS: u8 = 1 << 3;
const RETURNS_MAX: u8 = 4;
/// How many short polls in a row take a task out of the lane the first time.
const SHORT_POLLS: u8 = 4;

/// How long a place is quiet between two reports.
const QUIET: Duration = Duration::from_secs(1);

/// Whether a task's polls run in the heavy lane. For its runner.
#[inline]
pub(crate) fn is_heavy(task: &Header) -> bool {
    // Relaxed: the runner alone touches it, here and in all below.
    task.ways.load(Ordering::Relaxed) & HEAVY != 0
}

/// Gives a fresh task what its place is known for.
#[inline]
pub(crate) fn begin(task: &Header, known: Known) {
    let ways = match known {
        Known::Nothing => return,
        Known::Tracked => TRACKED,
        Known::Heavy => TRACKED | HEAVY,
    };
    // Relaxed: as in `is_heavy`.
    task.ways.store(ways, Ordering::Relaxed);
}

/// A poll of the task was too long. For its runner. Returns whether it was the task's first.
pub(crate) fn mark(task: &Header) -> bool {
    // Relaxed, all: as in `is_heavy`.
    let ways = task.ways.load(Ordering::Relaxed);
    task.ways
        .store((ways | HEAVY | HOGGED) & !TRACKED, Ordering::Relaxed);
    task.short_polls.store(0, Ordering::Relaxed);
    ways & HOGGED == 0
}

/// A poll of a heavy task was short. For its runner. Returns whether it is to leave the lane.
pub(crate) fn behaved(task: &Header) -> bool {
    // Relaxed, all: as in `is_heavy`.
    let ways = task.ways.load(Ordering::Relaxed);
    let returns = ways / RETURNS;
    let short = task.short_polls.load(Ordering::Relaxed).saturating_add(1);
    if short < SHORT_POLLS << returns.min(RETURNS_MAX) {
        task.short_polls.store(short, Ordering::Relaxed);
        return false;
    }
    let returns = (returns + 1).min(RETURNS_MAX);
    let flags = ways & (RETURNS - 1) & !HEAVY;
    // Relaxed, both: as in `is_heavy`.
    task.ways
        .store(flags | (returns * RETURNS), Ordering::Relaxed);
    task.short_polls.store(0, Ordering::Relaxed);
    true
}

/// The task has shown, by its end or by leaving the lane, that it is none of the hogs its place is
/// known for. For its runner. Returns whether the place is to be told.
#[inline]
pub(crate) fn acquit(task: &Header) -> bool {
    // Relaxed, both: as in `is_heavy`.
    let ways = task.ways.load(Ordering::Relaxed);
    if ways & TRACKED == 0 {
        return false;
    }
    task.ways.store(ways & !TRACKED, Ordering::Relaxed);
    // What was dropped before it was ever polled has shown nothing.
    !task.is_aborted_unseen()
}

/// A task that hogs: what [`Builder::on_hog`](crate::runtime::Builder::on_hog) is given.
///
/// There is at most one report a second for each place that spawns hogs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HogReport {
    /// Where the task was spawned.
    pub spawned_at: &'static Location<'static>,
    /// The name it was given with [`task::Builder`](crate::task::Builder), if any.
    pub name: Option<&'static str>,
    /// Its class.
    pub class: Class,
    /// How long the poll has lasted so far.
    pub length: Duration,
    /// How many long polls tasks from this place have had.
    pub count: u64,
    /// How many of them went by without a report since the last one.
    pub suppressed: u64,
    /// Whether the poll goes on.
    pub running: bool,
}

impl std::fmt::Display for HogReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a task of class `{}`", self.class)?;
        if let Some(name) = self.name {
            write!(f, ", `{name}`,")?;
        }
        let tense = if self.running { "is at" } else { "was at" };
        write!(
            f,
            " spawned at {} {tense} one poll for {:?}; {} such polls from there so far",
            self.spawned_at, self.length, self.count
        )
    }
}

/// Counts a hog, and reports it unless its place was reported lately.
pub(crate) fn note(
    shared: &Arc<Shared>,
    place: &'static Location<'static>,
    name: Option<&'static str>,
    class: Class,
    length: u64,
    running: bool,
) {
    let clock = &shared.clock;
    let quiet = clock.cycles_of(QUIET);
    let row = shared
        .places
        .hogged(place, class, name, clock.cycles(), quiet);
    if let Some(row) = row {
        report(shared, row, clock.to_duration(length), running);
    }
}

/// Hands a report to whoever wants it, on a thread for blocking work: what it does there with its
/// time is its own affair.
fn report(shared: &Arc<Shared>, row: HogRow, length: Duration, running: bool) {
    let hook = shared.config.on_hog.clone();
    if hook.is_none() && !cfg!(feature = "tracing") {
        return;
    }
    let report = HogReport {
        spawned_at: row.spawned_at,
        name: row.name,
        class: row.class,
        length,
        count: row.count,
        suppressed: row.suppressed,
        running,
    };
    let handle = Handle::from_shared(Arc::clone(shared));
    drop(blocking::spawn(&handle, Location::caller(), move || {
        trace(&report);
        if let Some(hook) = hook {
            hook.run(&report);
        }
    }));
}

#[cfg(feature = "tracing")]
fn trace(report: &HogReport) {
    tracing::warn!(
        target: "evenkeel::hog",
        spawned_at = %report.spawned_at,
        name = report.name,
        class = %report.class,
        length_us = report.length.as_micros() as u64,
        count = report.count,
        suppressed = report.suppressed,
        running = report.running,
        "{report}"
    );
}

#[cfg(not(feature = "tracing"))]
fn trace(_: &HogReport) {}
