//! Which class is next: the division of CPU time among classes.
//!
//! A pure core: it knows no thread, clock or queue. Durations are numbers.
//!
//! # What a class is owed
//!
//! While work is done for `length`, each class that has work anywhere is entitled to `length` times
//! its share over the shares of all such classes. What it is *owed* is what it was entitled to less
//! what it got. One class's gain is the others' loss, so what all classes are owed adds up to zero,
//! at any uptime, and only differences between classes matter. There are two exceptions to who is
//! entitled to the time that a class is served:
//!
//! - A class that is owed `lag_max` more than the one served is not. It must be *unable* to use
//!   what it is owed (one task cannot run on two workers), or it would have gone first. So the
//!   others divide what it leaves in the ratio of their shares. If that is so most of the time, the
//!   class is also left out of the means that the others are measured by.
//! - A class without work is, until it has made up for what it got too much, and is owed `credit`.
//!   So a class that seldom has work, and uses less than its share, is eligible when it has some.
//!
//! # Who goes first
//!
//! Among the classes with work here, those that are owed no less than their mean (weighted by
//! share) are *eligible*. The eligible class with the shortest latency target goes first; but
//! before it any that has not been served here for `lead_max` and for its target. Eligibility is
//! taken from EEVDF (I. Stoica and H. Abdel-Wahab, "Earliest Eligible Virtual Deadline First",
//! TR-95-22, Old Dominion University, 1995), the order is not. With deadlines, urgent classes would
//! wait behind all that have missed theirs, which are many when polls are long; and a class that is
//! owed much, as it could not run for a while, would go before them until it has caught up.
//!
//! # Many workers
//!
//! Each worker has a [`Shares`] of its own, and counts there what it spends. From time to time it
//! *exchanges*: it publishes its spending to the [`Ledger`](super::ledger::Ledger), and reads the
//! state of the whole process. In between it knows only its own spending.
//!
//! # Bounds
//!
//! Let `P` be the longest poll, `E` the time spent between exchanges, `W` the number of workers,
//! `n` that of classes. Of another worker's spending a worker does not know less than `2E + 3P`:
//! what the other had not published at this one's last exchange (less than `E + P`), what it has
//! spent since (this one's next exchange is less than `E + P` away), and a poll under way. Let `R =
//! P + (W - 1)(2E + 3P)`, which on one worker is a poll.
//!
//! - *Error.* If each worker has work of each class, a class gets at most `R` more than its share
//!   of all time spent, and at most `(n - 1)R` less: it is chosen only where it seems to be owed
//!   time, and what it is owed, the others got. Latency targets do not enter. Over a second this is
//!   at most `n(2E + 3P)` per second of all time; in simulated machines it is about a tenth of that
//!   (see the tests).
//! - *Changes.* From a change of shares on, a class is off by `2(n - 1)R` and `W(E + P)`, which are
//!   spent before all workers know. Classes that have work at all times divide what they get by
//!   their shares, whichever others come and go.
//! - *Latency.* An eligible class goes at the next poll boundary, unless an eligible class has a
//!   shorter target, or has waited for `lead_max`: of those, one poll each.
//! - *Rest.* A class that comes from rest while others have work is owed at most `credit` more than
//!   their mean: it gets at most that, `R`, and what is known late, `W(2E + 3P)`, more than its
//!   share.
//! - *Starvation.* A class that got more than its share earns it back in `lead_max` of wall time;
//!   the rest is forgiven. So a class with work waits at most for `lead_max` or its target,
//!   whichever is longer, and `(n + 3)P + 2E`: a poll of each class, and what is under way and
//!   known late. The price: a class that earns less than a poll in `lead_max` gets that poll all
//!   the same, at worst on each worker.
//! - *Unused shares.* A class is owed at most `lag_max` of its part of all workers, or of one
//!   worker if that is more, beyond any class that is being served.

mod reading;
mod settle;

use std::cell::Cell;

use crate::class::{CLASSES_MAX, Class};

pub(crate) use reading::{Crowd, Floors, Reading, Spent, ceiling, is_below_ceiling};
pub(crate) use settle::{Group, doubt, settle, split};

/// Bounds on what classes may be owed, in the unit of the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// What a class that comes from rest may be owed.
    pub(crate) credit: u64,
    /// How long a class may have to wait because it got too much.
    pub(crate) lead_max: u64,
    /// How long a class can earn time that it does not use.
    pub(crate) lag_max: u64,
    /// What a class in the heavy pool is owed before a worker lends to it.
    pub(crate) lend: u64,
    /// How many workers there are.
    pub(crate) workers: u64,
}

/// What a class is entitled to, in the unit of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) share: u32,
    pub(crate) target: u64,
}

/// Which class is next, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// A class with work here.
    Here(Class),
    /// A class with work in the heavy pool.
    HeavyPool(Class),
}

/// One worker's view of what the classes are owed.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    limits: Limits,
    /// The classes with work here.
    waiting: u64,
    /// The classes that have had work here since the last exchange.
    seen: u64,
    /// What was spent here since the last exchange.
    spent: Spent,
    process: Reading,
    /// What was ever spent here.
    worked: u64,
    /// `worked` when a class was last served here, or began to wait here.
    since: [u64; CLASSES_MAX],
    /// The classes that this worker looked for elsewhere in vain.
    vain: Cell<u64>,
}

impl Shares {
    pub(crate) fn new(limits: Limits, process: Reading) -> Self {
        Self {
            limits,
            waiting: 0,
            seen: 0,
            spent: Spent::new(),
            process,
            worked: 0,
            since: [0; CLASSES_MAX],
            vain: Cell::new(0),
        }
    }

    /// A class has work here.
    #[inline]
    pub(crate) fn wake(&mut self, class: Class) {
        if self.waiting & class.bit() == 0 {
            self.begin(class);
        }
    }

    /// A class had no work here.
    fn begin(&mut self, class: Class) {
        self.waiting |= class.bit();
        self.seen |= class.bit();
        self.since[class.index()] = self.worked;
        self.vain.set(self.vain.get() & !class.bit());
        if self.process.active & class.bit() == 0 {
            self.join(class);
        }
    }

    /// A class had no work anywhere, as far as this worker knows.
    fn join(&mut self, class: Class) {
        let crowd = self.process.crowd();
        let most = ceiling(&self.limits, &self.process, crowd, class);
        self.process.give_up(class, most, crowd);
        self.process.active |= class.bit();
    }

    /// A class has no work here.
    #[inline]
    pub(crate) fn rest(&mut self, class: Class) {
        self.waiting &= !class.bit();
    }

    /// A poll of the class took `length`. Returns what was spent here since the last exchange. The
    /// class counts as having work here until it rests, even if it was never queued.
    #[inline]
    pub(crate) fn charge(&mut self, class: Class, length: u64) -> u64 {
        self.wake(class);
        self.spent.add_unlisted(class, length);
        self.worked += length;
        self.since[class.index()] = self.worked;
        self.spent.total()
    }

    /// The classes that were served here since the last exchange.
    pub(crate) fn served(&mut self) -> u64 {
        self.spent.list(self.seen);
        self.spent.classes()
    }

    /// The classes that have had work here since the last exchange, to be published. From now on
    /// those count that have some.
    pub(crate) fn take_seen(&mut self) -> u64 {
        self.spent.list(self.seen);
        std::mem::replace(&mut self.seen, self.waiting)
    }

    /// An exchange: `settle` settles what was spent here, and brings the state of the process up to
    /// date.
    pub(crate) fn exchange(&mut self, settle: impl FnOnce(&Spent, &mut Reading)) {
        settle(&self.spent, &mut self.process);
        self.spent.clear();
        self.process.active |= self.waiting;
    }

    /// The classes with work here.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// The classes with work here, and their latency targets.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (Class, u64)> + '_ {
        let target = |class: Class| self.process.terms[class.index()].target;
        Class::of_bits(self.waiting).map(move |class| (class, target(class)))
    }

    pub(crate) fn has_work(&self) -> bool {
        self.waiting != 0
    }

    /// Disregards the heavy pool until the next exchange.
    pub(crate) fn overlook_pool(&mut self) {
        self.process.heavy_pool = 0;
    }

    /// Which class is next, of those with work here or in the pool. `None` if none has work here.
    #[inline]
    pub(crate) fn first(&self) -> Option<Choice> {
        let heavy_pool = self.process.heavy_pool & !self.waiting;
        let is_alone = self.waiting & self.waiting.wrapping_sub(1) == 0;
        if is_alone && heavy_pool == 0 {
            return Class::of_bits(self.waiting).next().map(Choice::Here);
        }
        if self.waiting == 0 {
            return None;
        }
        self.choose(self.waiting, heavy_pool)
    }

    /// A class that would be next if it had work here, and that has work at another worker. Work in
    /// the pool does not count: this worker would sleep for the pool's sake while there is work
    /// that it could do. A class that is asked for is not asked for again until others have been,
    /// so that a class whose only task runs all the time does not keep this worker from work of
    /// another.
    pub(crate) fn owed_elsewhere(&self) -> Option<Class> {
        let elsewhere = self.process.at_workers & !self.waiting;
        let candidates = elsewhere & !self.vain.get();
        match self.choose(self.waiting | candidates, 0) {
            Some(Choice::Here(class)) if candidates & class.bit() != 0 => {
                self.vain.set(self.vain.get() | class.bit());
                Some(class)
            }
            _ => {
                self.vain.set(0);
                None
            }
        }
    }

    #[inline(never)]
    fn choose(&self, waiting: u64, heavy_pool: u64) -> Option<Choice> {
        let heavy_pool = self.owed_in_pool(waiting, heavy_pool);
        let mean = self.mean(waiting | heavy_pool);
        let mut first: Option<((u64, u64), Class)> = None;
        for class in Class::of_bits(waiting | heavy_pool) {
            let Term { share, target } = self.process.terms[class.index()];
            // One cycle is allowed for rounding: the mean of one class is what it is owed.
            if self.owed(class) as f64 + 1.0 < mean * f64::from(share) {
                continue;
            }
            // How long a class waits in the pool is not known here.
            let waited = if heavy_pool & class.bit() == 0 {
                self.worked - self.since[class.index()]
            } else {
                0
            };
            let target = if waited < target.max(self.limits.lead_max) {
                target
            } else {
                0
            };
            let rank = (target, u64::MAX - waited);
            if first.is_none_or(|(least, _)| rank < least) {
                first = Some((rank, class));
            }
        }
        let (_, class) = first?;
        Some(if waiting & class.bit() != 0 {
            Choice::Here(class)
        } else {
            Choice::HeavyPool(class)
        })
    }

    /// Which of the classes with work in the pool are owed enough to lend to them.
    fn owed_in_pool(&self, waiting: u64, heavy_pool: u64) -> u64 {
        if heavy_pool == 0 {
            return 0;
        }
        let mean = self.mean(waiting | heavy_pool);
        let share = |class: Class| f64::from(self.process.terms[class.index()].share);
        Class::of_bits(heavy_pool)
            .filter(|&class| {
                self.owed(class) as f64 - mean * share(class) > self.limits.lend as f64
            })
            .fold(0, |bits, class| bits | class.bit())
    }

    /// What a class is owed, without what all classes have earned since the last exchange: each
    /// has earned as much for its share, so it makes no difference between them.
    #[inline]
    fn owed(&self, class: Class) -> i64 {
        self.process.owed[class.index()] - self.spent.of(class) as i64
    }

    /// What some classes are owed in the mean for each unit of share, likewise.
    #[inline]
    fn mean(&self, classes: u64) -> f64 {
        let (mut owed, mut share) = (0, 0);
        for class in Class::of_bits(classes) {
            owed += self.owed(class);
            share += self.process.share(class);
        }
        owed as f64 / share.max(1) as f64
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
