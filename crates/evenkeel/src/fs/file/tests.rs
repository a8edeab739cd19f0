//! What is tidied up where no worker waits for it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

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

/// Makes so many threads of a lane busy, and lets so much wait, until what is returned is dropped.
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
        let (task, join) =
            crate::blocking::new_work(super::super::lookup::called_from(), None, move || {
                begins.fetch_add(1, Ordering::SeqCst);
                let _ = held.recv();
            });
        core.submit(&file.inner.handle, task, true);
        drop(join);
        holds.push(hold);
        // Each counts itself: what the lane calls busy may be work whose output is there already.
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
    let runtime = narrow();
    let task = runtime.spawn(async {
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
    runtime.block_on(task).unwrap();
}

/// The file beside the one that was to be replaced.
fn drafts(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

#[test]
fn a_worker_removes_nothing_of_a_replacement_that_fails() {
    let runtime = narrow();
    let task = runtime.spawn(async {
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
    runtime.block_on(task).unwrap();
}
