//! Properties of the wheel, each checked against an ordered map.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{FIRING, Key, List, NIL, Wheel};

/// 12 days in milliseconds, near which the last of six levels gets its first nonzero digit.
const TWELVE_DAYS_MS: u64 = 12 * 24 * 60 * 60 * 1000;

/// How far a run of operations that does not jump to the end of time may get from its start.
const REACH: u64 = 1 << 40;

#[derive(Clone, Debug)]
enum Op {
    /// Insert with a deadline this many ticks after the present.
    Insert(u64),
    /// Insert with a deadline this many ticks before the present, or at tick 0.
    InsertLate(u64),
    /// Cancel the entry with this index, modulo their number, if it was; it may be gone already.
    Cancel(usize),
    /// Look at an entry through its key.
    Look(usize),
    /// Let this many ticks pass.
    Advance(u64),
    /// Let this many ticks pass, but give the wheel only so many steps for it.
    AdvanceWithin(u64, usize),
    /// Advance to what `next_deadline` says.
    AdvanceToNext,
    /// Advance to a tick before the present, which must change nothing.
    Regress(u64),
}

/// The oracle: entries ordered by tick, then by insertion.
#[derive(Clone, Default)]
struct Oracle {
    present: u64,
    inserted: usize,
    waiting: BTreeSet<(u64, usize)>,
    tick_of: Vec<u64>,
}

impl Oracle {
    fn insert(&mut self, deadline: u64) -> usize {
        let id = self.inserted;
        self.inserted += 1;
        let tick = deadline.max(self.present);
        self.waiting.insert((tick, id));
        self.tick_of.push(tick);
        id
    }

    fn cancel(&mut self, id: usize) -> bool {
        self.waiting.remove(&(self.tick_of[id], id))
    }

    fn holds(&self, id: usize) -> bool {
        self.waiting.contains(&(self.tick_of[id], id))
    }

    fn advance(&mut self, now: u64) -> Vec<usize> {
        self.present = self.present.max(now);
        let mut fired = Vec::new();
        while self.earliest().is_some_and(|tick| tick <= self.present) {
            fired.extend(self.waiting.pop_first().map(|(_, id)| id));
        }
        fired
    }

    /// Fires the first `count` entries that are due at `now`; the present stops at `stopped`.
    fn advance_partly(&mut self, now: u64, stopped: u64, count: usize) -> Vec<usize> {
        let mut fired = Vec::new();
        while fired.len() < count && self.earliest().is_some_and(|tick| tick <= now) {
            fired.extend(self.waiting.pop_first().map(|(_, id)| id));
        }
        assert!((self.present..=now).contains(&stopped), "time ran away");
        assert!(
            self.earliest().is_none_or(|tick| tick >= stopped),
            "the present passed an entry by"
        );
        self.present = stopped;
        fired
    }

    fn earliest(&self) -> Option<u64> {
        self.waiting.first().map(|&(tick, _)| tick)
    }
}

/// A wheel and its oracle, which must agree after each step.
#[derive(Clone)]
struct Pair<const BITS: u32> {
    wheel: Wheel<usize, BITS>,
    oracle: Oracle,
    keys: Vec<Key>,
    /// The fired entries, with the present at that time, to compare runs.
    trace: Vec<(u64, usize)>,
    start: u64,
}

impl<const BITS: u32> Pair<BITS> {
    fn new(start: u64) -> Self {
        Self {
            wheel: Wheel::starting_at(start),
            oracle: Oracle {
                present: start,
                ..Oracle::default()
            },
            keys: Vec::new(),
            trace: Vec::new(),
            start,
        }
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Insert(delta) => self.insert(self.oracle.present.saturating_add(delta)),
            Op::InsertLate(delta) => self.insert(self.oracle.present.saturating_sub(delta)),
            Op::Cancel(index) if !self.keys.is_empty() => {
                let id = index % self.keys.len();
                let cancelled = self.wheel.cancel(self.keys[id]);
                assert_eq!(cancelled, self.oracle.cancel(id).then_some(id));
                assert_eq!(self.wheel.cancel(self.keys[id]), None, "cancelled twice");
            }
            Op::Look(index) if !self.keys.is_empty() => {
                let id = index % self.keys.len();
                let seen = self.wheel.get_mut(self.keys[id]).copied();
                assert_eq!(seen, self.oracle.holds(id).then_some(id));
            }
            Op::Cancel(_) | Op::Look(_) => {}
            Op::Advance(delta) => self.advance(self.oracle.present.saturating_add(delta)),
            Op::AdvanceWithin(delta, limit) => {
                self.advance_within(self.oracle.present.saturating_add(delta), limit);
            }
            Op::AdvanceToNext => {
                if let Some(tick) = self.wheel.next_deadline() {
                    self.advance(tick);
                }
            }
            Op::Regress(delta) => self.advance(self.oracle.present.saturating_sub(delta)),
        }
        self.check();
    }

    fn insert(&mut self, deadline: u64) {
        let id = self.oracle.insert(deadline);
        self.keys.push(self.wheel.insert(deadline, id));
    }

    fn advance(&mut self, now: u64) {
        let mut fired = Vec::new();
        assert!(
            self.wheel
                .advance(now, usize::MAX, &mut |id| fired.push(id))
        );
        assert_eq!(
            fired,
            self.oracle.advance(now),
            "at {now}, started at {}",
            self.start
        );
        let present = self.oracle.present - self.start;
        self.trace.extend(fired.iter().map(|&id| (present, id)));
    }

    /// A call whose steps may not suffice does the first part of what a whole one would.
    fn advance_within(&mut self, now: u64, limit: usize) {
        let mut fired = Vec::new();
        let done = self.wheel.advance(now, limit, &mut |id| fired.push(id));
        assert!(
            fired.len() <= limit.max(1).div_ceil(FIRING),
            "beyond the limit"
        );
        let expected = if done {
            self.oracle.advance(now)
        } else {
            let stopped = self.wheel.elapsed;
            let next = self.wheel.next_deadline();
            assert!(
                next.is_some_and(|tick| tick <= now),
                "the rest is forgotten"
            );
            self.oracle.advance_partly(now, stopped, fired.len())
        };
        assert_eq!(fired, expected, "at {now}, started at {}", self.start);
    }

    fn check(&self) {
        check_structure(&self.wheel);
        assert_eq!(self.wheel.len(), self.oracle.waiting.len());
        match (self.wheel.next_deadline(), self.oracle.earliest()) {
            (Some(next), Some(earliest)) => assert!(next <= earliest, "{next} > {earliest}"),
            (next, earliest) => assert_eq!(next, earliest),
        }
    }

    /// Goes from one next deadline to the next until nothing is left.
    fn finish(&mut self) {
        let mut without_effect = 0;
        while let Some(next) = self.wheel.next_deadline() {
            let len = self.wheel.len();
            self.advance(next);
            self.check();
            if self.wheel.len() == len {
                without_effect += 1;
                let later = self.wheel.next_deadline().expect("entries remain");
                assert!(later > next, "no progress from {next}");
            } else {
                without_effect = 0;
            }
            assert!(
                without_effect < u64::BITS.div_ceil(BITS),
                "slow progress at {next}"
            );
        }
        assert!(self.oracle.waiting.is_empty());
    }
}

/// Checks the wheel's own invariants, entry by entry.
fn check_structure<T, const BITS: u32>(wheel: &Wheel<T, BITS>) {
    let mut seen = 0;
    for (
        list,
        &List {
            head,
            tail,
            earliest,
        },
    ) in wheel.lists.iter().enumerate()
    {
        let slots = Wheel::<T, BITS>::SLOTS;
        let is_open = list == wheel.open as usize;
        assert!(!is_open || head != NIL, "an open slot has entries");
        if list != Wheel::<T, BITS>::DUE {
            let bit = wheel.occupied_slots[list / slots] >> (list % slots) & 1;
            assert_eq!(
                bit == 1,
                head != NIL && !is_open,
                "the bitmap tells which slots to come have entries"
            );
        }
        assert_eq!(head == NIL, tail == NIL);
        let (mut index, mut prev) = (head, NIL);
        while index != NIL {
            let entry = &wheel.entries[index as usize];
            assert_eq!((entry.prev, entry.list as usize), (prev, list));
            let proper = if is_open {
                wheel.place(entry.deadline)
            } else {
                wheel.place_when_closed(entry.deadline)
            };
            assert_eq!(list, proper, "filed by its highest differing digit");
            assert!(earliest <= entry.deadline);
            seen += 1;
            (prev, index) = (index, entry.next);
        }
        assert_eq!(prev, tail);
    }
    assert_eq!(
        seen,
        wheel.entries.len(),
        "each entry is in exactly one list"
    );
    for (level, &slots) in wheel.occupied_slots.iter().enumerate() {
        assert_eq!(wheel.occupied_levels >> level & 1 == 1, slots != 0);
    }
}

/// The starts on which nothing may depend.
fn starts() -> Vec<u64> {
    let mut starts = vec![0, 1, TWELVE_DAYS_MS - 1, TWELVE_DAYS_MS, TWELVE_DAYS_MS + 1];
    for level in 1..=10 {
        let unit = 64_u64.pow(level);
        starts.extend([unit - 1, unit, unit + 1]);
    }
    starts.extend([1 << 63, (1 << 63) - 1, u64::MAX - REACH]);
    starts.retain(|start| *start <= u64::MAX - REACH);
    starts
}

/// Delays of every magnitude, and most often of those that cross one or two levels.
fn delta() -> impl Strategy<Value = u64> {
    prop_oneof![
        3 => 0_u64..4,
        3 => 0_u64..70,
        4 => 0_u64..5_000,
        2 => 0_u64..400_000,
        1 => (0_u32..34).prop_map(|bits| 1 << bits),
        1 => (1_u32..34).prop_map(|bits| (1 << bits) - 1),
    ]
}

fn op(delta: impl Strategy<Value = u64> + Clone + 'static) -> impl Strategy<Value = Op> {
    let part = (delta.clone(), 0_usize..20);
    prop_oneof![
        3 => part.prop_map(|(delta, limit)| Op::AdvanceWithin(delta, limit)),
        8 => delta.clone().prop_map(Op::Insert),
        1 => (0_u64..100).prop_map(Op::InsertLate),
        4 => any::<usize>().prop_map(Op::Cancel),
        1 => any::<usize>().prop_map(Op::Look),
        3 => delta.prop_map(Op::Advance),
        3 => Just(Op::AdvanceToNext),
        1 => (0_u64..100).prop_map(Op::Regress),
    ]
}

/// `PROPTEST_CASES`, if set, wins: long runs use the same properties.
fn cases(default: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(default),
    }
}

/// A delta that stays below `REACH` over a whole run of operations.
fn near_delta() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![delta(), 0_u64..(REACH / 1024)].boxed()
}

/// A delta of any size, up to the end of `u64` and, saturating, beyond.
fn any_delta() -> impl Strategy<Value = u64> + Clone {
    prop_oneof![
        4 => delta(),
        1 => any::<u64>(),
        1 => (0_u32..64).prop_map(|bits| 1 << bits),
        1 => Just(u64::MAX),
    ]
    .boxed()
}

proptest! {
    #![proptest_config(cases(400))]

    /// Entries fire at the times and in the order of the ordered map. Each fires at most once, and
    /// a cancelled one never. The next deadline always leads to the next firing.
    #[test]
    fn agrees_with_an_ordered_map(
        start in proptest::sample::select(starts()),
        ops in vec(op(near_delta()), 1..200),
    ) {
        let mut pair = Pair::<6>::new(start);
        ops.iter().for_each(|op| pair.apply(op));
        pair.finish();
    }

    /// The same where deadlines and jumps reach the end of time.
    #[test]
    fn agrees_with_an_ordered_map_up_to_the_end_of_time(
        start in any_delta(),
        ops in vec(op(any_delta()), 1..100),
    ) {
        let mut pair = Pair::<6>::new(start);
        ops.iter().for_each(|op| pair.apply(op));
        pair.finish();
    }

    /// The same with levels so small that each operation crosses several.
    #[test]
    fn agrees_with_an_ordered_map_on_small_levels(
        start in any_delta(),
        ops in vec(op(any_delta()), 1..100),
    ) {
        let mut pair = Pair::<1>::new(start);
        ops.iter().for_each(|op| pair.apply(op));
        pair.finish();
    }
}

proptest! {
    #![proptest_config(cases(40))]

    /// The same operations have the same effect at every uptime: the same entries fire at the same
    /// ticks after the start, in the same order.
    #[test]
    fn uptime_changes_nothing(ops in vec(op(near_delta()), 1..100)) {
        let mut expected = None;
        for start in starts() {
            let mut pair = Pair::<6>::new(start);
            for op in &ops {
                match op {
                    // Where `next_deadline` is a lower bound, it depends on where the borders of
                    // the slots lie, so all runs go to the earliest deadline itself instead.
                    Op::AdvanceToNext => {
                        let earliest = pair.oracle.earliest();
                        earliest.into_iter().for_each(|tick| pair.advance(tick));
                    }
                    // So does how far a number of steps leads.
                    Op::AdvanceWithin(delta, _) => pair.apply(&Op::Advance(*delta)),
                    op => pair.apply(op),
                }
            }
            pair.check();
            pair.finish();
            prop_assert_eq!(expected.get_or_insert_with(|| pair.trace.clone()), &pair.trace);
        }
    }
}

/// Every sequence of operations up to a length, in a world of four slots a level.
#[test]
fn every_short_sequence_agrees_with_an_ordered_map() {
    const OPS: [Op; 9] = [
        Op::Insert(0),
        Op::Insert(1),
        Op::Insert(5),
        Op::Insert(16),
        Op::Cancel(0),
        Op::Cancel(usize::MAX),
        Op::Advance(4),
        Op::AdvanceWithin(16, 1),
        Op::AdvanceToNext,
    ];

    fn explore(pair: &Pair<2>, depth: usize, sequences: &mut u64) {
        *sequences += 1;
        pair.clone().finish();
        if depth == 0 {
            return;
        }
        for op in &OPS {
            let mut next = pair.clone();
            next.apply(op);
            explore(&next, depth - 1, sequences);
        }
    }

    let mut sequences = 0;
    for (start, length) in [(0, 5), (3, 4), (14, 4), (63, 4), (u64::MAX - 17, 4)] {
        explore(&Pair::new(start), length, &mut sequences);
    }
    // The sum of 9^0 to 9^length for each start: a world cut short by mistake would be smaller.
    assert_eq!(sequences, 66_430 + 4 * 7_381);
}

#[test]
fn a_stale_key_finds_nothing_in_a_reused_entry() {
    let mut wheel = Wheel::<&str>::new();
    let first = wheel.insert(10, "first");
    assert_eq!(wheel.cancel(first), Some("first"));
    let second = wheel.insert(10, "second");
    assert_eq!(first.index, second.index, "the entry is reused at once");
    assert_eq!(wheel.get_mut(first), None);
    assert_eq!(wheel.cancel(first), None);
    assert_eq!(wheel.cancel(Key::STALE), None);
    assert_eq!(wheel.cancel(second), Some("second"));
}

#[test]
fn a_jump_over_all_of_time_visits_slots_and_not_ticks() {
    let mut wheel = Wheel::<u64>::new();
    for level in 0..=10 {
        wheel.insert(64_u64.pow(level), 64_u64.pow(level));
    }
    wheel.insert(u64::MAX, u64::MAX);
    let mut fired = Vec::new();
    assert!(wheel.advance(u64::MAX, usize::MAX, &mut |tick| fired.push(tick)));
    assert_eq!(fired.len(), 12);
    assert!(fired.is_sorted());
    // With the present at the end of time, whatever comes is due.
    wheel.insert(u64::MAX, 1);
    assert_eq!(wheel.next_deadline(), Some(u64::MAX));
    assert!(wheel.advance(0, usize::MAX, &mut |tick| fired.push(tick)));
    assert_eq!(fired.last(), Some(&1));
}

#[test]
fn the_next_deadline_is_exact_until_the_earliest_is_cancelled() {
    let mut wheel = Wheel::<()>::new();
    wheel.insert(5_000, ());
    let earlier = wheel.insert(4_500, ());
    assert_eq!(wheel.next_deadline(), Some(4_500));
    wheel.cancel(earlier);
    // Both were in the slot of the ticks 4096 to 8191, whose earliest deadline is not searched for.
    assert_eq!(wheel.next_deadline(), Some(4_500));
    assert!(wheel.advance(4_500, usize::MAX, &mut |()| panic!("nothing is due")));
    assert_eq!(wheel.next_deadline(), Some(5_000));
}

#[test]
fn any_number_of_entries_of_one_tick_is_fired_by_parts() {
    const ENTRIES: usize = 1_000;
    const STEPS: usize = 100;
    let mut wheel = Wheel::<usize>::new();
    // All in one slot of the second level, whence they are placed anew before they are due.
    (0..ENTRIES).for_each(|value| _ = wheel.insert(70, value));
    let mut fired = Vec::new();
    let mut calls = 0;
    loop {
        let lists = |wheel: &Wheel<usize>| -> Vec<(usize, u32)> {
            let entries = wheel.entries.iter();
            entries.map(|(index, entry)| (index, entry.list)).collect()
        };
        let (before, fired_before) = (lists(&wheel), fired.len());
        let done = wheel.advance(70, STEPS, &mut |value| fired.push(value));
        let after = lists(&wheel);
        let moved = before
            .iter()
            .filter(|entry| after.binary_search(entry).is_err())
            .count();
        assert!(moved > 0 && moved <= STEPS, "{moved} entries were touched");
        assert!(fired.len() - fired_before <= STEPS / FIRING);
        check_structure(&wheel);
        calls += 1;
        if done {
            break;
        }
        assert!(wheel.has_due() && wheel.next_deadline() <= Some(70));
    }
    assert!(!wheel.has_due());
    assert_eq!(fired, (0..ENTRIES).collect::<Vec<_>>(), "in their order");
    assert_eq!(
        calls,
        ENTRIES * (2 + FIRING) / STEPS,
        "no step is idle: each entry was placed anew twice"
    );
}

#[test]
fn insertions_while_a_slot_is_emptied_keep_their_order() {
    let mut wheel = Wheel::<&str>::new();
    for (deadline, name) in [(64, "64 a"), (70, "70 a"), (70, "70 b"), (66, "66")] {
        wheel.insert(deadline, name);
    }
    let mut fired = Vec::new();
    assert!(!wheel.advance(70, 1, &mut |name| fired.push(name)));
    // The slot from tick 64 on is open: of its entries, one has been placed.
    for (deadline, name) in [(70, "70 c"), (64, "64 b"), (3, "late"), (200, "200")] {
        wheel.insert(deadline, name);
    }
    let cancelled = wheel.insert(70, "cancelled");
    assert_eq!(wheel.cancel(cancelled), Some("cancelled"));
    check_structure(&wheel);
    while !wheel.advance(70, 1, &mut |name| fired.push(name)) {
        check_structure(&wheel);
    }
    assert_eq!(
        fired,
        ["64 a", "64 b", "late", "66", "70 a", "70 b", "70 c"]
    );
    assert_eq!(wheel.next_deadline(), Some(200));
}

#[test]
fn cancelling_the_rest_of_an_open_slot_closes_it() {
    let mut wheel = Wheel::<u32>::new();
    let keys = [70, 70, 130].map(|deadline| wheel.insert(deadline, deadline as u32));
    assert!(!wheel.advance(70, 1, &mut |_| ()));
    assert!(wheel.has_due());
    assert_eq!(wheel.cancel(keys[1]), Some(70));
    check_structure(&wheel);
    assert!(!wheel.has_due());
    assert_eq!(wheel.next_deadline(), Some(70));
    let mut fired = Vec::new();
    assert!(wheel.advance(130, usize::MAX, &mut |value| fired.push(value)));
    assert_eq!(fired, [70, 130]);
}

#[test]
fn a_panic_while_firing_loses_only_what_was_fired() {
    let mut wheel = Wheel::<u32>::new();
    (0..4).for_each(|value| _ = wheel.insert(100, value));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        wheel.advance(100, usize::MAX, &mut |value| {
            assert!(value != 1, "a waker panics on purpose")
        });
    }));
    assert!(panicked.is_err());
    check_structure(&wheel);
    let mut fired = Vec::new();
    assert!(wheel.advance(100, usize::MAX, &mut |value| fired.push(value)));
    assert_eq!(fired, [2, 3]);
}

#[test]
fn draining_empties_the_wheel_and_keeps_its_time() {
    let mut wheel = Wheel::<u64>::new();
    assert!(wheel.advance(70, usize::MAX, &mut |_| ()));
    let key = wheel.insert(50, 50);
    for deadline in [71, 5_000, u64::MAX] {
        wheel.insert(deadline, deadline);
    }
    let mut drained: Vec<u64> = wheel.drain().collect();
    drained.sort_unstable();
    assert_eq!(drained, [50, 71, 5_000, u64::MAX]);
    check_structure(&wheel);
    assert_eq!((wheel.len(), wheel.next_deadline()), (0, None));
    wheel.insert(71, 1);
    assert_eq!(wheel.cancel(key), None, "a key of a drained entry is stale");
    assert_eq!(wheel.next_deadline(), Some(71));
}

#[test]
fn a_burst_gives_its_memory_back() {
    let mut wheel = Wheel::<u32>::new();
    let keys: Vec<Key> = (0..5_000)
        .map(|value| wheel.insert(u64::from(value), value))
        .collect();
    assert!(wheel.entries.capacity() >= 5_000);
    keys.into_iter().for_each(|key| _ = wheel.cancel(key));
    assert!(wheel.entries.capacity() <= super::VACANT_ENTRIES_MAX);
}
