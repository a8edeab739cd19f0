//! The same with as many classes as there may be.

use super::*;

/// A class with work at all times gets its share of the time that the others leave it, to within
/// the bounds of the module's documentation, however many classes there are.
fn shares_of_any_size() -> impl Strategy<Value = Vec<u32>> {
    let share = prop_oneof![3 => 1..=30_u32, 1 => 100..=1000_u32];
    vec(share, 1..=CLASSES_MAX)
}

/// Latency targets that differ, so that the order is not that of the shares.
fn with_targets(shares: &[u32], random: &mut Random) -> Vec<Term> {
    let targets = [10 * US, 200 * US, 2 * MS, 20 * MS];
    let terms = shares.iter().map(|&share| {
        let target = targets[random.below(4) as usize];
        term(share, target)
    });
    terms.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..config() })]

    /// Of 1 to 64 classes that always have work, each gets at most `R` more than its share of all
    /// time, and at most `(n - 1)R` less.
    #[test]
    fn each_of_many_classes_gets_its_share(
        shares in shares_of_any_size(),
        workers in prop_oneof![3 => Just(1_usize), 1 => 2..=4_usize],
        seed: u64,
    ) {
        let terms = with_targets(&shares, &mut Random(seed | 1));
        let mut machine = Machine::new(workers, &terms, US..=20 * US, seed);
        let unit = machine.unit_of_error();
        prop_assume!(earns(&terms, unit, workers));
        machine.let_work(machine.all());
        for _ in 0..30 {
            machine.steps(10);
            prop_assert_eq!(machine.owed().iter().sum::<i64>(), 0);
            for class in machine.classes() {
                let over = machine.over(class);
                prop_assert!(over <= unit + 16.0, "{class:?} got {over} too much");
                let under = unit * (terms.len() - 1) as f64 + 16.0;
                prop_assert!(-over <= under, "{class:?} got {over} too little");
            }
        }
    }

    /// Half of the classes always have work and the others at times: the former divide what they
    /// get by their shares, and what all are owed adds up to zero.
    #[test]
    fn many_that_come_and_go_do_not_matter_to_those_that_stay(
        shares in vec(1..=30_u32, 2..=CLASSES_MAX),
        changes in vec((any::<u64>(), 1..40_usize), 1..10),
        workers in 1..=2_usize,
        seed: u64,
    ) {
        let terms = with_targets(&shares, &mut Random(seed | 1));
        let mut machine = Machine::new(workers, &terms, US..=20 * US, seed);
        let unit = machine.unit_of_error();
        prop_assume!(earns(&terms, 2.0 * unit, workers));
        let stay: u64 = machine.all() & 0x5555_5555_5555_5555;
        for (classes, steps) in changes {
            machine.let_work((classes | stay) & machine.all());
            for _ in 0..steps {
                machine.step();
                prop_assert_eq!(machine.owed().iter().sum::<i64>(), 0);
            }
            let got = |class: Class| machine.served[class.index()] as f64;
            let share = |class: Class| f64::from(terms[class.index()].share);
            let of_all: f64 = Class::of_bits(stay).map(got).sum();
            let shares: f64 = Class::of_bits(stay).map(share).sum();
            let most = unit * terms.len() as f64;
            for class in Class::of_bits(stay) {
                let off = got(class) - of_all * share(class) / shares;
                prop_assert!(off.abs() <= most, "{class:?} is off by {off} of at most {most}");
            }
        }
    }

    /// One class that uses half of its share, a poll at a time, goes at the next poll boundary
    /// whichever others work, if its target is the shortest.
    #[test]
    fn beside_many_the_urgent_goes_at_the_next_boundary(
        others in vec(1..=100_u32, 1..CLASSES_MAX),
        share in 20..=100_u32,
        poll in 10 * US..100 * US,
        seed: u64,
    ) {
        let sum: u32 = others.iter().sum();
        let urgent = std::iter::once(term(share, 200 * US));
        let others = others.into_iter().map(|share| term(share, 2 * MS));
        let terms: Vec<Term> = urgent.chain(others).collect();
        let mut machine = Machine::new(1, &terms, poll..=poll, seed);
        let period = 2 * poll * u64::from(share + sum) / u64::from(share);
        prop_assume!(period < 100 * MS);
        let others = machine.all() & !1;
        machine.let_work(others);
        for _ in 0..10 {
            machine.run(period);
            machine.let_work(others | 1);
            machine.step();
            machine.let_work(others);
            prop_assert_eq!(machine.step(), Some(Class::at(0)));
        }
    }
}

/// To settle in one step what several classes were served comes to the same as to settle it class
/// by class, to the unit, as long as nobody reaches a limit.
#[test]
fn what_many_classes_spent_is_settled_as_if_one_by_one() {
    let mut random = Random(7);
    for _ in 0..200 {
        let count = random.between(2, CLASSES_MAX as u64) as usize;
        let mut reading = Reading::none(u64::MAX >> (CLASSES_MAX - count));
        reading.active = reading.every;
        let mut spent = Spent::new();
        for class in Class::of_bits(reading.every) {
            let share = random.between(1, 1000);
            reading.terms[class.index()] = term(share as u32, MS);
            // For each unit of share, less than it earns in `lag_max`.
            let owed = share * random.below(2 * US);
            reading.owed[class.index()] = owed as i64 - (share * US) as i64;
            spent.add(class, random.below(2) * random.below(100 * US));
        }
        let limits = limits(2);
        let mut groups = 0;
        let together = settle(&limits, &reading, &spent, |group| {
            groups += 1;
            assert_eq!(group.entitled, reading.every);
        });
        assert_eq!(groups, usize::from(spent.total() > 0), "one is enough");
        let mut apart = [0; CLASSES_MAX];
        for (class, time) in spent.iter() {
            let mut one = Spent::new();
            one.add(class, time);
            let changes = settle(&limits, &reading, &one, |_| ());
            changes
                .iter()
                .for_each(|(class, by)| apart[class.index()] += by);
        }
        for (class, by) in together.iter() {
            let off = by - apart[class.index()];
            // Each settling rounds by a few units.
            let most = 4 * (CLASSES_MAX as u64 + 1);
            assert!(off.unsigned_abs() <= most, "{class:?}: {off}");
        }
    }
}

/// A class that cannot use what it is owed is entitled to its own time and to nobody else's, and
/// those beside it make one group.
#[test]
fn a_class_that_is_owed_too_much_makes_a_group_of_its_own() {
    let mut reading = Reading::none(0b1111);
    reading.terms[..4].fill(term(10, MS));
    reading.active = 0b0111;
    reading.owed[..4].copy_from_slice(&[0, 0, 900 * MS as i64, -900 * MS as i64]);
    let mut spent = Spent::new();
    (0..3).for_each(|index| spent.add(Class::at(index), MS));
    let mut groups = Vec::new();
    let changes = settle(&limits(1), &reading, &spent, |group| {
        groups.push((group.served, group.time, group.entitled));
    });
    // The last one is at rest and makes up for what it got too much, so it has its part of both.
    assert_eq!(groups, [(0b0011, 2 * MS, 0b1011), (0b0100, MS, 0b1111)]);
    let changes: Vec<_> = changes
        .iter()
        .map(|(class, by)| (class.index(), by))
        .collect();
    let sum: i64 = changes.iter().map(|(_, by)| by).sum();
    assert_eq!((changes.len(), sum), (4, 0), "{changes:?}");
    assert!(changes[2].1 < 0 && changes[3].1 > 0, "{changes:?}");
}
