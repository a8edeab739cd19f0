//! Properties of the shares in virtual time: one worker with its ledger. Times are microseconds,
//! but the core is given nanoseconds: of a coarse unit, small shares earn nothing between two
//! exchanges.

use proptest::prelude::*;

use super::*;
use crate::sched::ledger::{Ledger, Published};

/// Nanoseconds in a microsecond.
const UNIT: u64 = 1_000;
const CREDIT: u64 = 100;
const LEAD_MAX: u64 = 250_000;

const LIMITS: Limits = Limits {
    credit: CREDIT * UNIT,
    lead_max: LEAD_MAX * UNIT,
    lag_max: 100_000 * UNIT,
    lend: 100 * UNIT,
    workers: 1,
};

/// How much is spent between two exchanges.
const EXCHANGE: u64 = 100;

/// One worker in virtual time, with work of some classes at all times.
struct World {
    ledger: Ledger,
    shares: Shares,
    published: Published,
    now: u64,
    got: Vec<u64>,
    /// When each class was last served.
    served: Vec<u64>,
}

impl World {
    fn new(terms: &[Term]) -> Self {
        let ledger = Ledger::new(LIMITS, terms);
        let shares = ledger.view();
        let mut world = Self {
            ledger,
            shares,
            published: Published::default(),
            now: 0,
            got: vec![0; terms.len()],
            served: vec![0; terms.len()],
        };
        (0..terms.len()).for_each(|index| world.shares.wake(Class::at(index)));
        world
    }

    fn exchange(&mut self) {
        self.ledger.exchange(&mut self.shares, &mut self.published);
    }

    /// Polls once, of whatever class's turn it is.
    fn poll(&mut self, length: u64) -> Class {
        let Some(Turn::Here(class)) = self.shares.first() else {
            panic!("there is work here");
        };
        self.now += length;
        self.got[class.index()] += length;
        self.served[class.index()] = self.now;
        if self.shares.charge(class, length * UNIT) >= EXCHANGE * UNIT {
            self.exchange();
        }
        class
    }
}

fn terms(shares: &[u32], target: u64) -> Vec<Term> {
    let target = target * UNIT;
    let term = |&share: &u32| Term { share, target };
    shares.iter().map(term).collect()
}

fn weights() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(1_u32..=100, 2..=CLASSES_MAX)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Classes with work at all times have, at every moment, got their shares of the time, but for
    /// their latency targets, the polls and the exchange.
    #[test]
    fn backlogged_classes_get_their_shares(
        weights in weights(),
        lengths in prop::collection::vec(1_u64..=1_000, 2_000),
    ) {
        let target = 2_000;
        let mut world = World::new(&terms(&weights, target));
        let sum: u64 = weights.iter().map(|&share| u64::from(share)).sum();
        for length in lengths {
            world.poll(length);
            for (&got, &share) in world.got.iter().zip(&weights) {
                let due = world.now * u64::from(share) / sum;
                let bound = (target + 1_000 + EXCHANGE) * weights.len() as u64;
                prop_assert!(got.abs_diff(due) <= bound, "{got} instead of {due}");
            }
        }
    }

    /// A class that slept gets no more than its credit ahead of one that worked meanwhile.
    #[test]
    fn sleep_saves_nothing_up(busy in 1_000_u64..10_000_000) {
        let mut world = World::new(&terms(&[1, 1], 0));
        world.shares.rest(Class::at(1));
        world.exchange();
        world.exchange();
        while world.now < busy {
            world.poll(1_000);
        }
        world.shares.wake(Class::at(1));
        let before = world.got.clone();
        for _ in 0..2_000 {
            world.poll(10);
        }
        let ahead = (world.got[1] - before[1]).saturating_sub(world.got[0] - before[0]);
        prop_assert!(ahead <= 2 * CREDIT + 20, "{ahead}");
    }

    /// However little its share, a class with work is served within the time that one may be ahead.
    #[test]
    fn nobody_starves(share in 1_u32..=10, length in 100_u64..=1_000) {
        let mut world = World::new(&terms(&[share, 10_000], 2_000));
        // A quarter more: the class is not owed more than others in the very moment at which it has
        // earned again what it got too much.
        let bound = LEAD_MAX * 5 / 4;
        while world.now < 1_000_000 {
            world.poll(length);
            prop_assert!(world.now - world.served[0] <= bound, "{}", world.now - world.served[0]);
        }
    }

    /// A class with the nearest target that keeps within its share goes first when it wakes.
    #[test]
    fn what_is_urgent_goes_first(length in 1_u64..=1_000, pause in 20_u64..200) {
        let mut all = terms(&[30, 50, 20], 20_000);
        all[0].target = 100 * UNIT;
        let mut world = World::new(&all);
        for _ in 0..50 {
            world.shares.rest(Class::at(0));
            for _ in 0..pause {
                world.poll(length);
            }
            world.shares.wake(Class::at(0));
            prop_assert_eq!(world.poll(1), Class::at(0));
        }
    }

    /// Shares that change count from then on.
    #[test]
    fn changes_are_live(before in 1_u32..=100, after in 1_u32..=100) {
        let mut world = World::new(&terms(&[before, 50], 2_000));
        while world.now < 1_000_000 {
            world.poll(200);
        }
        world.ledger.set(Class::at(0), Term { share: after, target: 2_000 * UNIT });
        world.exchange();
        let (then, got) = (world.now, world.got[0]);
        while world.now < then + 1_000_000 {
            world.poll(200);
        }
        let due = (world.now - then) * u64::from(after) / u64::from(after + 50);
        prop_assert!((world.got[0] - got).abs_diff(due) <= 10_000);
    }
}

#[test]
fn what_never_lay_in_a_line_is_charged() {
    let mut world = World::new(&terms(&[1, 1, 1], 1_000));
    let slot = Class::at(2);
    world.shares.rest(slot);
    // Once for what had work before, and once for what has.
    world.exchange();
    world.exchange();
    world.shares.charge(slot, 900 * UNIT);
    world.exchange();
    let owed = world.ledger.read().owed;
    let behind = owed[0].abs_diff(owed[slot.index()]);
    assert!(behind.abs_diff(900 * UNIT) <= UNIT, "{owed:?}");
}

#[test]
fn a_resting_class_is_not_chosen() {
    let mut shares = World::new(&terms(&[1, 1], 0)).shares;
    shares.rest(Class::at(0));
    assert_eq!(shares.first(), Some(Turn::Here(Class::at(1))));
    shares.rest(Class::at(1));
    assert_eq!(shares.first(), None);
}

#[test]
fn the_lane_gets_a_turn_when_its_class_is_owed_time() {
    let mut world = World::new(&terms(&[1, 1], 1_000));
    let lane = Class::at(1);
    world.shares.rest(lane);
    let mut of_lane = Published::default();
    world.ledger.publish(&mut of_lane, lane.bit());
    world.ledger.set_lane(lane.bit());
    world.exchange();
    assert_eq!(world.poll(1_000), Class::at(0));
    assert_eq!(world.shares.first(), Some(Turn::Lane(lane)));
    // What the lane uses is charged, and then it is the other's turn again.
    let mut spent = [0; CLASSES_MAX];
    spent[lane.index()] = 2_000 * UNIT;
    world.ledger.charge(&spent);
    world.exchange();
    assert_eq!(world.shares.first(), Some(Turn::Here(Class::at(0))));
}
