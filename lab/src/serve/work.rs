//! Computing for so many microseconds.
//!
//! Work is an amount of computing, not a span of the clock: a task that was kept from its core
//! still has all of its work to do. So the unit is calibrated once, at start, as iterations per
//! microsecond of an idle core.

use std::hint::black_box;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::stats::Count;

/// Spends about `us` microseconds of an otherwise idle core computing.
pub(crate) fn compute(us: u64) {
    iterate(us.saturating_mul(iterations_per_us()));
}

/// Computing that was done so far, counted by those who do it. Clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Done(Arc<Count>);

impl Done {
    /// Spends about `us` microseconds of an otherwise idle core computing, and counts them as they
    /// pass: also the work of one that never ends is seen to grow.
    pub(crate) fn compute(&self, us: u64) {
        /// Short against anything that is measured, long against the cost of counting.
        const STEP_US: u64 = 100;
        let mut left_us = us;
        while left_us > 0 {
            let step_us = left_us.min(STEP_US);
            compute(step_us);
            self.0.add(step_us);
            left_us -= step_us;
        }
    }

    /// Microseconds of computing so far.
    pub(crate) fn micros(&self) -> u64 {
        self.0.read()
    }
}

/// Measures the unit now, so that the first [`compute`] does not.
pub(crate) fn calibrate() {
    iterations_per_us();
}

fn iterations_per_us() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    /// Trials: the fastest one counts, being the one that was disturbed least.
    const TRIALS: usize = 40;
    /// Iterations of a trial: about 100 us, so that the clock's own cost disappears.
    const ITERATIONS: u64 = 100_000;
    *RATE.get_or_init(|| {
        (0..TRIALS)
            .map(|_| {
                let start = Instant::now();
                iterate(ITERATIONS);
                let nanos = start.elapsed().as_nanos().max(1) as u64;
                ITERATIONS * 1_000 / nanos
            })
            .max()
            .unwrap_or(1)
            .max(1)
    })
}

/// A chain of dependent steps, so that the processor cannot do several at once.
fn iterate(iterations: u64) {
    let mut state = black_box(0x9E37_79B9_7F4A_7C15_u64);
    for _ in 0..iterations {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_computed_is_counted_by_all_together() {
        let done = Done::default();
        let other = done.clone();
        done.compute(250);
        other.compute(7);
        assert_eq!(done.micros(), 257);
    }
}
