//! A log on a disk that fails, and on a machine that loses its power at any moment.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::memory::{Faults, MemoryDisk};
use crate::support::{Random, all, rounds, run, small};
use bytes::Bytes;
use evenkeel::task::JoinSet;
use txlog::log::{Log, LogConfig, LogError, Retention, verify};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;

#[test]
fn short_and_interrupted_writes_tear_nothing() {
    run(async {
        let disk = MemoryDisk::new(1);
        disk.set_faults(Faults {
            short: true,
            ..Faults::default()
        });
        let (log, _) = Log::open(disk.clone(), small()).await.unwrap();
        let mut random = Random::new(1);
        let payloads: Vec<Vec<u8>> = (0..200).map(|_| random.bytes(300)).collect();
        for payload in &payloads {
            log.append(payload.clone()).await.unwrap();
        }
        log.close().await.unwrap();
        let (log, recovery) = Log::open(disk, small()).await.unwrap();
        assert_eq!(recovery.torn, None);
        let read: Vec<Vec<u8>> = all(&log).await.iter().map(|r| r.payload.to_vec()).collect();
        assert_eq!(read, payloads);
    });
}

/// Appends until the first failure; then checks that the failure lasts, and that acknowledged
/// records are there, also after the log is opened again on a disk that works.
fn fails_for_good(faults: Faults, error: i32) {
    run(async {
        let mut disk = MemoryDisk::new(1);
        let (log, _) = Log::open(disk.clone(), small()).await.unwrap();
        disk.set_faults(faults);
        let mut durable = 0;
        let failure = loop {
            match log.append(format!("record {durable}")).await {
                Ok(sequence) => {
                    durable += 1;
                    assert_eq!(sequence, durable);
                }
                Err(failure) => break failure,
            }
            assert!(durable < 1_000, "it fails sooner or later");
        };
        let LogError::Commit(failure) = failure else {
            panic!("{failure}")
        };
        assert!(
            failure.is_poisoned() && failure.maybe_written(),
            "{failure}"
        );
        let kind = std::io::Error::from_raw_os_error(error).kind();
        assert_eq!(failure.io_error().unwrap().kind(), kind);
        // The disk works again, and the log does not pretend that nothing happened.
        disk.set_faults(Faults::default());
        let syncs = disk.syncs_done();
        let LogError::Commit(later) = log.append("later").await.unwrap_err() else {
            panic!("the log has failed")
        };
        assert!(later.is_poisoned() && !later.maybe_written());
        assert!(log.failure().is_some() && log.close().await.is_err());
        assert_eq!(disk.syncs_done(), syncs, "no sync is tried again");
        assert_eq!(log.next(), durable + 1, "what failed is not shown");
        assert_eq!(all(&log).await.len() as u64, durable);
        disk.crash();
        let (log, _) = Log::open(disk, small()).await.unwrap();
        let records = all(&log).await;
        assert!(records.len() as u64 >= durable);
        for (number, record) in records.iter().enumerate() {
            assert_eq!(record.payload, format!("record {number}"));
        }
        log.append("goes on").await.unwrap();
    });
}

#[test]
fn a_failed_write_ends_the_log_and_loses_nothing() {
    for writes in [0, 1, 5, 40] {
        let writes = Some((writes, EIO));
        fails_for_good(
            Faults {
                writes,
                ..Faults::default()
            },
            EIO,
        );
    }
}

#[test]
fn a_full_device_ends_the_log_and_loses_nothing() {
    for room in [0, 1, 30, 500, 2_000] {
        let room = Some(room);
        fails_for_good(
            Faults {
                room,
                ..Faults::default()
            },
            ENOSPC,
        );
    }
}

#[test]
fn a_failed_sync_ends_the_log_and_is_not_tried_again() {
    for syncs in [0, 1, 3, 30] {
        let syncs = Some((syncs, EIO));
        fails_for_good(
            Faults {
                syncs,
                ..Faults::default()
            },
            EIO,
        );
    }
}

/// Linux reports a failed sync once, and then treats the unwritten data as written. The process is
/// restarted, and the machine loses its power later.
#[test]
fn what_is_found_after_a_failed_sync_is_written_again() {
    for seed in 0..20 {
        run(async {
            let mut disk = MemoryDisk::new(seed);
            let (log, _) = Log::open(disk.clone(), small()).await.unwrap();
            log.append("durable").await.unwrap();
            disk.set_faults(Faults {
                syncs: Some((0, EIO)),
                ..Faults::default()
            });
            log.append("in doubt").await.unwrap_err();
            drop(log);
            let (log, recovery) = Log::open(disk.clone(), small()).await.unwrap();
            // It was readable, so it has to stay.
            assert_eq!(recovery.next, 3);
            assert_eq!(log.append("later").await.unwrap(), 3);
            disk.crash();
            let (log, _) = Log::open(disk, small()).await.unwrap();
            let records = all(&log).await;
            let payloads: Vec<_> = records.iter().map(|record| &record.payload[..]).collect();
            assert_eq!(payloads, [&b"durable"[..], b"in doubt", b"later"]);
        });
    }
}

/// The process ends between creating a segment and syncing its name, is restarted, and the machine
/// loses its power later.
#[test]
fn a_segment_whose_name_was_not_synced_is_not_lost_later() {
    for seed in 0..20 {
        run(async {
            let mut disk = MemoryDisk::new(seed);
            let (log, _) = Log::open(disk.clone(), small()).await.unwrap();
            disk.set_faults(Faults {
                name_syncs: Some((0, EIO)),
                ..Faults::default()
            });
            let mut durable = 0;
            while log.append(vec![1; 100]).await.is_ok() {
                durable += 1;
            }
            drop(log);
            let (log, _) = Log::open(disk.clone(), small()).await.unwrap();
            durable += 1;
            assert_eq!(log.append("in the new segment").await.unwrap(), durable);
            disk.crash();
            let (log, recovery) = Log::open(disk, small()).await.unwrap();
            assert_eq!(recovery.next, durable + 1, "it was acknowledged");
            assert_eq!(all(&log).await.len() as u64, durable);
        });
    }
}

#[test]
fn segments_that_could_not_be_removed_are_removed_later_and_leave_no_gap() {
    run(async {
        let disk = MemoryDisk::new(1);
        let config = LogConfig {
            retention: Retention {
                records_max: 10,
                ..Retention::default()
            },
            ..small()
        };
        let (log, _) = Log::open(disk.clone(), config).await.unwrap();
        let fill = async |count| {
            for _ in 0..count {
                log.append(vec![1; 100]).await.unwrap();
            }
        };
        disk.set_faults(Faults {
            removes: Some(EIO),
            ..Faults::default()
        });
        fill(60).await;
        assert!(log.retain().await.is_err());
        let oldest = disk.names()[0].clone();
        disk.set_faults(Faults::default());
        fill(10).await;
        assert!(!disk.names().contains(&oldest), "it was tried again");
        // Each has two records or a few more.
        assert!(disk.segments().len() < 8, "{:?}", disk.names());
        log.close().await.unwrap();
        verify(&disk, |_, _, _| ()).await.unwrap();
    });
}

#[test]
fn a_crash_between_removals_leaves_no_gap() {
    for seed in 0..20 {
        run(async {
            let mut disk = MemoryDisk::new(seed);
            let (log, _) = Log::open(disk.clone(), small()).await.unwrap();
            for _ in 0..40 {
                log.append(vec![1; 100]).await.unwrap();
            }
            log.close().await.unwrap();
            let config = LogConfig {
                retention: Retention {
                    records_max: 1,
                    ..Retention::default()
                },
                ..small()
            };
            let (log, _) = Log::open(disk.clone(), config).await.unwrap();
            // The name that was removed first may be there or not; the others are.
            disk.set_faults(Faults {
                name_syncs: Some((seed % 3, EIO)),
                ..Faults::default()
            });
            log.retain().await.unwrap_err();
            disk.crash();
            verify(&disk, |_, _, _| ()).await.unwrap();
            let (log, _) = Log::open(disk, small()).await.unwrap();
            all(&log).await;
        });
    }
}

/// What the test knows from one life of the log to the next.
type Known = Arc<Mutex<BTreeMap<u64, Bytes>>>;

/// Tasks append, one maintains the log and trims it, syncs fail, and the power fails at some
/// moment. No acknowledged record is lost, and the log is never taken for one that lost its end.
async fn life(
    disk: &mut MemoryDisk,
    random: &mut Random,
    durable: &Known,
    trimmed: &Arc<AtomicU64>,
) {
    let (log, recovery) = Log::open(disk.clone(), small()).await.unwrap();
    check(&log, recovery.next, durable, trimmed).await;
    let mut once_of = |most| (random.below(3) == 0).then(|| (random.below(most), EIO));
    disk.set_faults(Faults {
        syncs: once_of(60),
        name_syncs: once_of(10),
        short: once_of(1).is_some(),
        ..Faults::default()
    });
    let mut tasks = JoinSet::new();
    for _ in 0..1 + random.below(8) {
        let (log, durable) = (log.clone(), Arc::clone(durable));
        let mut random = Random::new(random.below(u64::MAX));
        tasks.spawn(async move {
            for _ in 0..random.below(60) {
                let payload = Bytes::from(random.bytes(150));
                let Ok(pending) = log.submit(payload.clone()).await else {
                    return;
                };
                match random.below(8) {
                    // This one was dropped; it may be there or not.
                    0 => drop(pending),
                    _ => match pending.await {
                        Ok(sequence) => drop(durable.lock().unwrap().insert(sequence, payload)),
                        Err(_) => return,
                    },
                }
            }
        });
    }
    tasks.spawn(maintain(
        log.clone(),
        Random::new(random.below(u64::MAX)),
        Arc::clone(trimmed),
    ));
    // In the middle of it, or afterwards.
    let until = disk.syncs_done() + random.below(60);
    while disk.syncs_done() < until && !tasks.is_empty() {
        while tasks.try_join_next().is_some() {}
        evenkeel::task::yield_now().await;
    }
    // Or only the process ends, and data in the system's memory stay there.
    if random.below(3) > 0 {
        disk.crash();
    }
    while let Some(task) = tasks.join_next().await {
        task.unwrap();
    }
    let _ = log.close().await;
    disk.set_faults(Faults::default());
}

/// Moves the mark and removes old records, up to the first failure.
async fn maintain(log: Log<MemoryDisk>, mut random: Random, trimmed: Arc<AtomicU64>) {
    for _ in 0..random.below(40) {
        if random.below(8) == 0 {
            let before = log.next() - random.below(log.next()).min(20);
            trimmed.fetch_max(before, Ordering::SeqCst);
            if log.trim(before).await.is_err() {
                return;
            }
        }
        if log.maintain().await.is_err() {
            return;
        }
        for _ in 0..random.below(20) {
            evenkeel::task::yield_now().await;
        }
    }
}

async fn check(log: &Log<MemoryDisk>, next: u64, durable: &Known, trimmed: &AtomicU64) {
    let first = log.first();
    assert!(
        first <= trimmed.load(Ordering::SeqCst).max(1),
        "{first} was trimmed"
    );
    let records = all(log).await;
    assert_eq!(records.len() as u64, next - first, "numbers have no gaps");
    durable
        .lock()
        .unwrap()
        .retain(|&sequence, _| sequence >= first);
    for (sequence, payload) in durable.lock().unwrap().iter() {
        let record = records.get((*sequence - first) as usize);
        let record = record.unwrap_or_else(|| panic!("record {sequence} was acknowledged"));
        assert_eq!((record.sequence, &record.payload), (*sequence, payload));
    }
    // From now on all records that are there have been made durable.
    let mut durable = durable.lock().unwrap();
    for record in records {
        durable.insert(record.sequence, record.payload);
    }
}

#[test]
fn what_was_acknowledged_survives_any_crash() {
    let mut crashes = 0;
    for seed in 0..rounds("TXLOG_CRASH_SEEDS", 60) {
        run(async {
            let mut random = Random::new(seed);
            let (mut disk, durable) = (MemoryDisk::new(seed), Known::default());
            let trimmed = Arc::default();
            for _ in 0..6 {
                life(&mut disk, &mut random, &durable, &trimmed).await;
                crashes += 1;
            }
            let (log, recovery) = Log::open(disk.clone(), small()).await.unwrap();
            check(&log, recovery.next, &durable, &trimmed).await;
            verify(&disk, |_, _, _| ()).await.unwrap();
        });
    }
    eprintln!("{crashes} crashes");
}

/// A device that is really full: a small file system in memory.
#[test]
fn a_full_file_system_ends_the_log_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let Some(_mounted) = Mounted::tmpfs(directory.path(), "256k") else {
        return;
    };
    let path = directory.path().join("log");
    run(async {
        let disk = txlog::log::LocalDisk::hold(&path).await.unwrap();
        let (log, _) = Log::open(disk, small()).await.unwrap();
        let mut durable = 0;
        let failure = loop {
            match log.append(vec![b'x'; 900]).await {
                Ok(_) => durable += 1,
                Err(failure) => break failure,
            }
            assert!(durable < 1_000, "256 kB do not hold them");
        };
        let LogError::Commit(failure) = &failure else {
            panic!("{failure}")
        };
        let kind = failure.io_error().unwrap().kind();
        assert_eq!(kind, std::io::ErrorKind::StorageFull);
        drop(log);
        std::fs::remove_file(path.join("00000000000000000001.seg")).unwrap();
        // The task that wrote keeps the first log's lock.
        let disk = loop {
            match txlog::log::LocalDisk::hold(&path).await {
                Ok(disk) => break disk,
                Err(_) => evenkeel::task::yield_now().await,
            }
        };
        let (log, recovery) = Log::open(disk, small()).await.unwrap();
        assert!(
            durable > 20 && recovery.next > durable,
            "{durable} {recovery:?}"
        );
        assert!(
            all(&log)
                .await
                .iter()
                .all(|record| record.payload == vec![b'x'; 900])
        );
        log.append("there is room again").await.unwrap();
        log.close().await.unwrap();
    });
}

/// A file system that is unmounted on drop.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn tmpfs(path: &std::path::Path, size: &str) -> Option<Self> {
        let options = format!("size={size}");
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(path)
            .output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(path.to_owned())),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).into_owned();
                eprintln!(
                    "skipped: a small tmpfs cannot be mounted here: {}",
                    why.trim()
                );
                None
            }
            Err(error) => {
                eprintln!("skipped: mount does not run: {error}");
                None
            }
        }
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()));
    }
}
