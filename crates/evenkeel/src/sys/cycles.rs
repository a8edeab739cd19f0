//! The cheapest clock: the processor's time-stamp counter if the kernel itself uses it as its
//! clock, else the monotonic clock in nanoseconds.
//!
//! A worker reads the time after every poll, so the cost of a reading is part of every poll: about
//! 9 ns for the counter and 24 ns for the system's clock on the machine where this was chosen. The
//! kernel uses the counter as its clock source only if it runs at a constant rate, in step on all
//! processors.

use std::time::{Duration, Instant};

use crate::sync::OnceLock;

/// Converts counts to nanoseconds: `count * mult >> SHIFT`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    counter: bool,
    mult: u64,
}

const SHIFT: u32 = 32;

/// How long the counter is compared with the system's clock, once per process. Reading both clocks
/// is uncertain by about 50 ns, so the rate is exact to 0.005 %.
const CALIBRATION: Duration = Duration::from_millis(1);

/// How often both clocks are read to get both at one moment. The first reading usually runs into
/// page faults, and an interrupt may come into any.
const READINGS: usize = 8;

impl Scale {
    /// The scale of this machine; measured on the first call.
    pub(crate) fn of_machine() -> Scale {
        static SCALE: OnceLock<Scale> = OnceLock::new();
        *SCALE.get_or_init(|| {
            if counter_is_clock() {
                calibrate()
            } else {
                Scale::NANOSECONDS
            }
        })
    }

    const NANOSECONDS: Scale = Scale {
        counter: false,
        mult: 1 << SHIFT,
    };

    /// The time since a fixed moment, in cycles.
    #[inline]
    pub(crate) fn now(self) -> u64 {
        if self.counter {
            read_counter()
        } else {
            nanoseconds()
        }
    }

    #[inline]
    pub(crate) fn to_nanos(self, cycles: u64) -> u64 {
        ((u128::from(cycles) * u128::from(self.mult)) >> SHIFT) as u64
    }

    pub(crate) fn cycles_in(self, nanos: u64) -> u64 {
        u64::try_from((u128::from(nanos) << SHIFT) / u128::from(self.mult)).unwrap_or(u64::MAX)
    }
}

fn calibrate() -> Scale {
    let began = Instant::now();
    let nanos = || began.elapsed().as_nanos();
    let first = both_now(read_counter, nanos);
    while began.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    let last = both_now(read_counter, nanos);
    let cycles = u128::from(last.0.wrapping_sub(first.0));
    let nanos = last.1.saturating_sub(first.1);
    match u64::try_from((nanos << SHIFT) / cycles.max(1)) {
        Ok(mult) if mult > 0 => Scale {
            counter: true,
            mult,
        },
        // A counter that stands still, or runs absurdly fast, is not a clock.
        _ => Scale::NANOSECONDS,
    }
}

/// Reads both clocks at one moment: takes the reading during which the counter advanced least.
/// Otherwise an interruption between the two would count for only one clock.
fn both_now(counter: impl Fn() -> u64, nanos: impl Fn() -> u128) -> (u64, u128) {
    let readings = (0..READINGS).map(|_| {
        let (before, nanos, after) = (counter(), nanos(), counter());
        let between = after.wrapping_sub(before);
        (between, before.wrapping_add(between / 2), nanos)
    });
    let closest = readings.min_by_key(|&(between, ..)| between);
    closest.map_or((0, 0), |(_, counter, nanos)| (counter, nanos))
}

fn nanoseconds() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    // 64 bits of nanoseconds last for 584 years.
    BEGAN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn counter_is_clock() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[inline]
fn read_counter() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; the kernel, which uses it as its clock
    // (`counter_is_clock`), lets programs use it too, or it would not be the vDSO's clock.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn counter_is_clock() -> bool {
    false
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn read_counter() -> u64 {
    nanoseconds()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn conversions_invert_each_other() {
        for scale in [Scale::of_machine(), Scale::NANOSECONDS] {
            for nanos in [0, 1_000, 1_000_000, 60_000_000_000] {
                let back = scale.to_nanos(scale.cycles_in(nanos));
                assert!(
                    back.abs_diff(nanos) <= 1 + nanos / 1_000_000,
                    "{nanos} became {back}"
                );
            }
        }
    }

    /// Here a count is a nanosecond. The thread is interrupted before each reading of the counter
    /// except those around one reading of the other clock.
    #[test]
    fn an_interruption_between_two_readings_counts_for_neither_clock() {
        let (time, calls) = (Cell::new(0_u64), Cell::new(0));
        let counter = || {
            let call = calls.replace(calls.get() + 1);
            time.set(time.get() + if call == 11 { 1 } else { 5_000 });
            time.get()
        };
        let (counter, nanos) = both_now(counter, || u128::from(time.get()));
        assert!(u128::from(counter).abs_diff(nanos) <= 1);
    }

    #[test]
    fn the_clock_does_not_run_backwards() {
        let scale = Scale::of_machine();
        let mut last = scale.now();
        for _ in 0..10_000 {
            let now = scale.now();
            assert!(now >= last);
            last = now;
        }
    }
}
