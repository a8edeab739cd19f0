//! Where the monitor waits and is roused, and how much processor time it has used.

use std::time::Duration;

use crate::clock::Clock;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::sys::thread;

/// What part of the hand-off threshold a poll on guard may last, and the shortest such time: below
/// it, a look costs more than the wait that it ends.
const GUARD_PART: u32 = 5;
const GUARD_MIN: Duration = Duration::from_micros(100);
/// How long the monitor goes on looking often after the last poll on guard began. To rouse it costs
/// as much as looking for about so long.
const GUARDED_FOR: Duration = Duration::from_millis(1);

/// How long a poll on guard may last, where others may last for `after`.
pub(in crate::sched) fn guard_after(after: Duration) -> Duration {
    (after / GUARD_PART).max(GUARD_MIN)
}

/// What the monitor's thread is to do for others: starting threads that must not inherit the
/// priority of those who want them.
#[derive(Default)]
struct Asked {
    work: Vec<Box<dyn FnOnce() + Send>>,
    /// The monitor has ended.
    is_over: bool,
}

impl std::fmt::Debug for Asked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asked").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Lookout {
    roused: Mutex<bool>,
    changed: Condvar,
    asked: Mutex<Asked>,
    /// The processor time that it has used, in nanoseconds; written by its thread alone.
    used: AtomicU64,
    /// When the last poll on guard began, in cycles.
    guarded_at: AtomicU64,
    /// It looks often because of such polls.
    on_guard: AtomicBool,
}

impl Lookout {
    /// Ends the monitor's sleep, or its next one.
    #[cold]
    pub(crate) fn rouse(&self) {
        *self.roused.lock() = true;
        self.changed.notify_one();
    }

    /// Has the monitor's thread do something soon, which has to be brief and no code of the user's.
    /// Gives it back if there is no monitor any more. A lane asks for at most one thread at a time,
    /// so this has as many entries as there are lanes.
    pub(crate) fn ask<F: FnOnce() + Send + 'static>(&self, work: F) -> Result<(), F> {
        let mut asked = self.asked.lock();
        if asked.is_over {
            return Err(work);
        }
        asked.work.push(Box::new(work));
        drop(asked);
        self.rouse();
        Ok(())
    }

    /// For the monitor: does what was asked for. `is_last` if nobody may ask from now on.
    pub(super) fn do_asked(&self, is_last: bool) {
        let mut asked = self.asked.lock();
        asked.is_over |= is_last;
        let work = std::mem::take(&mut asked.work);
        drop(asked);
        work.into_iter().for_each(|work| work());
    }

    pub(crate) fn guard(&self, now: u64) {
        // Relaxed, both: hints. At worst the poll is seen at the usual pace.
        self.guarded_at.store(now, Ordering::Relaxed);
        if !self.on_guard.load(Ordering::Relaxed) {
            self.rouse();
        }
    }

    /// Whether a poll on guard began lately. If so, the monitor is on guard until the next look.
    pub(super) fn goes_on_guard(&self, clock: &Clock) -> bool {
        // Relaxed, both: as in `guard`.
        let at = self.guarded_at.load(Ordering::Relaxed);
        let lately = at != 0 && clock.cycles().saturating_sub(at) < clock.cycles_of(GUARDED_FOR);
        self.on_guard.store(lately, Ordering::Relaxed);
        lately
    }

    pub(super) fn pause(&self, length: Duration) {
        let roused = self.roused.lock();
        if !*roused {
            drop(self.changed.wait_timeout(roused, length));
        }
    }

    pub(super) fn sleep(&self) {
        let mut roused = self.roused.lock();
        while !*roused {
            roused = self.changed.wait(roused);
        }
    }

    pub(super) fn begin_look(&self) {
        *self.roused.lock() = false;
    }

    /// Processor time that watching has taken.
    pub(crate) fn used(&self) -> Duration {
        // Relaxed, here and below: a statistic.
        Duration::from_nanos(self.used.load(Ordering::Relaxed))
    }

    /// Returns what was used since the last time.
    pub(super) fn note_used(&self) -> Duration {
        let before = self.used();
        let used = thread::own_cpu_time();
        let nanos = u64::try_from(used.as_nanos()).unwrap_or(u64::MAX);
        self.used.store(nanos, Ordering::Relaxed);
        used.saturating_sub(before)
    }
}
