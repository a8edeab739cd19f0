//! The order against simple oracles.

use proptest::prelude::*;

use super::*;

const LEAD: u64 = 1_000;

fn order(queue: usize, wait: Option<u64>, shares: &[u32]) -> Order<u32> {
    let limits = Limits {
        queue,
        wait,
        lead: LEAD,
    };
    let entitled = |(index, &share)| Entitled {
        share,
        target: 10 * index as u64,
    };
    Order::new(limits, shares.iter().enumerate().map(entitled))
}

#[derive(Clone, Debug)]
enum Step {
    Push(usize),
    Pop,
    Done(u64),
    Pass(u64),
    Expire,
    Cancel(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3_usize).prop_map(Step::Push),
        3 => Just(Step::Pop),
        3 => (0..10_000_u64).prop_map(Step::Done),
        1 => (0..500_u64).prop_map(Step::Pass),
        1 => Just(Step::Expire),
        3 => (0..60_usize).prop_map(Step::Cancel),
    ];
    proptest::collection::vec(step, 1..300)
}

proptest! {
    /// After any steps: work comes out once, in FIFO order within its class. The limits of length
    /// and wait are kept. Cancelled work comes out at once if it still waits, and a queue is at
    /// most twice as long as the work in it.
    #[test]
    fn nothing_is_lost_or_overtaken(steps in steps(), queue in 1..40_usize) {
        let mut order = order(queue, Some(400), &[30, 50, 20]);
        let mut oracle: [VecDeque<(u64, u32)>; 3] = Default::default();
        let mut charges = VecDeque::new();
        let mut tickets: Vec<(u64, u32)> = Vec::new();
        let (mut now, mut next) = (0, 0);
        for step in steps {
            match step {
                Step::Cancel(back) => {
                    let Some(&(ticket, work)) = tickets.iter().rev().nth(back) else { continue };
                    let waits = oracle.iter().flatten().any(|(_, waiting)| *waiting == work);
                    prop_assert_eq!(order.cancel(ticket), waits.then_some(work));
                    oracle.iter_mut().for_each(|line| line.retain(|(_, other)| *other != work));
                }
                Step::Push(class) => {
                    let waiting: usize = oracle.iter().map(VecDeque::len).sum();
                    let ticket = order.next_ticket();
                    let pushed = order.push(now, Class::at(class), next);
                    prop_assert_eq!(pushed.is_ok(), waiting < queue);
                    if pushed.is_ok() {
                        tickets.push((ticket, next));
                        oracle[class].push_back((now, next));
                    }
                    next += 1;
                }
                Step::Pop => {
                    let Some((since, work, charge)) = order.pop() else {
                        prop_assert!(oracle.iter().all(VecDeque::is_empty));
                        continue;
                    };
                    let expected = oracle[charge.class.index()].pop_front();
                    prop_assert_eq!(expected, Some((since, work)));
                    charges.push_back(charge);
                }
                Step::Done(took) => {
                    if let Some(charge) = charges.pop_front() {
                        order.done(charge, took);
                    }
                }
                Step::Pass(time) => now += time,
                Step::Expire => {
                    let expired = order.take_expired(now);
                    for line in &mut oracle {
                        while line.front().is_some_and(|(since, _)| now - since >= 400) {
                            let front = line.pop_front().unwrap();
                            prop_assert!(expired.contains(&front));
                        }
                    }
                    let oldest = oracle.iter().flatten().map(|(since, _)| since + 400).min();
                    prop_assert_eq!(order.next_expiry(), oldest);
                }
            }
            let waiting: usize = oracle.iter().map(VecDeque::len).sum();
            prop_assert_eq!(order.len(), waiting);
            prop_assert_eq!(order.is_empty(), waiting == 0);
            for (row, line) in order.rows.iter().zip(&oracle) {
                prop_assert!(row.line.len() <= 2 * line.len());
            }
        }
        prop_assert_eq!(order.take_all().len(), oracle.iter().map(VecDeque::len).sum::<usize>());
    }

    /// Classes that always have work, of any cost, get thread time in the ratio of their shares, up
    /// to the lead.
    #[test]
    fn time_is_shared(
        shares in proptest::collection::vec(1..100_u32, 3),
        costs in proptest::collection::vec(1..400_u64, 3),
    ) {
        let mut order = order(100, None, &shares);
        for class in 0..3 {
            for _ in 0..3 {
                order.push(0, Class::at(class), 0).unwrap();
            }
        }
        let mut had = [0_u64; 3];
        for _ in 0..20_000 {
            let (_, _, charge) = order.pop().unwrap();
            let class = charge.class.index();
            order.done(charge, costs[class]);
            order.push(0, charge.class, 0).unwrap();
            had[class] += costs[class];
        }
        let (total, weights) = (had.iter().sum::<u64>(), shares.iter().sum::<u32>());
        for class in 0..3 {
            let due = total as f64 * f64::from(shares[class]) / f64::from(weights);
            // One class may be ahead by the lead and a piece of work, and others behind by as much.
            let slack = 3.0 * (LEAD + 400) as f64 + total as f64 * 0.01;
            prop_assert!((had[class] as f64 - due).abs() <= slack, "{had:?} of {shares:?}");
        }
    }

    /// After a change of the shares, time is shared by the new ones. Work under way is charged
    /// once.
    #[test]
    fn changed_shares_count_from_then_on(
        before in proptest::collection::vec(1..100_u32, 3),
        after in proptest::collection::vec(1..100_u32, 3),
        cost in 100..400_u64,
    ) {
        let mut order = order(100, None, &before);
        for class in 0..3 {
            for _ in 0..3 {
                order.push(0, Class::at(class), 0).unwrap();
            }
        }
        let mut serve = |changes: bool, rounds: u32| {
            let mut had = [0_u64; 3];
            for round in 0..rounds {
                let (_, _, charge) = order.pop().unwrap();
                if changes && round == 0 {
                    for (index, &share) in after.iter().enumerate() {
                        let target = 10 * index as u64;
                        order.entitle(Class::at(index), Entitled { share, target });
                    }
                }
                had[charge.class.index()] += cost;
                order.push(0, charge.class, 0).unwrap();
                order.done(charge, cost);
            }
            had
        };
        serve(false, 300);
        // By then, leads by the old shares are made up for.
        serve(true, 4_000);
        let had = serve(false, 4_000);
        let (total, weights) = (had.iter().sum::<u64>(), after.iter().sum::<u32>());
        for class in 0..3 {
            let due = total as f64 * f64::from(after[class]) / f64::from(weights);
            let slack = 3.0 * (LEAD + 400) as f64 + total as f64 * 0.01;
            prop_assert!((had[class] as f64 - due).abs() <= slack, "{had:?} of {after:?}");
        }
    }

    /// Beside any amount of urgent work, other work begins after no more of it than the lead and
    /// one piece that began before.
    #[test]
    fn urgent_work_starves_nobody(cost in 1..300_u64, before in 0..200_usize) {
        let mut order = order(10_000, None, &[30, 50, 20]);
        let serve = |order: &mut Order<u32>| {
            order.push(0, Class::URGENT, 0).unwrap();
            let (_, _, charge) = order.pop().unwrap();
            order.done(charge, cost);
            charge.class
        };
        for _ in 0..before {
            serve(&mut order);
        }
        order.push(0, Class::BULK, 1).unwrap();
        let mut urgent = 0;
        while serve(&mut order) == Class::URGENT {
            urgent += cost;
            prop_assert!(urgent <= LEAD + 2 * cost, "{urgent} with {cost}");
        }
    }
}

#[test]
fn urgent_work_goes_first() {
    let mut order = order(100, None, &[30, 50, 20]);
    for work in 0..5 {
        order.push(0, Class::BULK, work).unwrap();
        order.push(0, Class::NORMAL, 10 + work).unwrap();
    }
    order.push(0, Class::URGENT, 20).unwrap();
    let classes: Vec<Class> = std::iter::from_fn(|| order.pop())
        .map(|(_, _, charge)| charge.class)
        .collect();
    assert_eq!(classes[0], Class::URGENT);
    assert_eq!(classes[1..6], [Class::NORMAL; 5]);
    assert_eq!(classes[6..], [Class::BULK; 5]);
}

/// An idle class saves up no right to hold up the others.
#[test]
fn idleness_earns_nothing() {
    let mut order = order(10_000, None, &[50, 50, 50]);
    let serve = |order: &mut Order<u32>| {
        let (_, _, charge) = order.pop().unwrap();
        order.done(charge, 100);
        charge.class
    };
    for _ in 0..1_000 {
        order.push(0, Class::NORMAL, 0).unwrap();
        serve(&mut order);
    }
    for _ in 0..100 {
        order.push(0, Class::NORMAL, 0).unwrap();
        order.push(0, Class::URGENT, 0).unwrap();
    }
    let urgent = (0..50).filter(|_| serve(&mut order) == Class::URGENT);
    assert!(urgent.count() <= 35);
}

/// Work that hung keeps its class out for a while, but not for as long as it hung.
#[test]
fn what_hung_is_not_held_against_its_class_for_long() {
    let mut order = order(100, None, &[50, 50, 50]);
    order.push(0, Class::BULK, 0).unwrap();
    let (_, _, hung) = order.pop().unwrap();
    order.done(hung, 1_000_000_000);
    order.push(0, Class::BULK, 1).unwrap();
    let mut others = 0;
    loop {
        order.push(0, Class::NORMAL, 0).unwrap();
        let (_, work, charge) = order.pop().unwrap();
        if work == 1 {
            break;
        }
        order.done(charge, 100);
        others += 100;
        assert!(others <= 6 * LEAD, "{others}");
    }
}

#[test]
fn what_is_patient_is_neither_refused_nor_given_up() {
    let limits = Limits {
        queue: 1,
        wait: Some(10),
        lead: 100,
    };
    let entitled = Entitled {
        share: 1,
        target: 1,
    };
    let classes = Class::NORMAL.index() + 1;
    let mut order = Order::new(limits, std::iter::repeat_n(entitled, classes));
    order.push_anyway(0, Class::NORMAL, "patient");
    assert_eq!(order.push(0, Class::NORMAL, "refused"), Err("refused"));
    assert_eq!(order.next_expiry(), None);
    assert_eq!(order.pop().map(|(_, work, _)| work), Some("patient"));

    assert_eq!(order.push(1, Class::NORMAL, "given up"), Ok(()));
    order.push_anyway(2, Class::NORMAL, "patient");
    order.push_anyway(3, Class::NORMAL, "behind");
    assert_eq!(order.next_expiry(), Some(11));
    assert_eq!(order.take_expired(100), [(1, "given up")]);
    assert_eq!((order.len(), order.next_expiry()), (2, None));
    assert_eq!(order.take_all(), ["patient", "behind"]);
}
