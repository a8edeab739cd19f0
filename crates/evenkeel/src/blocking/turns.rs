//! Turns of the files of one device that are written in sequence, at length.
//!
//! If all of them wrote at once, the bytes of each would have left the processor's caches before
//! they are copied on. So a few write at a time, and the others wait in line, first come, first
//! served. A file *leaves* when it has used up its turn or has nothing more to write for now; and
//! while it waits, when it is dropped or gives up. Each class has a line of its own, so urgent
//! writes do not wait for others.
//!
//! A write that hangs in the kernel cannot be ended, and a task that was given a turn may not come.
//! So a turn lasts [`LEASE_MS`] at most, and [`PAUSE_MS`] while nothing is written. Then it passes
//! to the next in line as soon as a file comes or leaves. The file that had it goes on writing all
//! the same.
//!
//! The line is bounded by the number of open files: each stands in it once.
// It knows no clock and is modelled; `fs::turn` is a file's side of it.

use std::collections::VecDeque;
use std::task::Waker;

use crate::io::readiness::{WakeList, wake_all};
use crate::sync::Mutex;

/// How long a turn lasts, and how long a file waits for one. At a GB per second a turn takes a
/// tenth of that, and it is short beside the wait limits of lanes.
pub(crate) const LEASE_MS: u64 = 250;
/// How long a turn lasts without a write under way. A woken task comes sooner, unless the machine
/// is overloaded.
pub(crate) const PAUSE_MS: u64 = 20;

#[derive(Debug)]
pub(crate) struct Turns(Mutex<Line>);

#[derive(Debug)]
struct Line {
    turns: usize,
    holders: Vec<Holder>,
    /// The files that wait, first come first, so their numbers ascend.
    waiting: VecDeque<Waiter>,
    /// The latest number.
    last: u64,
}

#[derive(Debug)]
struct Holder {
    number: u64,
    /// When the turn may pass to another file.
    until_ms: u64,
    /// The same, while no write is under way.
    paused_until_ms: Option<u64>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    waker: Option<Waker>,
}

impl Holder {
    fn is_overdue(&self, now_ms: u64) -> bool {
        let until_ms = self.until_ms.min(self.paused_until_ms.unwrap_or(u64::MAX));
        until_ms <= now_ms
    }
}

impl Line {
    /// Passes on turns that are free or overdue. The caller wakes the files that get one.
    fn pass_on(&mut self, now_ms: u64, wake: &mut WakeList) {
        if self.has_room() && self.waiting.is_empty() {
            return;
        }
        self.holders.retain(|holder| !holder.is_overdue(now_ms));
        while self.has_room()
            && let Some(next) = self.waiting.pop_front()
        {
            self.give(next.number, now_ms);
            wake.extend(next.waker);
        }
        debug_assert!(!self.has_room() || self.waiting.is_empty());
    }

    fn has_room(&self) -> bool {
        self.holders.len() < self.turns
    }

    fn give(&mut self, number: u64, now_ms: u64) {
        debug_assert!(self.has_room() && self.holder(number).is_none());
        self.holders.push(Holder {
            number,
            until_ms: now_ms.saturating_add(LEASE_MS),
            paused_until_ms: Some(now_ms.saturating_add(PAUSE_MS)),
        });
    }

    fn holder(&mut self, number: u64) -> Option<&mut Holder> {
        (self.holders.iter_mut()).find(|holder| holder.number == number)
    }

    fn place_of(&self, number: u64) -> Option<usize> {
        let number_of = |waiter: &Waiter| waiter.number;
        self.waiting.binary_search_by_key(&number, number_of).ok()
    }
}

impl Turns {
    /// A line with this many turns at a time, at least one.
    pub(crate) fn new(turns: usize) -> Self {
        Self(Mutex::new(Line {
            turns: turns.max(1),
            holders: Vec::new(),
            waiting: VecDeque::new(),
            last: 0,
        }))
    }

    /// Takes a turn, or a place in line, under a fresh number. The file has to
    /// [leave](Turns::leave) in the end.
    pub(crate) fn join(&self, now_ms: u64) -> u64 {
        let mut wake = WakeList::new();
        let mut line = self.0.lock();
        line.pass_on(now_ms, &mut wake);
        line.last += 1;
        let number = line.last;
        if line.has_room() {
            line.give(number, now_ms);
        } else {
            let waker = None;
            debug_assert!((line.waiting.back()).is_none_or(|last| last.number < number));
            line.waiting.push_back(Waiter { number, waker });
        }
        drop(line);
        wake_all(&mut wake);
        number
    }

    /// Whether this file still waits in line. If so, the waker will be woken when it has a turn.
    pub(crate) fn waits(&self, number: u64, waker: &Waker) -> bool {
        // Cloned before the lock, as that may run any code. Most files ask only once or twice.
        let waker = waker.clone();
        let mut line = self.0.lock();
        let place = line.place_of(number);
        let before = match place {
            Some(place) => line.waiting[place].waker.replace(waker),
            None => Some(waker),
        };
        drop(line);
        drop(before);
        place.is_some()
    }

    /// Nothing more is written in this turn for now.
    pub(crate) fn pause(&self, number: u64, now_ms: u64) {
        if let Some(holder) = self.0.lock().holder(number) {
            holder.paused_until_ms = Some(now_ms.saturating_add(PAUSE_MS));
        }
    }

    /// A write has begun in this turn.
    pub(crate) fn go_on(&self, number: u64) {
        if let Some(holder) = self.0.lock().holder(number) {
            holder.paused_until_ms = None;
        }
    }

    /// Gives a turn back, or a place in line.
    pub(crate) fn leave(&self, number: u64, now_ms: u64) {
        let mut wake = WakeList::new();
        let mut line = self.0.lock();
        line.holders.retain(|holder| holder.number != number);
        let place = line.place_of(number);
        let left = place.and_then(|place| line.waiting.remove(place));
        line.pass_on(now_ms, &mut wake);
        drop(line);
        drop(left);
        wake_all(&mut wake);
    }

    /// How many files have a turn, and how many wait for one.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> (usize, usize) {
        let line = self.0.lock();
        (line.holders.len(), line.waiting.len())
    }

    #[cfg(test)]
    pub(crate) fn knows(&self, number: u64) -> bool {
        self.0.lock().place_of(number).is_some()
    }
}

#[cfg(all(test, evenkeel_loom))]
mod models;
