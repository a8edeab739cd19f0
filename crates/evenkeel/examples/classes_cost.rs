//! What classes cost: the memory of an idle runtime that has them, and the time of a poll where
//! tasks of all of them are always ready.
//!
//! ```sh
//! cargo run --release --example classes_cost -p evenkeel -- 3 16 64
//! ```
//!
//! The memory is what the kernel says is resident, for each of ten runtimes of two workers. On
//! Linux. A poll does nothing but yield, on one worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use evenkeel::runtime::{Builder, Runtime};
use evenkeel::{Class, ClassConfig};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Those that every runtime has.
const BUILT_IN: usize = 3;
const RUNTIMES: usize = 10;
const MEASURED: Duration = Duration::from_millis(500);
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let asked: std::result::Result<Vec<usize>, _> =
        std::env::args().skip(1).map(|arg| arg.parse()).collect();
    let asked = match asked.map_err(|error| format!("give numbers of classes: {error}"))? {
        none if none.is_empty() => vec![BUILT_IN, 16, 64],
        some => some,
    };
    println!("classes  idle  after each class was used  ns for a poll, of all ready  of one ready");
    let mut kept = Vec::new();
    for classes in asked {
        let before = resident();
        let runtimes = (0..RUNTIMES).map(|_| runtime(2, classes));
        let runtimes: Vec<_> = runtimes.collect::<Result<_>>()?;
        let idle = (resident() - before) / RUNTIMES as u64;
        runtimes.iter().try_for_each(use_each)?;
        let used = (resident() - before) / RUNTIMES as u64;
        let [all, one] = [classes, 1].map(|ready| polls(classes, ready));
        println!(
            "{classes:>7}  {} kB  {} kB  {:.0}  {:.0}",
            idle / 1000,
            used / 1000,
            all?,
            one?
        );
        // What was freed would be used again for the next ones.
        kept.extend(runtimes);
    }
    Ok(())
}

fn runtime(workers: usize, classes: usize) -> Result<Runtime> {
    let mut builder = Builder::new();
    builder.workers(workers);
    for number in BUILT_IN..classes {
        builder.class(&format!("own-{number}"), ClassConfig::new());
    }
    let runtime = builder.build()?;
    // Its threads have begun.
    runtime.block_on(runtime.spawn(async {}))?;
    Ok(runtime)
}

fn classes(runtime: &Runtime) -> Vec<Class> {
    let classes = runtime.handle().classes().into_iter();
    classes.map(|info| info.class).collect()
}

/// Has some tasks of each class wait in run queues.
fn use_each(runtime: &Runtime) -> Result<()> {
    for class in classes(runtime) {
        let yields = || async {
            for _ in 0..10 {
                evenkeel::task::yield_now().await;
            }
        };
        let tasks: Vec<_> = (0..8).map(|_| runtime.spawn_in(class, yields())).collect();
        for task in tasks {
            runtime.block_on(task)?;
        }
    }
    Ok(())
}

/// How long a poll takes, in nanoseconds: the least of some rounds.
fn polls(count: usize, ready: usize) -> Result<f64> {
    let runtime = runtime(1, count)?;
    let stop = Arc::new(AtomicBool::new(false));
    for class in classes(&runtime).into_iter().take(ready) {
        for _ in 0..2 {
            let stop = Arc::clone(&stop);
            runtime.spawn_in(class, async move {
                while !stop.load(Relaxed) {
                    evenkeel::task::yield_now().await;
                }
            });
        }
    }
    let counted = || -> u64 { runtime.stats().classes.iter().map(|it| it.polls).sum() };
    let mut least = f64::INFINITY;
    for _ in 0..ROUNDS {
        let (before, began) = (counted(), Instant::now());
        std::thread::sleep(MEASURED);
        let polls = counted() - before;
        least = least.min(began.elapsed().as_nanos() as f64 / polls.max(1) as f64);
    }
    stop.store(true, Relaxed);
    runtime.shutdown(Duration::from_secs(10))?;
    Ok(least)
}

/// In bytes; 0 where the system does not say it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.and_then(|it| it.parse().ok()).unwrap_or(0) * 1024
}
