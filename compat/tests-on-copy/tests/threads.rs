//! Names, stacks and hooks of worker threads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Handle};

/// Less than a hog's poll takes.
const WAITS: Duration = Duration::from_micros(300);

fn name() -> String {
    std::thread::current().name().unwrap_or_default().to_owned()
}

/// Whether the names of all workers are these. The tasks wait for each other, so that each has a
/// thread of its own, but not for long enough to hog: what hogs goes on in other threads.
fn are_named(builder: &mut Builder, expected: &[&str]) -> bool {
    const WORKERS: usize = 3;
    let runtime = builder.worker_threads(WORKERS).build().unwrap();
    let mut names = BTreeSet::new();
    for _ in 0..2_000 {
        let here = Arc::new(AtomicUsize::new(0));
        let tasks = [(); WORKERS].map(|()| {
            let here = here.clone();
            runtime.spawn(async move {
                let began = Instant::now();
                here.fetch_add(1, SeqCst);
                while here.load(SeqCst) < WORKERS && began.elapsed() < WAITS {
                    std::thread::yield_now();
                }
                name()
            })
        });
        names.extend(tasks.map(|task| runtime.block_on(task).unwrap()));
        // One that the kernel has not scheduled may hog all the same.
        names.retain(|name| !name.ends_with("-heavy"));
        if names.len() >= expected.len() {
            break;
        }
    }
    let is_so = names.iter().eq(expected);
    if !is_so {
        eprintln!("{names:?} and not {expected:?}");
    }
    is_so
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
