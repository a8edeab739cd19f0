//! The load of a class, to decide whether to accept more work.

use std::time::Duration;

use crate::class::Class;
use crate::sched::shared::{Seat, Shared};

/// The load of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// An estimate of how long a new task would wait before it is polled; zero if no task waits.
    /// The estimate of a worker is the longer of the wait of the task that it polled last, and the
    /// time since that poll (or since no task waited, if that was later; also of a class of which
    /// it has polled none). This is their mean,
    /// weighted with the tasks that wait.
    pub wait: Duration,
    /// How many tasks wait in the workers' run queues. Those in the heavy pool do not count.
    pub queued: usize,
}

impl Load {
    pub(crate) fn read(shared: &Shared, class: Class) -> Self {
        let now = shared.clock.cycles();
        let (mut queued, mut waits) = (0_u128, 0_u128);
        for seat in &shared.seats {
            let desk = shared.desk_of(seat);
            let waiting = desk.run_queues.len_of(class) as u128;
            queued += waiting;
            waits += waiting * u128::from(wait_at(seat, class, now));
        }
        let wait = waits.checked_div(queued).unwrap_or(0);
        Self {
            wait: shared.clock.to_duration(wait as u64),
            queued: queued as usize,
        }
    }
}

/// How many entries of the stack of an injection queue are counted at most: its takers wait
/// meanwhile.
const COUNTED_MAX: usize = 256;

/// How many tasks of a class wait in run queues and in the injection queue.
pub(super) fn ready(shared: &Shared, class: Class) -> usize {
    let queued: usize = (shared.seats.iter())
        .map(|seat| shared.desk_of(seat).run_queues.len_of(class))
        .sum();
    queued + shared.injection_queue(class).len(COUNTED_MAX)
}

/// About how long the task of a class has waited that waits for longest in a run queue or in the
/// injection queue.
pub(super) fn oldest_ready(shared: &Shared, class: Class) -> Duration {
    let now = shared.clock.cycles();
    let waits = shared.seats.iter().filter_map(|seat| {
        let waits = shared.desk_of(seat).run_queues.len_of(class) > 0;
        waits.then(|| wait_at(seat, class, now))
    });
    let injected = shared.injection_queue(class).oldest();
    let injected = injected.map(|since| now.saturating_sub(since));
    shared
        .clock
        .to_duration(waits.chain(injected).max().unwrap_or(0))
}

fn wait_at(seat: &Seat, class: Class, now: u64) -> u64 {
    seat.accounts.wait_until(class, now)
}
