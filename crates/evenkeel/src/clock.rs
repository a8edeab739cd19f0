//! The runtime's clock: the seam through which all of the scheduler's time comes.
//!
//! It is two clocks: cycles, by which the scheduler measures polls and divides the processor, and
//! ticks, by which timers and deliveries are due. The ticks of a runtime made for tests may stand
//! still and jump ([`Pausable`]); its cycles never do, so that no poll seems long for a jump.
#![allow(
    clippy::disallowed_methods,
    reason = "the seam of the scheduler's clock"
)]

mod pausable;

use std::time::{Duration, Instant};

use crate::sys::cycles::Scale;

pub(crate) use pausable::{Pausable, is_any_pausable};

/// Counts cycles for the scheduler, and ticks of a millisecond since the runtime's start for the
/// timers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    scale: Scale,
    began: Instant,
    pausable: Option<&'static Pausable>,
}

/// How long a worker sleeps at most whose clock stands: until it is called, which it is when
/// anything happens.
const WHILE_IT_STANDS: Duration = Duration::from_secs(3600);

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
            pausable: None,
        }
    }

    /// A clock that can be paused, and is.
    pub(crate) fn start_paused() -> Self {
        Self {
            pausable: Some(Pausable::new()),
            ..Self::start()
        }
    }

    /// What pauses this clock, if it can be paused.
    #[inline]
    pub(crate) fn pausable(&self) -> Option<&'static Pausable> {
        self.pausable
    }

    /// The current time, as tasks see it.
    pub(crate) fn instant(&self) -> Instant {
        self.began + Duration::from_nanos(self.nanos())
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
        match self.pausable {
            None => self.since_start(Instant::now()),
            Some(pausable) => pausable.nanos(),
        }
    }

    /// The first tick that is not before `instant`.
    pub(crate) fn tick_at(&self, instant: Instant) -> u64 {
        self.since_start(instant).div_ceil(TICK_NS)
    }

    /// How long from now until a tick begins; zero if it has begun.
    pub(crate) fn until_tick(&self, tick: u64) -> Duration {
        let begins = Duration::from_nanos(tick.saturating_mul(TICK_NS));
        let left = begins.saturating_sub(Duration::from_nanos(self.nanos()));
        match self.pausable {
            Some(pausable) if pausable.is_paused() && !left.is_zero() => WHILE_IT_STANDS,
            _ => left,
        }
    }

    /// Makes a paused clock jump to the beginning of a tick, unless it is past that.
    pub(crate) fn jump_to_tick(&self, tick: u64) {
        if let Some(pausable) = self.pausable {
            pausable.jump_to(tick.saturating_mul(TICK_NS));
        }
    }

    fn since_start(&self, instant: Instant) -> u64 {
        let nanos = instant.saturating_duration_since(self.began).as_nanos();
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}
