//! Repairs of a log whose durable end is damaged or missing.

use crate::support::memory::{Faults, MemoryDisk};
use crate::support::{check_numbered, fill, numbered, run, small};
use txlog::log::mark::MARK_NAME;
use txlog::log::record::{HEAD_BYTES, HEADER_BYTES};
use txlog::log::{Log, LogConfig, LogError, Recovery, Repair, repair, verify};

const EIO: i32 = 5;

async fn open(disk: &MemoryDisk) -> Result<(Log<MemoryDisk>, Recovery), LogError> {
    Log::open(disk.clone(), small()).await
}

async fn closed(config: LogConfig, records: u64) -> MemoryDisk {
    let disk = MemoryDisk::new(1);
    let (log, _) = Log::open(disk.clone(), config).await.unwrap();
    fill(&log, records).await;
    log.close().await.unwrap();
    disk
}

/// One segment, which is not extended ahead.
fn plain() -> LogConfig {
    LogConfig {
        ahead_bytes: 0,
        ..LogConfig::default()
    }
}

fn end_of(record: u64) -> usize {
    let bytes = |number| HEADER_BYTES + numbered(number).len();
    HEAD_BYTES + (1..=record).map(bytes).sum::<usize>()
}

fn change(disk: &MemoryDisk, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = disk.get(name);
    change(&mut bytes);
    disk.set(name, bytes);
}

/// Repairs a log that cannot be opened, and checks that it then has the records before `next`, a
/// new epoch, and takes more.
async fn repaired(disk: &mut MemoryDisk, epoch: u64, next: u64, lost_end: u64) -> Repair {
    open(disk).await.unwrap_err();
    let repair = repair(disk)
        .await
        .unwrap()
        .expect("there is something to do");
    assert_eq!((repair.next, repair.lost_end), (next, lost_end));
    assert!(repair.epoch > epoch);
    goes_on(disk, repair.epoch, next).await;
    repair
}

async fn goes_on(disk: &mut MemoryDisk, epoch: u64, next: u64) {
    disk.crash();
    verify(disk, |_, _, _| ()).await.unwrap();
    let (log, recovery) = open(disk).await.unwrap();
    assert_eq!((recovery.next, recovery.torn), (next, None));
    assert_eq!(log.identity().epoch, epoch);
    check_numbered(&log).await;
    fill(&log, 20).await;
    log.close().await.unwrap();
    assert_eq!(repair_of_whole(disk).await, None);
}

/// Nothing is changed in a log that can be opened.
async fn repair_of_whole(disk: &MemoryDisk) -> Option<Repair> {
    let files = || {
        let names = disk.names().into_iter();
        names
            .map(|name| (name.clone(), disk.get(&name)))
            .collect::<Vec<_>>()
    };
    let before = files();
    let repair = repair(disk).await.unwrap();
    assert_eq!(files(), before);
    repair
}

async fn epoch_of(disk: &MemoryDisk) -> u64 {
    open(&disk.copy()).await.unwrap().0.identity().epoch
}

#[test]
fn damage_in_the_middle_is_cut_off_and_kept() {
    run(async {
        let whole = closed(plain(), 10).await;
        let epoch = epoch_of(&whole).await;
        let name = whole.segments()[0].clone();
        for record in 1..=10 {
            let mut disk = whole.copy();
            let at = end_of(record - 1);
            change(&disk, &name, |bytes| bytes[at + 50] ^= 1);
            let cut = disk.get(&name)[at..].to_vec();
            let repair = repaired(&mut disk, epoch, record, 11).await;
            assert_eq!(repair.kept, [format!("{name}.{at}-1.cut")]);
            assert_eq!(disk.get(&repair.kept[0]), cut);
        }
    });
}

#[test]
fn a_lost_end_is_accepted() {
    run(async {
        let mut disk = closed(small(), 40).await;
        let epoch = epoch_of(&disk).await;
        let newest = disk.segments().last().unwrap().clone();
        disk.take_away(&newest);
        let repair = repaired(&mut disk, epoch, newest[..20].parse().unwrap(), 41).await;
        assert!(repair.kept.is_empty());
        // Numbers are used again, and a second loss has a later epoch.
        let newest = disk.segments().last().unwrap().clone();
        let next = open(&disk).await.unwrap().0.next();
        disk.take_away(&newest);
        repaired(&mut disk, repair.epoch, newest[..20].parse().unwrap(), next).await;
    });
}

#[test]
fn a_log_without_any_segment_goes_on_where_its_last_one_began() {
    run(async {
        let mut disk = closed(small(), 40).await;
        let epoch = epoch_of(&disk).await;
        let segments = disk.segments();
        for name in &segments {
            disk.take_away(name);
        }
        let first = segments.last().unwrap()[..20].parse().unwrap();
        repaired(&mut disk, epoch, first, 41).await;
    });
}

#[test]
fn a_last_segment_without_a_head_is_put_aside_whole() {
    run(async {
        let mut disk = closed(small(), 40).await;
        let epoch = epoch_of(&disk).await;
        let newest = disk.segments().last().unwrap().clone();
        change(&disk, &newest, |bytes| bytes[3] ^= 1);
        let bytes = disk.get(&newest);
        let repair = repaired(&mut disk, epoch, newest[..20].parse().unwrap(), 41).await;
        assert_eq!(repair.kept, [format!("{newest}.0-1.cut")]);
        assert_eq!(disk.get(&repair.kept[0]), bytes);
        // The only one.
        let mut disk = closed(plain(), 5).await;
        let name = disk.segments()[0].clone();
        change(&disk, &name, |bytes| bytes[3] ^= 1);
        repaired(&mut disk, epoch, 1, 6).await;
    });
}

#[test]
fn a_mark_that_is_missing_or_damaged_is_written_anew() {
    run(async {
        let whole = closed(plain(), 10).await;
        let epoch = epoch_of(&whole).await;
        let mut disk = whole.copy();
        disk.take_away(MARK_NAME);
        repaired(&mut disk, epoch, 11, 11).await;
        let mut disk = whole.copy();
        change(&disk, MARK_NAME, |bytes| bytes.fill(7));
        repaired(&mut disk, epoch, 11, 11).await;
        // What looks like a torn end may have been durable, and is kept.
        let mut disk = whole.copy();
        disk.take_away(MARK_NAME);
        let name = disk.segments()[0].clone();
        change(&disk, &name, |bytes| *bytes.last_mut().unwrap() ^= 1);
        let repair = repaired(&mut disk, epoch, 10, 11).await;
        assert_eq!(repair.kept.len(), 1);
    });
}

#[test]
fn what_need_not_be_repaired_is_left_alone() {
    run(async {
        let whole = closed(small(), 40).await;
        assert_eq!(repair_of_whole(&whole).await, None);
        // A torn end, which was never acknowledged.
        let disk = MemoryDisk::new(1);
        let (log, _) = Log::open(disk.clone(), plain()).await.unwrap();
        fill(&log, 5).await;
        drop(log);
        let name = disk.segments()[0].clone();
        change(&disk, &name, |bytes| *bytes.last_mut().unwrap() ^= 1);
        assert_eq!(repair_of_whole(&disk).await, None);
        assert!(matches!(
            repair(&MemoryDisk::new(1)).await,
            Err(LogError::NoLog)
        ));
        // Damage that is not at the end stays an error.
        let old = whole.segments()[0].clone();
        change(&whole, &old, |bytes| bytes[100] ^= 1);
        assert_eq!(repair_of_whole(&whole).await, None);
        assert!(verify(&whole, |_, _, _| ()).await.is_err());
    });
}

#[test]
fn a_repair_that_was_interrupted_anywhere_is_done_by_the_next() {
    run(async {
        // Not closed, so that only what follows the damage tells that it was durable.
        let whole = MemoryDisk::new(1);
        let (log, _) = Log::open(whole.clone(), plain()).await.unwrap();
        fill(&log, 10).await;
        drop(log);
        let epoch = epoch_of(&whole).await;
        let name = whole.segments()[0].clone();
        change(&whole, &name, |bytes| bytes[end_of(4) + 50] ^= 1);
        let (mut interrupted, mut done) = (0, 0);
        for seed in 0..300 {
            let mut disk = whole.copy();
            disk.reseed(seed);
            disk.set_faults(Faults {
                syncs: (seed % 2 == 0).then_some((seed / 2 % 6, EIO)),
                name_syncs: (seed % 2 == 1).then_some((seed / 2 % 4, EIO)),
                ..Faults::default()
            });
            let first = repair(&disk).await;
            disk.crash();
            let now = match first {
                Ok(first) => {
                    done += 1;
                    let first = first.unwrap();
                    assert_eq!((first.next, first.lost_end), (5, 11));
                    first.epoch
                }
                Err(_) => {
                    interrupted += 1;
                    match repair(&disk).await.unwrap() {
                        Some(second) => second.epoch,
                        // Only its last step was missing.
                        None => epoch_of(&disk).await,
                    }
                }
            };
            assert!(now > epoch, "what was cut off has a new epoch");
            goes_on(&mut disk, now, 5).await;
        }
        assert!(interrupted > 0 && done > 0, "{interrupted} {done}");
    });
}
