//! When a processor stood still: on each processor a thread of real-time priority, above whatever
//! the lab starts, wakes every two milliseconds and notes when it woke too late. So it sees each
//! stall that is longer than its sleep, and some shorter ones; waking more often would take from
//! the hogs what is to be measured.
//!
//! On a virtual machine the host takes processors away for milliseconds at a time, and says so late
//! or never. Nothing that runs there could answer meanwhile, so latency beyond the 99th percentile
//! is reported with and without the requests that were due in such a stall or right before it. A
//! long section of the kernel's looks the same from here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::sys;

/// How long each witness sleeps.
const SLEEP: Duration = Duration::from_millis(2);
/// What it wakes too late by is a stall from here on: some ten times what a processor takes to wake
/// from its idle state.
const STALL: Duration = Duration::from_micros(250);
/// Stalls that one witness takes down: more than it could in three minutes without a pause.
const STALLS_MAX: usize = 100_000;

/// From when to when a processor stood still.
pub(super) type Stall = (Instant, Instant);

/// The witnesses, one for each processor.
pub(super) struct Witnesses {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Option<Vec<Stall>>>>,
}

impl Witnesses {
    /// Calls one to each processor.
    pub(super) fn call() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let witness = |cpu: usize| {
            let over = Arc::clone(&over);
            std::thread::spawn(move || watch(cpu, &over))
        };
        let threads = (0..sys::processors()).map(witness).collect();
        Witnesses { over, threads }
    }

    /// All stalls, in order of their beginnings. `None` if a witness was not allowed the priority,
    /// without which it says nothing of the processor.
    pub(super) fn hear(self) -> Option<Vec<Stall>> {
        // Relaxed: nothing else is told by it; what the witnesses saw comes with their ends.
        self.over.store(true, Ordering::Relaxed);
        let mut stalls: Vec<Stall> = Vec::new();
        for thread in self.threads {
            stalls.extend(thread.join().ok()??);
        }
        stalls.sort_unstable();
        Some(stalls)
    }
}

/// What one witness saw. `None` if it cannot tell; a processor that is not there does not stall.
fn watch(cpu: usize, over: &AtomicBool) -> Option<Vec<Stall>> {
    if sys::pin(&[cpu]).is_err() {
        return Some(Vec::new());
    }
    if !sys::goes_before_all() {
        return None;
    }
    let mut stalls = Vec::new();
    // Relaxed: see `hear`.
    while !over.load(Ordering::Relaxed) && stalls.len() < STALLS_MAX {
        let due = Instant::now() + SLEEP;
        std::thread::sleep(SLEEP);
        let woke = Instant::now();
        if woke > due + STALL {
            stalls.push((due, woke));
        }
    }
    Some(stalls)
}

/// For how long after a request was due a stall counts as met. The same for all requests: if it
/// were until the answer, whoever is slow would meet the most stalls, and be excused the most.
const WINDOW: Duration = Duration::from_millis(2);

/// Whether a request met a stall. Pure; `stalls` are in order of their beginnings.
pub(super) fn met(stalls: &[Stall], due: Instant) -> bool {
    let begun = stalls.partition_point(|&(from, _)| from < due + WINDOW);
    stalls[..begun].iter().rev().any(|&(_, to)| to > due)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_request_meets_a_stall_from_its_moment_to_the_end_of_the_window() {
        let start = Instant::now();
        let at = |ms: u32| start + ms * MS;
        let stalls = [(at(4), at(19)), (at(6), at(7))];
        assert!(!met(&stalls, at(2)));
        assert!(met(&stalls, at(3)));
        // The longer one began first, and is not over.
        assert!(met(&stalls, at(10)));
        assert!(!met(&stalls, at(19)));
        assert!(!met(&[], at(10)));
    }

    #[test]
    fn witnesses_see_what_is_over_in_the_order_in_which_it_began() {
        let witnesses = Witnesses::call();
        std::thread::sleep(5 * MS);
        // Not everybody may have the priority.
        if let Some(stalls) = witnesses.hear() {
            let now = Instant::now();
            assert!(
                stalls.iter().all(|&(from, to)| from < to && to <= now),
                "{stalls:?}"
            );
            assert!(stalls.is_sorted(), "{stalls:?}");
        }
    }
}
