//! What it takes to name hogs and to show where tasks wait: memory, and the time of dumps beside
//! busy threads.
//!
//! ```sh
//! cargo run --release --example names_cost -p evenkeel
//! ```
//!
//! The program has debug information of lines, as servers should. Its memory is what the kernel
//! says is resident, with the pages of the program's file that were read. On Linux.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use evenkeel::runtime::{Builder, Runtime};
use evenkeel::stats::DumpOptions;

/// How long a hog computes.
const COMPUTES: Duration = Duration::from_millis(30);
/// How long what is known of symbols is waited for to be dropped.
const FORGOTTEN: Duration = Duration::from_secs(40);
const DUMPS: usize = 10;
const BUSY: usize = 4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // First, while nothing is known of symbols.
    beside_hogs()?;
    let runtime = Builder::new().workers(2).build()?;
    let resident_at_first = resident();
    println!(
        "resident memory at the beginning: {}",
        mib(resident_at_first)
    );
    name_a_hog(&runtime)?;
    println!("after the first hog has a name: {}", mib(resident()));
    let (began, highest) = (Instant::now(), resident());
    while began.elapsed() < FORGOTTEN && resident() + (highest - resident_at_first) / 2 > highest {
        std::thread::sleep(Duration::from_millis(200));
    }
    println!("{:.0?} later: {}", began.elapsed(), mib(resident()));
    name_a_hog(&runtime)?;
    println!("after the next hog: {}", mib(resident()));

    runtime.shutdown(Duration::from_secs(10))?;
    println!("after the runtime's end: {}", mib(resident()));
    Ok(())
}

/// Dumps a task that waits, while hogs are busy that have no names yet.
fn beside_hogs() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Builder::new().workers(2).build()?;
    let waits = runtime.spawn(std::future::pending::<()>());
    while runtime.stats().tasks_waiting == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let stop = Arc::new(AtomicBool::new(false));
    let busy: Vec<_> = (0..BUSY)
        .map(|_| {
            let stop = Arc::clone(&stop);
            runtime.spawn(async move {
                while !stop.load(Relaxed) {
                    compute_for(COMPUTES);
                }
            })
        })
        .collect();
    let (median, longest) = dumps(&runtime)?;
    println!("a dump beside {BUSY} new hogs takes {median:.1?} (median), {longest:.1?} at most");
    waits.abort();
    stop.store(true, Relaxed);
    for task in busy {
        runtime.block_on(task)?;
    }
    runtime.shutdown(Duration::from_secs(10))?;
    Ok(())
}

/// Lets a task hog until the function is known in which it did.
fn name_a_hog(runtime: &Runtime) -> Result<(), Box<dyn std::error::Error>> {
    let named = || {
        let rows = runtime.stats().hog_functions.into_iter();
        let of_it = rows.filter(|row| row.function.contains("compute_for"));
        of_it.map(|row| row.ended).sum::<u64>()
    };
    let (before, began) = (named(), Instant::now());
    while named() == before && began.elapsed() < Duration::from_secs(20) {
        runtime.block_on(runtime.spawn(async { compute_for(COMPUTES) }))?;
        std::thread::sleep(Duration::from_millis(300));
    }
    Ok(())
}

fn dumps(runtime: &Runtime) -> Result<(Duration, Duration), Box<dyn std::error::Error>> {
    let mut took = Vec::new();
    for _ in 0..DUMPS {
        let began = Instant::now();
        let options = DumpOptions::new().timeout(Duration::from_millis(100));
        let dump = runtime.block_on(runtime.handle().dump(options))?;
        took.push(began.elapsed());
        assert!(dump.shown() > 0, "there is a task that waits");
    }
    took.sort_unstable();
    Ok((took[DUMPS / 2], took[DUMPS - 1]))
}

#[inline(never)]
fn compute_for(length: Duration) {
    let began = Instant::now();
    while began.elapsed() < length {
        black_box((0..1_000).fold(0_u64, |sum, next| black_box(sum ^ next)));
    }
}

fn mib(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// In bytes; 0 where the system does not say it.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.and_then(|it| it.parse().ok()).unwrap_or(0) * 1024
}
