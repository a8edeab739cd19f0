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

use std::cell::Cell;

use crate::class::{CLASSES_MAX, Class};

/// The bits of all classes there can be.
const EVERY: u32 = (1 << CLASSES_MAX) - 1;

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

/// The state of the whole process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// What each class is owed.
    pub(crate) owed: [i64; CLASSES_MAX],
    /// The classes with work anywhere.
    pub(crate) active: u32,
    /// The classes with work at workers.
    pub(crate) at_workers: u32,
    /// The classes with work in the heavy pool.
    pub(crate) heavy_pool: u32,
    /// The classes that have work and cannot use what they are owed.
    pub(crate) unable: u32,
    pub(crate) terms: [Term; CLASSES_MAX],
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
    waiting: u32,
    /// The classes that have had work here since the last exchange.
    seen: u32,
    /// What was spent here since the last exchange, by class and in total.
    spent: [u64; CLASSES_MAX],
    total: u64,
    process: Reading,
    /// The shares of all active classes.
    sum: u64,
    /// What was ever spent here.
    worked: u64,
    /// `worked` when a class was last served here, or began to wait here.
    since: [u64; CLASSES_MAX],
    /// The classes that this worker looked for elsewhere in vain.
    vain: Cell<u32>,
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
            worked: 0,
            since: [0; CLASSES_MAX],
            vain: Cell::new(0),
        };
        shares.accept(process);
        shares
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
        let mut process = self.process;
        let crowd = process.crowd();
        let beyond = process.owed[class.index()] - ceiling(&self.limits, &process, crowd, class);
        if beyond > 0 {
            process.owed[class.index()] -= beyond;
            share_out(&self.process, beyond, class, crowd, |class, part| {
                process.owed[class.index()] += part;
            });
        }
        process.active |= class.bit();
        self.sum += process.share(class);
        self.process = process;
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
        self.spent[class.index()] += length;
        self.total += length;
        self.worked += length;
        self.since[class.index()] = self.worked;
        self.total
    }

    /// The classes that were served here since the last exchange, and those without work here.
    pub(crate) fn served(&self) -> impl Iterator<Item = Class> + '_ {
        let classes = (0..CLASSES_MAX).map(Class::at);
        classes.filter(|class| self.spent[class.index()] > 0 || self.waiting & class.bit() == 0)
    }

    /// What is to be published: the time spent, by class, and the classes that had work here.
    pub(crate) fn report(&mut self) -> ([u64; CLASSES_MAX], u32) {
        debug_assert_eq!(self.total, self.spent.iter().sum::<u64>());
        let report = (self.spent, self.seen);
        self.spent = [0; CLASSES_MAX];
        self.total = 0;
        self.seen = self.waiting;
        report
    }

    /// Sets the state of the process, after [`report`](Shares::report).
    pub(crate) fn accept(&mut self, process: Reading) {
        debug_assert_eq!(self.total, 0, "what was spent is not published");
        self.process = process;
        self.process.active |= self.waiting;
        self.sum = process.sum(self.process.active);
    }

    /// The classes with work here, and their latency targets.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (Class, u64)> + '_ {
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
        if self.waiting.count_ones() <= 1 && heavy_pool == 0 {
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
    fn choose(&self, waiting: u32, heavy_pool: u32) -> Option<Choice> {
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
    fn owed_in_pool(&self, waiting: u32, heavy_pool: u32) -> u32 {
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

    /// What a class is owed, with what was spent here since the last exchange.
    #[inline]
    fn owed(&self, class: Class) -> i64 {
        let share = u64::from(self.process.terms[class.index()].share);
        let earned = self.total * share / self.sum.max(1);
        self.process.owed[class.index()] + earned as i64 - self.spent[class.index()] as i64
    }

    /// What some classes are owed in the mean for each unit of share.
    #[inline]
    fn mean(&self, classes: u32) -> f64 {
        let owed: i64 = Class::of_bits(classes).map(|class| self.owed(class)).sum();
        owed as f64 / self.process.sum(classes).max(1) as f64
    }
}

/// Some classes, with the sums of what they are owed and of their shares.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crowd {
    classes: u32,
    owed: i64,
    share: u64,
}

impl Crowd {
    fn new(reading: &Reading, classes: u32) -> Self {
        Class::of_bits(classes).fold(Self::default(), |crowd, class| crowd.with(reading, class))
    }

    fn with(mut self, reading: &Reading, class: Class) -> Self {
        if self.classes & class.bit() == 0 {
            self.classes |= class.bit();
            self.owed += reading.owed[class.index()];
            self.share += reading.share(class);
        }
        self
    }

    /// What they are owed for each unit of share.
    fn mean(self) -> f64 {
        self.owed as f64 / self.share.max(1) as f64
    }

    /// What each unit of share earns in `time` of all workers.
    fn earned(self, limits: &Limits, time: u64) -> f64 {
        (time * limits.workers) as f64 / self.share.max(1) as f64
    }
}

impl Reading {
    fn share(&self, class: Class) -> u64 {
        u64::from(self.terms[class.index()].share)
    }

    fn sum(&self, classes: u32) -> u64 {
        Class::of_bits(classes).map(|class| self.share(class)).sum()
    }

    /// The classes that have work and can use what they are owed.
    fn able(&self) -> u32 {
        self.active & !self.unable
    }

    /// The classes that have work and can use what they are owed; if there are none, those that
    /// have work; if there are none, all.
    pub(crate) fn crowd(&self) -> Crowd {
        let groups = [self.able(), self.active, EVERY];
        let group = groups.into_iter().find(|&group| group != 0);
        Crowd::new(self, group.unwrap_or(0))
    }

    /// How much of the time that `served` gets each class is entitled to at most.
    fn room(&self, limits: &Limits, served: Class) -> [i64; CLASSES_MAX] {
        let level = Crowd::new(self, served.bit()).mean();
        let crowd = self.crowd();
        std::array::from_fn(|index| {
            let class = Class::at(index);
            let share = self.share(class) as f64;
            if class == served {
                return i64::MAX;
            } else if share == 0.0 {
                return 0;
            }
            let unused = crowd.with(self, class).earned(limits, limits.lag_max);
            let most = share * level + (share * unused).max(limits.lag_max as f64);
            let most = if self.active & class.bit() == 0 {
                (most as i64).min(ceiling(limits, self, crowd, class))
            } else {
                most as i64
            };
            most.saturating_sub(self.owed[index]).max(0)
        })
    }
}

/// Settles what was spent among the classes that are entitled to it. `change` receives classes and
/// the change of what they are owed; the changes add up to zero. `forgone` receives each class that
/// was served, for how long, and the classes with work that were not entitled to that time.
pub(crate) fn settle(
    limits: &Limits,
    reading: &Reading,
    spent: &[u64; CLASSES_MAX],
    mut change: impl FnMut(Class, i64),
    mut forgone: impl FnMut(Class, u64, u32),
) {
    let mut changes = [0; CLASSES_MAX];
    for (index, &time) in spent.iter().enumerate().filter(|&(_, &time)| time > 0) {
        let served = Class::at(index);
        let room = reading.room(limits, served);
        let bits = (0..CLASSES_MAX).filter(|&index| room[index] > 0);
        let entitled = bits.fold(0, |bits, index| bits | Class::at(index).bit());
        split(reading, time as i64, entitled, |class, part| {
            let part = part.min(room[class.index()]);
            changes[class.index()] += part;
            changes[index] -= part;
        });
        forgone(served, time, reading.active & !entitled);
    }
    debug_assert_eq!(changes.iter().sum::<i64>(), 0, "{changes:?}");
    for (index, &by) in changes.iter().enumerate().filter(|&(_, &by)| by != 0) {
        change(Class::at(index), by);
    }
}

/// How sure it is, from 0 to 1, that a class cannot use what it is owed, after another class (or
/// `own`: the class itself) was served for `time`: a moving average of whether it was not entitled
/// to that time. Its own time counts for little: it shows that the class is served, and not that it
/// is served enough.
pub(crate) fn doubt(limits: &Limits, before: f32, time: u64, own: bool, forgone: bool) -> f32 {
    let span = (limits.lag_max * limits.workers) as f32;
    let weight = (time as f32 / span).min(1.0);
    if own {
        before - before * weight / 16.0
    } else {
        before + (f32::from(u8::from(forgone)) - before) * weight
    }
}

/// Splits an amount among classes in the ratio of their shares, to the last unit.
fn split(reading: &Reading, amount: i64, classes: u32, mut give: impl FnMut(Class, i64)) {
    // Products with shares do not fit into 64 bits.
    let mut left = i128::from(amount);
    let mut sum = i128::from(reading.sum(classes));
    for class in Class::of_bits(classes) {
        let share = i128::from(reading.share(class));
        if share > 0 {
            let part = left * share / sum;
            give(class, part as i64);
            left -= part;
            sum -= share;
        }
    }
    debug_assert_eq!(sum, 0, "each class has had its part");
}

/// Shares out what a class gives up, or is given, among the other classes of a crowd. `give`
/// receives them and their parts.
pub(crate) fn share_out(
    reading: &Reading,
    amount: i64,
    class: Class,
    crowd: Crowd,
    give: impl FnMut(Class, i64),
) {
    let others = crowd.classes & !class.bit();
    split(reading, amount, others, give);
}

/// The most that a class from rest is owed. The class counts in the mean, as the others get what it
/// is owed beyond this.
pub(crate) fn ceiling(limits: &Limits, reading: &Reading, crowd: Crowd, class: Class) -> i64 {
    let mean = crowd.with(reading, class).mean();
    (mean * reading.share(class) as f64) as i64 + limits.credit as i64
}

/// The least that a class is owed, so that it is served again in time.
pub(crate) fn floor(limits: &Limits, reading: &Reading, crowd: Crowd, class: Class) -> i64 {
    let crowd = crowd.with(reading, class);
    let least = crowd.mean() - crowd.earned(limits, limits.lead_max);
    (least * reading.share(class) as f64) as i64
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests;
