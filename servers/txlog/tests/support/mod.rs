//! Helpers of the log's tests.
#![allow(dead_code, reason = "each test crate uses a part")]

pub(crate) mod acknowledged;
pub(crate) mod certificates;
pub(crate) mod held;
pub(crate) mod logs;
pub(crate) mod memory;
#[cfg(feature = "nats")]
pub(crate) mod nats;
#[cfg(target_os = "linux")]
pub(crate) mod peak;
pub(crate) mod piped;
pub(crate) mod program;
pub(crate) mod secured;
pub(crate) mod served;

use std::future::Future;
use std::time::Duration;

use evenkeel::runtime::Builder;
use txlog::log::{Disk, Log, LogConfig, ReadLimits, Record};

/// Longer than any test takes on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Pseudo-random numbers: Marsaglia's xorshift with 64 bits.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        random.below(2);
        random
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % limit
    }

    pub(crate) fn bytes(&mut self, most: u64) -> Vec<u8> {
        let length = self.below(most + 1);
        (0..length).map(|_| self.below(256) as u8).collect()
    }
}

/// Runs a future to its end within the limit, in a runtime of its own.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    run_in(Builder::new().workers(2), future)
}

/// As `run`, in a runtime with these settings.
pub(crate) fn run_in<T>(builder: &Builder, future: impl Future<Output = T>) -> T {
    let runtime = builder.build().unwrap();
    let output = runtime.block_on(async {
        match evenkeel::time::timeout(LIMIT, future).await {
            Ok(output) => output,
            Err(_) => panic!("no end within {LIMIT:?}"),
        }
    });
    runtime.shutdown(LIMIT).unwrap();
    output
}

/// A number from the environment, which makes a test run longer.
pub(crate) fn rounds(variable: &str, usual: u64) -> u64 {
    let Some(given) = std::env::var_os(variable) else {
        return usual;
    };
    let number = given.to_str().and_then(|given| given.parse().ok());
    number.unwrap_or_else(|| panic!("{variable} is {given:?}, which is no number"))
}

/// Small segments, so that a few records fill several.
pub(crate) fn small() -> LogConfig {
    LogConfig {
        segment_bytes: 700,
        record_bytes_max: 4_096,
        ahead_bytes: 300,
        ..LogConfig::default()
    }
}

/// All records of a log.
pub(crate) async fn all<D: Disk>(log: &Log<D>) -> Vec<Record> {
    let mut records = Vec::new();
    let mut from = log.first();
    while from < log.next() {
        let more = log.read(from, ReadLimits::default()).await.unwrap();
        assert!(!more.is_empty(), "record {from} is there");
        for record in more {
            assert_eq!(record.sequence, from);
            from += 1;
            records.push(record);
        }
    }
    records
}

/// All records of a store.
pub(crate) async fn all_of<S: txlog::store::Store>(store: &S) -> Vec<Record> {
    let (mut from, next) = store.bounds();
    let mut records = Vec::new();
    while from < next {
        let more = store.read(from, ReadLimits::default()).await.unwrap();
        assert!(
            more.next > from,
            "there are records, or it is said that they are gone"
        );
        from = more.next;
        records.extend(more.records);
    }
    records
}

/// Appends records of about 100 bytes, each as a batch of its own, and returns the next number.
pub(crate) async fn fill<D: Disk>(log: &Log<D>, count: u64) -> u64 {
    for _ in 0..count {
        let number = log.next();
        let appended = log.append(numbered(number)).await.unwrap();
        assert_eq!(appended, number);
    }
    log.next()
}

/// A record that names its number.
pub(crate) fn numbered(number: u64) -> String {
    format!("record {number} {:.<80}", "")
}

/// Checks that each record of a log is the one that [`fill`] appended. Returns how many there are.
pub(crate) async fn check_numbered<D: Disk>(log: &Log<D>) -> u64 {
    let records = all(log).await;
    for record in &records {
        assert_eq!(record.payload, numbered(record.sequence));
    }
    records.len() as u64
}

/// The checksum of the format, computed bit by bit.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}
