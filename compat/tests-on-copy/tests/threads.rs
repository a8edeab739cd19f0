//! Names, stacks and hooks of worker threads.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};

fn name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

/// Whether the names of all workers are these. A worker that waits for the others for so long that
/// it loses its seat runs beside one of its own name: then it is tried again.
fn are_named(builder: &mut Builder, expected: &[&str]) -> bool {
    const WORKERS: usize = 3;
    let runtime = builder.worker_threads(WORKERS).build().unwrap();
    let mut names = BTreeSet::new();
    for _ in 0..100 {
        let barrier = Arc::new(Barrier::new(WORKERS));
        let tasks = [(); WORKERS].map(|()| {
            let barrier = barrier.clone();
            runtime.spawn(async move {
                // Each waits for the others, so each has a thread of its own.
                barrier.wait();
                name()
            })
        });
        names.extend(tasks.map(|task| runtime.block_on(task).unwrap()));
        if names.len() >= expected.len() {
            break;
        }
    }
    names.iter().eq(expected)
}

#[test]
fn each_worker_has_the_name_that_the_function_gave_it() {
    let next = AtomicUsize::new(0);
    let mut builder = Builder::new_multi_thread();
    let mut given = builder.thread_name_fn(move || format!("pool-{}", next.fetch_add(1, SeqCst)));
    assert!(are_named(given, &["pool-0", "pool-1", "pool-2"]));
    given = given.thread_name("plain");
    assert!(are_named(given, &["plain"]));
}

#[test]
fn workers_have_the_stacks_that_were_asked_for() {
    /// Needs more than the 2 MiB that there are by default.
    fn deep(left: usize) -> usize {
        let frame = std::hint::black_box([left; 512]);
        if left == 0 {
            return frame[0];
        }
        deep(left - 1) + frame[511] - left + 1
    }
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(1)
        .thread_stack_size(16 * 1024 * 1024);
    let runtime = builder.build().unwrap();
    assert_eq!(
        runtime
            .block_on(runtime.spawn(async { deep(600) }))
            .unwrap(),
        600
    );
    let blocking = runtime.spawn_blocking(|| deep(600));
    assert_eq!(runtime.block_on(blocking).unwrap(), 600);
}

#[test]
fn hooks_run_in_the_runtime_when_a_thread_starts_stops_sleeps_and_wakes() {
    let counts: [Arc<AtomicUsize>; 4] = Default::default();
    let [start, stop, park, unpark] = counts.clone();
    let spawned = Arc::new(AtomicUsize::new(0));
    let ran = spawned.clone();
    let mut builder = Builder::new_multi_thread();
    builder
        .worker_threads(2)
        .enable_all()
        .on_thread_start(move || _ = start.fetch_add(1, SeqCst))
        .on_thread_stop(move || _ = stop.fetch_add(1, SeqCst))
        .on_thread_park(move || {
            if park.fetch_add(1, SeqCst) < 3 {
                let ran = ran.clone();
                Handle::current().spawn(async move { ran.fetch_add(1, SeqCst) });
            }
        })
        .on_thread_unpark(move || _ = unpark.fetch_add(1, SeqCst));
    let runtime = builder.build().unwrap();
    runtime.block_on(async {
        while spawned.load(SeqCst) < 3 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    });
    drop(runtime);
    let [start, stop, park, unpark] = counts.map(|count| count.load(SeqCst));
    assert!(start >= 2, "{start}");
    assert_eq!((start, park), (stop, unpark));
}
