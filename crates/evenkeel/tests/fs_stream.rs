//! Files in sequence: Tokio's traits, and operations whose futures are dropped.

#[path = "support/hang.rs"]
mod hang;
#[path = "support/scratch.rs"]
mod scratch;

use std::future::{Future, poll_fn};
use std::io::SeekFrom;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use evenkeel::fs::{self, File, OpenOptions};
use evenkeel::runtime::{Builder, Runtime};
use hang::{until, watched};
use scratch::Scratch;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWrite, AsyncWriteExt, ReadBuf};

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 7 % 251) as u8).collect()
}

async fn read_write(path: &std::path::Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options.open(path).await.unwrap()
}

#[test]
fn what_is_written_in_sequence_is_read_in_sequence() {
    watched("sequence", || {
        let scratch = Scratch::new("sequence");
        Runtime::new().unwrap().block_on(async {
            for (number, step) in [1, 4_095, 4_096, 70_000, 262_144, 1 << 20, 5 << 20]
                .into_iter()
                .enumerate()
            {
                let bytes = pattern(step * 3 + 17);
                let bytes = &bytes[..bytes.len().min(6 << 20)];
                let path = scratch.path(number.to_string());
                let mut file = read_write(&path).await;
                for part in bytes.chunks(step) {
                    file.write_all(part).await.unwrap();
                }
                file.flush().await.unwrap();
                assert_eq!(std::fs::read(&path).unwrap(), bytes, "step {step}");
                assert_eq!(file.rewind().await.unwrap(), 0);
                let mut back = Vec::new();
                let mut part = vec![0; step];
                loop {
                    let count = file.read(&mut part).await.unwrap();
                    if count == 0 {
                        break;
                    }
                    back.extend_from_slice(&part[..count]);
                }
                assert_eq!(back, bytes, "step {step}");
                assert_eq!(file.read(&mut part).await.unwrap(), 0, "still the end");
            }
        });
    });
}

#[test]
fn seeks_count_from_where_the_reader_is() {
    watched("seeks", || {
        let scratch = Scratch::new("seeks");
        Runtime::new().unwrap().block_on(async {
            let bytes = pattern(3 << 20);
            fs::write(scratch.path("a"), bytes.clone()).await.unwrap();
            let mut file = read_write(&scratch.path("a")).await;
            let mut few = [0; 10];
            file.seek(SeekFrom::Start(1_000)).await.unwrap();
            // A longer read than the file does at a time.
            ask(&mut file, 2 << 20, 1_000).await;
            file.read_exact(&mut few).await.unwrap();
            assert_eq!(few, bytes[1_000..1_010]);
            assert_eq!(file.seek(SeekFrom::Current(5)).await.unwrap(), 1_015);
            file.read_exact(&mut few).await.unwrap();
            assert_eq!(few, bytes[1_015..1_025]);
            let end = bytes.len() as u64;
            assert_eq!(file.seek(SeekFrom::End(-1)).await.unwrap(), end - 1);
            assert_eq!(file.read(&mut few).await.unwrap(), 1);
            let error = file.seek(SeekFrom::Current(i64::MIN)).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
            // A write goes to the reader's position, too, whatever was read ahead.
            file.seek(SeekFrom::Start(50)).await.unwrap();
            ask(&mut file, 1 << 20, 50).await;
            file.write_all(b"here").await.unwrap();
            file.flush().await.unwrap();
            assert_eq!(file.read_exact_at(vec![0; 4], 50).await.unwrap(), b"here");
            file.read_exact(&mut few).await.unwrap();
            assert_eq!(few, bytes[54..64]);
        });
    });
}

/// Polls a read of this many bytes once, and drops it. If it was done by then, seeks back to where
/// it began.
async fn ask(file: &mut File, count: usize, begin: u64) {
    let mut memory = vec![0; count];
    let done = poll_fn(|cx| {
        let mut buffer = ReadBuf::new(&mut memory);
        let read = Pin::new(&mut *file).poll_read(cx, &mut buffer);
        Poll::Ready(read.is_ready())
    });
    if done.await {
        file.seek(SeekFrom::Start(begin)).await.unwrap();
    }
}

/// A reader that drops reads again and again gets every byte once, in order.
#[test]
fn reads_that_are_given_up_lose_nothing() {
    watched("given up", || {
        let scratch = Scratch::new("given-up");
        Runtime::new().unwrap().block_on(async {
            let bytes = pattern(1 << 20);
            fs::write(scratch.path("a"), bytes.clone()).await.unwrap();
            let mut file = File::open(scratch.path("a")).await.unwrap();
            let mut back = Vec::new();
            let mut reads = 0;
            loop {
                reads += 1;
                if reads % 2 == 0 && back.len() + 50_000 < bytes.len() {
                    ask_any(&mut file, 30_000, &mut back).await;
                }
                let mut part = vec![0; 10_000];
                let count = file.read(&mut part).await.unwrap();
                if count == 0 {
                    break;
                }
                back.extend_from_slice(&part[..count]);
            }
            assert!(back == bytes);
        });
    });
}

async fn ask_any(file: &mut File, count: usize, back: &mut Vec<u8>) {
    let mut memory = vec![0; count];
    poll_fn(|cx| {
        let mut buffer = ReadBuf::new(&mut memory);
        let _ = Pin::new(&mut *file).poll_read(cx, &mut buffer);
        back.extend_from_slice(buffer.filled());
        Poll::Ready(())
    })
    .await;
}

/// Bytes reported as taken over are written, even if the file is dropped and the runtime ends.
#[test]
fn what_was_taken_over_is_written_though_all_is_dropped() {
    watched("taken over", || {
        let scratch = Scratch::new("taken-over");
        for round in 0..50 {
            let path = scratch.path(round.to_string());
            let runtime = Builder::new().workers(1).disk_threads(1).build().unwrap();
            runtime.block_on(async {
                let mut files = Vec::new();
                for number in 0..8 {
                    files.push(File::create(path.with_extension(number.to_string())).await);
                }
                for file in files {
                    let mut file = file.unwrap();
                    file.write_all(b"first ").await.unwrap();
                    file.write_all(b"second").await.unwrap();
                }
            });
            runtime.shutdown(Duration::from_secs(60)).unwrap();
            for number in 0..8 {
                let written = std::fs::read(path.with_extension(number.to_string())).unwrap();
                assert_eq!(written, b"first second", "round {round}, file {number}");
            }
        }
    });
}

/// Also bytes taken over at that very moment, from a task that writes in small pieces for ever.
#[test]
fn what_was_taken_over_is_written_though_the_runtime_ends_under_a_long_writer() {
    watched("long writers", || {
        let scratch = Scratch::new("long-writers");
        for round in 0..30 {
            let path = scratch.path(round.to_string());
            let runtime = Builder::new().workers(1).disk_threads(1).build().unwrap();
            let accepted = Arc::new(AtomicUsize::new(0));
            let mut file = runtime.block_on(File::create(&path)).unwrap();
            let counts = Arc::clone(&accepted);
            let writer = runtime.spawn(async move {
                loop {
                    // Counted in the same poll, so that dropping the task leaves none uncounted.
                    let write = |cx: &mut Context<'_>| {
                        let written = Pin::new(&mut file).poll_write(cx, &[7; 100]);
                        if let Poll::Ready(Ok(count)) = &written {
                            counts.fetch_add(*count, Ordering::SeqCst);
                        }
                        written
                    };
                    if poll_fn(write).await.is_err() {
                        return;
                    }
                }
            });
            std::thread::sleep(Duration::from_millis(3 + round % 10));
            runtime.shutdown(Duration::from_secs(60)).unwrap();
            drop(writer);
            let written = std::fs::read(&path).unwrap().len();
            assert_eq!(written, accepted.load(Ordering::SeqCst), "round {round}");
        }
    });
}

/// Each error of a write is reported once, and no later bytes are written.
#[test]
fn a_failed_write_is_reported_by_what_follows() {
    watched("failed", || {
        Runtime::new().unwrap().block_on(async {
            let mut options = OpenOptions::new();
            let mut full = options.write(true).open("/dev/full").await.unwrap();
            full.write_all(b"lost").await.unwrap();
            let error = full.flush().await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
            full.flush().await.unwrap();
            full.write_all(b"lost").await.unwrap();
            let error = full.sync_data().await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
            let error = full.write_all_at("at once", 0).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
        });
    });
}

#[test]
fn a_clone_shares_the_cursor() {
    watched("clone", || {
        let scratch = Scratch::new("clone");
        Runtime::new().unwrap().block_on(async {
            let mut file = read_write(&scratch.path("a")).await;
            file.write_all(b"abc").await.unwrap();
            let mut clone = file.try_clone().await.unwrap();
            clone.write_all(b"def").await.unwrap();
            clone.flush().await.unwrap();
            file.rewind().await.unwrap();
            let mut text = String::new();
            clone.read_to_string(&mut text).await.unwrap();
            assert_eq!(text, "abcdef");
        });
    });
}

/// An operation that follows a write in sequence is done after it.
#[test]
fn what_was_taken_over_is_done_before_what_follows() {
    watched("follows", || {
        let scratch = Scratch::new("follows");
        Runtime::new().unwrap().block_on(async {
            let long = vec![1; 300_000];
            for round in 0..30 {
                let path = scratch.path(round.to_string());
                let length = || std::fs::metadata(&path).unwrap().len();
                let mut file = read_write(&path).await;
                file.write_all(&long).await.unwrap();
                file.set_len(5).await.unwrap();
                assert_eq!(length(), 5);
                file.write_all(&long).await.unwrap();
                drop(file.try_clone().await.unwrap());
                assert_eq!(length(), 600_000);
                file.write_all(&long).await.unwrap();
                file.sync_data().await.unwrap();
                assert_eq!(length(), 900_000);
                file.write_all(&long).await.unwrap();
                drop(file.into_std().await);
                assert_eq!(length(), 1_200_000);
            }
        });
    });
}

/// A replacement is on the device before it has its name, and its name before it is reported.
#[test]
fn a_replacement_is_synced_and_so_is_its_name() {
    watched("replacement", || {
        let scratch = Scratch::new("replacement");
        let runtime = Runtime::new().unwrap();
        let replaced = fs::replace(scratch.path("file"), "text");
        runtime.block_on(replaced).unwrap();
        let syncs = || {
            let lanes = runtime.stats().lanes;
            let lane = lanes.iter().find(|lane| lane.name.ends_with("sync"));
            lane.map_or(0, |lane| lane.done)
        };
        // A lane counts work a moment after its result was reported.
        until("both syncs", || syncs() == 2);
    });
}

#[test]
fn whole_files() {
    watched("whole", || {
        let scratch = Scratch::new("whole");
        Runtime::new().unwrap().block_on(async {
            let (a, b) = (scratch.path("a"), scratch.path("b"));
            fs::write(&a, "text").await.unwrap();
            assert_eq!(fs::read_to_string(&a).await.unwrap(), "text");
            assert_eq!(fs::copy(&a, &b).await.unwrap(), 4);
            assert_eq!(fs::read(&b).await.unwrap(), b"text");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
            fs::set_permissions(&b, mode).await.unwrap();
            let mut old = std::fs::File::open(&b).unwrap();
            fs::replace(&b, "other").await.unwrap();
            fs::replace(scratch.path("new"), "new").await.unwrap();
            assert_eq!(fs::read(&b).await.unwrap(), b"other");
            let mut text = String::new();
            std::io::Read::read_to_string(&mut old, &mut text).unwrap();
            assert_eq!(text, "text", "who has the old file has all of it");
            let mode = fs::metadata(&b).await.unwrap().permissions();
            assert_eq!(
                std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
                0o640
            );
            let error = fs::replace("/", "x").await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
            let error = fs::replace(scratch.path("no/file"), "x").await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
            let mut names: Vec<_> = std::fs::read_dir(scratch.root())
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            assert_eq!(names, ["a", "b", "new"], "nothing is left beside them");
        });
    });
}

/// A waker that panics harms only its own task.
#[test]
fn a_waker_that_panics_keeps_nobody_else_waiting_for_what_was_written() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: std::sync::Arc<Self>) {
            panic!("on purpose");
        }
    }
    watched("panicking waker", || {
        Runtime::new().unwrap().block_on(async {
            let (mut reader, writer) = std::io::pipe().unwrap();
            let writer = std::fs::File::from(std::os::fd::OwnedFd::from(writer));
            let mut file = File::from_std(writer).unwrap();
            // More than a pipe holds, so that the write is pending until it is read.
            file.write_all(&[0; 300_000]).await.unwrap();
            let file = std::sync::Arc::new(file);
            let mut panicking = std::pin::pin!(file.sync_data());
            let waker = std::task::Waker::from(std::sync::Arc::new(Panics));
            let mut cx = std::task::Context::from_waker(&waker);
            assert!(panicking.as_mut().poll(&mut cx).is_pending());
            let other = std::sync::Arc::clone(&file);
            let mut other = std::pin::pin!(async move { other.sync_data().await });
            // A pipe cannot be synced; the point is that the task gets the error.
            let waits = poll_fn(|cx| Poll::Ready(other.as_mut().poll(cx).is_pending()));
            assert!(waits.await);
            let read = std::thread::spawn(move || {
                let mut bytes = vec![0; 300_000];
                std::io::Read::read_exact(&mut reader, &mut bytes).map(|()| reader)
            });
            other.await.unwrap_err();
            drop(read.join().unwrap().unwrap());
        });
    });
}

/// Files of an earlier process with the same id, which was killed: the first process in a container
/// always has the same id.
#[test]
fn a_draft_that_was_left_behind_is_in_nobodys_way() {
    watched("left behind", || {
        let scratch = Scratch::new("left-behind");
        let process = std::process::id();
        let left = |number: u32| scratch.path(format!(".file.{process}-{number}.new"));
        (0..40).for_each(|number| std::fs::write(left(number), "other's").unwrap());
        Runtime::new().unwrap().block_on(async {
            let path = scratch.path("file");
            fs::replace(&path, "text").await.unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"text");
        });
        for number in 0..40 {
            assert_eq!(std::fs::read(left(number)).unwrap(), b"other's");
        }
    });
}
