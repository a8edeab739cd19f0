//! Backups of a log that is stopped or works, restored logs, and removed records.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use crate::support::memory::{Faults, MemoryDisk};
use crate::support::{Random, all, check_numbered, fill, run, small};
use evenkeel::task::JoinSet;
use txlog::log::cursors::Place;
use txlog::log::mark::{Kind, MARK_NAME};
use txlog::log::{Copied, Log, LogConfig, LogError, Recovery, Retention, backup, restore, verify};
use txlog_client::Trim;

async fn open(disk: &MemoryDisk) -> Result<(Log<MemoryDisk>, Recovery), LogError> {
    Log::open(disk.clone(), small()).await
}

async fn closed(records: u64) -> MemoryDisk {
    let disk = MemoryDisk::new(1);
    let (log, _) = open(&disk).await.unwrap();
    fill(&log, records).await;
    log.close().await.unwrap();
    disk
}

/// The copy is whole, and a crash after its making takes nothing from it.
async fn is_whole(copy: &mut MemoryDisk, copied: &Copied) {
    copy.crash();
    let report = verify(copy, |_, _, _| ()).await.unwrap();
    assert_eq!(
        (report.first, report.next, report.durable, report.segments),
        (copied.first, copied.next, copied.next, copied.segments)
    );
    assert_eq!(report.torn, None);
}

#[test]
fn a_backup_is_whole_and_stays_as_it_is_until_it_is_restored() {
    run(async {
        let source = closed(40).await;
        let (mut saved, mut restored) = (MemoryDisk::new(2), MemoryDisk::new(3));
        let copied = backup(&source, &saved, None).await.unwrap();
        assert_eq!((copied.first, copied.next, copied.left_out), (1, 41, 0));
        is_whole(&mut saved, &copied).await;
        let error = open(&saved).await.unwrap_err();
        assert!(
            matches!(error, LogError::Copy { kind: Kind::Backup }),
            "{error}"
        );
        assert!(error.to_string().contains("txlog restore"), "{error}");

        let copied = restore(&saved, &restored).await.unwrap();
        is_whole(&mut restored, &copied).await;
        let (log, recovery) = open(&restored).await.unwrap();
        assert_eq!((recovery.next, check_numbered(&log).await), (41, 40));
        let (original, _) = open(&source).await.unwrap();
        assert_eq!(log.identity().log, original.identity().log);
        assert!(log.identity().epoch > original.identity().epoch);
        assert_eq!(all(&log).await, all(&original).await, "with their times");
        fill(&log, 20).await;
        check_numbered(&log).await;
        // A backup of a restored log, restored, is a later history.
        log.close().await.unwrap();
        let (saved, again) = (MemoryDisk::new(4), MemoryDisk::new(5));
        backup(&restored, &saved, None).await.unwrap();
        restore(&saved, &again).await.unwrap();
        let (later, _) = open(&again).await.unwrap();
        assert!(later.identity().epoch > log.identity().epoch);
    });
}

#[test]
fn a_backup_of_a_live_log_has_only_records_that_are_known_to_be_durable() {
    run(async {
        let disk = MemoryDisk::new(1);
        let config = LogConfig::default();
        let (log, _) = Log::open(disk.clone(), config).await.unwrap();
        fill(&log, 5).await;
        // Nothing tells a reader that the last batch has been synced.
        let saved = MemoryDisk::new(2);
        let copied = backup(&disk, &saved, Some(Duration::ZERO)).await.unwrap();
        assert_eq!((copied.next, copied.left_out), (5, 1));
        verify(&saved, |_, _, _| ()).await.unwrap();
        // The mark does, which is awaited.
        let saved = MemoryDisk::new(3);
        let maintained = async {
            evenkeel::task::yield_now().await;
            log.maintain().await.unwrap();
        };
        let patience = Some(crate::support::LIMIT);
        let (copied, ()) = tokio::join!(backup(&disk, &saved, patience), maintained);
        let copied = copied.unwrap();
        assert_eq!((copied.next, copied.left_out), (6, 0));
        verify(&saved, |_, _, _| ()).await.unwrap();
    });
}

/// Records are appended, segments begin and are removed, while backups are made.
#[test]
fn a_backup_is_whole_whatever_the_log_does_meanwhile() {
    for seed in 0..20 {
        run(async {
            let disk = MemoryDisk::new(seed);
            let config = LogConfig {
                retention: Retention {
                    records_max: 20,
                    ..Retention::default()
                },
                ..small()
            };
            let (log, _) = Log::open(disk.clone(), config).await.unwrap();
            // So that a reader sees parts of a batch, too.
            disk.set_faults(Faults {
                short: true,
                ..Faults::default()
            });
            let (mut tasks, writer) = (JoinSet::new(), log.clone());
            tasks.spawn(async move {
                for number in 0..300 {
                    fill(&writer, 1).await;
                    if number % 10 == 0 {
                        writer.maintain().await.unwrap();
                    }
                }
            });
            let mut copies = 0;
            while !tasks.is_empty() || copies == 0 {
                let (before, mut saved) = (log.next(), MemoryDisk::new(seed));
                let copied = match backup(&disk, &saved, Some(Duration::from_secs(5))).await {
                    Ok(copied) => copied,
                    // All that it found was removed before it could open it, ten times.
                    Err(LogError::Io { .. }) => continue,
                    Err(error) => panic!("{error}"),
                };
                is_whole(&mut saved, &copied).await;
                assert!(
                    copied.left_out > 0 || copied.next >= before,
                    "{copied:?} {before}"
                );
                let restored = MemoryDisk::new(seed);
                restore(&saved, &restored).await.unwrap();
                let (restored, _) = open(&restored).await.unwrap();
                let records = check_numbered(&restored).await;
                assert_eq!(records, copied.next - copied.first);
                copies += 1;
                while tasks.try_join_next().is_some_and(|task| task.is_ok()) {}
            }
            assert!(log.next() == 301, "the writer has succeeded");
        });
    }
}

#[test]
fn an_interrupted_copy_is_neither_a_backup_nor_a_log() {
    run(async {
        let (whole, trimmed) = (closed(40).await, closed(40).await);
        let (log, _) = open(&trimmed).await.unwrap();
        log.trim(20).await.unwrap();
        log.close().await.unwrap();
        let (mut ended, mut failed) = (0, 0);
        for writes in 0..120 {
            // One of them begins with a later record, whose head is missing for a moment.
            let source = [&whole, &trimmed][writes as usize % 2];
            let writes = writes / 2;
            let mut saved = MemoryDisk::new(writes);
            saved.set_faults(Faults {
                writes: Some((writes, 28)),
                ..Faults::default()
            });
            let copied = backup(source, &saved, None).await;
            saved.set_faults(Faults::default());
            saved.crash();
            let Err(error) = copied else {
                verify(&saved, |_, _, _| ()).await.unwrap();
                ended += 1;
                continue;
            };
            assert!(matches!(error, LogError::Io { .. }), "{error}");
            failed += 1;
            // At the very beginning there may be nothing yet.
            if saved.names().is_empty() {
                continue;
            }
            let unfinished = |error: &LogError| {
                matches!(
                    error,
                    LogError::Copy {
                        kind: Kind::Unfinished
                    }
                )
            };
            if let Err(error) = verify(&saved, |_, _, _| ()).await {
                assert!(unfinished(&error), "{error}");
                assert!(unfinished(&open(&saved).await.unwrap_err()));
                let target = MemoryDisk::new(1);
                assert!(unfinished(&restore(&saved, &target).await.unwrap_err()));
                assert!(unfinished(&txlog::log::repair(&saved).await.unwrap_err()));
            } else {
                assert_eq!(saved.segments(), [""; 0], "nothing of the log is there");
            }
        }
        assert!(ended > 0 && failed > 3, "{ended} {failed}");
    });
}

#[test]
fn a_copy_begins_in_an_empty_directory_and_checks_every_record() {
    run(async {
        let source = closed(40).await;
        let taken = closed(1).await;
        let before = taken.names();
        let error = backup(&source, &taken, None).await.unwrap_err();
        assert!(matches!(error, LogError::NotEmpty { .. }), "{error}");
        let error = restore(&source, &taken).await.unwrap_err();
        assert!(matches!(error, LogError::NotEmpty { .. }), "{error}");
        assert_eq!(taken.names(), before);
        let error = backup(&MemoryDisk::new(1), &MemoryDisk::new(2), None).await;
        assert!(matches!(error, Err(LogError::NoLog)), "{error:?}");
        // One bit of an old record.
        let old = source.segments()[1].clone();
        let mut bytes = source.get(&old);
        bytes[100] ^= 1;
        source.set(&old, bytes);
        let saved = MemoryDisk::new(3);
        let error = backup(&source, &saved, None).await.unwrap_err();
        assert!(matches!(&error, LogError::Corrupt { segment, .. } if *segment == old));
        assert!(verify(&saved, |_, _, _| ()).await.is_err());
        // A segment is missing.
        source.take_away(&old);
        let error = backup(&source, &MemoryDisk::new(4), None)
            .await
            .unwrap_err();
        assert!(!matches!(error, LogError::Io { .. }), "{error}");
    });
}

#[test]
fn trimming_removes_whole_segments_and_no_record_from_the_number_on() {
    run(async {
        let whole = closed(40).await;
        let firsts: Vec<u64> = whole
            .segments()
            .iter()
            .map(|s| s[..20].parse().unwrap())
            .collect();
        for before in 0..=40 {
            let mut disk = whole.copy();
            let (log, _) = open(&disk).await.unwrap();
            let left = *firsts
                .iter()
                .rfind(|&&first| first <= before.max(1))
                .unwrap();
            assert_eq!(log.trim(before).await.unwrap(), left, "before {before}");
            assert_eq!(log.first(), left);
            disk.crash();
            let (log, recovery) = open(&disk).await.unwrap();
            assert_eq!((recovery.first, recovery.next), (left, 41));
            check_numbered(&log).await;
            verify(&disk, |_, _, _| ()).await.unwrap();
        }
    });
}

#[test]
fn trimming_to_the_end_leaves_no_record_and_numbers_go_on() {
    run(async {
        let mut disk = closed(40).await;
        let (log, _) = open(&disk).await.unwrap();
        let error = log.trim(42).await.unwrap_err();
        assert!(
            matches!(
                error,
                LogError::OutOfRange {
                    sequence: 42,
                    first: 1,
                    next: 41
                }
            ),
            "{error}"
        );
        assert_eq!(log.trim(41).await.unwrap(), 41);
        assert_eq!(log.trim(41).await.unwrap(), 41, "again");
        assert_eq!(disk.segments(), ["00000000000000000041.seg"]);
        disk.crash();
        let (log, _) = open(&disk).await.unwrap();
        assert_eq!((log.first(), log.next()), (41, 41));
        assert_eq!(fill(&log, 3).await, 44);
        log.close().await.unwrap();
        assert!(matches!(log.trim(44).await, Err(LogError::Closed)));
        // What stays readable is there.
        assert_eq!(check_numbered(&log).await, 3);
    });
}

#[test]
fn a_log_can_be_trimmed_while_records_are_appended() {
    for seed in 0..20 {
        run(async {
            let disk = MemoryDisk::new(seed);
            let (log, _) = open(&disk).await.unwrap();
            let (mut tasks, writer) = (JoinSet::new(), log.clone());
            tasks.spawn(async move { fill(&writer, 200).await });
            let mut random = Random::new(seed);
            while !tasks.is_empty() {
                let next = log.next();
                let before = next - random.below(30).min(next - 1);
                let first = log.trim(before).await.unwrap();
                assert!(first <= before.max(next), "{first} {before} {next}");
                if let Some(ended) = tasks.try_join_next() {
                    assert_eq!(ended.unwrap(), 201);
                }
            }
            check_numbered(&log).await;
            log.close().await.unwrap();
            let report = verify(&disk, |_, _, _| ()).await.unwrap();
            assert_eq!((report.first, report.next), (log.first(), 201));
        });
    }
}

/// Whether it has to wait.
async fn waits<T>(mut future: Pin<&mut impl Future<Output = T>>) -> bool {
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

#[test]
fn a_cursor_that_is_put_back_before_records_go_keeps_them() {
    run(async {
        let disk = closed(40).await;
        let (log, _) = open(&disk).await.unwrap();
        let at = |sequence| Some(Place { epoch: 1, sequence });
        log.put_cursor("billing", at(41)).await.unwrap();
        disk.set_faults(Faults {
            removes_hang: true,
            ..Faults::default()
        });
        // While another one removes files, which takes long.
        let mut others = pin!(log.trim(10));
        assert!(waits(others.as_mut()).await);
        let first = log.first();
        assert!(first > 1, "those cannot be read any more");
        let mut trim = pin!(log.trim_unless_read(Trim::before(30)));
        assert!(waits(trim.as_mut()).await);
        log.put_cursor("billing", at(20)).await.unwrap();
        disk.set_faults(Faults::default());
        others.await.unwrap();
        let error = trim.await.unwrap_err().to_string();
        assert!(error.contains("billing (at 20)"), "{error}");
        assert_eq!(log.first(), first);
        // Nor does it go when the change is not on the disk, and may be with the next one.
        log.put_cursor("billing", at(41)).await.unwrap();
        disk.set_faults(Faults {
            syncs: Some((0, 5)),
            ..Faults::default()
        });
        log.put_cursor("billing", at(21)).await.unwrap_err();
        let refused = log.trim_unless_read(Trim::before(30)).await.unwrap_err();
        assert!(refused.to_string().contains("billing (at 21)"), "{refused}");
        // Files are removed while consumers write their places.
        log.put_cursor("billing", at(41)).await.unwrap();
        disk.set_faults(Faults {
            removes_hang: true,
            ..Faults::default()
        });
        let mut trim = pin!(log.trim_unless_read(Trim::before(30)));
        assert!(waits(trim.as_mut()).await);
        log.put_cursor("other", at(41)).await.unwrap();
        disk.set_faults(Faults::default());
        assert!(trim.await.unwrap() > first);
    });
}

#[test]
fn the_mark_of_a_backup_is_made_before_its_first_segment() {
    run(async {
        let source = closed(3).await;
        let saved = MemoryDisk::new(1);
        // The mark takes two writes; none is left for a segment.
        saved.set_faults(Faults {
            writes: Some((2, 28)),
            ..Faults::default()
        });
        backup(&source, &saved, None).await.unwrap_err();
        assert!(saved.names().contains(&MARK_NAME.to_owned()));
        assert!(verify(&saved, |_, _, _| ()).await.is_err());
    });
}
