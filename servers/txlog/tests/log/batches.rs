//! Batches: all of their records are there or none, whatever happens, with numbers in a row.

use std::collections::BTreeMap;

use crate::support::memory::{Faults, MemoryDisk};
use crate::support::{Random, all, rounds, run, small};
use evenkeel::task::JoinSet;
use txlog::log::mark::MARK_NAME;
use txlog::log::record::{HEAD_BYTES, HEADER_BYTES};
use txlog::log::{
    Batch, Disk, Log, LogConfig, LogError, Refusal, Stored, backup, repair, restore, verify,
};
use txlog_client::frame::Batched;

const ENOSPC: i32 = 28;

/// One segment without zeros behind its records.
fn plain() -> LogConfig {
    LogConfig {
        ahead_bytes: 0,
        ..LogConfig::default()
    }
}

async fn open(disk: &MemoryDisk) -> Log<MemoryDisk> {
    Log::open(disk.clone(), plain()).await.unwrap().0
}

fn batch<R: AsRef<[u8]>>(records: impl IntoIterator<Item = R>) -> Batch {
    Batch::new(records.into_iter().collect::<Batched>())
}

async fn append<D: Disk>(log: &Log<D>, batch: Batch) -> Result<Stored, LogError> {
    log.submit_batch(batch).await?.await
}

async fn payloads<D: Disk>(log: &Log<D>) -> Vec<String> {
    let text = |record: txlog::log::Record| String::from_utf8(record.payload.to_vec()).unwrap();
    all(log).await.into_iter().map(text).collect()
}

/// A batch of this many records, each of which names it.
fn named(name: u64, count: u64) -> Batch {
    batch((0..count).map(|at| format!("{name}/{at}/{count}/{:.<1$}", "", (name % 70) as usize)))
}

/// Checks that each batch is there whole, in a row and once. Returns their names and first numbers.
async fn whole(log: &Log<MemoryDisk>) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::new();
    let mut expected: Option<(u64, u64, u64)> = None;
    for record in all(log).await {
        let text = String::from_utf8(record.payload.to_vec()).unwrap();
        let mut words = text.split('/').map(|word| word.parse::<u64>());
        let mut word = || words.next().unwrap().unwrap();
        let (name, at, count) = (word(), word(), word());
        match expected {
            None => {
                assert_eq!(at, 0, "a batch begins with its first record");
                let before = found.insert(name, record.sequence);
                assert_eq!(before, None, "batch {name} is there twice");
            }
            Some(expected) => assert_eq!((name, at, count), expected),
        }
        expected = (at + 1 < count).then_some((name, at + 1, count));
    }
    assert_eq!(expected, None, "the last batch is whole");
    found
}

#[test]
fn the_records_of_a_batch_get_numbers_in_a_row_and_are_read_like_others() {
    run(async {
        let disk = MemoryDisk::new(1);
        let log = open(&disk).await;
        assert_eq!(log.append("one").await.unwrap(), 1);
        let stored = append(&log, batch(["two", "", "four"])).await.unwrap();
        let expected = Stored {
            first: 2,
            count: 3,
            repeated: false,
        };
        assert_eq!(stored, expected);
        assert_eq!(log.append("five").await.unwrap(), 5);
        let records = ["one", "two", "", "four", "five"];
        assert_eq!(payloads(&log).await, records);
        let from = log
            .read(3, txlog::log::ReadLimits::default())
            .await
            .unwrap();
        assert_eq!(from[0].sequence, 3);
        log.close().await.unwrap();
        let log = open(&disk).await;
        assert_eq!(payloads(&log).await, records);
        let mut counted = 0;
        let report = verify(&disk, |_, _, count| counted += count).await.unwrap();
        assert_eq!((report.next, counted), (6, 5));
    });
}

#[test]
fn a_log_cut_at_every_byte_has_whole_batches_only_and_takes_more() {
    run(async {
        let disk = MemoryDisk::new(7);
        let log = open(&disk).await;
        // Ended as if killed: the mark is of the beginning.
        append(&log, batch(["one", "two"])).await.unwrap();
        append(&log, batch(["three", "four", "five"]))
            .await
            .unwrap();
        let mark = disk.get(MARK_NAME);
        let name = disk.segments().remove(0);
        let bytes = disk.get(&name);
        let first_end = HEAD_BYTES + 2 * HEADER_BYTES + "onetwo".len();
        let second_end = first_end + 3 * HEADER_BYTES + "threefourfive".len();
        assert_eq!(bytes.len(), second_end);
        for cut in HEAD_BYTES..=bytes.len() {
            let disk = MemoryDisk::new(cut as u64);
            disk.set(&name, bytes[..cut].to_vec());
            disk.set(MARK_NAME, mark.clone());
            let (log, recovery) = Log::open(disk.clone(), plain()).await.unwrap();
            let kept = match cut {
                _ if cut < first_end => 0,
                _ if cut < second_end => 2,
                _ => 5,
            };
            assert_eq!(log.next(), kept + 1, "cut at {cut}");
            if let Some(torn) = recovery.torn {
                let end = [HEAD_BYTES, first_end, second_end];
                let end = end.into_iter().filter(|end| *end <= cut).max().unwrap();
                assert_eq!((torn.offset, torn.bytes), (end as u64, (cut - end) as u64));
            }
            // The places of records that went are used again, by a batch of another size.
            let stored = append(&log, batch(["more", "and", "more", "again"]))
                .await
                .unwrap();
            assert_eq!(stored.first, kept + 1);
            log.close().await.unwrap();
            let log = open(&disk).await;
            assert_eq!(log.next(), kept + 5);
            let last = payloads(&log).await.split_off(kept as usize);
            assert_eq!(last, ["more", "and", "more", "again"]);
        }
    });
}

#[test]
fn damage_anywhere_in_the_last_batch_takes_all_of_it_and_no_other() {
    run(async {
        let disk = MemoryDisk::new(7);
        let log = open(&disk).await;
        append(&log, batch(["one", "two"])).await.unwrap();
        append(&log, batch(["three", "four"])).await.unwrap();
        let mark = disk.get(MARK_NAME);
        let name = disk.segments().remove(0);
        let bytes = disk.get(&name);
        let begin = HEAD_BYTES + 2 * HEADER_BYTES + "onetwo".len();
        for bit in begin * 8..bytes.len() * 8 {
            let disk = MemoryDisk::new(1);
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            disk.set(&name, flipped);
            disk.set(MARK_NAME, mark.clone());
            let log = open(&disk).await;
            assert_eq!(payloads(&log).await, ["one", "two"], "bit {bit}");
        }
        // Behind the first batch there is another: it had been durable.
        for bit in HEAD_BYTES * 8..begin * 8 {
            let disk = MemoryDisk::new(1);
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            disk.set(&name, flipped);
            disk.set(MARK_NAME, mark.clone());
            let opened = Log::open(disk.clone(), plain()).await;
            assert!(matches!(opened, Err(LogError::Corrupt { .. })), "bit {bit}");
        }
    });
}

/// The device is full after each number of bytes, within the write of two batches.
#[test]
fn a_write_that_ends_at_any_byte_leaves_whole_batches_only() {
    let mut kept = [0; 3];
    for room in 0..700 {
        run(async {
            let mut disk = MemoryDisk::new(room);
            let log = open(&disk).await;
            append(&log, named(0, 2)).await.unwrap();
            disk.set_faults(Faults {
                room: Some(room),
                ..Faults::default()
            });
            // Mostly in one write.
            let (first, second) = (append(&log, named(1, 3)), append(&log, named(2, 4)));
            let (first, second) = tokio::join!(first, second);
            let acknowledged = [first.is_ok(), second.is_ok()];
            if room % 2 == 0 {
                disk.crash();
            } else {
                disk.set_faults(Faults::default());
            }
            drop(log);
            let log = open(&disk).await;
            let found = whole(&log).await;
            assert!(found.contains_key(&0));
            assert!(!acknowledged[0] || found.contains_key(&1));
            assert!(!acknowledged[1] || found.contains_key(&2));
            kept[found.len() - 1] += 1;
            append(&log, named(9, 2)).await.unwrap();
            whole(&log).await;
        });
    }
    assert!(kept.iter().all(|&count| count > 0), "{kept:?}");
}

/// Appends batches of these names. Returns those that were acknowledged, with their first numbers.
async fn append_named(
    log: Log<MemoryDisk>,
    names: Vec<u64>,
    mut random: Random,
) -> Vec<(u64, u64)> {
    let mut acknowledged = Vec::new();
    for name in names {
        let batch = named(name, 1 + random.below(5));
        let Ok(pending) = log.submit_batch(batch).await else {
            break;
        };
        if random.below(8) > 0
            && let Ok(stored) = pending.await
        {
            acknowledged.push((name, stored.first));
        }
    }
    acknowledged
}

/// Tasks append batches, and the power fails at some moment: of each write any part may
/// survive.
#[test]
fn a_batch_is_whole_or_absent_after_any_crash() {
    let mut torn = 0;
    for seed in 0..rounds("TXLOG_CRASH_SEEDS", 60) {
        run(async {
            let mut random = Random::new(seed);
            let mut disk = MemoryDisk::new(seed);
            let (mut known, mut name) = (BTreeMap::new(), 0);
            for _ in 0..5 {
                let (log, recovery) = Log::open(disk.clone(), small()).await.unwrap();
                torn += u64::from(recovery.torn.is_some());
                let found = whole(&log).await;
                for (name, first) in &known {
                    assert_eq!(
                        found.get(name),
                        Some(first),
                        "batch {name} was acknowledged"
                    );
                }
                known = found;
                // In some lives the device is full within a write, before the power fails.
                let is_full = random.below(2) == 0;
                disk.set_faults(Faults {
                    room: is_full.then(|| random.below(3_000)),
                    ..Faults::default()
                });
                let mut tasks = JoinSet::new();
                for _ in 0..1 + random.below(6) {
                    let log = log.clone();
                    let names: Vec<u64> = (0..random.below(20)).map(|at| name + at).collect();
                    name += names.len() as u64;
                    let random = Random::new(random.below(u64::MAX));
                    tasks.spawn(append_named(log, names, random));
                }
                let until = disk.syncs_done() + random.below(30);
                let mut ended = Vec::new();
                while (is_full || disk.syncs_done() < until) && !tasks.is_empty() {
                    ended.extend(tasks.try_join_next());
                    evenkeel::task::yield_now().await;
                }
                if random.below(3) > 0 {
                    disk.crash();
                }
                disk.set_faults(Faults::default());
                while let Some(task) = tasks.join_next().await {
                    ended.push(task);
                }
                known.extend(ended.into_iter().flat_map(Result::unwrap));
                let _ = log.close().await;
            }
            let log = open(&disk).await;
            whole(&log).await;
            verify(&disk, |_, _, _| ()).await.unwrap();
        });
    }
    assert!(torn > 0, "some crash tore a write");
}

#[test]
fn batches_that_break_a_limit_are_refused_and_the_log_goes_on() {
    run(async {
        let config = LogConfig {
            record_bytes_max: 100,
            batch_bytes: 1_000,
            ..plain()
        };
        let log = Log::open(MemoryDisk::new(1), config).await.unwrap().0;
        let long = vec![vec![0; 96]; 10];
        for bad in [
            Batch::new(Batched::default()),
            batch([vec![0; 101]]),
            batch(long.iter().chain([&Vec::new()])),
        ] {
            let error = log.submit_batch(bad).await.unwrap_err();
            assert!(matches!(error, LogError::BadBatch { .. }), "{error}");
        }
        assert_eq!(append(&log, batch(long)).await.unwrap().count, 10);
        assert_eq!(log.append("more").await.unwrap(), 11);
    });
}

#[test]
fn a_condition_is_decided_in_the_order_of_the_appends() {
    run(async {
        let log = open(&MemoryDisk::new(1)).await;
        let mut pending = Vec::new();
        for expected in [1, 3, 3, 4, 1] {
            let batch = batch(["a", "b"]).expecting(Some(expected));
            pending.push(log.submit_batch(batch).await.unwrap());
        }
        let mut ended = Vec::new();
        for pending in pending {
            ended.push(match pending.await {
                Ok(stored) => Ok(stored.first),
                Err(LogError::Refused(Refusal::NotExpected { next, .. })) => Err(next),
                Err(error) => panic!("{error}"),
            });
        }
        assert_eq!(ended, [Ok(1), Ok(3), Err(5), Err(5), Err(5)]);
        assert_eq!(log.next(), 5);
    });
}

#[test]
fn exactly_one_of_many_that_expect_the_same_number_wins() {
    run(async {
        let log = open(&MemoryDisk::new(1)).await;
        let mut tasks = JoinSet::new();
        for task in 0..8_u64 {
            let log = log.clone();
            tasks.spawn(async move {
                let (mut won, mut next) = (0, 1);
                // Each adds one after the other, as the next number tells it that it lost.
                while won < 10 {
                    let batch = named(task * 100 + won, 2).expecting(Some(next));
                    match append(&log, batch).await {
                        Ok(stored) => {
                            assert_eq!(stored.first, next);
                            (won, next) = (won + 1, next + 2);
                        }
                        Err(LogError::Refused(Refusal::NotExpected { expected, next: is })) => {
                            assert!(expected == next && is > next, "{is} after {next}");
                            assert!(log.next() >= is, "it is durable");
                            next = is;
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
        assert_eq!(whole(&log).await.len(), 80, "each is there once");
        assert_eq!(log.next(), 161);
    });
}

/// A refusal says that the number was taken. If that append then fails, nobody is told so.
#[test]
fn no_condition_is_refused_by_a_record_that_is_lost() {
    run(async {
        let mut disk = MemoryDisk::new(1);
        let log = open(&disk).await;
        append(&log, named(0, 1)).await.unwrap();
        disk.set_faults(Faults {
            writes: Some((0, ENOSPC)),
            ..Faults::default()
        });
        let taken = append(&log, named(1, 2));
        let refused = append(&log, named(2, 2).expecting(Some(2)));
        let (taken, refused) = tokio::join!(taken, refused);
        taken.unwrap_err();
        let error = refused.unwrap_err();
        assert!(matches!(error, LogError::Commit(_)), "{error}");
        disk.crash();
        let log = open(&disk).await;
        let stored = append(&log, named(2, 2).expecting(Some(2))).await.unwrap();
        assert_eq!(stored.first, 2);
    });
}

#[test]
fn copies_and_repairs_have_whole_batches_only() {
    run(async {
        let disk = MemoryDisk::new(1);
        let log = Log::open(disk.clone(), small()).await.unwrap().0;
        for name in 0..20 {
            append(&log, named(name, 3)).await.unwrap();
        }
        log.close().await.unwrap();
        drop(log);
        assert!(disk.segments().len() > 2);
        let (saved, restored) = (MemoryDisk::new(2), MemoryDisk::new(3));
        assert_eq!(backup(&disk, &saved, None).await.unwrap().next, 61);
        restore(&saved, &restored).await.unwrap();
        let log = open(&restored).await;
        assert_eq!(whole(&log).await.len(), 20);
        // The middle record of the last batch is damaged, after it had been durable.
        let name = disk.segments().pop().unwrap();
        let mut bytes = disk.get(&name);
        let at = bytes
            .windows(5)
            .rposition(|found| found == b"19/1/")
            .unwrap();
        bytes[at] ^= 1;
        disk.set(&name, bytes);
        assert!(Log::open(disk.clone(), small()).await.is_err());
        assert!(verify(&disk, |_, _, _| ()).await.is_err());
        let repaired = repair(&disk).await.unwrap().unwrap();
        assert_eq!((repaired.next, repaired.lost_end), (58, 61));
        let log = open(&disk).await;
        assert_eq!(whole(&log).await.len(), 19);
    });
}
