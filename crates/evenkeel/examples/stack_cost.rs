//! What it costs a poll that its stack is taken: the time in which it did not compute, by the
//! processor time of its thread, with stacks and without. The time of a thread goes on in a
//! signal's handler and in interrupts, and not while other threads have its processor.
//!
//! ```sh
//! cargo run --release --example stack_cost -p evenkeel
//! ```
//!
//! On Linux; elsewhere no stack is taken.

use std::hint::black_box;
use std::time::Duration;

use evenkeel::runtime::Builder;
use nix::time::{ClockId, clock_gettime};

/// How long a poll computes: long enough for one stack. Then it rests, as only so many are taken in
/// a second.
const COMPUTES: Duration = Duration::from_millis(5);
const RESTS: Duration = Duration::from_millis(20);
const POLLS: u32 = 50;
const ROUNDS: u32 = 8;
/// Time between two looks at the clock that is more than a look takes.
const GAP: Duration = Duration::from_micros(1);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("microseconds in which a poll of {COMPUTES:?} did not compute, medians");
    println!(
        "{:<28}{:>14}{:>14}{:>14}{:>16}",
        "", "with a stack", "without", "difference", "longest gap"
    );
    for (name, depth) in [("a flat stack", 0), ("1 000 calls, some 300 KiB", 1_000)] {
        let mut lost = [Vec::new(), Vec::new()];
        let mut taken = 0;
        for _ in 0..ROUNDS {
            for with_stacks in [true, false] {
                let mut builder = Builder::new();
                let runtime = builder.workers(1).hog_stacks(with_stacks).build()?;
                let found = runtime.block_on(runtime.spawn(measure(depth)))?;
                lost[usize::from(!with_stacks)].extend(found);
                taken += runtime.handle().stats().hog_stacks.taken;
            }
        }
        let of = |part: fn(&Lost) -> Duration| {
            let median = |lost: &Vec<Lost>| {
                let mut all: Vec<_> = lost.iter().map(part).collect();
                all.sort_unstable();
                all[all.len() / 2].as_secs_f64() * 1e6
            };
            (median(&lost[0]), median(&lost[1]))
        };
        let ((with, without), (longest, longest_without)) = (of(|it| it.sum), of(|it| it.longest));
        println!(
            "{name:<28}{with:>14.1}{without:>14.1}{:>14.1}{:>16}",
            with - without,
            format!("{longest:.1} / {longest_without:.1}")
        );
        println!("{:<28}{taken} stacks of {} polls", "", POLLS * ROUNDS);
    }
    Ok(())
}

/// Time in which a poll did not compute.
#[derive(Clone, Copy, Default)]
struct Lost {
    sum: Duration,
    longest: Duration,
}

async fn measure(depth: u32) -> Vec<Lost> {
    let mut lost = Vec::new();
    for _ in 0..POLLS {
        evenkeel::time::sleep(RESTS).await;
        lost.push(calls(depth));
    }
    lost
}

/// Computes at the end of so many calls.
#[inline(never)]
fn calls(depth: u32) -> Lost {
    let mut space = [0_u8; 256];
    let lost = match depth.checked_sub(1) {
        Some(depth) => calls(depth),
        None => compute(),
    };
    black_box(&mut space);
    lost
}

/// Computes, and says for how long it did not.
fn compute() -> Lost {
    let began = cpu_time();
    let (mut last, mut lost) = (began, Lost::default());
    while last - began < COMPUTES {
        let now = cpu_time();
        let gap = now - last;
        if gap > GAP {
            lost.sum += gap;
            lost.longest = lost.longest.max(gap);
        }
        last = now;
    }
    lost
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .expect("a thread knows its own processor time")
}
