//! How busy a class is, for whoever decides whether to take on more.

use std::time::Duration;

use crate::class::Class;
use crate::sched::shared::{Seat, Shared};

/// How busy a class is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Load {
    /// How long a new task would wait before it is polled: for each worker what the task it polled
    /// last had waited, or the time since if that is longer (or since none waited, if that was
    /// later); the mean over the tasks that wait.
    /// Zero if none does.
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

fn wait_at(seat: &Seat, class: Class, now: u64) -> u64 {
    let accounts = &seat.accounts;
    // A class that never ran here has not kept anybody waiting that we know of.
    if accounts.polls[class.index()].load() == 0 {
        return 0;
    }
    let since = now.saturating_sub(accounts.last_served[class.index()].load());
    accounts.last_wait[class.index()].load().max(since)
}
