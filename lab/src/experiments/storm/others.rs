//! What others had of the servers' processors: the kernel's threads, other programs, other machines
//! of the same host. A server that had to wait for them made nobody wait.

use std::fs;

use crate::process::{Server, Usage};

/// A beginning, to be held against the end.
pub(super) struct Others<'a> {
    cpus: &'a [usize],
    then: Option<Counts>,
    usage: Usage,
}

/// Ticks of some processors since the machine's start.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Counts {
    busy: u64,
    all: u64,
}

impl<'a> Others<'a> {
    /// `cpus`: where servers run; none if that is anywhere.
    pub(super) fn begin(cpus: &'a [usize], server: &Server) -> Self {
        Others {
            cpus,
            then: read(cpus),
            usage: server.process.usage(),
        }
    }

    /// How many processors others had since the beginning. `None` where servers have none of their
    /// own, or where the system does not tell.
    pub(super) fn cores(&self, server: &Server) -> Option<f64> {
        let (then, now) = (self.then?, read(self.cpus)?);
        let server = server.process.usage().cores_since(&self.usage);
        let busy = busy_cores(then, now, self.cpus.len())?;
        // Ticks are samples, and the server's time is exact.
        Some((busy - server).max(0.0))
    }
}

fn read(cpus: &[usize]) -> Option<Counts> {
    counts(&fs::read_to_string("/proc/stat").ok()?, cpus)
}

/// From the lines `cpuN` of `/proc/stat`: user, nice, system, idle, waiting for a device, two kinds
/// of interrupts, stolen. What follows is in the first two already.
fn counts(stat: &str, cpus: &[usize]) -> Option<Counts> {
    let mut sum = Counts::default();
    for cpu in cpus {
        let name = format!("cpu{cpu} ");
        let line = stat.lines().find_map(|line| line.strip_prefix(&name))?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .take(8)
            .map_while(|count| count.parse().ok())
            .collect();
        let all: u64 = ticks.iter().sum();
        let idle: u64 = ticks.get(3..5)?.iter().sum();
        sum.all += all;
        sum.busy += all - idle;
    }
    (!cpus.is_empty()).then_some(sum)
}

fn busy_cores(then: Counts, now: Counts, cpus: usize) -> Option<f64> {
    let all = now.all.checked_sub(then.all).filter(|all| *all > 0)?;
    let busy = now.busy.saturating_sub(then.busy);
    Some(cpus as f64 * busy as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_idle_nor_waiting_is_busy() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 10 1 20 60 5 1 2 1 7 0\ncpu1 1 0 0 99 0 0 0 0 0 0\n";
        let first = counts(stat, &[0]);
        assert_eq!(first, Some(Counts { busy: 35, all: 100 }));
        assert_eq!(counts(stat, &[0, 1]), Some(Counts { busy: 36, all: 200 }));
        assert_eq!((counts(stat, &[]), counts(stat, &[2])), (None, None));
        let then = Counts { busy: 10, all: 100 };
        let now = Counts { busy: 60, all: 300 };
        assert_eq!(busy_cores(then, now, 2), Some(0.5));
        assert_eq!(busy_cores(now, now, 2), None);
    }
}
