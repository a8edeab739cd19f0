//! Who is entitled to the time that was spent, and what changes by it in what classes are owed.
//!
//! Takes a walk over the classes that there are, and one over those that are entitled for each
//! group of served classes; mostly there is one such group.

use crate::class::{CLASSES_MAX, Class};

use super::{Crowd, Limits, Reading, Spent, Term, ceiling, is_below_ceiling};

/// Classes that were served, to whose time the same classes are entitled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    pub(crate) served: u64,
    /// How long they were served.
    pub(crate) time: u64,
    pub(crate) entitled: u64,
    /// What the one of them that is owed least is owed for each unit of share.
    level: f64,
}

/// What changes in what classes are owed.
#[derive(Debug)]
pub(crate) struct Changes {
    by: [i64; CLASSES_MAX],
    classes: u64,
}

impl Changes {
    fn none() -> Self {
        Self {
            by: [0; CLASSES_MAX],
            classes: 0,
        }
    }

    fn add(&mut self, class: Class, by: i64) {
        self.by[class.index()] += by;
        self.classes |= class.bit();
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Class, i64)> + '_ {
        let all = Class::of_bits(self.classes).map(|class| (class, self.by[class.index()]));
        all.filter(|&(_, by)| by != 0)
    }
}

/// Settles what was spent among the classes that are entitled to it: the changes add up to zero.
/// `told` receives the groups of classes that were served.
pub(crate) fn settle(
    limits: &Limits,
    reading: &Reading,
    spent: &Spent,
    mut told: impl FnMut(Group),
) -> Changes {
    let mut changes = Changes::none();
    let claims = Claims::new(limits, reading);
    claims.groups(spent, |group| {
        claims.share_group(spent, group, &mut changes);
        told(group);
    });
    debug_assert_eq!(changes.by.iter().sum::<i64>(), 0, "{changes:?}");
    changes
}

/// Which classes may be entitled to the time of others, and up to what they may be owed.
struct Claims<'a> {
    limits: &'a Limits,
    reading: &'a Reading,
    crowd: Crowd,
    /// What each unit of share in the crowd earns in `lag_max`.
    unused: f64,
    /// The classes with work, and those at rest that are owed less than they may be.
    candidates: u64,
}

impl<'a> Claims<'a> {
    fn new(limits: &'a Limits, reading: &'a Reading) -> Self {
        let crowd = reading.crowd();
        let mut claims = Self {
            limits,
            reading,
            crowd,
            unused: crowd.earned(limits, limits.lag_max),
            candidates: reading.active,
        };
        let at_rest = Class::of_bits(reading.every & !reading.active);
        let may_gain = |class: &Class| is_below_ceiling(limits, reading, crowd, *class);
        claims.candidates |= bits(at_rest.filter(may_gain));
        claims
    }

    /// How much more a class without work may be owed.
    fn rest_room(&self, class: Class) -> i64 {
        let most = ceiling(self.limits, self.reading, self.crowd, class);
        most.saturating_sub(self.reading.owed[class.index()])
    }

    /// To how much of the time of others a class is entitled at most, where these are owed `level`
    /// for each unit of share.
    fn room(&self, class: Class, level: f64) -> i64 {
        let (reading, lag_max) = (self.reading, self.limits.lag_max);
        let share = reading.share(class) as f64;
        let unused = if self.crowd.has(class) {
            self.unused
        } else {
            let crowd = self.crowd.with(reading, class);
            crowd.earned(self.limits, lag_max)
        };
        let most = share * level + (share * unused).max(lag_max as f64);
        let room = (most as i64).saturating_sub(reading.owed[class.index()]);
        if reading.active & class.bit() == 0 {
            room.min(self.rest_room(class))
        } else {
            room
        }
    }

    /// Those of some classes that are entitled to time of others that are owed `level` for each
    /// unit of share.
    fn entitled(&self, classes: u64, level: f64) -> u64 {
        bits(Class::of_bits(classes).filter(|&class| self.room(class, level) > 0))
    }

    /// Hands out the served classes in groups. A class is entitled to its own time.
    fn groups(&self, spent: &Spent, mut give: impl FnMut(Group)) {
        let level = |class: Class| self.reading.level(class.bit());
        let served = || Class::of_bits(spent.classes());
        let lowest = served().map(level).fold(f64::INFINITY, f64::min);
        // Whoever is entitled to time at some level is so at each that is higher.
        let always = self.entitled(self.candidates, lowest);
        let at_times = self.candidates & !always;
        let entitled = |class: Class| always | self.entitled(at_times, level(class)) | class.bit();
        let mut left = spent.classes();
        while let Some(first) = Class::of_bits(left).next() {
            let mut group = Group {
                served: 0,
                time: 0,
                entitled: entitled(first),
                level: f64::INFINITY,
            };
            for class in Class::of_bits(left) {
                if class == first || entitled(class) == group.entitled {
                    group.served |= class.bit();
                    group.time += spent.of(class);
                    group.level = group.level.min(level(class));
                }
            }
            left &= !group.served;
            give(group);
        }
    }

    /// Shares out the time of a group. What a class may not be owed stays with those that were
    /// served, in the ratio of their times.
    fn share_group(&self, spent: &Spent, group: Group, changes: &mut Changes) {
        let terms = &self.reading.terms;
        let sum = sum_of(terms, group.entitled);
        let time = group.time as i64;
        let mut back = 0;
        split(terms, time, group.entitled, |class, part| {
            let own = if group.served == class.bit() {
                part
            } else if group.served & class.bit() != 0 {
                part.min(part_of(
                    spent.of(class) as i64,
                    self.reading.share(class),
                    sum,
                ))
            } else {
                0
            };
            let given = own + (part - own).min(self.room(class, group.level).max(0));
            changes.add(class, given);
            back += part - given;
        });
        let (mut left, mut rest) = (time - back, group.time);
        for class in Class::of_bits(group.served) {
            let part = part_of(left, spent.of(class), rest);
            changes.add(class, -part);
            left -= part;
            rest -= spent.of(class);
        }
        debug_assert_eq!(left, 0, "all that was given is paid for");
    }
}

fn bits(classes: impl Iterator<Item = Class>) -> u64 {
    classes.fold(0, |bits, class| bits | class.bit())
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

fn sum_of(terms: &[Term; CLASSES_MAX], classes: u64) -> u64 {
    let shares = Class::of_bits(classes).map(|class| u64::from(terms[class.index()].share));
    shares.sum()
}

/// `amount * share / sum`.
fn part_of(amount: i64, share: u64, sum: u64) -> i64 {
    debug_assert!(share <= sum && sum > 0, "{share} of {sum}");
    match amount.checked_mul(share as i64) {
        // Mostly; to divide 128 bits takes several times as long.
        Some(product) => product / sum as i64,
        None => (i128::from(amount) * i128::from(share) / i128::from(sum)) as i64,
    }
}

/// Splits an amount among classes in the ratio of their shares, to the last unit.
pub(crate) fn split(
    terms: &[Term; CLASSES_MAX],
    amount: i64,
    classes: u64,
    mut give: impl FnMut(Class, i64),
) {
    let mut left = amount;
    let mut sum = sum_of(terms, classes);
    for class in Class::of_bits(classes) {
        let share = u64::from(terms[class.index()].share);
        if share > 0 {
            let part = part_of(left, share, sum);
            give(class, part);
            left -= part;
            sum -= share;
        }
    }
    debug_assert_eq!(sum, 0, "each class has had its part");
}
