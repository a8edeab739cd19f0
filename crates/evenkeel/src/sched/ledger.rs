//! What the classes of the whole process are owed: where the workers' [`Shares`] meet.
//!
//! Each number is an atomic of its own, and an exchange is not one step: two workers that exchange
//! at once may each see half of what the other did. The next exchange sees the rest, so a reading
//! may be late by an exchange, and nothing is lost: each change adds up to zero over all classes,
//! so what is owed does too, and no number grows with the uptime. All accesses are Relaxed.

use crate::class::{CLASSES_MAX, Class};
use crate::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use super::shares::{
    Crowd, Limits, Reading, Shares, Term, ceiling, doubt, floor, settle, share_out,
};

/// Aligned, so that its writes share no cache line with what others read.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: Limits,
    rows: [Row; CLASSES_MAX],
    /// The classes with work in the heavy pool.
    heavy_pool: AtomicU32,
}

#[derive(Debug)]
struct Row {
    owed: AtomicI64,
    /// How many workers have work of the class, and the pool if it has.
    active: AtomicU32,
    share: AtomicU32,
    target: AtomicU64,
    /// How sure it is that the class cannot use what it is owed: the bits of an `f32` from 0 to 1.
    doubt: AtomicU32,
}

/// The classes of which a worker or the pool has published that it has work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Published(u32);

impl Published {
    /// As a number, for a seat to keep.
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
            // Rows without a class have no share of anything.
            let Term { share, target } = terms.get(index).copied().unwrap_or_default();
            Row {
                owed: AtomicI64::new(0),
                active: AtomicU32::new(0),
                share: AtomicU32::new(share),
                target: AtomicU64::new(target),
                doubt: AtomicU32::new(0),
            }
        };
        Self {
            limits,
            rows: std::array::from_fn(row),
            heavy_pool: AtomicU32::new(0),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// A new worker's view.
    pub(crate) fn view(&self) -> Shares {
        Shares::new(self.limits, self.read())
    }

    /// Changes what a class is entitled to; what it is owed stays.
    pub(crate) fn set(&self, class: Class, term: Term) {
        let row = &self.rows[class.index()];
        debug_assert!(term.share > 0, "a class without a share would never run");
        // Relaxed, both: each exchange reads them again, and a mix of old and new is harmless.
        row.share.store(term.share, Ordering::Relaxed);
        row.target.store(term.target, Ordering::Relaxed);
    }

    pub(crate) fn term(&self, class: Class) -> Term {
        let row = &self.rows[class.index()];
        // Relaxed: see the module's documentation.
        Term {
            share: row.share.load(Ordering::Relaxed),
            target: row.target.load(Ordering::Relaxed),
        }
    }

    /// Publishes what a worker spent, and gives it the state of the process. A worker without work
    /// is about to sleep: no class is left that would seem to have work there.
    pub(crate) fn exchange(&self, shares: &mut Shares, published: &mut Published) {
        let (spent, seen) = shares.report();
        self.publish(published, seen);
        self.charge(&spent);
        if !shares.has_work() {
            self.publish(published, 0);
        }
        shares.accept(self.read());
    }

    /// Publishes the classes of which a worker or the pool has work.
    pub(crate) fn publish(&self, published: &mut Published, now: u32) {
        for class in Class::of_bits(now & !published.0) {
            let row = &self.rows[class.index()];
            // Relaxed, here and below: see the module's documentation.
            if row.active.fetch_add(1, Ordering::Relaxed) == 0 {
                self.greet(class);
            }
        }
        for class in Class::of_bits(published.0 & !now) {
            let active = &self.rows[class.index()].active;
            let before = active.fetch_sub(1, Ordering::Relaxed);
            debug_assert!(before > 0, "{class} was published");
        }
        published.0 = now;
    }

    /// A class comes from rest: what it is owed beyond its credit goes to the others.
    fn greet(&self, class: Class) {
        let mut reading = self.read();
        reading.active &= !class.bit();
        let crowd = reading.crowd();
        let ceiling = ceiling(&self.limits, &reading, crowd, class);
        let row = &self.rows[class.index()];
        // Relaxed: see the module's documentation.
        let owed = row.owed.fetch_min(ceiling, Ordering::Relaxed);
        if owed > ceiling {
            share_out(&reading, owed - ceiling, class, crowd, self.change());
        }
    }

    fn change(&self) -> impl Fn(Class, i64) {
        |class, by| {
            let row = &self.rows[class.index()];
            // Relaxed: see the module's documentation.
            row.owed.fetch_add(by, Ordering::Relaxed);
        }
    }

    pub(crate) fn set_pool(&self, classes: u32) {
        // Relaxed: see the module's documentation.
        self.heavy_pool.store(classes, Ordering::Relaxed);
    }

    pub(crate) fn charge(&self, spent: &[u64; CLASSES_MAX]) {
        if spent.iter().all(|&time| time == 0) {
            return;
        }
        let before = self.read();
        let forgone = |served: Class, time, forgone: u32| {
            for class in Class::of_bits(before.active) {
                let (own, forgone) = (class == served, forgone & class.bit() != 0);
                self.doubt(class, time, own, forgone);
            }
        };
        settle(&self.limits, &before, spent, self.change(), forgone);
        let after = self.read();
        let crowd = after.crowd();
        Class::of_bits(after.active).for_each(|class| self.forgive(&after, crowd, class));
    }

    fn doubt(&self, class: Class, time: u64, own: bool, forgone: bool) {
        let row = &self.rows[class.index()];
        // Relaxed, both: of two changes at the same time one is lost, of the many in an average.
        let before = f32::from_bits(row.doubt.load(Ordering::Relaxed));
        let after = doubt(&self.limits, before, time, own, forgone);
        debug_assert!((0.0..=1.0).contains(&after), "{after}");
        if after != before {
            row.doubt.store(after.to_bits(), Ordering::Relaxed);
        }
    }

    /// Forgives a class what would keep it waiting for too long: the others make up for it.
    fn forgive(&self, reading: &Reading, crowd: Crowd, class: Class) {
        let owed = reading.owed[class.index()];
        let least = floor(&self.limits, reading, crowd, class);
        if owed >= least {
            return;
        }
        // Relaxed, both: if another thread changes it at the same time, it is left to that thread's
        // next exchange.
        let row = &self.rows[class.index()];
        let raised = row
            .owed
            .compare_exchange(owed, least, Ordering::Relaxed, Ordering::Relaxed);
        if raised.is_ok() {
            share_out(reading, owed - least, class, crowd, self.change());
        }
    }

    pub(crate) fn read(&self) -> Reading {
        // Relaxed, here and below: see the module's documentation.
        let heavy_pool = self.heavy_pool.load(Ordering::Relaxed);
        let (mut active, mut at_workers, mut unable) = (0, 0, 0);
        for (index, row) in self.rows.iter().enumerate() {
            let bit = Class::at(index).bit();
            let parties = row.active.load(Ordering::Relaxed);
            if parties > u32::from(heavy_pool & bit != 0) {
                at_workers |= bit;
            }
            if parties > 0 {
                active |= bit;
                if f32::from_bits(row.doubt.load(Ordering::Relaxed)) > 0.5 {
                    unable |= bit;
                }
            }
        }
        // Relaxed: as above.
        Reading {
            owed: std::array::from_fn(|index| self.rows[index].owed.load(Ordering::Relaxed)),
            active,
            at_workers,
            heavy_pool,
            unable,
            terms: std::array::from_fn(|index| self.term(Class::at(index))),
        }
    }
}
