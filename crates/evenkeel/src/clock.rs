//! The runtime's clock: the seam through which all of the scheduler's time comes.
#![allow(
    clippy::disallowed_methods,
    reason = "the seam of the scheduler's clock"
)]

use std::time::{Duration, Instant};

use crate::sys::cycles::Scale;

/// Counts cycles for the scheduler, and ticks of a millisecond since the runtime's start for the
/// timers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    scale: Scale,
    began: Instant,
}

/// The system's monotonic clock, for waits of threads rather than tasks.
pub(crate) fn now() -> Instant {
    Instant::now()
}

const TICK_NS: u64 = 1_000_000;

impl Clock {
    pub(crate) fn start() -> Self {
        Self {
            scale: Scale::of_machine(),
            began: Instant::now(),
        }
    }

    /// The time in cycles. Differences are meaningful, absolute values are not.
    #[inline]
    pub(crate) fn cycles(&self) -> u64 {
        self.scale.now()
    }

    #[inline]
    pub(crate) fn to_nanos(self, cycles: u64) -> u64 {
        self.scale.to_nanos(cycles)
    }

    pub(crate) fn to_duration(self, cycles: u64) -> Duration {
        Duration::from_nanos(self.to_nanos(cycles))
    }

    pub(crate) fn cycles_of(self, duration: Duration) -> u64 {
        self.scale
            .cycles_in(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The current tick, by the system's clock, as deadlines are. The counter's scale is not quite
    /// exact and would drift over days.
    pub(crate) fn tick(&self) -> u64 {
        self.nanos() / TICK_NS
    }

    /// Nanoseconds since the runtime's start, by the clock of the ticks.
    pub(crate) fn nanos(&self) -> u64 {
        self.since_start(Instant::now())
    }

    /// The first tick that is not before `instant`.
    pub(crate) fn tick_at(&self, instant: Instant) -> u64 {
        self.since_start(instant).div_ceil(TICK_NS)
    }

    /// How long from now until a tick begins; zero if it has begun.
    pub(crate) fn until_tick(&self, tick: u64) -> Duration {
        let begins = Duration::from_nanos(tick.saturating_mul(TICK_NS));
        begins.saturating_sub(self.began.elapsed())
    }

    fn since_start(&self, instant: Instant) -> u64 {
        let nanos = instant.saturating_duration_since(self.began).as_nanos();
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}
