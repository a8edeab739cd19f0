//! Producers that repeat their batches: each record is stored once, in its order, whatever happens.

use std::collections::HashMap;

use crate::support::memory::{Faults, MemoryDisk};
use crate::support::{Random, all, rounds, run, small};
use evenkeel::task::JoinSet;
use proptest::prelude::*;
use txlog::log::{
    Batch, Log, LogConfig, LogError, ROSTER_NAMES, Refusal, Stored, backup, repair, restore,
};
use txlog_client::frame::{Batched, Produced};

/// So many producers are known, so that some are forgotten.
const PRODUCERS_MAX: usize = 3;

fn config() -> LogConfig {
    LogConfig {
        producers_max: PRODUCERS_MAX,
        ..small()
    }
}

async fn open(disk: &MemoryDisk) -> Log<MemoryDisk> {
    Log::open(disk.clone(), config()).await.unwrap().0
}

/// Records that name their producer and number.
fn batch(producer: u128, number: u64, count: u64) -> Batch {
    let records = (number..number + count).map(|at| format!("{producer}/{at}"));
    let produced = Some(Produced { producer, number });
    Batch::new(records.collect::<Batched>()).of(produced)
}

async fn append(log: &Log<MemoryDisk>, batch: Batch) -> Result<Stored, LogError> {
    log.submit_batch(batch).await?.await
}

/// What becomes of a batch, as the log says.
async fn outcome(log: &Log<MemoryDisk>, batch: Batch) -> Result<(u64, bool), Refusal> {
    match append(log, batch).await {
        Ok(stored) => Ok((stored.first, stored.repeated)),
        Err(LogError::Refused(refusal)) => Err(refusal),
        Err(error) => panic!("{error}"),
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// A batch of this producer, so far from its next number, of so many records.
    Batch(u128, i64, u64),
    /// A first batch of this producer, sent again, with a lowest number so far from the next one.
    Again(u128, u64),
    /// A record without a producer, between two batches.
    Append,
    /// The log is opened again, after it was closed or not.
    Open(bool),
    Maintain,
    /// All records go but for so many.
    Trim(u64),
    /// A file is damaged.
    Damage(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        10 => (0..5_u128, Just(0_i64), 1..4_u64).prop_map(|(p, at, n)| Op::Batch(p, at, n)),
        8 => (0..5_u128, -7..3_i64, 1..4_u64).prop_map(|(p, at, n)| Op::Batch(p, at, n)),
        4 => (0..5_u128, 0..40_u64).prop_map(|(p, back)| Op::Again(p, back)),
        3 => Just(Op::Append),
        2 => any::<bool>().prop_map(Op::Open),
        2 => Just(Op::Maintain),
    ]
}

fn op_with_losses() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => op(),
        1 => (0..20_u64).prop_map(Op::Trim),
        1 => (0..2_usize).prop_map(Op::Damage),
    ]
}

/// The simplest thing that does the same: all numbers that each record ever got.
#[derive(Default)]
struct Model {
    numbers: HashMap<u128, Vec<u64>>,
    /// The number of each producer's first record, also of those that were forgotten.
    firsts: HashMap<u128, u64>,
    next: u64,
}

impl Model {
    fn batch(&mut self, producer: u128, number: u64, count: u64) -> Result<(u64, bool), Refusal> {
        let Some(numbers) = self.numbers.get(&producer) else {
            if number > 0 {
                return Err(Refusal::Unknown { number });
            }
            if self.numbers.len() == PRODUCERS_MAX {
                let oldest = self
                    .numbers
                    .iter()
                    .min_by_key(|(_, numbers)| numbers.last());
                let oldest = *oldest.unwrap().0;
                self.numbers.remove(&oldest);
            }
            return Ok(self.store(producer, count));
        };
        let (next, end) = (numbers.len() as u64, number + count);
        if number == next {
            return Ok(self.store(producer, count));
        }
        if end > next {
            return Err(Refusal::Gap { number, next });
        }
        let stored = &numbers[number as usize..end as usize];
        if stored.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
            return Ok((stored[0], true));
        }
        Err(Refusal::Past { number, end, next })
    }

    fn store(&mut self, producer: u128, count: u64) -> (u64, bool) {
        let first = self.next;
        self.next += count;
        let numbers = self.numbers.entry(producer).or_default();
        if numbers.is_empty() {
            self.firsts.insert(producer, first);
        }
        numbers.extend(first..first + count);
        (first, false)
    }

    fn number(&self, producer: u128, at: i64) -> u64 {
        let next = self.numbers.get(&producer).map_or(0, Vec::len) as u64;
        next.saturating_add_signed(at)
    }
}

async fn compare(ops: Vec<Op>) {
    let disk = MemoryDisk::new(1);
    let mut log = open(&disk).await;
    let mut model = Model {
        next: 1,
        ..Model::default()
    };
    for op in ops {
        match op {
            Op::Batch(producer, at, count) => {
                let number = model.number(producer, at);
                let expected = model.batch(producer, number, count);
                let found = outcome(&log, batch(producer, number, count)).await;
                assert_eq!(found, expected, "{producer}: {count} from {number}");
            }
            Op::Again(producer, back) => {
                let not_before = model.next.saturating_sub(back).max(1);
                let again = batch(producer, 0, 1).not_before(Some(not_before));
                let found = outcome(&log, again).await;
                if !model.numbers.contains_key(&producer) {
                    let first = model.firsts.get(&producer);
                    let was_stored = first.is_some_and(|first| *first >= not_before);
                    let is_unknown = found == Err(Refusal::Unknown { number: 0 });
                    assert!(is_unknown || !was_stored, "{producer}: {found:?}");
                    if is_unknown {
                        continue;
                    }
                }
                assert_eq!(found, model.batch(producer, 0, 1), "{producer}, again");
            }
            Op::Append => {
                assert_eq!(log.append("between").await.unwrap(), model.next);
                model.next += 1;
            }
            Op::Open(closed) => {
                if closed {
                    log.close().await.unwrap();
                }
                log = open(&disk).await;
            }
            Op::Maintain => log.maintain().await.unwrap(),
            Op::Trim(kept) => {
                let before = log.next().saturating_sub(kept);
                log.trim(before).await.unwrap();
            }
            // One of the two is intact, or no record is gone.
            Op::Damage(slot) if disk.names().contains(&ROSTER_NAMES[slot].to_owned()) => {
                log.maintain().await.unwrap();
                if log.first() == 1 {
                    disk.set(ROSTER_NAMES[slot], b"damaged".to_vec());
                    log = open(&disk).await;
                }
            }
            Op::Damage(_) => {}
        }
        assert_eq!(log.next(), model.next);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn batches_are_stored_once_as_a_model_that_knows_all_does_it(
        ops in prop::collection::vec(op_with_losses(), 0..80),
    ) {
        run(compare(ops));
    }
}

#[test]
fn a_batch_that_is_repeated_while_it_is_pending_is_stored_once() {
    run(async {
        let log = open(&MemoryDisk::new(1)).await;
        let mut pending = Vec::new();
        for number in [0, 0, 2, 0, 2] {
            pending.push(log.submit_batch(batch(7, number, 2)).await.unwrap());
        }
        let mut stored = Vec::new();
        for pending in pending {
            let Stored {
                first, repeated, ..
            } = pending.await.unwrap();
            assert!(log.next() > first + 1, "it is durable when it is said so");
            stored.push((first, repeated));
        }
        let expected = [(1, false), (1, true), (3, false), (1, true), (3, true)];
        assert_eq!(stored, expected);
        assert_eq!(log.next(), 5);
    });
}

/// Not even if its own records took the number that it expects.
#[test]
fn a_repetition_is_known_before_its_condition_is_looked_at() {
    run(async {
        let log = open(&MemoryDisk::new(1)).await;
        let first = || batch(7, 0, 2).expecting(Some(1));
        assert_eq!(outcome(&log, first()).await, Ok((1, false)));
        assert_eq!(outcome(&log, first()).await, Ok((1, true)));
        let refused = batch(7, 2, 1).expecting(Some(1));
        let (expected, next) = (1, 3);
        let refusal = Refusal::NotExpected { expected, next };
        assert_eq!(outcome(&log, refused).await, Err(refusal));
        // What was refused was not counted.
        assert_eq!(outcome(&log, batch(7, 2, 1)).await, Ok((3, false)));
    });
}

#[test]
fn the_producer_is_forgotten_that_stored_nothing_for_the_longest_time() {
    run(async {
        let disk = MemoryDisk::new(1);
        let mut log = open(&disk).await;
        for producer in [1, 2, 3] {
            outcome(&log, batch(producer, 0, 1)).await.unwrap();
        }
        outcome(&log, batch(1, 1, 1)).await.unwrap();
        // A repetition stores nothing.
        outcome(&log, batch(2, 0, 1)).await.unwrap();
        outcome(&log, batch(4, 0, 1)).await.unwrap();
        for opened in 0..2 {
            let number = 1;
            let unknown = Err(Refusal::Unknown { number });
            assert_eq!(outcome(&log, batch(2, 1, 1)).await, unknown, "{opened}");
            for known in [1, 3, 4] {
                assert!(outcome(&log, batch(known, 0, 1)).await.unwrap().1);
            }
            log = open(&disk).await;
        }
    });
}

/// A first batch begins with 0 whether its producer is new or was forgotten.
#[test]
fn a_first_batch_is_stored_again_only_if_it_surely_is_not_there() {
    run(async {
        let disk = MemoryDisk::new(1);
        let mut log = open(&disk).await;
        let again = |producer, not_before| batch(producer, 0, 1).not_before(Some(not_before));
        // None was forgotten yet.
        assert_eq!(outcome(&log, again(1, 1)).await, Ok((1, false)));
        assert_eq!(outcome(&log, again(1, 1)).await, Ok((1, true)));
        for producer in [2, 3, 4, 5] {
            outcome(&log, batch(producer, 0, 1)).await.unwrap();
        }
        while disk.segments().len() < 3 {
            log.append("between").await.unwrap();
        }
        let unknown = Err(Refusal::Unknown { number: 0 });
        for _ in 0..3 {
            assert_eq!(outcome(&log, again(1, 1)).await, unknown);
            assert_eq!(outcome(&log, again(2, 2)).await, unknown);
            log.maintain().await.unwrap();
            log.close().await.unwrap();
            log = open(&disk).await;
        }
        assert!(disk.names().contains(&ROSTER_NAMES[0].to_owned()));
        let next = log.next();
        assert_eq!(outcome(&log, again(6, 3)).await, Ok((next, false)));
        assert_eq!(outcome(&log, again(7, 3)).await, unknown, "3 was forgotten");
        // Whoever does not say that it is sent again is new.
        assert_eq!(outcome(&log, batch(1, 0, 1)).await, Ok((next + 1, false)));
    });
}

/// What a damaged log has lost of producers may be anything.
#[test]
fn a_first_batch_is_not_stored_again_after_what_was_known_is_lost() {
    run(async {
        let disk = MemoryDisk::new(1);
        let log = open(&disk).await;
        outcome(&log, batch(1, 0, 1)).await.unwrap();
        while disk.segments().len() < 4 {
            log.append("between").await.unwrap();
        }
        let before = log.first();
        log.maintain().await.unwrap();
        log.trim(log.next()).await.unwrap();
        assert!(log.first() > before);
        log.close().await.unwrap();
        for name in ROSTER_NAMES {
            if disk.names().contains(&name.to_owned()) {
                disk.set(name, b"damaged".to_vec());
            }
        }
        let log = open(&disk).await;
        let again = batch(1, 0, 1).not_before(Some(1));
        let unknown = Err(Refusal::Unknown { number: 0 });
        assert_eq!(outcome(&log, again).await, unknown);
    });
}

/// Where the rows of a producer are is known for the last ones.
#[test]
fn a_repetition_from_too_long_ago_is_refused_and_not_stored() {
    run(async {
        let log = open(&MemoryDisk::new(1)).await;
        let rows = txlog::log::producers::ROWS_MAX as u64;
        for number in 0..=rows {
            outcome(&log, batch(7, number, 1)).await.unwrap();
            log.append("between").await.unwrap();
        }
        assert_eq!(outcome(&log, batch(7, 1, 1)).await, Ok((3, true)));
        let past = Refusal::Past {
            number: 0,
            end: 1,
            next: rows + 1,
        };
        assert_eq!(outcome(&log, batch(7, 0, 1)).await, Err(past));
    });
}

/// Appends its batches in order, several at a time, from the first that it does not know to be
/// stored. Returns that.
async fn produce(log: Log<MemoryDisk>, producer: u128, mut known: u64, mut random: Random) -> u64 {
    while known < 60 {
        let mut pending = Vec::new();
        for at in 0..1 + random.below(4) {
            // Always in the same batches, of two records.
            let Ok(submitted) = log.submit_batch(batch(producer, known + 2 * at, 2)).await else {
                return known;
            };
            pending.push(submitted);
        }
        for pending in pending {
            match pending.await {
                Ok(_) => known += 2,
                Err(LogError::Refused(refusal)) => panic!("{refusal}"),
                Err(_) => return known,
            }
        }
    }
    known
}

#[test]
fn producers_that_repeat_after_crashes_lose_nothing_and_store_nothing_twice() {
    let mut lives = 0;
    for seed in 0..rounds("TXLOG_CRASH_SEEDS", 60) {
        run(async {
            let mut random = Random::new(seed);
            let mut disk = MemoryDisk::new(seed);
            let mut known = [0; PRODUCERS_MAX];
            while known.iter().any(|&known| known < 60) {
                lives += 1;
                let log = open(&disk).await;
                disk.set_faults(Faults {
                    room: Some(500 + random.below(6_000)),
                    ..Faults::default()
                });
                let mut tasks = JoinSet::new();
                for (producer, known) in known.into_iter().enumerate() {
                    let random = Random::new(random.below(u64::MAX));
                    let log = log.clone();
                    tasks.spawn(async move {
                        (
                            producer,
                            produce(log, producer as u128, known, random).await,
                        )
                    });
                }
                while let Some(task) = tasks.join_next().await {
                    let (producer, now) = task.unwrap();
                    known[producer] = now;
                    // What is known of producers may be written at any time.
                    let _ = log.maintain().await;
                }
                if random.below(3) > 0 {
                    disk.crash();
                }
                disk.set_faults(Faults::default());
                let _ = log.close().await;
            }
            let mut next = [0; PRODUCERS_MAX];
            for record in all(&open(&disk).await).await {
                let text = String::from_utf8(record.payload.to_vec()).unwrap();
                let (producer, number) = text.split_once('/').unwrap();
                let next = &mut next[producer.parse::<usize>().unwrap()];
                assert_eq!(number, next.to_string(), "once, and in order");
                *next += 1;
            }
            assert!(next.iter().all(|&next| next >= 60), "{next:?}");
        });
    }
    assert!(lives > 120, "{lives} lives");
}

/// What a copy and a repaired log know of producers is what their records say.
#[test]
fn copies_know_the_producers_and_a_repaired_log_those_of_its_records() {
    run(async {
        let disk = MemoryDisk::new(1);
        let log = open(&disk).await;
        for number in 0..40 {
            outcome(&log, batch(7, number, 1)).await.unwrap();
            log.maintain().await.unwrap();
        }
        // Producer 8 is only in records that go.
        outcome(&log, batch(8, 0, 1)).await.unwrap();
        for number in 40..60 {
            outcome(&log, batch(7, number, 1)).await.unwrap();
        }
        log.trim(55).await.unwrap();
        log.close().await.unwrap();
        assert!(log.first() > 42);
        let (saved, restored) = (MemoryDisk::new(2), MemoryDisk::new(3));
        backup(&disk, &saved, None).await.unwrap();
        restore(&saved, &restored).await.unwrap();
        let copy = open(&restored).await;
        assert_eq!(outcome(&copy, batch(8, 0, 1)).await, Ok((41, true)));
        assert_eq!(outcome(&copy, batch(7, 59, 1)).await, Ok((61, true)));
        // The last segment is damaged, after it had been covered.
        let log = open(&disk).await;
        log.maintain().await.unwrap();
        log.close().await.unwrap();
        let name = disk.segments().pop().unwrap();
        let mut bytes = disk.get(&name);
        let at = bytes
            .windows(4)
            .rposition(|found| found == b"7/59")
            .unwrap();
        bytes[at] ^= 1;
        disk.set(&name, bytes);
        assert_eq!(repair(&disk).await.unwrap().unwrap().next, 61);
        let log = open(&disk).await;
        // Another's record gets its number. It is stored again, and not taken for the lost one.
        assert_eq!(outcome(&log, batch(9, 0, 1)).await, Ok((61, false)));
        assert_eq!(outcome(&log, batch(7, 59, 1)).await, Ok((62, false)));
        assert_eq!(log.append("again").await.unwrap(), 63);
        let log = open(&disk).await;
        assert_eq!(outcome(&log, batch(9, 0, 1)).await, Ok((61, true)));
        assert_eq!(outcome(&log, batch(7, 59, 1)).await, Ok((62, true)));
        assert_eq!(outcome(&log, batch(7, 60, 1)).await, Ok((64, false)));
    });
}
