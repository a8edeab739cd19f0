//! Logs of all versions of the format, as bytes: each release reads them.

use std::path::PathBuf;

use crate::support::{all, run, small};
use txlog::log::cursors::{CURSOR_SLOTS_AT, CURSORS_NAME, Place, Places, count_cursors};
use txlog::log::mark::MARK_NAME;
use txlog::log::{Batch, LocalDisk, Log, LogError, verify};
use txlog_client::frame::Produced;

/// The records of the log in `fixtures/version-1`.
fn records() -> Vec<Vec<u8>> {
    let mut records: Vec<Vec<u8>> = [
        "the first record",
        "",
        "a third, with ümlauts",
        "the fourth",
        "one",
        "two",
        "three",
    ]
    .map(|record| record.as_bytes().to_vec())
    .to_vec();
    records.push(vec![b'x'; 300]);
    records.push(b"last".to_vec());
    records
}

fn fixture(version: u32) -> PathBuf {
    let name = format!("tests/fixtures/version-{version}");
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A copy, as a server of that version left it.
fn copy_of(version: u32) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixture(version)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), directory.path().join(entry.file_name())).unwrap();
    }
    directory
}

async fn open(directory: &tempfile::TempDir) -> Result<Log<LocalDisk>, LogError> {
    let disk = loop {
        // The task of a log that was dropped keeps the lock for a moment.
        match LocalDisk::hold(directory.path()).await {
            Ok(disk) => break disk,
            Err(_) => evenkeel::task::yield_now().await,
        }
    };
    Ok(Log::open(disk, small()).await?.0)
}

#[test]
fn a_log_of_version_1_is_read_and_goes_on() {
    let directory = copy_of(1);
    run(async {
        let report = verify(&LocalDisk::borrow(fixture(1)), |_, _, _| ())
            .await
            .unwrap();
        assert_eq!((report.first, report.next, report.segments), (1, 10, 3));
        assert_eq!(report.torn, None);
        let log = open(&directory).await.unwrap();
        let read = all(&log).await;
        let payloads: Vec<Vec<u8>> = read.iter().map(|record| record.payload.to_vec()).collect();
        assert_eq!(payloads, records());
        assert!(read.iter().all(|record| record.time_ms > 1_700_000_000_000));
        assert_eq!(log.append("of this version").await.unwrap(), 10);
        log.close().await.unwrap();
        drop(log);
        let log = open(&directory).await.unwrap();
        assert_eq!(all(&log).await.len(), 10);
        // It had no mark, and has one now.
        assert!(directory.path().join(MARK_NAME).exists());
    });
}

/// An earlier release would take what later versions add for damage.
#[test]
fn a_segment_of_version_1_gets_no_more_records_and_one_without_records_is_renewed() {
    let directory = copy_of(1);
    let version = |name: &str| std::fs::read(directory.path().join(name)).unwrap()[8];
    let newest = "00000000000000000009.seg";
    run(async {
        let log = open(&directory).await.unwrap();
        log.maintain().await.unwrap();
        assert_eq!(version(newest), 1, "an earlier release can still have it");
        let before = std::fs::read(directory.path().join(newest)).unwrap();
        assert_eq!(log.append("in a new segment").await.unwrap(), 10);
        let after = std::fs::read(directory.path().join(newest)).unwrap();
        assert_eq!(after, before);
        assert_eq!(version("00000000000000000010.seg"), 3);
        log.close().await.unwrap();
        drop(log);
        // Its only segment is one of version 1 without records.
        for entry in std::fs::read_dir(directory.path()).unwrap() {
            std::fs::remove_file(entry.unwrap().path()).unwrap();
        }
        let name = "00000000000000000001.seg";
        let head = std::fs::read(fixture(1).join(name)).unwrap()[..40].to_vec();
        std::fs::write(directory.path().join(name), head).unwrap();
        let log = open(&directory).await.unwrap();
        assert_eq!(version(name), 1);
        let batch = Batch::new(["one", "two"].into_iter().collect());
        assert_eq!(
            log.submit_batch(batch).await.unwrap().await.unwrap().first,
            1
        );
        assert_eq!(version(name), 3);
        drop(log);
        let log = open(&directory).await.unwrap();
        assert_eq!(all(&log).await.len(), 2);
    });
}

#[test]
fn a_log_of_version_2_is_read_and_its_producer_is_known() {
    a_log_with_a_producer_is_read(2);
}

#[test]
fn a_log_of_version_3_is_read_and_its_producer_is_known() {
    a_log_with_a_producer_is_read(3);
}

fn a_log_with_a_producer_is_read(version: u32) {
    let directory = copy_of(version);
    run(async {
        let fixture = LocalDisk::borrow(fixture(version));
        let report = verify(&fixture, |_, _, _| ()).await.unwrap();
        assert_eq!((report.first, report.next, report.segments), (1, 17, 3));
        assert_eq!((report.torn, report.durable), (None, 17));
        let log = open(&directory).await.unwrap();
        let read = all(&log).await;
        let payloads: Vec<Vec<u8>> = read.iter().map(|record| record.payload.to_vec()).collect();
        let (x, y) = ("x".repeat(300), "y".repeat(600));
        let expected = [
            "the first record",
            "",
            "one",
            "two",
            "three",
            "zero",
            "",
            "two",
            &x,
            "in the next segment",
            "three",
            "four",
            &y,
            "five",
            "last",
            "of all",
        ];
        assert_eq!(payloads, expected.map(|record| record.as_bytes().to_vec()));
        let batch = |number, count| {
            let producer = 0x0123_4567_89ab_cdef;
            let records = (0..count).map(|_| "repeated");
            Batch::new(records.collect()).of(Some(Produced { producer, number }))
        };
        for (number, count, first, repeated) in [
            (0, 3, 6, true),
            (3, 2, 11, true),
            (5, 1, 14, true),
            (6, 1, 17, false),
        ] {
            let stored = log.submit_batch(batch(number, count)).await.unwrap();
            let stored = stored.await.unwrap();
            assert_eq!((stored.first, stored.repeated), (first, repeated));
        }
    });
}

/// Consumers go on where they were. The file has two states: the last, and the one before.
#[test]
fn the_cursors_of_a_log_of_version_3_are_read_and_go_on() {
    let directory = copy_of(3);
    let place = |sequence| Place { epoch: 1, sequence };
    let known = |places: &[(&str, u64)]| {
        let places = places.iter();
        let owned = places.map(|&(name, sequence)| (name.to_owned(), place(sequence)));
        owned.collect::<Places>()
    };
    let now = known(&[("audit.eu-1", 17), ("billing", 12)]);
    let before = known(&[("audit.eu-1", 17), ("billing", 12), ("gone", 2)]);
    let path = directory.path().join(CURSORS_NAME);
    let bytes = std::fs::read(&path).unwrap();
    run(async {
        assert_eq!(
            count_cursors(&LocalDisk::borrow(fixture(3))).await.unwrap(),
            2
        );
        let log = open(&directory).await.unwrap();
        assert_eq!(log.identity().epoch, 1);
        assert_eq!(log.cursors().await.unwrap(), now);
        log.put_cursor("billing", Some(place(13))).await.unwrap();
        log.close().await.unwrap();
        drop(log);
        let log = open(&directory).await.unwrap();
        let billing = log.cursor("billing").await.unwrap();
        assert_eq!(billing, Some(place(13)));
        log.close().await.unwrap();
        drop(log);
        // The slot of the last change, which a crash may have torn.
        let mut torn = bytes;
        torn[CURSOR_SLOTS_AT[1] as usize + 40] ^= 1;
        std::fs::write(&path, torn).unwrap();
        let log = open(&directory).await.unwrap();
        assert_eq!(log.cursors().await.unwrap(), before);
    });
}

/// Such a log has no mark yet, or lost one: that is known from its next segment on.
#[test]
fn a_log_of_an_earlier_release_needs_its_mark_from_its_next_segment_on() {
    let directory = copy_of(1);
    let mark = directory.path().join(MARK_NAME);
    run(async {
        for appended in [0, 20] {
            let log = open(&directory).await.unwrap();
            for _ in 0..appended {
                log.append(vec![1; 100]).await.unwrap();
            }
            log.close().await.unwrap();
            drop(log);
            std::fs::remove_file(&mark).unwrap();
        }
        let error = open(&directory).await.unwrap_err();
        assert!(matches!(error, LogError::Mark { .. }), "{error}");
    });
}

/// A segment that a later release wrote is not misread, nor removed as one that was never made.
#[test]
fn a_segment_of_a_later_version_is_refused_and_stays() {
    let directory = copy_of(1);
    let newest = directory.path().join("00000000000000000009.seg");
    let mut head = std::fs::read(&newest).unwrap()[..40].to_vec();
    head[8] = 4;
    let crc = crate::support::crc32(&head[..36]);
    head[36..].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(&newest, &head).unwrap();
    run(async {
        let error = open(&directory).await.unwrap_err();
        assert!(error.to_string().contains("of a later version"), "{error}");
        let disk = LocalDisk::borrow(directory.path());
        assert!(txlog::log::repair(&disk).await.is_err());
        assert_eq!(std::fs::read(&newest).unwrap(), head);
    });
}
