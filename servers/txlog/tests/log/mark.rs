//! The mark: a log whose durable end is missing is refused, and a healthy one never is.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::support::memory::{Faults, MemoryDisk};
use crate::support::{LIMIT, all, check_numbered, crc32, fill, numbered, run, small};
use txlog::log::mark::{MARK_NAME, Mark, MarkDefect, SLOT_BYTES, SLOTS_AT};
use txlog::log::record::{HEAD_BYTES, HEADER_BYTES};
use txlog::log::{
    Batch, Log, LogConfig, LogError, ROSTER_NAMES, ReadLimits, Recovery, Retention, verify,
};
use txlog_client::frame::Produced;

const EIO: i32 = 5;

async fn open(disk: &MemoryDisk) -> Result<(Log<MemoryDisk>, Recovery), LogError> {
    Log::open(disk.clone(), small()).await
}

/// One segment, which is not extended ahead.
fn plain() -> LogConfig {
    LogConfig {
        ahead_bytes: 0,
        ..LogConfig::default()
    }
}

/// A log of so many records that was closed, so that its mark covers all of them.
async fn closed(config: LogConfig, records: u64) -> MemoryDisk {
    let disk = MemoryDisk::new(1);
    let (log, _) = Log::open(disk.clone(), config).await.unwrap();
    fill(&log, records).await;
    log.close().await.unwrap();
    disk
}

/// All files and their bytes.
fn files(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.names().into_iter();
    names.map(|name| (name.clone(), disk.get(&name))).collect()
}

/// Opens a log that lost its records from `next` on, and checks that nothing is changed.
async fn refused(disk: &MemoryDisk, next: u64, marked: u64) -> LogError {
    let before = files(disk);
    for error in [
        open(disk).await.unwrap_err(),
        verify(disk, |_, _, _| ()).await.unwrap_err(),
    ] {
        let LogError::LostTail {
            next: is,
            marked: was,
            ..
        } = error
        else {
            panic!("{error}")
        };
        assert_eq!((is, was), (next, marked));
        let said = error.to_string();
        assert!(
            said.contains(&format!("records {next} to {}", marked - 1)),
            "{said}"
        );
        assert!(said.contains("txlog repair"), "{said}");
    }
    assert_eq!(files(disk), before);
    open(disk).await.unwrap_err()
}

#[test]
fn a_log_that_was_cut_before_its_mark_is_refused_wherever_it_was_cut() {
    run(async {
        let whole = closed(plain(), 3).await;
        let name = whole.segments()[0].clone();
        let bytes = whole.get(&name);
        let ends: Vec<usize> = (1..=3)
            .scan(HEAD_BYTES, |end, number| {
                *end += HEADER_BYTES + numbered(number).len();
                Some(*end)
            })
            .collect();
        assert_eq!(ends[2], bytes.len());
        for cut in HEAD_BYTES..bytes.len() {
            let disk = whole.copy();
            disk.set(&name, bytes[..cut].to_vec());
            let kept = ends.iter().filter(|&&end| end <= cut).count() as u64;
            refused(&disk, kept + 1, 4).await;
        }
        let (log, recovery) = open(&whole).await.unwrap();
        assert_eq!((recovery.next, check_numbered(&log).await), (4, 3));
    });
}

#[test]
fn a_last_record_that_was_damaged_after_its_mark_is_not_taken_for_a_torn_end() {
    run(async {
        let whole = closed(plain(), 3).await;
        let name = whole.segments()[0].clone();
        let mut bytes = whole.get(&name);
        *bytes.last_mut().unwrap() ^= 1;
        whole.set(&name, bytes);
        let error = refused(&whole, 3, 4).await;
        assert!(
            error.to_string().contains("checksum of record 3 is wrong"),
            "{error}"
        );
    });
}

#[test]
fn a_newest_segment_that_was_deleted_is_missed() {
    run(async {
        let whole = closed(small(), 40).await;
        let segments = whole.segments();
        assert!(segments.len() > 3, "{segments:?}");
        let newest = segments.last().unwrap();
        whole.take_away(newest);
        refused(&whole, newest[..20].parse().unwrap(), 41).await;
        for name in segments {
            if whole.names().contains(&name) {
                whole.take_away(&name);
            }
        }
        refused(&whole, 1, 41).await;
    });
}

/// Neither `maintain` nor `close` was called: then the mark is of the last segment's beginning.
#[test]
fn a_segment_that_was_followed_by_another_is_missed_without_maintenance() {
    run(async {
        let disk = MemoryDisk::new(1);
        let (log, _) = open(&disk).await.unwrap();
        fill(&log, 40).await;
        drop(log);
        let segments = disk.segments();
        let [.., before, newest] = &segments[..] else {
            panic!("{segments:?}")
        };
        disk.take_away(newest);
        disk.take_away(before);
        refused(
            &disk,
            before[..20].parse().unwrap(),
            newest[..20].parse().unwrap(),
        )
        .await;
    });
}

#[test]
fn maintenance_moves_the_mark_to_the_last_durable_record() {
    run(async {
        let disk = MemoryDisk::new(1);
        let (log, _) = Log::open(disk.clone(), plain()).await.unwrap();
        fill(&log, 5).await;
        log.maintain().await.unwrap();
        // Without new records nothing is written.
        let syncs = disk.syncs_done();
        log.maintain().await.unwrap();
        assert_eq!(disk.syncs_done(), syncs);
        drop(log);
        let name = disk.segments()[0].clone();
        let cut = disk.get(&name).len() - 1;
        disk.set(&name, disk.get(&name)[..cut].to_vec());
        refused(&disk, 5, 6).await;
    });
}

/// A log whose last segment has a few records that no mark covers yet.
async fn unmarked(disk: &MemoryDisk) -> Log<MemoryDisk> {
    let (log, _) = open(disk).await.unwrap();
    let produced = Produced {
        producer: 7,
        number: 0,
    };
    let batch = Batch::new(["of a producer"].into_iter().collect()).of(Some(produced));
    log.submit_batch(batch).await.unwrap().await.unwrap();
    while disk.segments().len() < 3 {
        fill(&log, 1).await;
    }
    fill(&log, 2).await;
    log
}

/// Checks that the mark covers all records: without the last byte, the log is refused.
async fn is_marked_to(disk: &MemoryDisk, next: u64) {
    let disk = disk.copy();
    let name = disk.segments().pop().unwrap();
    let bytes = disk.get(&name);
    // Zeros were written ahead.
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap();
    disk.set(&name, bytes[..end].to_vec());
    refused(&disk, next - 1, next).await;
}

#[test]
fn the_mark_is_written_though_what_is_known_of_producers_cannot_be() {
    for closes in [false, true] {
        run(async {
            let disk = MemoryDisk::new(1);
            let log = unmarked(&disk).await;
            disk.set_faults(Faults {
                creates: Some(EIO),
                ..Faults::default()
            });
            let done = match closes {
                false => log.maintain().await,
                true => log.close().await,
            };
            let said = done.unwrap_err().to_string();
            assert!(said.contains(ROSTER_NAMES[0]), "{said}");
            assert!(log.failure().is_none(), "it goes on");
            is_marked_to(&disk, log.next()).await;
            // It is tried again.
            disk.set_faults(Faults::default());
            log.maintain().await.unwrap();
            assert!(disk.names().contains(&ROSTER_NAMES[0].to_owned()));
        });
    }
}

#[test]
fn the_mark_is_written_though_an_old_segment_cannot_be_removed() {
    run(async {
        let disk = MemoryDisk::new(1);
        let log = unmarked(&disk).await;
        disk.set_faults(Faults {
            removes: Some(EIO),
            ..Faults::default()
        });
        log.trim(log.next() - 1).await.unwrap_err();
        fill(&log, 1).await;
        let said = log.maintain().await.unwrap_err().to_string();
        assert!(said.contains("cannot remove"), "{said}");
        assert!(disk.names().contains(&ROSTER_NAMES[0].to_owned()));
        is_marked_to(&disk, log.next()).await;
    });
}

/// The mark of the `slot`, if it is valid.
fn slot(disk: &MemoryDisk, slot: usize) -> Option<(Mark, u64)> {
    let at = SLOTS_AT[slot] as usize;
    Mark::decode(&disk.get(MARK_NAME)[at..at + SLOT_BYTES]).ok()
}

fn with_mark(disk: &MemoryDisk, change: impl FnOnce(&mut Vec<u8>)) -> MemoryDisk {
    let disk = disk.copy();
    let mut bytes = disk.get(MARK_NAME);
    change(&mut bytes);
    disk.set(MARK_NAME, bytes);
    disk
}

#[test]
fn one_torn_slot_is_no_damage_and_the_older_mark_counts() {
    run(async {
        let disk = MemoryDisk::new(1);
        let (log, _) = Log::open(disk.clone(), plain()).await.unwrap();
        for marked in [2, 3] {
            fill(&log, 1).await;
            log.maintain().await.unwrap();
            assert_eq!(log.next(), marked);
        }
        let marks = [0, 1].map(|at| slot(&disk, at).unwrap());
        let newer = usize::from(marks[1].1 > marks[0].1);
        assert_eq!([marks[1 - newer].0.next, marks[newer].0.next], [2, 3]);
        let name = disk.segments()[0].clone();
        for torn in [0, 1] {
            let torn_disk = with_mark(&disk, |bytes| bytes[SLOTS_AT[torn] as usize + 20] ^= 1);
            let (log, recovery) = open(&torn_disk.copy()).await.unwrap();
            assert_eq!((recovery.next, check_numbered(&log).await), (3, 2));
            // Without its last record the log is as long as the older mark says.
            let short = disk.get(&name).len() - 1;
            torn_disk.set(&name, disk.get(&name)[..short].to_vec());
            assert_eq!(open(&torn_disk).await.is_ok(), torn == newer);
        }
    });
}

#[test]
fn a_mark_that_is_missing_damaged_or_of_another_log_is_an_error() {
    run(async {
        let whole = closed(small(), 20).await;
        let missing = whole.copy();
        missing.take_away(MARK_NAME);
        let damaged = with_mark(&whole, |bytes| {
            SLOTS_AT.iter().for_each(|&at| bytes[at as usize] ^= 1);
        });
        let empty = with_mark(&whole, Vec::clear);
        let other = whole.copy();
        other.set(MARK_NAME, closed(small(), 20).await.get(MARK_NAME));
        let newer = with_mark(&whole, |bytes| {
            let end = SLOT_BYTES - 4;
            bytes[8] = 2;
            let crc = crc32(&bytes[..end]);
            bytes[end..SLOT_BYTES].copy_from_slice(&crc.to_le_bytes());
        });
        for (disk, expected) in [
            (missing, MarkDefect::Missing),
            (damaged, MarkDefect::Damaged),
            (empty, MarkDefect::Damaged),
            (other, MarkDefect::OtherLog),
            (newer, MarkDefect::Newer),
        ] {
            let before = files(&disk);
            let error = open(&disk).await.unwrap_err();
            let LogError::Mark { defect } = error else {
                panic!("{error}")
            };
            assert_eq!(defect, expected);
            assert!(verify(&disk, |_, _, _| ()).await.is_err());
            assert_eq!(files(&disk), before, "nothing was changed");
        }
    });
}

#[test]
fn a_log_whose_making_was_interrupted_anywhere_is_made_by_the_next_start() {
    for seed in 0..60 {
        for fault in 0..8 {
            run(async {
                let mut disk = MemoryDisk::new(seed);
                disk.set_faults(Faults {
                    syncs: (fault % 2 == 0).then_some((fault / 2, EIO)),
                    name_syncs: (fault % 2 == 1).then_some((fault / 2, EIO)),
                    ..Faults::default()
                });
                let opened = open(&disk).await.is_ok();
                assert!(
                    !opened || fault >= 4,
                    "a new log needs two syncs of each sort"
                );
                // Also without a crash, which keeps all files.
                if seed % 4 > 0 {
                    disk.crash();
                }
                disk.set_faults(Faults::default());
                let (log, recovery) = open(&disk).await.unwrap();
                assert_eq!(recovery.next, 1);
                fill(&log, 3).await;
                disk.crash();
                let (log, _) = open(&disk).await.unwrap();
                assert_eq!(check_numbered(&log).await, 3);
            });
        }
    }
}

/// A mark that was read may be only in the system's memory. The other slot is not written before
/// that is mended.
#[test]
fn a_mark_whose_sync_failed_leaves_one_that_a_crash_does_not_take() {
    for seed in 0..200 {
        run(async {
            let mut disk = MemoryDisk::new(seed);
            let (log, _) = open(&disk).await.unwrap();
            fill(&log, 3).await;
            disk.set_faults(Faults {
                syncs: Some((0, EIO)),
                ..Faults::default()
            });
            log.maintain().await.unwrap_err();
            if seed % 2 == 0 {
                // The same file goes on.
                log.maintain().await.unwrap();
            }
            fill(&log, 1).await;
            drop(log);
            // The process is restarted; the next mark is torn by a crash.
            disk.set_faults(Faults {
                writes: Some((1 + seed % 8, EIO)),
                short: true,
                ..Faults::default()
            });
            let _ = open(&disk).await;
            disk.crash();
            let (log, recovery) = open(&disk).await.unwrap();
            assert_eq!(recovery.next, 5);
            check_numbered(&log).await;
        });
    }
}

#[test]
fn a_log_keeps_its_identity_and_no_other_has_it() {
    run(async {
        let disk = closed(small(), 20).await;
        let (log, _) = open(&disk).await.unwrap();
        let identity = log.identity();
        fill(&log, 20).await;
        log.close().await.unwrap();
        let (log, _) = open(&disk).await.unwrap();
        assert_eq!(log.identity(), identity);
        let (other, _) = open(&MemoryDisk::new(1)).await.unwrap();
        assert_ne!(other.identity().log, identity.log);
        assert_eq!(
            other.identity().epoch,
            identity.epoch,
            "neither has lost a record"
        );
    });
}

#[test]
fn a_read_from_beyond_the_end_is_an_error_and_one_from_the_end_finds_none() {
    run(async {
        let disk = closed(small(), 20).await;
        let (log, _) = open(&disk).await.unwrap();
        let limits = ReadLimits::default();
        assert!(log.read(21, limits).await.unwrap().is_empty());
        for beyond in [22, u64::MAX] {
            let error = log.read(beyond, limits).await.unwrap_err();
            let LogError::OutOfRange {
                sequence,
                first: 1,
                next: 21,
            } = error
            else {
                panic!("{error}")
            };
            assert_eq!(sequence, beyond);
        }
    });
}

/// A log that removes records after a millisecond.
fn short_lived() -> LogConfig {
    LogConfig {
        retention: Retention {
            age_max: Duration::from_millis(1),
            ..Retention::default()
        },
        ..plain()
    }
}

#[test]
fn old_records_go_though_nothing_more_is_appended() {
    run(async {
        let disk = MemoryDisk::new(1);
        let (log, _) = Log::open(disk.clone(), short_lived()).await.unwrap();
        fill(&log, 3).await;
        let began = Instant::now();
        while log.first() < 4 {
            assert!(began.elapsed() < LIMIT, "they are still kept");
            log.maintain().await.unwrap();
        }
        // Nothing is old now, and no further segment is made.
        let segments = disk.segments();
        assert_eq!(segments, ["00000000000000000004.seg"]);
        log.maintain().await.unwrap();
        assert_eq!(disk.segments(), segments);
        assert_eq!(log.append("goes on").await.unwrap(), 4);
        drop(log);
        let (log, recovery) = Log::open(disk, plain()).await.unwrap();
        assert_eq!((recovery.first, recovery.next), (4, 5));
        assert_eq!(all(&log).await.len(), 1);
    });
}

/// The records of an earlier process are as old as they are.
#[test]
fn old_records_of_an_earlier_process_go() {
    run(async {
        let disk = closed(plain(), 3).await;
        let (log, _) = Log::open(disk.clone(), short_lived()).await.unwrap();
        let began = Instant::now();
        while log.first() < 4 {
            assert!(began.elapsed() < LIMIT, "they are still kept");
            log.maintain().await.unwrap();
        }
    });
}

#[test]
fn a_segment_whose_first_record_is_old_is_followed_by_another_while_records_come() {
    run(async {
        let disk = MemoryDisk::new(1);
        let (log, _) = Log::open(disk.clone(), short_lived()).await.unwrap();
        let began = Instant::now();
        while log.first() == 1 {
            assert!(began.elapsed() < LIMIT, "record 1 is still kept");
            fill(&log, 1).await;
        }
        check_numbered(&log).await;
    });
}

/// As when a server stops while it maintains its log. Records that are appended after that are
/// found again.
#[test]
fn maintenance_that_is_dropped_leaves_no_half_segment() {
    for polls in 0..40 {
        run(async {
            let mut disk = MemoryDisk::new(polls);
            let (log, _) = Log::open(disk.clone(), short_lived()).await.unwrap();
            fill(&log, 3).await;
            evenkeel::time::sleep(Duration::from_millis(3)).await;
            {
                let mut left = polls;
                let mut maintained = pin!(log.maintain());
                poll_fn(|cx| {
                    left = left.saturating_sub(1);
                    if left == 0 || maintained.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(());
                    }
                    cx.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
            }
            let next = fill(&log, 2).await;
            assert_eq!(next, 6);
            drop(log);
            disk.crash();
            verify(&disk, |_, _, _| ()).await.unwrap();
            let (log, recovery) = Log::open(disk, plain()).await.unwrap();
            assert_eq!(recovery.next, 6);
            check_numbered(&log).await;
        });
    }
}
