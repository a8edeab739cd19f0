//! Cleanup that no worker waits for, and abandoned seeks.

use std::future::{Future, poll_fn};
use std::io::SeekFrom;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, ReadBuf};

use super::*;
use crate::fs;
use crate::runtime::{Builder, Runtime};
use crate::time::sleep;

fn path(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("evenkeel-{name}-{}", std::process::id()))
}

/// A runtime whose lanes have room for one piece of work.
fn narrow() -> Runtime {
    let mut builder = Builder::new();
    builder.workers(1).disk_queue_limit(1);
    builder.build().unwrap()
}

/// Runs a test in a task of such a runtime, on a worker.
fn in_task(test: impl Future<Output = ()> + Send + 'static) {
    let runtime = narrow();
    let task = runtime.spawn(test);
    runtime.block_on(task).unwrap();
}

/// Makes `threads` threads of a lane busy, and queues `waiting` pieces of work, until the result is
/// dropped.
async fn fill(
    file: &File,
    core: &Arc<Core>,
    threads: usize,
    waiting: usize,
) -> Vec<mpsc::Sender<()>> {
    let mut holds = Vec::new();
    let begun = Arc::new(AtomicUsize::new(0));
    while holds.len() < threads + waiting {
        let (hold, held) = mpsc::channel::<()>();
        let begins = Arc::clone(&begun);
        let place = super::super::lookup::called_from();
        let (task, join) = crate::blocking::new_work(core, place, None, move || {
            begins.fetch_add(1, Ordering::SeqCst);
            let _ = held.recv();
        });
        core.submit(file.inner.handle.shared(), task, true);
        drop(join);
        holds.push(hold);
        // The work counts itself, as work that the lane counts as busy may have ended already.
        let busy = holds.len().min(threads);
        until(|| begun.load(Ordering::SeqCst) >= busy).await;
    }
    assert_eq!(core.stats().queued, waiting, "some was refused");
    holds
}

fn is_open(number: RawFd, path: &Path) -> bool {
    std::fs::read_link(format!("/proc/self/fd/{number}")).is_ok_and(|open| open == path)
}

async fn until(holds: impl Fn() -> bool) {
    let give_up = crate::time::Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(
            crate::time::Instant::now() < give_up,
            "not within 30 seconds"
        );
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_worker_closes_no_file_even_if_the_lane_is_full() {
    in_task(async {
        let path = path("close");
        let file = File::create(&path).await.unwrap();
        let other = file.try_clone().await.unwrap();
        let number = file.as_raw_fd();
        let names = Arc::clone(other.inner.names_lane());
        let holds = fill(&other, &names, names.stats().threads_max, 1).await;
        drop(file);
        assert!(is_open(number, &path), "it was closed by the worker");
        drop(holds);
        until(|| !is_open(number, &path)).await;
        std::fs::remove_file(&path).unwrap();
    });
}

/// How often a directory is open.
fn opened(directory: &Path) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|open| std::fs::read_link(open.path()).is_ok_and(|open| open == directory))
        .count()
}

/// Closed by the last of its entries, by its reader, or by a read that is cancelled before it has
/// begun.
#[test]
fn a_worker_closes_no_directory_even_if_the_lane_is_full() {
    in_task(async {
        let directory = path("directory");
        std::fs::create_dir_all(&directory).unwrap();
        // More entries than are read at a time.
        for number in 0..100 {
            std::fs::write(directory.join(number.to_string()), "").unwrap();
        }
        let file = File::open(directory.join("0")).await.unwrap();
        let names = Arc::clone(file.inner.names_lane());
        for last in ["entry", "reader", "read"] {
            let mut reader = fs::read_dir(&directory).await.unwrap();
            let entry = reader.next_entry().await.unwrap().unwrap();
            let _ = entry.metadata().await.unwrap();
            while last == "entry" && reader.next_entry().await.unwrap().is_some() {}
            let waiting = usize::from(last != "read");
            let holds = fill(&file, &names, names.stats().threads_max, waiting).await;
            if last == "entry" {
                drop(reader);
                drop(entry);
            } else {
                drop(entry);
                while last == "read" && !given_up(reader.next_entry()).await {}
                drop(reader);
            }
            assert_eq!(opened(&directory), 1, "{last}: it was closed by the worker");
            drop(holds);
            until(|| opened(&directory) == 0).await;
        }
        std::fs::remove_dir_all(&directory).unwrap();
    });
}

/// The temporary file beside the one that was to be replaced.
fn drafts(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn a_worker_removes_nothing_of_a_replacement_that_fails() {
    in_task(async {
        let directory = path("replace");
        std::fs::create_dir_all(&directory).unwrap();
        let opened = std::fs::File::open(&directory).unwrap();
        let file = File::from_std(opened).unwrap();
        let (syncs, names) = (
            Arc::clone(file.sync_lane()),
            Arc::clone(file.inner.names_lane()),
        );
        // So the replacement's sync is refused.
        let in_sync = fill(&file, &syncs, 1, 1).await;
        let holds = fill(&file, &names, names.stats().threads_max, 1).await;
        let refused = fs::replace(directory.join("target"), "new").await;
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        assert_eq!(drafts(&directory), 1, "it was removed by the worker");
        drop((holds, in_sync));
        until(|| drafts(&directory) == 0).await;
        std::fs::remove_dir(&directory).unwrap();
    });
}

/// Polled once, then dropped.
async fn given_up<F: Future>(future: F) -> bool {
    let mut future = pin!(future);
    poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_pending())).await
}

/// A file to be read and written, and its path, which is removed by the test.
async fn with_contents(name: &str, bytes: &'static [u8]) -> (File, PathBuf) {
    let path = path(name);
    std::fs::write(&path, bytes).unwrap();
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(&path).await.unwrap();
    (file, path)
}

/// Keeps all threads of the file's data lane busy.
async fn hold_data(file: &File) -> Vec<mpsc::Sender<()>> {
    let data = Arc::clone(file.inner.data_lane());
    fill(file, &data, data.stats().threads_max, 0).await
}

#[test]
fn an_abandoned_seek_is_not_done_after_a_later_operation() {
    in_task(async {
        let (mut file, path) = with_contents("seek-given-up", b"").await;
        let holds = hold_data(&file).await;
        file.write_all(b"abc").await.unwrap();
        assert!(given_up(file.seek(SeekFrom::Start(1))).await);
        drop(holds);
        // It was requested before this, and so it is done before this.
        file.write_all(b"x").await.unwrap();
        assert_eq!(file.stream_position().await.unwrap(), 2);
        file.write_all(b"y").await.unwrap();
        file.flush().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"axy");
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn an_abandoned_seek_is_done_before_a_read() {
    in_task(async {
        let (mut file, path) = with_contents("seek-then-read", b"0123456789").await;
        let holds = hold_data(&file).await;
        assert!(given_up(file.read_u8()).await);
        assert!(given_up(file.seek(SeekFrom::Start(5))).await);
        drop(holds);
        assert_eq!(file.read_u8().await.unwrap(), b'5');
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn a_seek_that_fails_leaves_the_reader_where_it_is() {
    in_task(async {
        let (mut file, path) = with_contents("seek-fails", b"0123456789").await;
        let holds = hold_data(&file).await;
        let asked = poll_fn(|cx| {
            let mut memory = [0; 10];
            let mut buffer = ReadBuf::new(&mut memory);
            Poll::Ready(Pin::new(&mut file).poll_read(cx, &mut buffer).is_pending())
        });
        assert!(asked.await, "more is read than is taken");
        drop(holds);
        let mut four = [0; 4];
        file.read_exact(&mut four).await.unwrap();
        assert_eq!(&four, b"0123");
        let error = file.seek(SeekFrom::Current(-100)).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        file.read_exact(&mut four).await.unwrap();
        assert_eq!(&four, b"4567");
        std::fs::remove_file(&path).unwrap();
    });
}

/// Behind a device that hangs, the work would fill the queue and keep the file open.
#[test]
fn what_a_dropped_file_was_still_to_read_or_seek_leaves_the_queue() {
    in_task(async {
        let (file, path) = with_contents("dropped", b"0123456789").await;
        let holds = hold_data(&file).await;
        let data = Arc::clone(file.inner.data_lane());
        for what in ["read", "seek"] {
            let mut other = File::open(&path).await.unwrap();
            let number = other.as_raw_fd();
            let waits = match what {
                "read" => given_up(other.read_u8()).await,
                _ => given_up(other.seek(SeekFrom::Start(5))).await,
            };
            assert!(waits && data.stats().queued == 1, "{what}");
            drop(other);
            assert_eq!(data.stats().queued, 0, "{what}");
            until(|| !is_open(number, &path)).await;
        }
        drop(holds);
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn an_abandoned_seek_is_done_before_into_std() {
    in_task(async {
        let (mut file, path) = with_contents("seek-into-std", b"0123456789").await;
        let holds = hold_data(&file).await;
        assert!(given_up(file.seek(SeekFrom::Start(5))).await);
        let into_std = crate::spawn(file.into_std());
        sleep(Duration::from_millis(5)).await;
        drop(holds);
        let mut file = into_std.await.unwrap();
        assert_eq!(std::io::Seek::stream_position(&mut file).unwrap(), 5);
        std::fs::remove_file(&path).unwrap();
    });
}

/// The bytes that were taken over belong behind the seek.
#[test]
fn a_dropped_file_seeks_before_it_writes_its_last_bytes() {
    in_task(async {
        let (mut file, path) = with_contents("dropped-writer", b"").await;
        let holds = hold_data(&file).await;
        file.write_all(b"abc").await.unwrap();
        assert!(given_up(file.seek(SeekFrom::Start(1))).await);
        drop(file);
        drop(holds);
        until(|| std::fs::read(&path).unwrap() == b"abc").await;
        std::fs::remove_file(&path).unwrap();
    });
}

#[test]
fn a_copy_to_a_fifo_keeps_no_thread_from_the_data_of_its_device() {
    in_task(async {
        let (file, from) = with_contents("copied", b"text").await;
        let to = path("copied-to");
        let made = std::process::Command::new("mkfifo").arg(&to).status();
        assert!(made.unwrap().success());
        let data = Arc::clone(file.inner.data_lane());
        let special = Arc::clone(&file.inner.device.special);
        let copy = crate::spawn(fs::copy(from.clone(), to.clone()));
        until(|| data.stats().busy + special.stats().busy > 0).await;
        sleep(Duration::from_millis(20)).await;
        let (in_data, in_special) = (data.stats().busy, special.stats().busy);
        let reader = std::thread::spawn({
            let to = to.clone();
            move || std::fs::read(to)
        });
        assert_eq!(copy.await.unwrap().unwrap(), 4);
        assert_eq!(reader.join().unwrap().unwrap(), b"text");
        assert_eq!((in_data, in_special), (0, 1), "where it waited");
        std::fs::remove_file(&from).unwrap();
        std::fs::remove_file(&to).unwrap();
    });
}

/// Bytes from a peer come once, and cannot be read again.
#[test]
fn a_write_to_a_peer_keeps_bytes_read_from_it() {
    in_task(async {
        let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
        let near = std::fs::File::from(std::os::fd::OwnedFd::from(near));
        let mut file = File::from_std(near).unwrap();
        let mut ten = [0; 10];
        assert!(given_up(file.read_exact(&mut ten)).await);
        std::io::Write::write_all(&mut far, b"0123456789").unwrap();
        let mut four = [0; 4];
        file.read_exact(&mut four).await.unwrap();
        assert_eq!(&four, b"0123");
        file.write_all(b"an answer").await.unwrap();
        file.flush().await.unwrap();
        let mut answer = [0; 9];
        std::io::Read::read_exact(&mut far, &mut answer).unwrap();
        assert_eq!(&answer, b"an answer");
        file.read_exact(&mut ten[..6]).await.unwrap();
        assert_eq!(&ten[..6], b"456789");
    });
}
