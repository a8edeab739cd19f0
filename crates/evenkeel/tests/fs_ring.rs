//! Many reads of a device at a time return the right bytes, by threads or the completion queue.

#[path = "support/hang.rs"]
mod hang;
#[cfg(target_os = "linux")]
#[path = "support/refusal.rs"]
mod refusal;
#[path = "support/scratch.rs"]
mod scratch;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use evenkeel::fs::File;
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::stats::{DiskBackend, DiskStats};
use hang::watched;
use rustix::fs::{Advice, fadvise};
use scratch::Scratch;

/// The length of a read: enough for the completion queue.
const BLOCK: usize = 100_000;
const BLOCKS: u64 = 80;

fn block(number: u64) -> Vec<u8> {
    (0..BLOCK as u64)
        .map(|at| (number * 31 + at / 5) as u8)
        .collect()
}

/// A file whose bytes are not in the cache.
fn uncached(scratch: &Scratch) -> std::path::PathBuf {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    let path = scratch.path("blocks");
    let bytes = BYTES.get_or_init(|| (0..BLOCKS).flat_map(block).collect());
    std::fs::write(&path, bytes).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    file.sync_all().unwrap();
    fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    path
}

fn read_all(runtime: &Runtime, path: &std::path::Path) {
    runtime.block_on(async {
        let file = Arc::new(File::open(path).await.unwrap());
        fadvise(&*file, 0, None, Advice::Random).unwrap();
        let reads: Vec<_> = (0..BLOCKS)
            .map(|number| {
                let file = Arc::clone(&file);
                evenkeel::spawn(async move {
                    let offset = number * BLOCK as u64;
                    let exact = file.read_exact_at(vec![0; BLOCK], offset).await.unwrap();
                    assert!(exact == block(number));
                    let beyond = offset + BLOCK as u64 * 9 / 10;
                    let some = file.read_at(vec![0; BLOCK], beyond).await.unwrap();
                    let first = &block(number)[BLOCK * 9 / 10..];
                    let count = some.len().min(first.len());
                    assert!(count > 0 && some[..count] == first[..count]);
                    let last = (BLOCKS - 1) * BLOCK as u64;
                    let error = file.read_exact_at(vec![0; BLOCK + 1], last).await;
                    let kind = error.unwrap_err().kind();
                    assert_eq!(kind, std::io::ErrorKind::UnexpectedEof);
                    let end = BLOCKS * BLOCK as u64;
                    assert!(file.read_at(vec![0; 9], end).await.unwrap().is_empty());
                })
            })
            .collect();
        for read in reads {
            read.await.unwrap();
        }
    });
}

/// Reads until the wanted way was tried, and at least once: on a busy machine, reads may come so
/// far apart that threads do them all.
fn read_until_tried(runtime: &Runtime, scratch: &Scratch) -> DiskStats {
    let is_tried = || {
        read_all(runtime, &uncached(scratch));
        runtime.stats().disk.backend != DiskBackend::Untried
    };
    assert!((0..100).any(|_| is_tried()), "it is never tried");
    runtime.stats().disk
}

/// Whether the kernel gives this process a completion queue, and tells whether it has the bytes of
/// a file in its cache.
#[cfg(target_os = "linux")]
fn has_ring(path: &std::path::Path) -> bool {
    use rustix::io::{Errno, ReadWriteFlags, preadv2};

    let file = std::fs::File::open(path).unwrap();
    fadvise(&file, 0, None, Advice::Random).unwrap();
    let mut byte = [0];
    let mut bytes = [std::io::IoSliceMut::new(&mut byte)];
    let last = (BLOCKS - 1) * BLOCK as u64;
    let waits = preadv2(&file, &mut bytes, last, ReadWriteFlags::NOWAIT) == Err(Errno::AGAIN);
    let ring = io_uring::IoUring::<io_uring::squeue::Entry>::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(8);
    if !waits || ring.is_err() {
        eprintln!(
            "skipped: reads wait: {waits}; completion queue: {:?}",
            ring.err()
        );
        return false;
    }
    true
}

#[cfg(not(target_os = "linux"))]
fn has_ring(_path: &std::path::Path) -> bool {
    false
}

#[test]
fn reads_of_a_device_are_right_with_the_ring_and_without() {
    watched("reads", || {
        let scratch = Scratch::new("ring");
        for ring in [true, false] {
            let path = uncached(&scratch);
            let has_ring = ring && has_ring(&path);
            let runtime = Builder::new().disk_ring(ring).build().unwrap();
            let disk = if has_ring {
                read_until_tried(&runtime, &scratch)
            } else {
                read_all(&runtime, &path);
                runtime.stats().disk
            };
            if has_ring {
                assert_eq!(disk.backend, DiskBackend::IoUring);
                assert_eq!(disk.reason, "");
                assert!(disk.ring_reads > 0);
            }
            if !ring {
                assert_eq!(disk.backend, DiskBackend::Threads);
                assert!(disk.reason.contains("disk_ring"), "{}", disk.reason);
                assert_eq!(disk.ring_reads, 0);
            }
            runtime.shutdown(Duration::from_secs(60)).unwrap();
        }
    });
}

/// If the kernel forbids the queue, as in containers, threads read, and only the statistics show
/// it.
#[cfg(target_os = "linux")]
#[test]
fn where_the_ring_is_forbidden_threads_do_all() {
    watched("forbidden", || {
        let scratch = Scratch::new("ring-forbidden");
        let path = uncached(&scratch);
        let would_be_used = has_ring(&path);
        let refusal = refusal::Refusal {
            call: libc::SYS_io_uring_setup,
            descriptor: None,
            error: libc::EPERM,
        };
        refusal::where_refused(&[refusal], || {
            let runtime = Runtime::new().unwrap();
            let disk = if would_be_used {
                read_until_tried(&runtime, &scratch)
            } else {
                read_all(&runtime, &path);
                runtime.stats().disk
            };
            assert_eq!(disk.ring_reads, 0);
            if would_be_used {
                assert_eq!(disk.backend, DiskBackend::Threads);
                let says = "no completion queue: Operation not permitted";
                assert!(disk.reason.contains(says), "{}", disk.reason);
            }
            runtime.shutdown(Duration::from_secs(60)).unwrap();
        });
    });
}

/// Threads do short reads, however many wait.
#[test]
fn short_reads_do_without_the_ring() {
    watched("short", || {
        let scratch = Scratch::new("ring-short");
        let path = uncached(&scratch);
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let file = Arc::new(File::open(&path).await.unwrap());
            fadvise(&*file, 0, None, Advice::Random).unwrap();
            let reads: Vec<_> = (0..BLOCKS)
                .map(|number| {
                    let file = Arc::clone(&file);
                    let offset = number * BLOCK as u64;
                    let read = async move { file.read_exact_at(vec![0; 4_096], offset).await };
                    (number, evenkeel::spawn(read))
                })
                .collect();
            for (number, read) in reads {
                assert!(read.await.unwrap().unwrap() == block(number)[..4_096]);
            }
        });
        assert_eq!(runtime.stats().disk.ring_reads, 0);
        runtime.shutdown(Duration::from_secs(60)).unwrap();
    });
}

/// Reads whose futures were dropped end all the same, and the runtime with them.
#[test]
fn a_runtime_ends_with_reads_under_way() {
    watched("under way", || {
        let scratch = Scratch::new("ring-end");
        for _ in 0..10 {
            let path = uncached(&scratch);
            let runtime = Builder::new().build().unwrap();
            runtime.block_on(async {
                let file = Arc::new(File::open(&path).await.unwrap());
                for number in 0..BLOCKS {
                    let file = Arc::clone(&file);
                    drop(evenkeel::spawn(async move {
                        let offset = number * BLOCK as u64;
                        let _ = file.read_exact_at(vec![0; BLOCK], offset).await;
                    }));
                }
                evenkeel::task::yield_now().await;
            });
            runtime.shutdown(Duration::from_secs(60)).unwrap();
        }
    });
}
