//! Whose turn it is: the division of CPU time among classes.
//!
//! A pure core: it knows no thread, clock or queue. Lengths of time go in as numbers.
//!
//! # What a class is owed
//!
//! While work is done for `length`, each class that has work anywhere is entitled to `length` times
//! its share over the shares of all such classes. What it is *owed* is what it was entitled to
//! less what it got. Only differences matter, so the owed times are read relative to their mean
//! (weighted by share), about which they add up to zero: a class that comes, goes or changes its
//! share needs no bookkeeping.
//!
//! # Who goes first
//!
//! Among the classes with work, those that are owed something are *eligible*. Of these the one
//! goes first whose latency target is nearest: its target less the time for which it has been
//! waiting to be served, which is what it is owed divided by the rate at which it earns. If
//! none is eligible here (what is owed is owed to classes with work elsewhere only), the one that
//! is least ahead goes. That is the rule "eligible first, earliest virtual deadline next" of EEVDF
//! (I. Stoica and H. Abdel-Wahab, "Earliest Eligible Virtual Deadline First", TR-95-22, Old
//! Dominion University, 1995), with deadlines given in wall time rather than as request lengths.
//!
//! # Bounds
//!
//! - A class that comes from rest is owed at most `credit`: sleep saves nothing up.
//! - A class that got more than its share waits at most `lead_max` of wall time for it, so that
//!   one with a share of a thousandth is served several times a second.
//! - A class that cannot use its share (one task cannot run on two workers) is owed at most what
//!   it earns in `lag_max`.
//!
//! # Many workers
//!
//! Each worker has a [`Shares`] of its own and counts what it spends there. From time to time it
//! *exchanges*: what it spent goes to the [`Ledger`](super::ledger::Ledger), and the state of the
//! whole process comes back. In between it knows of its own spending alone.

use crate::class::{CLASSES_MAX, Class};

/// Times that bound what classes may be owed or ahead, in the unit of the clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// What a class that comes from rest may be owed.
    pub(crate) credit: u64,
    /// How long a class may have to wait because it got too much.
    pub(crate) lead_max: u64,
    /// How long a class can earn what it does not use.
    pub(crate) lag_max: u64,
    /// What is owed to work in the heavy lane before a worker makes way for it.
    pub(crate) lend: u64,
    /// How many workers there are.
    pub(crate) workers: u64,
}

/// What a class is entitled to, in the unit of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    pub(crate) share: u32,
    pub(crate) target: u64,
}

/// The state of the whole process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// What each class is owed.
    pub(crate) owed: [i64; CLASSES_MAX],
    /// The classes with work anywhere.
    pub(crate) active: u32,
    /// The classes with work in the heavy lane.
    pub(crate) lane: u32,
    pub(crate) terms: [Term; CLASSES_MAX],
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A class with work here.
    Here(Class),
    /// The heavy lane, whose threads run work of this class.
    Lane(Class),
}

/// One worker's view of what the classes are owed.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    limits: Limits,
    /// The classes with work here.
    waiting: u32,
    /// Those, and the ones that have had work here since the last exchange.
    seen: u32,
    /// What was spent here since the last exchange, and on which class.
    spent: [u64; CLASSES_MAX],
    total: u64,
    process: Reading,
    /// The shares of all active classes.
    sum: u64,
}

impl Shares {
    pub(crate) fn new(limits: Limits, process: Reading) -> Self {
        let mut shares = Self {
            limits,
            waiting: 0,
            seen: 0,
            spent: [0; CLASSES_MAX],
            total: 0,
            process,
            sum: 0,
        };
        shares.accept(process);
        shares
    }

    /// A class has work here.
    #[inline]
    pub(crate) fn wake(&mut self, class: Class) {
        self.waiting |= class.bit();
        self.seen |= class.bit();
        if self.process.active & class.bit() == 0 {
            self.join(class);
        }
    }

    /// A class had no work anywhere, as far as is known here.
    #[cold]
    fn join(&mut self, class: Class) {
        let mean = self.mean();
        let process = &mut self.process;
        let ceiling = mean * f64::from(process.terms[class.index()].share);
        let ceiling = ceiling as i64 + self.limits.credit as i64;
        let owed = &mut process.owed[class.index()];
        *owed = (*owed).min(ceiling);
        process.active |= class.bit();
        self.sum += u64::from(process.terms[class.index()].share);
    }

    /// A class has no work here.
    #[inline]
    pub(crate) fn rest(&mut self, class: Class) {
        self.waiting &= !class.bit();
    }

    /// A poll of the class took `length`. Returns what was spent here since the last exchange.
    #[inline]
    pub(crate) fn charge(&mut self, class: Class, length: u64) -> u64 {
        // What ran from the next-task slot was in no line, so nobody said that it was here.
        self.seen |= class.bit();
        self.spent[class.index()] += length;
        self.total += length;
        self.total
    }

    /// The classes on which something was spent here since the last exchange, and those without
    /// work here.
    pub(crate) fn served(&self) -> impl Iterator<Item = Class> + '_ {
        let classes = (0..CLASSES_MAX).map(Class::at);
        classes.filter(|class| self.spent[class.index()] > 0 || self.waiting & class.bit() == 0)
    }

    /// What is to be told to the ledger: time spent by class, and the classes that had work here.
    pub(crate) fn report(&mut self) -> ([u64; CLASSES_MAX], u32) {
        let report = (self.spent, self.seen);
        self.spent = [0; CLASSES_MAX];
        self.total = 0;
        self.seen = self.waiting;
        report
    }

    /// Takes in the state of the process, after [`report`](Shares::report).
    pub(crate) fn accept(&mut self, process: Reading) {
        self.process = process;
        self.process.active |= self.waiting;
        let terms = &self.process.terms;
        self.sum = Class::of_bits(self.process.active)
            .map(|class| u64::from(terms[class.index()].share))
            .sum();
    }

    /// Nothing is lent to the heavy lane until the next exchange.
    pub(crate) fn overlook_lane(&mut self) {
        self.process.lane = 0;
    }

    /// Whose turn it is among the classes with work here and in the lane.
    #[inline]
    pub(crate) fn first(&self) -> Option<Turn> {
        let lane = self.process.lane & !self.waiting;
        if self.waiting.count_ones() <= 1 && lane == 0 {
            return Class::of_bits(self.waiting).next().map(Turn::Here);
        }
        if self.waiting == 0 {
            return None;
        }
        self.choose(self.waiting, lane)
    }

    /// A class whose turn it would be if it had work here, and that has work elsewhere.
    pub(crate) fn owed_elsewhere(&self) -> Option<Class> {
        let elsewhere = self.process.active & !self.waiting & !self.process.lane;
        if elsewhere == 0 {
            return None;
        }
        match self.choose(self.waiting | elsewhere, 0) {
            Some(Turn::Here(class)) if elsewhere & class.bit() != 0 => Some(class),
            _ => None,
        }
    }

    #[inline(never)]
    fn choose(&self, waiting: u32, lane: u32) -> Option<Turn> {
        let mean = self.mean();
        let mut eligible: Option<(f64, Class)> = None;
        let mut least_ahead: Option<(f64, Class)> = None;
        for class in Class::of_bits(waiting | lane) {
            let Term { share, target } = self.process.terms[class.index()];
            let share = f64::from(share);
            let owed = self.owed(class) as f64 - mean * share;
            // For how long it has been waiting: what it is owed, over its part of all workers.
            let waited = owed * self.sum as f64 / (share * self.limits.workers as f64);
            if lane & class.bit() != 0 && owed < self.limits.lend as f64 {
                continue;
            }
            if owed >= 0.0 {
                let left = target as f64 - waited;
                if eligible.is_none_or(|(least, _)| left < least) {
                    eligible = Some((left, class));
                }
            } else if least_ahead.is_none_or(|(most, _)| waited > most) {
                least_ahead = Some((waited, class));
            }
        }
        let (_, class) = eligible.or(least_ahead)?;
        Some(if waiting & class.bit() != 0 {
            Turn::Here(class)
        } else {
            Turn::Lane(class)
        })
    }

    /// What a class is owed, with what was spent here since the last exchange.
    #[inline]
    fn owed(&self, class: Class) -> i64 {
        let share = u64::from(self.process.terms[class.index()].share);
        let earned = self.total * share / self.sum.max(1);
        self.process.owed[class.index()] + earned as i64 - self.spent[class.index()] as i64
    }

    /// What the active classes are owed for each unit of share, in the mean.
    #[inline]
    fn mean(&self) -> f64 {
        let owed: i64 = Class::of_bits(self.process.active)
            .map(|class| self.owed(class))
            .sum();
        owed as f64 / self.sum.max(1) as f64
    }
}

/// Settles what was spent among the classes that are active: what each is owed changes by what it
/// earned less what it got. `change` receives each class and its difference.
pub(crate) fn settle(
    reading: &Reading,
    spent: &[u64; CLASSES_MAX],
    mut change: impl FnMut(Class, i64),
) {
    let total: u64 = spent.iter().sum();
    let share = |class: Class| u64::from(reading.terms[class.index()].share);
    let sum: u64 = Class::of_bits(reading.active).map(share).sum();
    for class in Class::of_bits(reading.active) {
        let earned = total * share(class) / sum.max(1);
        change(class, earned as i64 - spent[class.index()] as i64);
    }
}

/// The range that a class's owed time is kept in, given the mean per unit of share.
pub(crate) fn range(limits: &Limits, reading: &Reading, class: Class) -> (i64, i64) {
    let share = |class: Class| i64::from(reading.terms[class.index()].share);
    let active = || Class::of_bits(reading.active);
    let sum = active().map(share).sum::<i64>().max(1);
    let owed: i64 = active().map(|class| reading.owed[class.index()]).sum();
    let own = share(class);
    let middle = (owed as f64 * own as f64 / sum as f64) as i64;
    let earned_in = |time: u64| (time * limits.workers) as i64 * own / sum;
    (
        middle - earned_in(limits.lead_max),
        middle + earned_in(limits.lag_max).max(limits.credit as i64),
    )
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
