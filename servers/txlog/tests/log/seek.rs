//! Records by their time: in several files, after removals, and when the clock was put back.

use std::time::Duration;

use crate::support::memory::MemoryDisk;
use crate::support::{all, fill, run, small};
use bytes::{Bytes, BytesMut};
use evenkeel::time::sleep;
use proptest::prelude::*;
use txlog::log::record::{HEAD_BYTES, Head, Header};
use txlog::log::{Log, LogConfig, Record};

/// Where looking at each record leads.
fn by_looking(records: &[Record], time_ms: u64, next: u64) -> u64 {
    let found = records.iter().find(|record| record.time_ms >= time_ms);
    found.map_or(next, |record| record.sequence)
}

/// Checks all times that make a difference.
async fn check(log: &Log<MemoryDisk>) {
    let records = all(log).await;
    let mut times: Vec<u64> = vec![0, u64::MAX];
    times.extend(
        records
            .iter()
            .flat_map(|r| [r.time_ms - 1, r.time_ms, r.time_ms + 1]),
    );
    for time in times {
        let expected = by_looking(&records, time, log.next());
        assert_eq!(log.seek(time).await.unwrap(), expected, "at {time}");
    }
}

#[test]
fn the_first_record_of_a_time_is_found_in_any_file() {
    run(async {
        let disk = MemoryDisk::new(1);
        let (log, _) = Log::open(disk.clone(), small()).await.unwrap();
        assert_eq!(log.seek(0).await.unwrap(), 1, "it has no records yet");
        for _ in 0..12 {
            fill(&log, 3).await;
            sleep(Duration::from_millis(2)).await;
        }
        assert!(disk.segments().len() > 5);
        check(&log).await;
        log.trim(20).await.unwrap();
        assert!(log.first() > 10);
        check(&log).await;
        log.close().await.unwrap();
        // Of files that were not written by this process less is known.
        let (log, _) = Log::open(disk, small()).await.unwrap();
        check(&log).await;
        fill(&log, 9).await;
        check(&log).await;
        log.trim(log.next()).await.unwrap();
        let next = log.next();
        for time in [0, u64::MAX] {
            assert_eq!(log.seek(time).await.unwrap(), next, "it has none any more");
        }
    });
}

/// Gives the records of a log's only segment other times.
fn set_times(disk: &MemoryDisk, times: &[u64]) {
    let name = disk.segments()[0].clone();
    let bytes = Bytes::from(disk.get(&name));
    let seal = Head::decode(&bytes).unwrap().seal();
    let mut buffer = BytesMut::from(&bytes[..HEAD_BYTES]);
    let mut at = HEAD_BYTES;
    for &time_ms in times {
        let header = Header::decode(&bytes[at..], seal).unwrap();
        let end = at + header.record_bytes();
        let payload = &bytes[end - header.length as usize..end];
        Header { time_ms, ..header }.encode(payload, seal, &mut buffer);
        at = end;
    }
    assert_eq!(at, bytes.len(), "these are all records");
    disk.set(&name, buffer.to_vec());
}

fn plain() -> LogConfig {
    LogConfig {
        ahead_bytes: 0,
        ..LogConfig::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// In a file, none of that time is before the answer, however the clock went.
    #[test]
    fn in_a_file_the_first_record_is_found_though_the_clock_was_put_back(
        times in prop::collection::vec(1..20_u64, 1..20),
        wanted in 0..22_u64,
    ) {
        run(async {
            let disk = MemoryDisk::new(1);
            let (log, _) = Log::open(disk.clone(), plain()).await.unwrap();
            fill(&log, times.len() as u64).await;
            log.close().await.unwrap();
            set_times(&disk, &times);
            let (log, _) = Log::open(disk, plain()).await.unwrap();
            let first = times.iter().position(|&time| time >= wanted);
            let expected = first.map_or(log.next(), |at| at as u64 + 1);
            assert_eq!(log.seek(wanted).await.unwrap(), expected);
        });
    }
}

/// The rule for several files: one that was followed by another before the time is passed over.
#[test]
fn a_file_that_ended_before_the_time_is_passed_over() {
    run(async {
        let disk = MemoryDisk::new(1);
        let config = LogConfig {
            segment_bytes: 400,
            ..plain()
        };
        let (log, _) = Log::open(disk.clone(), config.clone()).await.unwrap();
        fill(&log, 3).await;
        log.close().await.unwrap();
        // Its clock was an hour ahead when it took the second record, but not the third.
        let now = all(&log).await[0].time_ms;
        set_times(&disk, &[now, now + 3_600_000, now]);
        let (log, _) = Log::open(disk.clone(), config).await.unwrap();
        assert_eq!(log.seek(now + 1_800_000).await.unwrap(), 2);
        fill(&log, 3).await;
        assert_eq!(disk.segments().len(), 2);
        assert_eq!(
            log.seek(now + 1_800_000).await.unwrap(),
            7,
            "none that is known of"
        );
        assert!(log.seek(now).await.unwrap() == 1);
    });
}
