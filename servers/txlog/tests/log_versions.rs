//! Logs of all versions of the format, as bytes: each release reads them.

mod support;

use std::path::PathBuf;

use support::{all, run, small};
use txlog::log::mark::MARK_NAME;
use txlog::log::{LocalDisk, Log, LogError, verify};

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

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/version-1")
}

/// A copy, as a server of that version left it.
fn copy() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(fixture()).unwrap() {
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
    let directory = copy();
    run(async {
        let report = verify(&LocalDisk::borrow(fixture()), |_, _, _| ())
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

/// Such a log has no mark yet, or lost one: that is known from its next segment on.
#[test]
fn a_log_of_an_earlier_release_needs_its_mark_from_its_next_segment_on() {
    let directory = copy();
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
    let directory = copy();
    let newest = directory.path().join("00000000000000000009.seg");
    let mut head = std::fs::read(&newest).unwrap()[..40].to_vec();
    head[8] = 3;
    let crc = support::crc32(&head[..36]);
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
