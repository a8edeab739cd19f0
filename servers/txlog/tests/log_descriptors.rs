//! Logs with more files than a process may have open.

mod support;

use std::path::Path;

use evenkeel::task::JoinSet;
use nix::errno::Errno;
use support::memory::{Faults, MemoryDisk};
use support::program::{Server, run_command};
use support::{LIMIT, all, check_numbered, fill, numbered, run, small};
use txlog::log::{LocalDisk, Log, LogConfig, LogError, ReadLimits};
use txlog_client::Client;

/// How many files the log has, and how many the server may have open.
const SEGMENTS: u64 = 3_000;
const FILES_MAX: &str = "-n 256";

/// Each record gets a segment.
fn tiny() -> LogConfig {
    LogConfig {
        segment_bytes: 1,
        ahead_bytes: 0,
        ..LogConfig::default()
    }
}

fn segments(path: &Path) -> usize {
    let entries = std::fs::read_dir(path).unwrap();
    let is_segment = |name: &std::ffi::OsStr| name.to_string_lossy().ends_with(".seg");
    entries
        .filter(|entry| is_segment(&entry.as_ref().unwrap().file_name()))
        .count()
}

#[test]
fn a_log_of_3000_files_is_served_with_256_descriptors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    run(async {
        let disk = LocalDisk::hold(&path).await.unwrap();
        let (log, _) = Log::open(disk, tiny()).await.unwrap();
        fill(&log, SEGMENTS).await;
        log.close().await.unwrap();
    });
    assert_eq!(segments(&path), SEGMENTS as usize);
    let options = ["--segment-bytes", "100"];
    let mut next = SEGMENTS + 1;
    for round in 0..2 {
        let mut server = Server::start_with_files(FILES_MAX, &path, &options);
        let address = server.address;
        run(async {
            let client = Client::connect(address).await.unwrap();
            // Readers of many different files, as each read goes on to the end, and appends that
            // each begin a new one.
            let mut readers = JoinSet::new();
            for reader in 0..6 {
                readers.spawn(async move {
                    let client = Client::connect(address).await.unwrap();
                    for step in 0..3 {
                        let from = 1 + (reader * 977 + step * 131) % SEGMENTS;
                        let wait = std::time::Duration::ZERO;
                        let (records, _) = client.read(from, wait).await.unwrap();
                        assert_eq!(records[0].sequence, from);
                        assert_eq!(records[0].payload, numbered(from));
                    }
                });
            }
            for _ in 0..100 {
                assert_eq!(client.append(numbered(next)).await.unwrap(), next);
                next += 1;
            }
            while let Some(done) = readers.join_next().await {
                done.unwrap();
            }
        });
        // It is opened again, after a kill and after a proper end.
        if round == 0 {
            server.kill();
        } else {
            server.signal("TERM");
            assert!(server.ended().success());
        }
    }
    assert!(segments(&path) as u64 >= next - 2);
    let (done, said, error) = run_command(&["verify", path.to_str().unwrap()]);
    assert!(done, "{error}");
    let all = format!("whole in all: records 1 to {}\n", next - 1);
    assert!(said.ends_with(&all), "{}", said.lines().last().unwrap());
}

/// What is needed may be more than what was expected.
#[cfg(target_os = "linux")]
#[test]
fn the_server_raises_its_limit_as_far_as_it_may() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_with_files("-S -n 300", directory.path(), &[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", server.id())).unwrap();
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let mut limits = files.unwrap()["Max open files".len()..].split_whitespace();
    let (soft, hard) = (limits.next().unwrap(), limits.next().unwrap());
    assert_eq!(soft, hard);
}

/// The files of this log that the process has open.
#[cfg(target_os = "linux")]
fn open_segments(path: &Path) -> usize {
    let path = path.canonicalize().unwrap();
    let listed = std::fs::read_dir("/proc/self/fd").unwrap();
    let is_one = |entry: std::io::Result<std::fs::DirEntry>| {
        let target = std::fs::read_link(entry.unwrap().path());
        target.is_ok_and(|target| {
            target.starts_with(&path) && target.to_string_lossy().contains(".seg")
        })
    };
    listed
        .filter_map(|entry| is_one(entry).then_some(()))
        .count()
}

#[cfg(target_os = "linux")]
#[test]
fn a_log_has_no_more_files_open_than_it_may() {
    let directory = tempfile::tempdir().unwrap();
    let config = LogConfig {
        read_files_max: 3,
        ..tiny()
    };
    run(async {
        let disk = LocalDisk::hold(directory.path()).await.unwrap();
        let (log, _) = Log::open(disk, config).await.unwrap();
        fill(&log, 60).await;
        let mut readers = JoinSet::new();
        for reader in 0..20 {
            let log = log.clone();
            readers.spawn(async move {
                for step in 0..20 {
                    let from = 1 + (reader * 7 + step * 13) % 59;
                    let limits = ReadLimits {
                        records_max: 1,
                        ..ReadLimits::default()
                    };
                    let records = log.read(from, limits).await.unwrap();
                    assert_eq!(records[0].payload, numbered(from));
                }
            });
        }
        while let Some(done) = readers.join_next().await {
            done.unwrap();
        }
        // Files are closed by other threads, a moment after they are given up.
        let few = async {
            while open_segments(directory.path()) > 3 + 1 {
                evenkeel::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        let closed = evenkeel::time::timeout(LIMIT, few).await;
        closed.expect("three files that were read, and the last one");
        // Those of segments that are removed are closed as well.
        log.trim(log.next()).await.unwrap();
        let none = async {
            while open_segments(directory.path()) > 1 {
                evenkeel::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        };
        let closed = evenkeel::time::timeout(LIMIT, none).await;
        closed.expect("nothing is left but the last one");
        log.close().await.unwrap();
    });
}

/// The system refuses a descriptor for the next segment: that passes, and ends no log.
#[test]
fn a_log_that_gets_no_descriptor_goes_on_in_its_last_segment() {
    for error in [Errno::EMFILE, Errno::ENFILE] {
        run(async {
            let disk = MemoryDisk::new(1);
            let (log, _) = Log::open(disk.clone(), small()).await.unwrap();
            fill(&log, 20).await;
            let before = disk.segments();
            disk.set_faults(Faults {
                creates: Some(error as i32),
                ..Faults::default()
            });
            fill(&log, 20).await;
            assert_eq!(disk.segments(), before);
            let said = log.maintain().await.unwrap_err();
            assert!(matches!(said, LogError::Io { what: "make", .. }), "{said}");
            let said = log.trim(log.next()).await.unwrap_err();
            assert!(matches!(said, LogError::Io { .. }), "{said}");
            assert!(log.failure().is_none());
            fill(&log, 5).await;
            disk.set_faults(Faults::default());
            log.maintain().await.unwrap();
            assert_eq!(disk.segments().len(), before.len() + 1);
            fill(&log, 20).await;
            assert!(disk.segments().len() > before.len() + 1);
            assert_eq!(check_numbered(&log).await, 65);
            log.close().await.unwrap();
            let (log, _) = Log::open(disk, small()).await.unwrap();
            assert_eq!(all(&log).await.len(), 65);
        });
    }
}

/// Any other error is final: there may be half a segment.
#[test]
fn a_new_segment_that_cannot_be_made_for_another_reason_ends_the_log() {
    run(async {
        let disk = MemoryDisk::new(1);
        let (log, _) = Log::open(disk.clone(), small()).await.unwrap();
        disk.set_faults(Faults {
            creates: Some(Errno::ENOSPC as i32),
            ..Faults::default()
        });
        for number in 0..100 {
            if log.append(vec![1; 100]).await.is_err() {
                break;
            }
            assert!(number < 50, "it goes on");
        }
        assert!(log.failure().is_some());
    });
}
