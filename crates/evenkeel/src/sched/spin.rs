//! Busy-waiting: how long a worker without work stays awake before it sleeps.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How long a worker that has run out of work busy-waits before it sleeps in the kernel.
///
/// Spinning saves the cost of falling asleep and of being woken, and costs processor time
/// meanwhile. The levels are durations, so they mean the same on every machine.
///
/// # Examples
///
/// ```
/// use evenkeel::BusyWait;
///
/// assert_eq!("long".parse::<BusyWait>()?, BusyWait::Long);
/// assert_eq!(BusyWait::Long.to_string(), "long");
/// # Ok::<(), evenkeel::ParseBusyWaitError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BusyWait {
    /// Sleep at once.
    None,
    /// 5 microseconds.
    VeryShort,
    /// 20 microseconds.
    Short,
    /// 50 microseconds.
    Medium,
    /// 200 microseconds.
    Long,
    /// 1 millisecond.
    VeryLong,
    /// Up to 3 microseconds, which is what falling asleep and being woken costs in processor time,
    /// while work has lately tended to come within that time; and never under a CPU quota, where
    /// spinning takes from the work itself.
    #[default]
    Adaptive,
}

impl BusyWait {
    /// Every level, from no waiting to the most, then the adaptive one.
    pub const ALL: [BusyWait; 7] = [
        BusyWait::None,
        BusyWait::VeryShort,
        BusyWait::Short,
        BusyWait::Medium,
        BusyWait::Long,
        BusyWait::VeryLong,
        BusyWait::Adaptive,
    ];

    /// The most that a worker waits.
    pub fn limit(self) -> Duration {
        Duration::from_micros(self.row().1)
    }

    fn name(self) -> &'static str {
        self.row().0
    }

    /// Its name, and its limit in microseconds.
    fn row(self) -> (&'static str, u64) {
        match self {
            BusyWait::None => ("none", 0),
            BusyWait::VeryShort => ("very_short", 5),
            BusyWait::Short => ("short", 20),
            BusyWait::Medium => ("medium", 50),
            BusyWait::Long => ("long", 200),
            BusyWait::VeryLong => ("very_long", 1_000),
            BusyWait::Adaptive => ("adaptive", 3),
        }
    }
}

impl fmt::Display for BusyWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no busy-wait level.
#[derive(Clone, PartialEq, Eq)]
pub struct ParseBusyWaitError(String);

impl fmt::Display for ParseBusyWaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no busy-wait level; the levels are", self.0)?;
        for level in BusyWait::ALL {
            write!(f, " {level}")?;
        }
        Ok(())
    }
}

/// `main` shows its error by `Debug`, so the message is part of it.
impl fmt::Debug for ParseBusyWaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ParseBusyWaitError({self})")
    }
}

impl std::error::Error for ParseBusyWaitError {}

impl FromStr for BusyWait {
    type Err = ParseBusyWaitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        BusyWait::ALL
            .into_iter()
            .find(|level| level.name() == text)
            .ok_or_else(|| ParseBusyWaitError(text.to_owned()))
    }
}

/// The highest [`Spinner::score`].
const SCORE_MAX: u32 = 1 << 16;

/// Decides for one worker whether to spin, and learns from the outcome. Pure.
#[derive(Clone, Debug)]
pub(crate) struct Spinner {
    limit: u64,
    adaptive: bool,
    /// How often work came within the limit lately: a moving average over eight times.
    score: u32,
}

impl Spinner {
    /// `limit` in cycles. Under a CPU quota the adaptive level never spins.
    pub(crate) fn new(level: BusyWait, limit: u64, quota: bool) -> Self {
        let adaptive = level == BusyWait::Adaptive;
        Self {
            limit: if adaptive && quota { 0 } else { limit },
            adaptive,
            score: 0,
        }
    }

    /// How long to spin now, in cycles.
    pub(crate) fn limit(&self) -> u64 {
        if self.adaptive && self.score < SCORE_MAX / 4 * 3 {
            0
        } else {
            self.limit
        }
    }

    /// Work came `gap` after it had run out, whether the worker spun or slept.
    pub(crate) fn learn(&mut self, gap: u64) {
        let full = if gap <= self.limit { SCORE_MAX } else { 0 };
        self.score = self.score - self.score / 8 + full / 8;
    }
}

#[cfg(all(test, not(evenkeel_loom)))]
mod tests {
    use super::*;

    #[test]
    fn adaptive_spins_while_it_pays_and_only_then() {
        let mut spinner = Spinner::new(BusyWait::Adaptive, 100, false);
        assert_eq!(spinner.limit(), 0);
        for _ in 0..16 {
            spinner.learn(50);
        }
        assert_eq!(spinner.limit(), 100);
        for _ in 0..8 {
            spinner.learn(500);
        }
        assert_eq!(spinner.limit(), 0);
    }

    #[test]
    fn adaptive_never_spins_under_a_quota() {
        let mut spinner = Spinner::new(BusyWait::Adaptive, 100, true);
        for _ in 0..100 {
            spinner.learn(0);
        }
        assert_eq!(spinner.limit(), 0);
    }

    #[test]
    fn fixed_levels_spin_whatever_comes_of_it() {
        let mut spinner = Spinner::new(BusyWait::Medium, 100, true);
        spinner.learn(1_000_000);
        assert_eq!(spinner.limit(), 100);
    }

    #[test]
    fn levels_parse_as_they_print() {
        for level in BusyWait::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        let error = "fast".parse::<BusyWait>().unwrap_err();
        assert!(error.to_string().contains("very_short"), "{error}");
    }

    #[test]
    fn levels_grow() {
        let (_, fixed) = BusyWait::ALL.split_last().unwrap();
        let limits: Vec<_> = fixed.iter().map(|level| level.limit()).collect();
        assert!(limits.is_sorted());
    }
}
