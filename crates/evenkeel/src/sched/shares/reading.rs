//! What is known of all classes at one moment, and what follows from it.

use crate::class::{CLASSES_MAX, Class};

use super::{Limits, Term, split};

/// The state of the whole process. Not `Copy`: it is large, and changed in place.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The classes that there are.
    pub(crate) every: u64,
    /// What each class is owed.
    pub(crate) owed: [i64; CLASSES_MAX],
    /// The classes with work anywhere.
    pub(crate) active: u64,
    /// The classes with work at workers.
    pub(crate) at_workers: u64,
    /// The classes with work in the heavy pool.
    pub(crate) heavy_pool: u64,
    /// The classes that have work and cannot use what they are owed.
    pub(crate) unable: u64,
    pub(crate) terms: [Term; CLASSES_MAX],
    /// How often the terms had been changed when they were read.
    pub(crate) terms_changed: u64,
}

/// Time that was spent, by class. Takes no walk over all the classes that there may be.
#[derive(Clone, Debug)]
pub(crate) struct Spent {
    time: [u64; CLASSES_MAX],
    classes: u64,
    total: u64,
}

impl Spent {
    pub(crate) fn new() -> Self {
        Self {
            time: [0; CLASSES_MAX],
            classes: 0,
            total: 0,
        }
    }

    pub(crate) fn add(&mut self, class: Class, length: u64) {
        self.add_unlisted(class, length);
        self.list(class.bit());
    }

    /// The same, to be followed by [`list`](Spent::list): for what is done at each poll.
    #[inline]
    pub(super) fn add_unlisted(&mut self, class: Class, length: u64) {
        self.time[class.index()] += length;
        self.total += length;
    }

    /// These classes may have spent time.
    pub(super) fn list(&mut self, classes: u64) {
        let spent = |class: &Class| self.of(*class) > 0;
        let spent = Class::of_bits(classes).filter(spent);
        self.classes |= spent.fold(0, |bits, class| bits | class.bit());
    }

    #[inline]
    pub(crate) fn of(&self, class: Class) -> u64 {
        self.time[class.index()]
    }

    #[inline]
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The classes that have spent time and were listed.
    pub(crate) fn classes(&self) -> u64 {
        self.classes
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Class, u64)> + '_ {
        Class::of_bits(self.classes).map(|class| (class, self.of(class)))
    }

    pub(crate) fn clear(&mut self) {
        debug_assert_eq!(self.total, self.iter().map(|(_, time)| time).sum::<u64>());
        Class::of_bits(self.classes).for_each(|class| self.time[class.index()] = 0);
        self.classes = 0;
        self.total = 0;
    }
}

/// Some classes, with the sums of what they are owed and of their shares.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crowd {
    classes: u64,
    owed: i64,
    share: u64,
}

impl Crowd {
    pub(super) fn new(reading: &Reading, classes: u64) -> Self {
        Class::of_bits(classes).fold(Self::default(), |crowd, class| crowd.with(reading, class))
    }

    /// Its classes but one.
    pub(crate) fn others(self, class: Class) -> u64 {
        self.classes & !class.bit()
    }

    #[inline]
    pub(super) fn has(&self, class: Class) -> bool {
        self.classes & class.bit() != 0
    }

    #[inline]
    pub(super) fn with(mut self, reading: &Reading, class: Class) -> Self {
        if !self.has(class) {
            self.classes |= class.bit();
            self.owed += reading.owed[class.index()];
            self.share += reading.share(class);
        }
        self
    }

    /// What they are owed for each unit of share.
    #[inline]
    pub(super) fn mean(self) -> f64 {
        self.owed as f64 / self.share.max(1) as f64
    }

    /// What each unit of share earns in `time` of all workers.
    #[inline]
    pub(super) fn earned(self, limits: &Limits, time: u64) -> f64 {
        (time * limits.workers) as f64 / self.share.max(1) as f64
    }
}

impl Reading {
    /// Of classes of which nothing is known yet.
    pub(crate) fn none(every: u64) -> Self {
        Self {
            every,
            owed: [0; CLASSES_MAX],
            active: 0,
            at_workers: 0,
            heavy_pool: 0,
            unable: 0,
            terms: [Term::default(); CLASSES_MAX],
            terms_changed: 0,
        }
    }

    #[inline]
    pub(super) fn share(&self, class: Class) -> u64 {
        u64::from(self.terms[class.index()].share)
    }

    /// The classes that have work and can use what they are owed.
    fn able(&self) -> u64 {
        self.active & !self.unable
    }

    /// The classes that have work and can use what they are owed; if there are none, those that
    /// have work; if there are none, all.
    pub(crate) fn crowd(&self) -> Crowd {
        let groups = [self.able(), self.active, self.every];
        let group = groups.into_iter().find(|&group| group != 0);
        Crowd::new(self, group.unwrap_or(0))
    }

    /// What some classes are owed in the mean for each unit of share.
    #[inline]
    pub(super) fn level(&self, classes: u64) -> f64 {
        Crowd::new(self, classes).mean()
    }

    /// A class from rest gives up what it is owed beyond `most`, for the other classes of a crowd.
    pub(super) fn give_up(&mut self, class: Class, most: i64, crowd: Crowd) {
        let beyond = self.owed[class.index()] - most;
        if beyond > 0 {
            let (owed, terms) = (&mut self.owed, &self.terms);
            owed[class.index()] -= beyond;
            split(terms, beyond, crowd.others(class), |class, part| {
                owed[class.index()] += part;
            });
        }
    }
}

/// The most that a class from rest is owed. The class counts in the mean, as the others get what it
/// is owed beyond this.
pub(crate) fn ceiling(limits: &Limits, reading: &Reading, crowd: Crowd, class: Class) -> i64 {
    let mean = crowd.with(reading, class).mean();
    (mean * reading.share(class) as f64) as i64 + limits.credit as i64
}

/// Whether a class at rest is owed at least a unit less than its [`ceiling`]. Without the division,
/// since this is asked of all classes that there are.
pub(crate) fn is_below_ceiling(
    limits: &Limits,
    reading: &Reading,
    crowd: Crowd,
    class: Class,
) -> bool {
    let crowd = crowd.with(reading, class);
    let beyond_credit = reading.owed[class.index()] - limits.credit as i64;
    let part = crowd.owed as f64 * reading.share(class) as f64;
    (beyond_credit + 1) as f64 * crowd.share as f64 <= part
}

/// The least that classes are owed, so that they are served again in time.
pub(crate) struct Floors {
    crowd: Crowd,
    of_crowd: f64,
}

impl Floors {
    pub(crate) fn new(limits: &Limits, crowd: Crowd) -> Self {
        Self {
            crowd,
            of_crowd: Self::least(limits, crowd),
        }
    }

    /// The least for each unit of share.
    fn least(limits: &Limits, crowd: Crowd) -> f64 {
        crowd.mean() - crowd.earned(limits, limits.lead_max)
    }

    pub(crate) fn of(&self, limits: &Limits, reading: &Reading, class: Class) -> i64 {
        let least = if self.crowd.has(class) {
            self.of_crowd
        } else {
            Self::least(limits, self.crowd.with(reading, class))
        };
        (least * reading.share(class) as f64) as i64
    }
}
