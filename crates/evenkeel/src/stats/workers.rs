//! Where the time of each worker went.

use std::time::Duration;

use crate::sched::shared::{Seat, Shared};

/// Where the time of a worker went.
#[derive(Clone, Debug, Default)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default)
)]
#[non_exhaustive]
pub struct WorkerStats {
    /// Time spent polling tasks, by class in the order of [`Class::index`](crate::Class::index).
    #[cfg_attr(feature = "serde", serde(with = "super::nanos::list"))]
    pub run_by_class: Vec<Duration>,
    /// Time spent asking readiness queues, handing out events, and firing timers.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub check: Duration,
    /// Time spent spinning, which is neither work nor sleep.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub spin: Duration,
    /// Time spent asleep in the kernel.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub park: Duration,
    /// Time spent looking for tasks to steal from other workers.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub steal: Duration,
    /// Time in which the worker left its processor to threads of the heavy pool, whose class was
    /// owed it.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub lend: Duration,
    /// Time since the worker began.
    #[cfg_attr(feature = "serde", serde(with = "super::nanos"))]
    pub wall: Duration,
    /// How often the worker slept.
    pub parks: u64,
    /// How many tasks it stole from other workers.
    pub steals: u64,
    /// How often it woke another worker because its own backlog was too long.
    pub helps: u64,
    /// How often spinning found work.
    pub spin_hits: u64,
    /// How often spinning found none.
    pub spin_misses: u64,
}

impl WorkerStats {
    /// Time spent polling tasks.
    pub fn run(&self) -> Duration {
        self.run_by_class.iter().sum()
    }

    /// Run time over wall time, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        if self.wall.is_zero() {
            0.0
        } else {
            self.run().as_secs_f64() / self.wall.as_secs_f64()
        }
    }
}

pub(crate) fn read(shared: &Shared, seat: &Seat) -> WorkerStats {
    let (clock, accounts) = (&shared.clock, &seat.accounts);
    let times = accounts.times(|| clock.cycles());
    let duration = |cycles| clock.to_duration(cycles);
    WorkerStats {
        run_by_class: times.run[..shared.config.classes.len()]
            .iter()
            .map(|&cycles| duration(cycles))
            .collect(),
        check: duration(times.check),
        spin: duration(times.spin),
        park: duration(times.park),
        steal: duration(times.steal),
        lend: duration(times.lend),
        wall: duration(times.wall),
        parks: accounts.parks.load(),
        steals: accounts.steals.load(),
        helps: accounts.helps.load(),
        spin_hits: accounts.hits.load(),
        spin_misses: accounts.misses.load(),
    }
}
