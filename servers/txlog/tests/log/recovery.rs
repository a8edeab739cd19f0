//! Opening a log: one cut anywhere, with flipped bits, damaged in the middle.

use crate::support::memory::MemoryDisk;
use crate::support::{all, run, small};
use txlog::log::mark::MARK_NAME;
use txlog::log::record::HEADER_BYTES;
use txlog::log::{Disk, Log, LogConfig, LogError, Recovery, verify};

/// Appends each record as a batch of its own, and ends without closing the log, as if killed: the
/// mark says what was durable at the beginning, or when the last segment began.
async fn filled(config: &LogConfig, payloads: &[&str]) -> MemoryDisk {
    let disk = MemoryDisk::new(7);
    let (log, _) = Log::open(disk.clone(), config.clone()).await.unwrap();
    for payload in payloads {
        log.append(payload.to_string()).await.unwrap();
    }
    disk
}

/// One segment without zeros behind its records.
fn plain() -> LogConfig {
    LogConfig {
        ahead_bytes: 0,
        ..LogConfig::default()
    }
}

async fn open(disk: &MemoryDisk) -> Result<(Log<MemoryDisk>, Recovery), LogError> {
    Log::open(disk.clone(), plain()).await
}

async fn payloads<D: Disk>(log: &Log<D>) -> Vec<String> {
    let text = |record: txlog::log::Record| String::from_utf8(record.payload.to_vec()).unwrap();
    all(log).await.into_iter().map(text).collect()
}

const THREE: [&str; 3] = ["the first", "the second one", "the third"];

fn only_segment(disk: &MemoryDisk) -> String {
    let names = disk.segments();
    assert_eq!(names.len(), 1);
    names[0].clone()
}

/// The offsets at which records end.
fn ends() -> Vec<usize> {
    let mut end = txlog::log::record::HEAD_BYTES;
    THREE
        .iter()
        .map(|payload| {
            end += HEADER_BYTES + payload.len();
            end
        })
        .collect()
}

#[test]
fn a_log_cut_at_every_byte_keeps_all_whole_records_and_takes_more() {
    run(async {
        let whole = filled(&plain(), &THREE).await;
        let name = only_segment(&whole);
        let bytes = whole.get(&name);
        assert_eq!(ends()[2], bytes.len());
        for cut in 0..=bytes.len() {
            let disk = MemoryDisk::new(cut as u64);
            disk.set(&name, bytes[..cut].to_vec());
            disk.set(MARK_NAME, whole.get(MARK_NAME));
            let (log, recovery) = open(&disk).await.unwrap();
            let kept = ends().iter().filter(|&&end| end <= cut).count();
            assert_eq!(payloads(&log).await, THREE[..kept], "cut at {cut}");
            let expected_end = ends()[..kept].last().copied();
            let boundary = expected_end.unwrap_or(txlog::log::record::HEAD_BYTES);
            match &recovery.torn {
                // Bytes that are all zeros are no part of a record, even if one began with them, as
                // its checksum may.
                None => {
                    assert!(cut >= boundary && bytes[boundary..cut].iter().all(|byte| *byte == 0))
                }
                Some(torn) if cut < txlog::log::record::HEAD_BYTES => assert_eq!(torn.offset, 0),
                Some(torn) => {
                    assert_eq!(
                        (torn.offset, torn.bytes),
                        (boundary as u64, (cut - boundary) as u64)
                    );
                }
            }
            assert_eq!(log.append("more").await.unwrap(), kept as u64 + 1);
            log.close().await.unwrap();
            let (log, recovery) = open(&disk).await.unwrap();
            assert_eq!((recovery.torn, recovery.next), (None, kept as u64 + 2));
            assert_eq!(payloads(&log).await.last().unwrap(), "more");
        }
    });
}

#[test]
fn every_flipped_bit_of_the_last_record_is_seen_and_only_that_record_goes() {
    run(async {
        let whole = filled(&plain(), &THREE).await;
        let name = only_segment(&whole);
        let bytes = whole.get(&name);
        let last = ends()[1];
        for bit in 0..(bytes.len() - last) * 8 {
            let disk = whole.copy();
            let mut flipped = bytes.clone();
            flipped[last + bit / 8] ^= 1 << (bit % 8);
            disk.set(&name, flipped);
            let (log, recovery) = open(&disk).await.unwrap();
            assert_eq!(payloads(&log).await, THREE[..2], "bit {bit}");
            let torn = recovery.torn.unwrap();
            assert_eq!((torn.segment, torn.offset), (name.clone(), last as u64));
        }
    });
}

#[test]
fn damage_before_a_record_that_came_later_is_an_error_and_changes_nothing() {
    run(async {
        let whole = filled(&plain(), &THREE).await;
        let name = only_segment(&whole);
        let bytes = whole.get(&name);
        for byte in 0..ends()[1] {
            let disk = whole.copy();
            let mut damaged = bytes.clone();
            damaged[byte] ^= 0x10;
            disk.set(&name, damaged.clone());
            let error = open(&disk).await.unwrap_err();
            let LogError::Corrupt {
                segment, offset, ..
            } = &error
            else {
                panic!("byte {byte}: {error}")
            };
            let record = ends().iter().filter(|&&end| end <= byte).count();
            let begin = match record {
                _ if byte < txlog::log::record::HEAD_BYTES => 0,
                0 => txlog::log::record::HEAD_BYTES,
                record => ends()[record - 1],
            };
            assert_eq!((segment, *offset), (&name, begin as u64), "byte {byte}");
            assert!(error.to_string().contains("nothing was changed"), "{error}");
            assert_eq!(disk.get(&name), damaged);
        }
    });
}

#[test]
fn a_record_lost_whole_from_the_middle_is_an_error() {
    run(async {
        let whole = filled(&plain(), &THREE).await;
        let name = only_segment(&whole);
        let mut bytes = whole.get(&name);
        bytes[ends()[0]..ends()[1]].fill(0);
        whole.set(&name, bytes);
        let error = open(&whole).await.unwrap_err();
        assert!(
            matches!(error, LogError::Corrupt { sequence: 2, .. }),
            "{error}"
        );
    });
}

/// A batch whose first record was torn and whose last one is intact: none of it had been
/// acknowledged.
#[test]
fn a_batch_that_was_torn_in_its_middle_goes_from_there_on() {
    run(async {
        // The committing task may be faster than the test: then it is tried again.
        let disk = loop {
            let disk = MemoryDisk::new(3);
            let (log, _) = Log::open(disk.clone(), plain()).await.unwrap();
            log.append("alone").await.unwrap();
            let mut pending = Vec::new();
            for number in 0..3 {
                pending.push(log.submit(format!("together {number}")).await.unwrap());
            }
            for pending in pending {
                pending.await.unwrap();
            }
            let batches = log.stats().batches;
            if batches == 2 {
                break disk;
            }
        };
        let name = only_segment(&disk);
        let mut bytes = disk.get(&name);
        let size = HEADER_BYTES + "together 0".len();
        let third = bytes.len() - 2 * size;
        bytes[third] ^= 1;
        disk.set(&name, bytes);
        let (log, recovery) = open(&disk).await.unwrap();
        assert_eq!(payloads(&log).await, ["alone", "together 0"]);
        assert_eq!(recovery.torn.unwrap().offset, third as u64);
    });
}

#[test]
fn damage_in_a_segment_behind_which_another_began_is_an_error() {
    run(async {
        let payloads: Vec<String> = (0..40).map(|number| format!("record {number}")).collect();
        let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
        let whole = filled(&small(), &payloads).await;
        let names = whole.segments();
        assert!(names.len() >= 3, "{names:?}");
        assert_eq!(verify(&whole, |_, _, _| {}).await.unwrap().next, 41);
        // The last record of the first segment, which is followed by no other in that segment.
        let disk = whole.copy();
        let mut bytes = disk.get(&names[0]);
        *bytes.last_mut().unwrap() ^= 1;
        disk.set(&names[0], bytes);
        let error = verify(&disk, |_, _, _| {}).await.unwrap_err();
        assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
        // A read reports it, too, while the other records can be read.
        let (log, _) = open(&disk).await.unwrap();
        let limits = txlog::log::ReadLimits::default();
        assert!(matches!(
            log.read(1, limits).await,
            Err(LogError::Corrupt { .. })
        ));
        assert_eq!(log.read(40, limits).await.unwrap()[0].payload, "record 39");
        // A whole file is missing.
        let disk = whole.copy();
        disk.take_away(&names[1]);
        let error = verify(&disk, |_, _, _| {}).await.unwrap_err();
        assert!(matches!(error, LogError::Gap { .. }), "{error}");
    });
}

#[test]
fn a_segment_of_another_log_is_an_error() {
    run(async {
        let one = filled(&plain(), &THREE).await;
        let other = filled(&small(), &["x"; 40]).await;
        let names = other.segments();
        let strange = other.get(names.last().unwrap());
        one.set(names.last().unwrap(), strange);
        let error = open(&one).await.unwrap_err();
        assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
    });
}

#[test]
fn a_new_segment_that_a_crash_kept_from_being_made_is_removed() {
    run(async {
        let whole = filled(&plain(), &THREE).await;
        for bytes in [vec![], vec![0; 10], vec![b'E', b'K', b'T'], vec![0; 40]] {
            let disk = whole.copy();
            disk.set("00000000000000000004.seg", bytes);
            let (log, recovery) = open(&disk).await.unwrap();
            assert_eq!(payloads(&log).await, THREE);
            assert_eq!(recovery.torn.unwrap().segment, "00000000000000000004.seg");
            assert_eq!(log.append("fourth").await.unwrap(), 4);
        }
    });
}

#[test]
fn records_go_as_the_retention_says_and_the_rest_can_be_read() {
    run(async {
        let mut config = small();
        config.retention.records_max = 20;
        let disk = MemoryDisk::new(1);
        let (log, _) = Log::open(disk.clone(), config.clone()).await.unwrap();
        for number in 1..=200_u64 {
            assert_eq!(
                log.append(format!("record {number}")).await.unwrap(),
                number
            );
        }
        let first = log.first();
        assert!(first > 150 && log.next() - first >= 20, "{first}");
        assert_eq!(all(&log).await.len() as u64, 201 - first);
        let error = log.read(1, Default::default()).await.unwrap_err();
        assert!(
            matches!(error, LogError::Trimmed { sequence: 1, .. }),
            "{error}"
        );
        assert!(disk.segments().len() < 6);
        log.close().await.unwrap();
        let (log, recovery) = Log::open(disk, config).await.unwrap();
        assert_eq!((recovery.first, recovery.next), (first, 201));
        assert_eq!(all(&log).await.len() as u64, 201 - first);
    });
}

#[test]
fn one_directory_has_one_server() {
    let directory = tempfile::tempdir().unwrap();
    run(async {
        let disk = txlog::log::LocalDisk::hold(directory.path()).await.unwrap();
        let second = txlog::log::LocalDisk::hold(directory.path()).await;
        let error = second.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy);
        drop(disk);
        txlog::log::LocalDisk::hold(directory.path()).await.unwrap();
    });
}

/// Numbers are not used a second time.
#[test]
fn a_damaged_head_of_the_only_segment_does_not_begin_the_log_anew() {
    run(async {
        let disk = MemoryDisk::new(1);
        let whole = filled(&plain(), &[]).await;
        let mut head = whole.get(&only_segment(&whole));
        head[16] ^= 1;
        let name = "00000000000000005000.seg";
        disk.set(name, head);
        let error = open(&disk).await.unwrap_err();
        assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
        assert_eq!(disk.names(), [name]);
    });
}
