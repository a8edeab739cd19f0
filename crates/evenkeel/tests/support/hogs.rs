//! Polls that take too long, for tests.
#![allow(dead_code, reason = "each test crate uses a part")]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use evenkeel::runtime::Handle;
use nix::time::{ClockId, clock_gettime};

/// What a poll does instead of returning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// It computes.
    Spins,
    /// It is blocked in `std::thread::sleep`.
    Sleeps,
    /// It waits for a lock.
    Locks,
}

/// How long a poll that sleeps does so at a time. It computes for a moment then, and has to be
/// found blocked before it does so again. Beside pauses of the preemption harness that takes
/// longer.
const NAP: Duration = Duration::from_millis(if cfg!(evenkeel_preempt) { 500 } else { 20 });

/// Holds up polls until it is opened or dropped.
pub(crate) struct Gate {
    entrance: Entrance,
    held: Option<MutexGuard<'static, ()>>,
}

/// The side of a gate at which polls arrive.
#[derive(Clone)]
pub(crate) struct Entrance {
    open: Arc<AtomicBool>,
    inside: Arc<AtomicUsize>,
    lock: &'static Mutex<()>,
}

impl Gate {
    pub(crate) fn closed() -> Self {
        /// Allocations that were leaked, so that a leak check still reaches them.
        static LOCKS: Mutex<Vec<&Mutex<()>>> = Mutex::new(Vec::new());
        let lock: &'static Mutex<()> = Box::leak(Box::default());
        LOCKS.lock().unwrap().push(lock);
        Self {
            entrance: Entrance {
                open: Arc::default(),
                inside: Arc::default(),
                lock,
            },
            held: Some(lock.lock().unwrap()),
        }
    }

    pub(crate) fn entrance(&self) -> Entrance {
        self.entrance.clone()
    }

    /// How many polls have come to the gate so far.
    pub(crate) fn arrived(&self) -> usize {
        self.entrance.inside.load(SeqCst)
    }

    pub(crate) fn open(&mut self) {
        self.entrance.open.store(true, SeqCst);
        drop(self.held.take());
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

impl Entrance {
    /// Does not return until the gate is open.
    pub(crate) fn wait(&self, hold: Hold) {
        self.inside.fetch_add(1, SeqCst);
        if hold == Hold::Locks {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        }
        while !self.open.load(SeqCst) {
            match hold {
                Hold::Spins | Hold::Locks => std::hint::spin_loop(),
                Hold::Sleeps => thread::sleep(NAP),
            }
        }
    }
}

/// The processor time that the calling thread has used.
pub(crate) fn cpu() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .unwrap()
        .into()
}

/// Computes until the calling thread has used this much more processor time. Wall time would not
/// do: on a busy machine, a thread that the kernel has not scheduled does not hog.
pub(crate) fn compute(length: Duration) {
    let end = cpu() + length;
    while cpu() < end {
        (0..1_000).for_each(|_| std::hint::spin_loop());
    }
}

/// Far longer than any poll may take.
pub(crate) const LONG: Duration = Duration::from_millis(5);

/// Computes, in a task, until a seat of its runtime has been handed over, and for as long as a hog
/// computes. In a runtime with one worker and no other hog, that seat is the one that this poll
/// held.
///
/// A second is the most: the poll may have lost its seat before this began, or have none.
pub(crate) fn compute_until_handed_off() {
    let handle = Handle::current();
    let before = handle.stats().heavy.hand_offs;
    let end = cpu() + Duration::from_secs(1);
    while handle.stats().heavy.hand_offs == before && cpu() < end {
        compute(Duration::from_micros(100));
    }
    // A poll on guard loses its seat before it counts as a hog.
    compute(Duration::from_millis(2));
}

/// How many threads of this process have names that begin so; 0 if that is not known.
pub(crate) fn threads_named(prefix: &str) -> usize {
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else {
        return 0;
    };
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("comm")).ok())
        .filter(|name| name.starts_with(prefix))
        .count()
}
