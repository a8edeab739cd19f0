//! Many reads of a device at a time: whatever does them, the bytes are right.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/scratch.rs"]
mod scratch;

use std::sync::Arc;
use std::time::Duration;

use evenkeel::fs::File;
use evenkeel::runtime::{Builder, Runtime};
use evenkeel::stats::DiskBackend;
use hang::watched;
use rustix::fs::{Advice, fadvise};
use scratch::Scratch;

const BLOCK: usize = 10_000;
const BLOCKS: u64 = 400;

fn block(number: u64) -> Vec<u8> {
    (0..BLOCK as u64)
        .map(|at| (number * 31 + at / 5) as u8)
        .collect()
}

/// A file whose bytes are not in the cache.
fn uncached(scratch: &Scratch) -> std::path::PathBuf {
    let path = scratch.path("blocks");
    let bytes: Vec<u8> = (0..BLOCKS).flat_map(block).collect();
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

#[test]
fn reads_of_a_device_are_right_with_the_ring_and_without() {
    watched("reads", || {
        let scratch = Scratch::new("ring");
        for ring in [true, false] {
            let path = uncached(&scratch);
            let runtime = Builder::new().disk_ring(ring).build().unwrap();
            read_all(&runtime, &path);
            let disk = runtime.stats().disk;
            println!("{}: {} {}", disk.backend, disk.ring_reads, disk.reason);
            match disk.backend {
                DiskBackend::IoUring => assert!(ring && disk.reason.is_empty()),
                DiskBackend::Threads => {
                    assert!(!disk.reason.is_empty(), "there is always a reason");
                    assert_eq!(disk.ring_reads, 0);
                }
                _ => assert!(ring),
            }
            runtime.shutdown(Duration::from_secs(60)).unwrap();
        }
    });
}

/// Reads that nobody waits for any more end all the same, and the runtime with them.
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
