//! Clients that put what looks like later records into their payloads. After a crash, recovery
//! looks behind the damage for records that came later: what a client sent must not be taken for
//! one.

use crate::support::memory::MemoryDisk;
use crate::support::{all, crc32, run};
use bytes::{BufMut, BytesMut};
use txlog::log::record::{HEAD_BYTES, HEADER_BYTES};
use txlog::log::{Log, LogConfig, LogError, Recovery, repair};

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

/// A record as a client can make it: it knows the format, and the log's id. Its checksums are right
/// in versions 1 and 2.
fn forged(log_id: u32, sequence: u64, payload: &[u8]) -> Vec<u8> {
    let mut fields = BytesMut::new();
    fields.put_u32_le(payload.len() as u32);
    fields.put_u64_le(sequence);
    fields.put_u64_le(1_700_000_000_000);
    fields.put_u32_le(crc32(payload));
    fields.put_u32_le(log_id);
    fields.put_u32_le(0);
    fields.put_u32_le(0);
    let mut record = BytesMut::new();
    record.put_u32_le(crc32(&fields));
    record.extend_from_slice(&fields);
    record.extend_from_slice(payload);
    record.to_vec()
}

/// Many of them, one behind the other.
fn many(log_id: u32, sequences: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let records = sequences.into_iter();
    records
        .flat_map(|sequence| forged(log_id, sequence, b"forged"))
        .collect()
}

#[test]
fn forged_records_in_a_torn_record_do_not_keep_the_log_from_being_opened() {
    run(async {
        let disk = MemoryDisk::new(1);
        let (log, _) = open(&disk).await.unwrap();
        log.append("durable").await.unwrap();
        let name = disk.segments()[0].clone();
        let begin = disk.get(&name).len();
        // The numbers that come next, as whoever appends knows them, and others.
        let sequences = (3..40).chain([1 << 20, u64::MAX]);
        let id = log.identity().log as u32;
        log.append(many(id, sequences)).await.unwrap();
        drop(log);
        let bytes = disk.get(&name);
        // A crash has cut it in its payload, or has torn its header.
        let mut torn = bytes.clone();
        torn[begin] ^= 1;
        for bytes in [bytes[..bytes.len() - 1].to_vec(), torn] {
            let torn = disk.copy();
            torn.set(&name, bytes.clone());
            let (log, recovery) = open(&torn).await.unwrap();
            let cut = recovery.torn.unwrap();
            assert_eq!(cut.offset, begin as u64);
            assert_eq!(cut.bytes, (bytes.len() - begin) as u64);
            assert_eq!(all(&log).await.len(), 1);
            assert_eq!(log.append("goes on").await.unwrap(), 2);
        }
    });
}

/// What was durable is missed all the same, also between forged records.
#[test]
fn a_durable_record_that_was_damaged_is_missed_between_forged_ones() {
    run(async {
        let disk = MemoryDisk::new(1);
        let (log, _) = open(&disk).await.unwrap();
        let id = log.identity().log as u32;
        for _ in 0..3 {
            log.append(many(id, 1..30)).await.unwrap();
        }
        drop(log);
        let name = disk.segments()[0].clone();
        let mut bytes = disk.get(&name);
        let record = (bytes.len() - HEAD_BYTES) / 3;
        bytes[HEAD_BYTES + record + HEADER_BYTES + 5] ^= 1;
        disk.set(&name, bytes);
        let error = open(&disk).await.unwrap_err();
        let LogError::Corrupt {
            sequence, later, ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(*sequence, 2);
        let third = HEAD_BYTES + 2 * record;
        assert_eq!(later, &format!(" (record 3 follows at byte {third})"));
        let repaired = repair(&disk).await.unwrap().unwrap();
        assert_eq!((repaired.next, repaired.lost_end), (2, 4), "two are lost");
    });
}

/// Two segments that differ in nothing but their keys: records of one are none in the other.
#[test]
fn a_record_of_another_segment_is_none_of_this_one() {
    run(async {
        let make = async || {
            let disk = MemoryDisk::new(1);
            let (log, _) = open(&disk).await.unwrap();
            log.append("one").await.unwrap();
            log.append("two").await.unwrap();
            disk
        };
        let (one, other) = (make().await, make().await);
        let name = one.segments()[0].clone();
        let mut bytes = one.get(&name);
        let mut from = other.get(&name);
        // Both are of one log.
        from[12..16].copy_from_slice(&bytes[12..16]);
        // A crash left the block of an earlier file where the second record was to be written.
        let second = HEAD_BYTES + HEADER_BYTES + "one".len();
        bytes.truncate(second);
        bytes.extend_from_slice(&from[second..]);
        one.set(&name, bytes);
        let (log, recovery) = open(&one).await.unwrap();
        assert_eq!(log.next(), 2);
        let said = recovery.torn.unwrap().to_string();
        assert!(said.contains("a header's checksum is wrong"), "{said}");
    });
}

/// The segment of version 2 of a log with the record 1, and with these bytes behind it.
fn of_version_2(log_id: u32, behind: &[u8]) -> MemoryDisk {
    let mut head = BytesMut::new();
    head.put_slice(b"EKTXLOG\0");
    head.put_u32_le(2);
    head.put_u32_le(log_id);
    head.put_u64_le(1);
    head.put_u64_le(1_700_000_000_000);
    head.put_u32_le(0);
    let crc = crc32(&head);
    head.put_u32_le(crc);
    head.extend_from_slice(&forged(log_id, 1, b"durable"));
    head.extend_from_slice(behind);
    let disk = MemoryDisk::new(1);
    disk.set("00000000000000000001.seg", head.to_vec());
    disk
}

/// Segments of version 2 have no key. A record that cannot be there is none, though.
#[test]
fn without_a_key_a_record_counts_only_if_those_before_it_fit() {
    run(async {
        let torn = |sequence| {
            let mut record = forged(77, 2, &many(77, [sequence]));
            // The length in its header is wrong.
            record[5] ^= 1;
            of_version_2(77, &record)
        };
        // At 40 bytes behind record 2, there may be record 3, and no later one.
        for sequence in [4, 1_000, u64::MAX] {
            let (log, recovery) = open(&torn(sequence)).await.unwrap();
            let is_torn = recovery.torn.is_some();
            assert_eq!((log.next(), is_torn), (2, true), "{sequence}");
        }
        let error = open(&torn(3)).await.unwrap_err();
        assert!(matches!(error, LogError::Corrupt { .. }), "{error}");
    });
}

/// A crash under an earlier release, and then this one: the log goes on in a segment with a key.
#[test]
fn a_log_of_version_2_is_safe_from_its_first_append_on() {
    run(async {
        let disk = of_version_2(77, &[]);
        let (log, _) = open(&disk).await.unwrap();
        log.append(many(77, 2..30)).await.unwrap();
        drop(log);
        let name = disk.segments()[1].clone();
        let mut bytes = disk.get(&name);
        assert_eq!(bytes[8], 3);
        bytes.pop();
        disk.set(&name, bytes);
        let (log, recovery) = open(&disk).await.unwrap();
        assert_eq!((log.next(), recovery.torn.is_some()), (2, true));
    });
}
