//! What each class got, and how long its tasks waited for it.

use std::time::Duration;

use crate::class::Class;
use crate::sched::heavy_pool::HeavyPoolStats;
use crate::sched::monitor::STUCK_AFTER;
use crate::sched::shared::Shared;

use super::load;
use super::waits::Waits;
use super::workers::WorkerStats;

/// The processor time and the waits of a class.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct ClassStats {
    /// The class.
    #[cfg_attr(feature = "serde", serde(with = "super::index"))]
    pub class: Class,
    /// Its name.
    pub name: String,
    /// Its share, at the moment.
    pub share: u32,
    /// Time spent polling its tasks: time on workers, and processor time in the heavy pool.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub run: Duration,
    /// The part of it that was spent in the heavy pool.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub heavy: Duration,
    /// How often its tasks were polled, in both.
    pub polls: u64,
    /// How many of these polls were too long.
    pub hogs: u64,
    /// How many polls are under way that are too long by the clock, at the moment: in the heavy
    /// pool, or at a worker that nobody has taken over. In the pool, once they were found to be.
    pub hogging: usize,
    /// For how long the one of these has lasted that began first.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub oldest_hog: Duration,
    /// How long its tasks were ready before they were polled: from their wake-up, such as by the
    /// I/O check that found an event for them, to the beginning of the poll. A task that a poll
    /// wakes counts from the beginning of that poll.
    pub waits: Waits,
    /// How long its polls took that are over, by the clock.
    pub poll_lengths: Waits,
    /// How many of its tasks have been polled and have not completed, at the moment.
    pub alive: usize,
    /// How many of its tasks are ready and wait to be polled, at the moment: without those in the
    /// heavy pool, and without the one that each worker polls next. Of those that other threads
    /// have woken in the last moments, at most 256 are counted.
    pub ready: usize,
    /// About how long the one of these has waited that came first: of those in workers' run queues
    /// see [`Load::wait`](super::Load::wait), of which it is the longest. The histogram of waits
    /// has only tasks that were polled in the end; this also grows while none is.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub oldest_ready: Duration,
}

pub(super) fn read(
    shared: &Shared,
    workers: &[WorkerStats],
    pool: &HeavyPoolStats,
) -> Vec<ClassStats> {
    let rows = shared.config.classes.iter();
    let alive = shared.registry.len_by_class();
    let hogging = hogging(shared, pool);
    rows.map(|(class, row)| {
        let index = class.index();
        let heavy = shared.clock.to_duration(pool.spent[index]);
        let run: Duration = workers
            .iter()
            .map(|worker| worker.run_by_class[index])
            .sum();
        let polls = shared
            .seats
            .iter()
            .map(|seat| seat.accounts.of(class).waits.count());
        ClassStats {
            class,
            name: row.name.clone(),
            share: shared.ledger.term(class).share,
            run: run + heavy,
            heavy,
            polls: polls.sum::<u64>() + pool.polls[index],
            hogs: shared.kinds.hogs(class),
            hogging: hogging.iter().filter(|(of, _)| *of == class).count(),
            oldest_hog: shared.clock.to_duration(longest(&hogging, class)),
            waits: waits(shared, pool, class),
            poll_lengths: poll_lengths(shared, pool, class),
            alive: alive[index],
            ready: load::ready(shared, class),
            oldest_ready: load::oldest_ready(shared, class),
        }
    })
    .collect()
}

/// The polls under way that are too long, and their lengths so far in cycles. Those in which a
/// worker is count by the clock; those in the pool are known to be hogs'.
fn hogging(shared: &Shared, pool: &HeavyPoolStats) -> Vec<(Class, u64)> {
    let now = shared.clock.cycles();
    let limit = shared.live.hand_off_after().unwrap_or(STUCK_AFTER);
    let limit = shared.clock.cycles_of(limit);
    let at_workers = shared.seats.iter().filter_map(|seat| {
        let desk = shared.desk_of(seat);
        let since = desk.tenure().polling_since();
        let counts = since > 0 && !desk.gives_up(since);
        counts.then(|| (desk.last_class(), since))
    });
    let in_pool = pool.hogging.iter().copied();
    (at_workers.chain(in_pool))
        .map(|(class, since)| (class, now.saturating_sub(since)))
        .filter(|&(_, length)| length >= limit)
        .collect()
}

fn longest(hogging: &[(Class, u64)], class: Class) -> u64 {
    let of_class = hogging.iter().filter(|(of, _)| *of == class);
    of_class.map(|(_, length)| *length).max().unwrap_or(0)
}

fn waits(shared: &Shared, pool: &HeavyPoolStats, class: Class) -> Waits {
    let seats = shared.seats.iter();
    let by_seats = seats.map(|seat| seat.accounts.of(class).waits.read());
    let in_pool = pool.waits[class.index()].clone();
    Waits::new(&shared.clock, &by_seats.chain([in_pool]).sum())
}

fn poll_lengths(shared: &Shared, pool: &HeavyPoolStats, class: Class) -> Waits {
    let seats = shared.seats.iter();
    let by_seats = seats.map(|seat| seat.accounts.of(class).poll_lengths.read());
    let in_pool = pool.poll_lengths[class.index()].clone();
    Waits::new(&shared.clock, &by_seats.chain([in_pool]).sum())
}
