//! What the classes of the whole process are owed: where the workers' [`Shares`] meet.
//!
//! Each number is an atomic of its own, and an exchange is not one step: two workers that exchange
//! at once may each see half of what the other did. The next exchange sees the rest, so what is
//! read is late by an exchange and nothing is lost. What is *clamped* at the same moment as
//! another adds to it may lose that addition: an error of one exchange's time, in a number that was
//! out of its range.

use crate::class::{CLASSES_MAX, Class};
use crate::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use super::shares::{Limits, Reading, Shares, Term, range, settle};

/// See the module's documentation.
///
/// Aligned so that what it writes often shares no cache line with what others read.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: Limits,
    rows: [Row; CLASSES_MAX],
    /// The classes with work in the heavy lane.
    lane: AtomicU32,
}

#[derive(Debug)]
struct Row {
    owed: AtomicI64,
    /// How many workers, the lane among them, have work of the class.
    active: AtomicU32,
    share: AtomicU32,
    target: AtomicU64,
}

/// Which classes one party has said it has work of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published(u32);

impl Published {
    /// As a number, by which it passes from one thread to the next.
    pub(crate) fn bits(self) -> u64 {
        u64::from(self.0)
    }

    pub(crate) fn of_bits(bits: u64) -> Self {
        Self(bits as u32)
    }
}

impl Ledger {
    pub(crate) fn new(limits: Limits, terms: &[Term]) -> Self {
        let row = |index: usize| {
            // Unused rows are never active, so their terms do not matter.
            let term = terms.get(index).copied();
            let Term { share, target } = term.unwrap_or(Term {
                share: 1,
                target: 0,
            });
            Row {
                owed: AtomicI64::new(0),
                active: AtomicU32::new(0),
                share: AtomicU32::new(share),
                target: AtomicU64::new(target),
            }
        };
        Self {
            limits,
            rows: std::array::from_fn(row),
            lane: AtomicU32::new(0),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// A worker's view, to begin with.
    pub(crate) fn view(&self) -> Shares {
        Shares::new(self.limits, self.read())
    }

    /// Changes what a class is entitled to; what it is owed stays.
    pub(crate) fn set(&self, class: Class, term: Term) {
        let row = &self.rows[class.index()];
        // Relaxed, both: each exchange reads them anew, and a mix of old and new is harmless.
        row.share.store(term.share, Ordering::Relaxed);
        row.target.store(term.target, Ordering::Relaxed);
    }

    pub(crate) fn term(&self, class: Class) -> Term {
        let row = &self.rows[class.index()];
        // Relaxed: as in `set`.
        Term {
            share: row.share.load(Ordering::Relaxed),
            target: row.target.load(Ordering::Relaxed),
        }
    }

    /// Takes in what a worker spent, and tells it the state of the process.
    pub(crate) fn exchange(&self, shares: &mut Shares, published: &mut Published) {
        let (spent, seen) = shares.report();
        self.publish(published, seen);
        self.charge(&spent);
        shares.accept(self.read());
    }

    /// Says which classes a party has work of.
    pub(crate) fn publish(&self, published: &mut Published, now: u32) {
        for class in Class::of_bits(now & !published.0) {
            let row = &self.rows[class.index()];
            // Relaxed, here and below: see the module's documentation.
            if row.active.fetch_add(1, Ordering::Relaxed) == 0 {
                self.greet(class);
            }
        }
        for class in Class::of_bits(published.0 & !now) {
            self.rows[class.index()]
                .active
                .fetch_sub(1, Ordering::Relaxed);
        }
        published.0 = now;
    }

    /// A class comes from rest: it has no more credit than the others grant.
    fn greet(&self, class: Class) {
        let mut reading = self.read();
        reading.active &= !class.bit();
        let others = |of: fn(&Reading, usize) -> i64| -> i64 {
            Class::of_bits(reading.active)
                .map(|class| of(&reading, class.index()))
                .sum()
        };
        let sum = others(|reading, index| i64::from(reading.terms[index].share)).max(1);
        let owed = others(|reading, index| reading.owed[index]);
        let own = i64::from(reading.terms[class.index()].share);
        let ceiling = owed * own / sum + self.limits.credit as i64;
        // Relaxed: as in `publish`.
        self.rows[class.index()]
            .owed
            .fetch_min(ceiling, Ordering::Relaxed);
    }

    /// Says which classes have work in the heavy lane.
    pub(crate) fn set_lane(&self, classes: u32) {
        // Relaxed: as in `set`.
        self.lane.store(classes, Ordering::Relaxed);
    }

    /// Takes in what was spent, by class.
    pub(crate) fn charge(&self, spent: &[u64; CLASSES_MAX]) {
        if spent.iter().all(|&time| time == 0) {
            return;
        }
        let before = self.read();
        settle(&before, spent, |class, change| {
            let row = &self.rows[class.index()];
            // Relaxed: as in `publish`.
            row.owed.fetch_add(change, Ordering::Relaxed);
        });
        let after = self.read();
        for class in Class::of_bits(after.active) {
            let (least, most) = range(&self.limits, &after, class);
            let owed = after.owed[class.index()];
            if owed < least || owed > most {
                // Relaxed: as in `publish`.
                self.rows[class.index()]
                    .owed
                    .store(owed.clamp(least, most), Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn read(&self) -> Reading {
        let mut active = 0;
        for (index, row) in self.rows.iter().enumerate() {
            // Relaxed, here and below: as in `publish`.
            if row.active.load(Ordering::Relaxed) > 0 {
                active |= Class::at(index).bit();
            }
        }
        Reading {
            owed: std::array::from_fn(|index| self.rows[index].owed.load(Ordering::Relaxed)),
            active,
            lane: self.lane.load(Ordering::Relaxed),
            terms: std::array::from_fn(|index| self.term(Class::at(index))),
        }
    }
}
