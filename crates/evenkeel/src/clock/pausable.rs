//! A clock of ticks that can stand still, for tests.
//!
//! It stands while anything can run, and jumps to the next timer when all wait. Who can run is
//! counted here: threads in `block_on`, unless they wait, and blocking work from its submission to
//! its end, the wake-up of whoever waits for it included. What the worker can run it knows itself:
//! it alone moves the clock, when it has nothing to do (`sched::worker::stand`).
//!
//! Everything is under one lock, which is held for a few steps; nothing here has to be fast.
#![allow(
    clippy::disallowed_methods,
    reason = "the seam of the scheduler's clock"
)]

use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Whether this process has made such a clock: only then need a thread look whether its runtime has
/// one.
static ANY: AtomicBool = AtomicBool::new(false);

/// Every one that was made. They are never freed, so that clocks can be copied: a price of some
/// hundred bytes for each runtime of a test.
static ALL: Mutex<Vec<&'static Pausable>> = Mutex::new(Vec::new());

#[inline]
pub(crate) fn is_any_pausable() -> bool {
    // Relaxed: a thread that uses the runtime has been told of it since.
    ANY.load(Ordering::Relaxed)
}

/// How far a clock can be advanced: 292 years, half of what there are numbers for.
const REACH_NS: u64 = u64::MAX / 2;

#[derive(Debug)]
pub(crate) struct Pausable {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The time at which the clock stands, or stood when it was set going.
    nanos: u64,
    /// Since when it goes; `None` while it is paused.
    goes_since: Option<Instant>,
    /// How many threads and pieces of blocking work can run.
    busy: usize,
    /// How many threads are in `block_on`. While there is none, nobody waits for a jump.
    inside: usize,
    /// How often all have waited.
    lulls: u64,
    /// Those who wait for the next lull.
    waiters: Vec<Waker>,
}

impl State {
    fn now(&self) -> u64 {
        let passed = self
            .goes_since
            .map_or(Duration::ZERO, |since| since.elapsed());
        self.nanos.saturating_add(in_nanos(passed))
    }
}

fn in_nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Pausable {
    pub(super) fn new() -> &'static Self {
        let new: &'static Self = Box::leak(Box::new(Self {
            state: Mutex::new(State {
                nanos: 0,
                goes_since: None,
                busy: 0,
                inside: 0,
                lulls: 0,
                waiters: Vec::new(),
            }),
        }));
        ALL.lock().push(new);
        // Relaxed: see `is_any_pausable`.
        ANY.store(true, Ordering::Relaxed);
        new
    }

    pub(super) fn nanos(&self) -> u64 {
        self.state.lock().now()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.state.lock().goes_since.is_none()
    }

    /// Returns false if the clock stood already.
    #[must_use]
    pub(crate) fn pause(&self) -> bool {
        let mut state = self.state.lock();
        state.nanos = state.now();
        state.goes_since.take().is_some()
    }

    /// Sets the clock going. Returns false if it went already.
    #[must_use]
    pub(crate) fn resume(&self) -> bool {
        let mut state = self.state.lock();
        let stood = state.goes_since.is_none();
        if stood {
            state.goes_since = Some(Instant::now());
        }
        stood
    }

    /// Returns false, and does nothing, if that is too far: at the end of the clock's numbers a
    /// timer would never be due.
    #[must_use]
    pub(crate) fn advance(&self, duration: Duration) -> bool {
        let mut state = self.state.lock();
        let after = state.nanos.saturating_add(in_nanos(duration));
        let is_within_reach = after <= REACH_NS;
        if is_within_reach {
            state.nanos = after;
        }
        is_within_reach
    }

    /// Never goes back.
    pub(super) fn jump_to(&self, nanos: u64) {
        let mut state = self.state.lock();
        state.nanos = state.nanos.max(nanos);
    }

    /// A thread is in `block_on` from now on, and can run.
    pub(crate) fn enter(&self) {
        let mut state = self.state.lock();
        state.inside += 1;
        state.busy += 1;
    }

    /// Undoes `enter`. Returns whether nobody counts as able to run any more.
    #[must_use]
    pub(crate) fn leave(&self) -> bool {
        let mut state = self.state.lock();
        state.inside -= 1;
        drop(state);
        self.end_work()
    }

    /// One more can run.
    pub(crate) fn begin_work(&self) {
        self.state.lock().busy += 1;
    }

    /// One waits, or is done. Returns whether it was the last that could run: then the worker has
    /// to be called, to look whether all wait.
    #[must_use]
    pub(crate) fn end_work(&self) -> bool {
        let mut state = self.state.lock();
        debug_assert!(state.busy > 0, "more have ended than began");
        state.busy -= 1;
        state.busy == 0
    }

    /// Whether all wait, as far as is known here, and somebody waits for the clock to jump.
    pub(crate) fn is_lull(&self) -> bool {
        let state = self.state.lock();
        state.goes_since.is_none() && state.busy == 0 && state.inside > 0
    }

    /// Waits until all others wait too. `since` is the caller's, and begins as `None`. Who polls
    /// again and again while others run is listed once.
    pub(crate) fn poll_lull(&self, since: &mut Option<u64>, cx: &mut Context<'_>) -> Poll<()> {
        let waker = cx.waker().clone();
        let mut state = self.state.lock();
        let lulls = state.lulls;
        if lulls > *since.get_or_insert(lulls) {
            drop(state);
            return Poll::Ready(());
        }
        let is_listed = state.waiters.iter().any(|other| other.will_wake(&waker));
        let spare = if is_listed {
            Some(waker)
        } else {
            state.waiters.push(waker);
            None
        };
        drop(state);
        // Not under the lock: that may run any code.
        drop(spare);
        Poll::Pending
    }

    /// Notes that all wait, and takes those who waited for that, for the caller to wake.
    pub(crate) fn note_lull(&self) -> Vec<Waker> {
        let mut state = self.state.lock();
        state.lulls += 1;
        std::mem::take(&mut state.waiters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn it_stands_goes_and_jumps_but_never_back() {
        let clock = Pausable::new();
        assert!(is_any_pausable() && clock.is_paused() && !clock.pause());
        clock.jump_to(5 * SECOND);
        clock.jump_to(SECOND);
        assert_eq!(clock.nanos(), 5 * SECOND);
        assert!(clock.advance(Duration::from_secs(2)));
        assert_eq!(clock.nanos(), 7 * SECOND);
        assert!(clock.resume() && !clock.resume() && !clock.is_paused());
        std::thread::sleep(Duration::from_millis(2));
        assert!(clock.pause());
        let stands = clock.nanos();
        assert!(stands >= 7 * SECOND + 2_000_000);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(clock.nanos(), stands);
        assert!(!clock.advance(Duration::MAX));
        assert_eq!(clock.nanos(), stands);
    }

    #[test]
    fn all_wait_when_nobody_is_busy_and_somebody_is_inside() {
        let clock = Pausable::new();
        assert!(!clock.is_lull(), "nobody waits for anything");
        clock.enter();
        assert!(!clock.is_lull());
        clock.begin_work();
        assert!(!clock.end_work());
        assert!(clock.end_work());
        assert!(clock.is_lull());
        assert!(clock.resume());
        assert!(!clock.is_lull(), "it goes by itself");
        clock.begin_work();
        assert!(clock.leave());
    }

    #[test]
    fn who_waits_for_a_lull_is_listed_once() {
        let clock = Pausable::new();
        let (mut one, mut other) = (None, None);
        for _ in 0..100 {
            let mut cx = Context::from_waker(Waker::noop());
            assert!(clock.poll_lull(&mut one, &mut cx).is_pending());
            assert!(clock.poll_lull(&mut other, &mut cx).is_pending());
        }
        assert_eq!(clock.note_lull().len(), 1);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(clock.poll_lull(&mut one, &mut cx).is_ready());
    }
}
