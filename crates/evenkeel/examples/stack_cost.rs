//! What it costs a poll that its stack is taken: the longest gap in it, by the processor time of
//! its thread, with stacks and without. The time of a thread goes on in a signal's handler, and not
//! while other threads have its processor.
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
const ROUNDS: u32 = 6;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("the longest gap in a poll of {COMPUTES:?}, processor time, median and 90th percentile");
    println!("  {:<28}{:>22}{:>22}", "", "stack taken", "no stack taken");
    for (name, depth) in [("a flat stack", 0), ("1 000 calls, some 300 KiB", 1_000)] {
        let mut gaps = [Vec::new(), Vec::new()];
        let mut taken = 0;
        for _ in 0..ROUNDS {
            for with_stacks in [true, false] {
                let runtime = Builder::new().workers(1).hog_stacks(with_stacks).build()?;
                let found = runtime.block_on(evenkeel::spawn(measure(depth)))?;
                gaps[usize::from(!with_stacks)].extend(found);
                taken += runtime.handle().stats().hog_stacks.taken;
            }
        }
        let [with, without] = gaps.map(|mut gaps| {
            gaps.sort_unstable();
            let at = |part: usize| gaps[(gaps.len() - 1) * part / 100];
            format!("{:.1?} {:.1?}", at(50), at(90))
        });
        println!("  {name:<28}{with:>22}{without:>22}");
        println!("  {:<28}{taken} stacks in {} polls", "", POLLS * ROUNDS);
    }
    Ok(())
}

async fn measure(depth: u32) -> Vec<Duration> {
    let mut gaps = Vec::new();
    for _ in 0..POLLS {
        evenkeel::time::sleep(RESTS).await;
        gaps.push(calls(depth));
    }
    gaps
}

/// Computes at the end of so many calls.
#[inline(never)]
fn calls(depth: u32) -> Duration {
    let mut space = [0_u8; 256];
    let gap = match depth.checked_sub(1) {
        Some(depth) => calls(depth),
        None => compute(),
    };
    black_box(&mut space);
    gap
}

/// Computes, and says for how long at most it did not.
fn compute() -> Duration {
    let began = cpu_time();
    let (mut last, mut longest) = (began, Duration::ZERO);
    while last - began < COMPUTES {
        let now = cpu_time();
        longest = longest.max(now - last);
        last = now;
    }
    longest
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .expect("a thread knows its own processor time")
}
