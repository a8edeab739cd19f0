//! Properties of the division of time, of `Shares` and the `Ledger` together. Time is virtual, in
//! nanoseconds.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::sched::ledger::{Ledger, Party};

mod many;
mod simulated;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;
/// The time between two exchanges of a worker.
const EXCHANGE: u64 = 100 * US;

fn limits(workers: usize) -> Limits {
    Limits {
        credit: 100 * US,
        lead_max: 250 * MS,
        lag_max: 100 * MS,
        lend: MS,
        workers: workers as u64,
    }
}

fn term(share: u32, target: u64) -> Term {
    Term { share, target }
}

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 10_000,
        max_global_rejects: 100_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// Numbers that look random, one for each step of a machine.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // Marsaglia's xorshift with 64 bits, and a multiplier for the sake of the low ones.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// A number from `least` to `most`, both included.
    fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }
}

struct Worker {
    shares: Shares,
    /// When its poll ends, and the poll's class and length.
    busy_until: u64,
    poll: Option<(Class, u64)>,
}

/// Workers with endless work of some classes.
struct Machine {
    ledger: Ledger,
    workers: Vec<Worker>,
    /// The classes with work, the same at all workers.
    working: u64,
    served: Vec<u64>,
    /// What each class was entitled to by definition: its share of all time spent among the classes
    /// with work.
    entitled: Vec<f64>,
    terms: Vec<Term>,
    now: u64,
    polls: std::ops::RangeInclusive<u64>,
    random: Random,
}

impl Machine {
    fn new(
        workers: usize,
        terms: &[Term],
        polls: std::ops::RangeInclusive<u64>,
        seed: u64,
    ) -> Self {
        let ledger = Ledger::new(limits(workers), terms);
        let workers = (0..workers)
            .map(|_| Worker {
                shares: ledger.view(),
                busy_until: 0,
                poll: None,
            })
            .collect();
        Self {
            ledger,
            workers,
            working: 0,
            served: vec![0; terms.len()],
            entitled: vec![0.0; terms.len()],
            terms: terms.to_vec(),
            now: 0,
            polls,
            random: Random(seed | 1),
        }
    }

    fn classes(&self) -> impl Iterator<Item = Class> + use<> {
        (0..self.terms.len()).map(Class::at)
    }

    /// The bits of all its classes.
    fn all(&self) -> u64 {
        self.classes().fold(0, |bits, class| bits | class.bit())
    }

    /// Sets which classes have work.
    fn let_work(&mut self, classes: u64) {
        for class in self.classes() {
            let worker = self.workers.iter_mut();
            worker.for_each(|worker| match classes & class.bit() {
                0 => worker.shares.rest(class),
                _ => worker.shares.wake(class),
            });
        }
        self.working = classes;
    }

    /// The next poll ends, and its worker begins another. Returns the class that was served.
    fn step(&mut self) -> Option<Class> {
        let index = (0..self.workers.len())
            .min_by_key(|&index| self.workers[index].busy_until)
            .expect("a machine has workers");
        let worker = &mut self.workers[index];
        self.now = self.now.max(worker.busy_until);
        let ended = worker.poll.take();
        if let Some((class, length)) = ended {
            let unsettled = worker.shares.charge(class, length);
            if self.working & class.bit() == 0 {
                worker.shares.rest(class);
            }
            if unsettled >= EXCHANGE {
                self.ledger.exchange(index, &mut worker.shares);
            }
            self.served[class.index()] += length;
            let classes = self.working | class.bit();
            let share = |class: Class| f64::from(self.terms[class.index()].share);
            let sum: f64 = Class::of_bits(classes).map(share).sum();
            for class in Class::of_bits(classes) {
                self.entitled[class.index()] += length as f64 * share(class) / sum;
            }
        }
        worker.busy_until = match worker.shares.first() {
            Some(Choice::Here(class)) => {
                let length = self.random.between(*self.polls.start(), *self.polls.end());
                worker.poll = Some((class, length));
                self.now + length
            }
            _ => self.now + *self.polls.end(),
        };
        ended.map(|(class, _)| class)
    }

    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.step();
        }
    }

    fn run(&mut self, length: u64) {
        let end = self.now + length;
        while self.now < end {
            self.step();
        }
    }

    /// Spends time on some classes elsewhere, while `active` classes have work there.
    fn spend_beside(&mut self, active: u64, spent: &[u64]) {
        let mut all = Spent::new();
        (self.classes().zip(spent)).for_each(|(class, &length)| all.add(class, length));
        let bits = active | all.classes();
        self.ledger.publish(Party::HeavyPool, bits);
        self.ledger.charge(&all);
        self.ledger.publish(Party::HeavyPool, 0);
    }

    /// Changes shares and targets, and counts from now.
    fn change(&mut self, terms: &[Term]) {
        for (class, &term) in self.classes().zip(terms) {
            self.ledger.set(class, term);
        }
        self.terms = terms.to_vec();
        self.forget();
    }

    /// Counts from now.
    fn forget(&mut self) {
        self.served.fill(0);
        self.entitled.fill(0.0);
    }

    /// How much more a class got than it was entitled to.
    fn over(&self, class: Class) -> f64 {
        self.served[class.index()] as f64 - self.entitled[class.index()]
    }

    /// `R` of the module's documentation.
    fn unit_of_error(&self) -> f64 {
        let others = self.workers.len() as u64 - 1;
        (self.polls.end() + others * (2 * EXCHANGE + 3 * self.polls.end())) as f64
    }

    fn owed(&self) -> [i64; CLASSES_MAX] {
        self.ledger.read().owed
    }
}

/// Classes whose share is large enough to earn a poll in `lead_max`.
fn terms(count: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<Term>> {
    let targets = prop_oneof![Just(10 * US), Just(200 * US), Just(2 * MS), Just(SECOND)];
    vec(
        (1..=30_u32, targets).prop_map(|(share, target)| term(share, target)),
        count,
    )
}

/// Whether a class earns in `lead_max` what it may be ahead, so that nothing is forgiven.
fn earns(terms: &[Term], most: f64, workers: usize) -> bool {
    let sum: u32 = terms.iter().map(|term| term.share).sum();
    let least = terms.iter().map(|term| term.share).min().unwrap_or(1);
    let in_lead = (250 * MS * workers as u64) as f64 * f64::from(least) / f64::from(sum);
    most < in_lead / 2.0
}

proptest! {
    #![proptest_config(config())]

    /// Of classes that always have work, each gets at most `R` more than its share of all time, and
    /// at most `(n - 1)R` less, at any time; on one worker, `R` is a poll.
    #[test]
    fn backlogged_classes_get_their_shares(
        terms in terms(1..=6),
        workers in prop_oneof![3 => Just(1_usize), 1 => 2..=5_usize],
        longest in prop_oneof![Just(20 * US), Just(100 * US), Just(MS)],
        seed: u64,
    ) {
        let mut machine = Machine::new(workers, &terms, US..=longest, seed);
        let unit = machine.unit_of_error();
        prop_assume!(earns(&terms, unit, workers));
        machine.let_work(machine.all());
        for _ in 0..100 {
            machine.step();
            for class in machine.classes() {
                let over = machine.over(class);
                prop_assert!(over <= unit + 16.0, "{class:?} got {over} too much");
                let under = unit * (terms.len() - 1) as f64 + 16.0;
                prop_assert!(-over <= under, "{class:?} got {over} too little");
            }
        }
    }

    /// The same counted from a change of shares on: a class is off by what may be owed before and
    /// after, and by what workers spend before they know. Nothing that was owed is lost.
    #[test]
    fn the_bound_begins_anew_when_shares_change(
        before in terms(4..=4),
        after in terms(4..=4),
        workers in 1..=3_usize,
        longest in prop_oneof![Just(20 * US), Just(100 * US), Just(MS)],
        steps in 0..100_usize,
        seed: u64,
    ) {
        let mut machine = Machine::new(workers, &before, US..=longest, seed);
        let unit = machine.unit_of_error();
        prop_assume!(earns(&before, unit, workers) && earns(&after, 2.0 * unit, workers));
        machine.let_work(machine.all());
        machine.steps(steps);
        machine.change(&after);
        for _ in 0..100 {
            machine.step();
            prop_assert_eq!(machine.owed().iter().sum::<i64>(), 0);
            for class in machine.classes() {
                let over = machine.over(class);
                let late = (workers as u64 * (EXCHANGE + longest)) as f64;
                prop_assert!(over.abs() <= unit * 6.0 + late, "{class:?} got {over} too much");
            }
        }
    }

    /// Two classes that always have work divide what they get in the ratio of their shares,
    /// whichever others come and go. What all are owed adds up to zero.
    #[test]
    fn classes_that_come_and_go_do_not_matter_to_others(
        terms in terms(3..=5),
        workers in 1..=3_usize,
        longest in prop_oneof![Just(20 * US), Just(100 * US), Just(MS)],
        changes in vec((0..16_u64, 1..20_usize), 1..10),
        seed: u64,
    ) {
        let mut machine = Machine::new(workers, &terms, US..=longest, seed);
        let unit = machine.unit_of_error();
        prop_assume!(earns(&terms, 2.0 * unit, workers));
        for (classes, steps) in changes {
            machine.let_work((classes << 2 | 0b11) & machine.all());
            for _ in 0..steps {
                machine.step();
                prop_assert_eq!(machine.owed().iter().sum::<i64>(), 0);
                let both = (machine.served[0] + machine.served[1]) as f64;
                let shares = f64::from(terms[0].share + terms[1].share);
                let due = both * f64::from(terms[0].share) / shares;
                let off = machine.served[0] as f64 - due;
                let most = unit * terms.len() as f64;
                prop_assert!(off.abs() <= most, "{off} of at most {most}");
            }
        }
    }

    /// However much a class was owed when it went to rest, and however long it rested: when it
    /// comes back, it gets at most its credit more than its share, and the error.
    #[test]
    fn sleep_saves_nothing_up(
        terms in terms(2..=4),
        workers in 1..=3_usize,
        longest in prop_oneof![Just(20 * US), Just(100 * US)],
        owed in 0..50 * MS,
        rests in 0..100_usize,
        seed: u64,
    ) {
        let mut machine = Machine::new(workers, &terms, US..=longest, seed);
        let unit = machine.unit_of_error();
        prop_assume!(earns(&terms, 2.0 * unit, workers));
        let others = machine.all() & !1;
        machine.let_work(others);
        // All workers have published that there is work.
        machine.run(2 * (EXCHANGE + longest));
        // It had work elsewhere that was not served.
        machine.spend_beside(1, &[0, owed]);
        machine.steps(rests);
        machine.let_work(others | 1);
        machine.forget();
        let untold = workers as u64 * (2 * EXCHANGE + 3 * longest);
        let credit = (100 * US + untold) as f64;
        for _ in 0..100 {
            machine.step();
            let over = machine.over(Class::at(0));
            prop_assert!(over <= unit + credit + 16.0, "got {over} too much");
        }
    }

    /// A class is served again within its target or `lead_max`, whichever is longer, and a poll of
    /// each other class: one of a thousandth in every half second.
    #[test]
    fn no_class_starves(
        others in vec(1..=999_u32, 1..=6),
        workers in 1..=2_usize,
        targets in vec(prop_oneof![Just(10 * US), Just(2 * MS), Just(250 * MS)], 7..=7),
        seed: u64,
    ) {
        let shares = std::iter::once(1).chain(others);
        let terms: Vec<Term> = shares.zip(targets).map(|(share, at)| term(share, at)).collect();
        let longest = 10 * MS;
        let mut machine = Machine::new(workers, &terms, 5 * MS..=longest, seed);
        machine.let_work(machine.all());
        let polls = (terms.len() as u64 + 3) * longest + 2 * EXCHANGE;
        let mut last = vec![0; terms.len()];
        while machine.now < SECOND {
            if let Some(class) = machine.step() {
                last[class.index()] = machine.now;
            }
            for class in machine.classes() {
                let since = machine.now - last[class.index()];
                prop_assert!(since <= 250 * MS + polls, "{class:?} waits for {since}");
                prop_assert!(since <= SECOND / 2, "{class:?} waits for {since}");
            }
        }
    }

    /// After a year in which each month one class got all time, no class is owed more than is
    /// earned in `lead_max`, and time is divided as ever.
    #[test]
    fn a_year_leaves_nothing_behind(
        terms in terms(2..=5),
        scale in prop_oneof![Just(1), Just(300)],
        months in vec((0..5_usize, 0..32_u64), 12..=12),
        workers in 1..=2_usize,
        seed: u64,
    ) {
        let terms: Vec<Term> = terms.iter().map(|at| term(at.share * scale, at.target)).collect();
        let mut machine = Machine::new(workers, &terms, 5 * MS..=10 * MS, seed);
        let unit = machine.unit_of_error();
        prop_assume!(earns(&terms, unit, workers));
        for (class, active) in months {
            let mut spent = [0; CLASSES_MAX];
            spent[class % terms.len()] = 30 * 86_400 * SECOND * workers as u64;
            machine.spend_beside(active & machine.all(), &spent);
        }
        prop_assert_eq!(machine.owed().iter().sum::<i64>(), 0);
        machine.let_work(machine.all());
        machine.run(SECOND);
        let most = 500 * MS * workers as u64;
        let owed = machine.owed();
        prop_assert!(owed.iter().all(|owed| owed.unsigned_abs() < most), "{owed:?}");
        machine.forget();
        for _ in 0..50 {
            machine.step();
            for class in machine.classes() {
                let over = machine.over(class);
                let most = unit * terms.len() as f64;
                prop_assert!(over.abs() <= most, "{class:?} got {over} too much");
            }
        }
    }

    /// An urgent class that has not used its share goes first at the next poll boundary, and one
    /// that has used it does not.
    #[test]
    fn the_urgent_go_first_unless_they_used_their_share(
        shares in vec(1..=1000_u32, 2..=8),
        owed in vec(-50 * MS as i64..50 * MS as i64, 8..=8),
        polls in vec((1..8_usize, US..5 * MS), 0..10),
    ) {
        let mut terms = [term(1, 0); CLASSES_MAX];
        for (term, &share) in terms.iter_mut().zip(&shares) {
            *term = self::term(share, 2 * MS);
        }
        terms[0].target = 200 * US;
        let mut reading = still(terms);
        reading.owed[..8].copy_from_slice(&owed);
        reading.active = (1 << shares.len()) - 1;
        let mut shares_here = Shares::new(limits(1), reading);
        Class::of_bits((1 << shares.len()) - 1).for_each(|class| shares_here.wake(class));
        let sum: f64 = shares.iter().copied().map(f64::from).sum();
        let mut owed: Vec<f64> = owed[..shares.len()].iter().map(|&owed| owed as f64).collect();
        for (class, length) in polls.into_iter().filter(|&(class, _)| class < shares.len()) {
            shares_here.charge(Class::at(class), length);
            owed[class] -= length as f64;
            let earned = shares.iter().map(|&share| length as f64 * f64::from(share) / sum);
            owed.iter_mut().zip(earned).for_each(|(owed, earned)| *owed += earned);
        }
        let own = owed[0] - owed.iter().sum::<f64>() * f64::from(shares[0]) / sum;
        let first = shares_here.first();
        if own > 20.0 {
            prop_assert_eq!(first, Some(Choice::Here(Class::at(0))));
        } else if own < -20.0 {
            prop_assert_ne!(first, Some(Choice::Here(Class::at(0))));
        }
    }

    /// An urgent class that uses half of its share, a poll at a time, waits only for the end of the
    /// poll under way.
    #[test]
    fn a_class_that_uses_less_than_its_share_goes_at_the_next_boundary(
        share in 1..=100_u32,
        poll in 10 * US..MS,
        seed: u64,
    ) {
        let terms = [term(share, 200 * US), term(100, 2 * MS), term(100, 20 * MS)];
        let mut machine = Machine::new(1, &terms, poll..=poll, seed);
        let period = 2 * poll * u64::from(share + 200) / u64::from(share);
        prop_assume!(period < 100 * MS);
        let (urgent, others) = (0b001, 0b110);
        machine.let_work(others);
        for _ in 0..10 {
            machine.run(period);
            machine.let_work(urgent | others);
            machine.step();
            machine.let_work(others);
            prop_assert_eq!(machine.step(), Some(Class::at(0)));
        }
    }

    /// A class with work in the pool alone is next when it is owed more than `lend`. Otherwise, and
    /// if it has work here too, the classes with work here go on.
    #[test]
    fn the_pool_is_next_when_it_is_owed_time(
        owed in -5 * MS as i64..5 * MS as i64,
        share in 1..=100_u32,
    ) {
        let mut terms = [term(50, 30 * MS); CLASSES_MAX];
        terms[0] = term(share, 20 * MS);
        let mut reading = still(terms);
        reading.owed[..2].copy_from_slice(&[owed, -owed]);
        reading.active = 0b11;
        reading.heavy_pool = 0b01;
        let mut shares = Shares::new(limits(1), reading);
        prop_assert_eq!(shares.first(), None);
        shares.wake(Class::at(1));
        let (here, heavy_pool) = (Choice::Here(Class::at(1)), Choice::HeavyPool(Class::at(0)));
        let next = if owed > MS as i64 { heavy_pool } else { here };
        prop_assert_eq!(shares.first(), Some(next));
        shares.wake(Class::at(0));
        prop_assert!(matches!(shares.first(), Some(Choice::Here(_))));
    }

    /// While there is work here, a class with work here is next.
    #[test]
    fn work_is_conserved(
        terms in terms(1..=8),
        ops in vec((0..4_u8, 0..8_usize, US..10 * MS, any::<bool>()), 1..60),
    ) {
        let ledger = Ledger::new(limits(2), &terms);
        let mut views = [(); 2].map(|()| (ledger.view(), 0_u64));
        for (op, index, length, second) in ops {
            let class = Class::at(index % terms.len());
            let (shares, waiting) = &mut views[usize::from(second)];
            match op {
                0 => {
                    shares.wake(class);
                    *waiting |= class.bit();
                }
                1 => {
                    shares.rest(class);
                    *waiting &= !class.bit();
                }
                2 => {
                    shares.charge(class, length);
                    *waiting |= class.bit();
                }
                _ => ledger.exchange(second.into(), shares),
            }
            match shares.first() {
                Some(Choice::Here(class)) => prop_assert!(*waiting & class.bit() != 0),
                next => prop_assert!(next.is_none() && *waiting == 0, "{next:?}"),
            }
            let elsewhere = shares.owed_elsewhere();
            prop_assert!(elsewhere.is_none_or(|class| *waiting & class.bit() == 0));
        }
    }
}

/// A process in which no class is owed anything or has work.
fn still(terms: [Term; CLASSES_MAX]) -> Reading {
    Reading {
        terms,
        ..Reading::none(u64::MAX)
    }
}

/// Of a class in the pool and one here that are both owed time, the more urgent goes first.
#[test]
fn the_pool_waits_for_the_urgent() {
    for (target, next) in [
        (200 * US, Choice::Here(Class::at(1))),
        (30 * MS, Choice::HeavyPool(Class::at(0))),
    ] {
        let mut terms = [term(50, 20 * MS); CLASSES_MAX];
        terms[1].target = target;
        let mut reading = still(terms);
        reading.owed[..3].copy_from_slice(&[5, 5, -10].map(|owed| owed * MS as i64));
        reading.active = 0b111;
        reading.heavy_pool = 0b001;
        let mut shares = Shares::new(limits(1), reading);
        shares.wake(Class::at(1));
        shares.wake(Class::at(2));
        assert_eq!(shares.first(), Some(next));
    }
}

/// A worker that sleeps leaves no class active.
#[test]
fn a_sleeping_worker_leaves_no_class_behind() {
    let ledger = Ledger::new(limits(2), &[term(1, MS), term(1, MS)]);
    let mut shares = ledger.view();
    shares.wake(Class::at(0));
    shares.charge(Class::at(0), 200 * US);
    ledger.exchange(0, &mut shares);
    assert_eq!(ledger.read().active, 1);
    shares.charge(Class::at(0), 10 * US);
    shares.rest(Class::at(0));
    ledger.exchange(0, &mut shares);
    assert_eq!(ledger.read().active, 0);
    assert!(!ledger.has_published(0));
}

/// A task that was never queued, as it ran from the next-task slot, is charged like any other.
#[test]
fn time_without_a_wake_is_charged() {
    let ledger = Ledger::new(limits(2), &[term(1, MS), term(1, MS)]);
    let mut views = [(); 2].map(|()| ledger.view());
    for _ in 0..10 {
        for (index, shares) in views.iter_mut().enumerate() {
            shares.charge(Class::at(index), (1 + index as u64) * MS);
            ledger.exchange(index, shares);
        }
    }
    assert_eq!(ledger.read().active, 0b11);
    assert!(ledger.read().owed[0] > 4 * MS as i64);
}

/// A class that is not found elsewhere is followed by another.
#[test]
fn a_class_that_is_not_found_is_not_asked_for_twice_in_a_row() {
    let mut terms = [term(1, MS); CLASSES_MAX];
    terms[1].target = US;
    let mut reading = still(terms);
    (reading.active, reading.at_workers) = (0b111, 0b111);
    reading.owed[..3].copy_from_slice(&[-20, 10, 10]);
    let mut shares = Shares::new(limits(2), reading);
    shares.wake(Class::at(0));
    let asked = [(); 4].map(|()| shares.owed_elsewhere().map(Class::index));
    assert_eq!(asked, [Some(1), Some(2), None, Some(1)]);
}

/// A class that is owed time and has work in the pool is first sought at other workers: to lend
/// would be to sleep beside work. A class with work in the pool alone is not found there.
#[test]
fn work_at_workers_goes_before_lending() {
    let terms = [term(1, MS), term(1, MS)];
    let ledger = Ledger::new(limits(2), &terms);
    let (own, other) = (Class::at(0), Class::at(1));
    ledger.publish(Party::HeavyPool, other.bit());
    ledger.set_pool(other.bit());
    let mut shares = ledger.view();
    let hears = |shares: &mut Shares| {
        shares.wake(own);
        shares.charge(own, 5 * MS);
        ledger.exchange(0, shares);
        shares.owed_elsewhere()
    };
    assert_eq!(hears(&mut shares), None);
    assert_eq!(shares.first(), Some(Choice::HeavyPool(other)));
    ledger.publish(Party::Worker(1), other.bit());
    assert_eq!(hears(&mut shares), Some(other));
}
