//! Processors: the time that some of this process's threads had, and who may run where.

use std::fs;
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The processor time so far of all threads whose name begins with one of `prefixes`, to the
/// nanosecond: the first field of `schedstat`.
pub(crate) fn time_of_threads(prefixes: &[&str]) -> Duration {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        panic!("processor time by thread is read from /proc, so this part runs on Linux only")
    };
    threads
        .flatten()
        .filter(|thread| {
            fs::read_to_string(thread.path().join("comm"))
                .is_ok_and(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        })
        .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|stat| stat.split(' ').next()?.parse().ok())
        .map(Duration::from_nanos)
        .sum()
}

/// The processors of this machine, divided: the last is the load's, the others are the server's.
#[derive(Clone, Copy)]
pub(crate) struct Division {
    all: CpuSet,
    count: usize,
}

impl Division {
    /// `None` with a single processor, or where processors cannot be chosen.
    pub(crate) fn of_machine() -> Option<Self> {
        let all = sched_getaffinity(None).ok()?;
        let count = all.count() as usize;
        (count > 1).then_some(Self { all, count })
    }

    fn last(&self) -> usize {
        (0..CpuSet::MAX_CPU)
            .rev()
            .find(|&cpu| self.all.is_set(cpu))
            .unwrap_or(0)
    }

    /// How many processors the server has.
    pub(crate) fn server_processors(&self) -> usize {
        self.count - 1
    }

    /// Moves the calling thread to the load's processor.
    pub(crate) fn take_load_side(&self) {
        let mut load = CpuSet::new();
        load.set(self.last());
        pin(&load);
    }
}

/// Runs `start` on the server's processors, so that the threads it starts stay there, and gives
/// the calling thread back all that it had.
pub(crate) fn on_server_side<T>(division: Option<Division>, start: impl FnOnce() -> T) -> T {
    let Some(division) = division else {
        return start();
    };
    let mut server = division.all;
    server.unset(division.last());
    pin(&server);
    let started = start();
    pin(&division.all);
    started
}

fn pin(set: &CpuSet) {
    if let Err(error) = sched_setaffinity(None, set) {
        eprintln!("vs_tokio: a thread could not be pinned: {error}; expect more noise");
    }
}
