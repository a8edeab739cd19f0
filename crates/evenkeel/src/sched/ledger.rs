//! What the classes of the whole process are owed: where the workers' [`Shares`] meet.
//!
//! Each number is an atomic of its own, and an exchange is not one step: two workers that exchange
//! at once may each see half of what the other did. The next exchange sees the rest, so a reading
//! may be late by an exchange, and nothing is lost: each change adds up to zero over all classes,
//! so what is owed does too, and no number grows with the uptime. All accesses are Relaxed, but
//! those of `changed`.
//!
//! What each exchange reads of all classes lies close together: what they are owed in one cache
//! line for eight classes, and who has work in one for eight workers.

use crate::class::{CLASSES_MAX, Class};
use crate::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use super::shares::{
    Crowd, Floors, Group, Limits, Reading, Shares, Spent, Term, ceiling, doubt, settle, split,
};

/// Aligned, so that its writes share no cache line with what others read.
#[repr(align(128))]
#[derive(Debug)]
pub(crate) struct Ledger {
    limits: Limits,
    /// The classes that there are.
    every: u64,
    owed: [AtomicI64; CLASSES_MAX],
    /// How sure it is that each class cannot use what it is owed: the bits of an `f32` from 0 to 1.
    doubt: [AtomicU32; CLASSES_MAX],
    shares: [AtomicU32; CLASSES_MAX],
    targets: [AtomicU64; CLASSES_MAX],
    /// How often shares and targets have changed: without a change they need not be read again.
    changed: AtomicU64,
    /// The classes that each worker has published, and last those of the heavy pool. Of each, one
    /// thread at a time is the writer.
    published: Box<[AtomicU64]>,
    /// The classes with work in the heavy pool that could run.
    heavy_pool: AtomicU64,
}

/// Who publishes the classes that it has work of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Party {
    /// For the holder of this seat.
    Worker(usize),
    /// For who has the pool's lock.
    HeavyPool,
}

impl Ledger {
    pub(crate) fn new(limits: Limits, terms: &[Term]) -> Self {
        debug_assert!(terms.len() <= CLASSES_MAX, "{}", terms.len());
        // Classes that are not there have no share of anything.
        let term = |index: usize| terms.get(index).copied().unwrap_or_default();
        let parties = 0..=limits.workers;
        Self {
            limits,
            every: (0..terms.len()).fold(0, |every, index| every | Class::at(index).bit()),
            owed: std::array::from_fn(|_| AtomicI64::new(0)),
            doubt: std::array::from_fn(|_| AtomicU32::new(0)),
            shares: std::array::from_fn(|index| AtomicU32::new(term(index).share)),
            targets: std::array::from_fn(|index| AtomicU64::new(term(index).target)),
            changed: AtomicU64::new(1),
            published: parties.map(|_| AtomicU64::new(0)).collect(),
            heavy_pool: AtomicU64::new(0),
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
        debug_assert!(term.share > 0, "a class without a share would never run");
        // Relaxed, both: ordered by the next line, and a mix of old and new is harmless.
        self.shares[class.index()].store(term.share, Ordering::Relaxed);
        self.targets[class.index()].store(term.target, Ordering::Relaxed);
        // Release pairs with the Acquire in `refresh`.
        self.changed.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn term(&self, class: Class) -> Term {
        // Relaxed: see the module's documentation.
        Term {
            share: self.shares[class.index()].load(Ordering::Relaxed),
            target: self.targets[class.index()].load(Ordering::Relaxed),
        }
    }

    /// Publishes what a worker spent, and gives it the state of the process. A worker without work
    /// is about to sleep: no class is left that would seem to have work there.
    pub(crate) fn exchange(&self, worker: usize, shares: &mut Shares) {
        let party = Party::Worker(worker);
        self.publish(party, shares.take_seen());
        let is_leaving = !shares.has_work();
        shares.exchange(|spent, reading| {
            self.refresh(reading);
            self.settle(spent, reading);
            if is_leaving {
                self.publish(party, 0);
            }
            self.look(reading);
        });
    }

    fn place_of(&self, party: Party) -> &AtomicU64 {
        let last = self.published.len() - 1;
        match party {
            Party::Worker(worker) => {
                debug_assert!(worker < last, "there is no worker {worker}");
                &self.published[worker]
            }
            Party::HeavyPool => &self.published[last],
        }
    }

    /// Publishes the classes of which a worker or the pool has work.
    pub(crate) fn publish(&self, party: Party, now: u64) {
        let place = self.place_of(party);
        // Relaxed, here and below: see the module's documentation.
        if place.load(Ordering::Relaxed) == now {
            return;
        }
        let new = now & !self.active();
        place.store(now, Ordering::Relaxed);
        if new != 0 {
            self.greet(new);
        }
    }

    /// Whether anything is published for a worker.
    pub(crate) fn has_published(&self, worker: usize) -> bool {
        // Relaxed: see the module's documentation.
        self.place_of(Party::Worker(worker)).load(Ordering::Relaxed) != 0
    }

    /// Classes come from rest: what each is owed beyond its credit goes to the others.
    #[cold]
    fn greet(&self, classes: u64) {
        let mut reading = self.read();
        reading.active &= !classes;
        for class in Class::of_bits(classes) {
            let crowd = reading.crowd();
            let ceiling = ceiling(&self.limits, &reading, crowd, class);
            // Relaxed: see the module's documentation.
            let owed = self.owed[class.index()].fetch_min(ceiling, Ordering::Relaxed);
            reading.owed[class.index()] = owed.min(ceiling);
            if owed > ceiling {
                self.share_out(&mut reading, owed - ceiling, class, crowd);
            }
            reading.active |= class.bit();
        }
    }

    /// Shares out what a class gives up, or is given, among the other classes of a crowd.
    fn share_out(&self, reading: &mut Reading, amount: i64, class: Class, crowd: Crowd) {
        let (owed, terms) = (&mut reading.owed, &reading.terms);
        split(terms, amount, crowd.others(class), |class, part| {
            owed[class.index()] = self.change(class, part);
        });
    }

    /// Changes what a class is owed. Returns what that is then.
    fn change(&self, class: Class, by: i64) -> i64 {
        // Relaxed: see the module's documentation.
        self.owed[class.index()].fetch_add(by, Ordering::Relaxed) + by
    }

    pub(crate) fn set_pool(&self, classes: u64) {
        // Relaxed: see the module's documentation.
        self.heavy_pool.store(classes, Ordering::Relaxed);
    }

    /// Settles what was spent elsewhere than at workers.
    pub(crate) fn charge(&self, spent: &Spent) {
        if spent.total() > 0 {
            self.settle(spent, &mut self.read());
        }
    }

    /// Settles what was spent, by a reading, and brings that up to date.
    fn settle(&self, spent: &Spent, reading: &mut Reading) {
        if spent.total() == 0 {
            return;
        }
        let active = reading.active;
        let told = |group: Group| {
            let forgone = active & !group.entitled;
            for class in Class::of_bits(active) {
                let own = match group.served & class.bit() {
                    0 => 0,
                    _ => spent.of(class),
                };
                self.doubt(class, group.time - own, own, forgone & class.bit() != 0);
            }
        };
        let changes = settle(&self.limits, reading, spent, told);
        for (class, by) in changes.iter() {
            reading.owed[class.index()] = self.change(class, by);
        }
        self.forgive(reading);
    }

    /// `others` were served for so long, and the class itself for `own`.
    fn doubt(&self, class: Class, others: u64, own: u64, forgone: bool) {
        let place = &self.doubt[class.index()];
        // Relaxed, both: of two changes at the same time one is lost, of the many in an average.
        let before = f32::from_bits(place.load(Ordering::Relaxed));
        let mut after = before;
        if others > 0 {
            after = doubt(&self.limits, after, others, false, forgone);
        }
        if own > 0 {
            after = doubt(&self.limits, after, own, true, false);
        }
        debug_assert!((0.0..=1.0).contains(&after), "{after}");
        if after != before {
            place.store(after.to_bits(), Ordering::Relaxed);
        }
    }

    /// Forgives classes what would keep them waiting for too long: the others make up for it.
    fn forgive(&self, reading: &mut Reading) {
        let floors = Floors::new(&self.limits, reading.crowd());
        for class in Class::of_bits(reading.active) {
            if reading.owed[class.index()] < floors.of(&self.limits, reading, class) {
                self.raise(reading, class);
            }
        }
    }

    /// What the others have made up for in the meantime counts.
    #[cold]
    fn raise(&self, reading: &mut Reading, class: Class) {
        let crowd = reading.crowd();
        let least = Floors::new(&self.limits, crowd).of(&self.limits, reading, class);
        let (owed, place) = (reading.owed[class.index()], &self.owed[class.index()]);
        if owed >= least {
            return;
        }
        // Relaxed, both: if another thread changes it at the same time, it is left to that thread's
        // next exchange.
        let raised = place.compare_exchange(owed, least, Ordering::Relaxed, Ordering::Relaxed);
        if raised.is_ok() {
            reading.owed[class.index()] = least;
            self.share_out(reading, owed - least, class, crowd);
        }
    }

    /// The classes with work anywhere.
    fn active(&self) -> u64 {
        // Relaxed: see the module's documentation.
        let published = self.published.iter();
        published.fold(0, |all, of| all | of.load(Ordering::Relaxed))
    }

    pub(crate) fn read(&self) -> Reading {
        let mut reading = Reading::none(self.every);
        self.refresh(&mut reading);
        reading
    }

    /// Brings a reading of this ledger up to date.
    fn refresh(&self, reading: &mut Reading) {
        for class in Class::of_bits(self.every) {
            // Relaxed: see the module's documentation.
            reading.owed[class.index()] = self.owed[class.index()].load(Ordering::Relaxed);
        }
        // Acquire pairs with the Release in `set`: the terms are read again if they are newer.
        let changed = self.changed.load(Ordering::Acquire);
        if reading.terms_changed != changed {
            reading.terms_changed = changed;
            for class in Class::of_bits(self.every) {
                reading.terms[class.index()] = self.term(class);
            }
        }
        self.look(reading);
    }

    /// Reads which classes have work.
    fn look(&self, reading: &mut Reading) {
        let (workers, pool) = self.published.split_at(self.published.len() - 1);
        // Relaxed, all: see the module's documentation.
        let all = |of: &[AtomicU64]| {
            of.iter()
                .fold(0, |all, of| all | of.load(Ordering::Relaxed))
        };
        reading.at_workers = all(workers);
        reading.active = reading.at_workers | all(pool);
        reading.heavy_pool = self.heavy_pool.load(Ordering::Relaxed);
        reading.unable = 0;
        for class in Class::of_bits(reading.active) {
            let doubt = self.doubt[class.index()].load(Ordering::Relaxed);
            if f32::from_bits(doubt) > 0.5 {
                reading.unable |= class.bit();
            }
        }
    }
}
